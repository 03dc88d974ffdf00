package laxity.workload;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;

/**
 * When rows are due, whatever becomes of those before: an open loop. A file says the phase and the rows per second, "3 2000",
 * and may be replaced at any time; no rate (0) is a pause, a negative one is as fast as the engine takes rows. What was due
 * but not taken when a phase ends is forgotten. Used by one thread.
 */
public final class Arrivals {
    private static final long LOOK_EVERY_US = 20_000;

    private final Path control;
    private final Dataflow flow;
    private final double share;
    private long nextLookUs;
    private int phase;
    private double rowsPerSecond;
    private long startUs;
    private long sent;
    private long index;
    private Row last;

    Arrivals(String control, Dataflow flow, int instances) {
        this.control = Path.of(control);
        this.flow = flow;
        this.share = 1.0 / instances;
    }

    static long nowUs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }

    /** A row that is due by now; null if there is none. */
    Row next() {
        long nowUs = nowUs();
        if (nowUs >= nextLookUs) {
            nextLookUs = nowUs + LOOK_EVERY_US;
            look(nowUs);
        }
        if (last != null) {
            Row row = last;
            last = null;
            return row;
        }
        long dueUs = rowsPerSecond < 0 ? nowUs : dueUs();
        if (rowsPerSecond == 0 || dueUs > nowUs) {
            return null;
        }
        sent++;
        Cpu.spend(flow.sourceNs());
        Row row = new Row();
        row.arrivalUs = dueUs;
        row.phase = phase;
        row.from = Dataflow.SOURCE;
        row.id = index;
        row.line = flow.lines.line(index++);
        return row;
    }

    /** After a {@code null}: how long there will be none. */
    long pauseNs() {
        long untilUs = rowsPerSecond > 0 ? Math.min(dueUs(), nextLookUs) : nextLookUs;
        return Math.max(untilUs - nowUs(), 10) * 1_000;
    }

    private long dueUs() {
        double afterUs = sent * 1e6 / rowsPerSecond;
        return startUs + (flow.tickUs == 0 ? (long) afterUs : (long) (afterUs / flow.tickUs) * flow.tickUs);
    }

    private void look(long nowUs) {
        String[] words;
        try {
            words = Files.readString(control).trim().split(" ");
        } catch (IOException absent) {
            // Not written yet: a pause.
            return;
        }
        int read = Integer.parseInt(words[0]);
        if (read != phase) {
            last = Row.last(phase, sent);
            phase = read;
            rowsPerSecond = Double.parseDouble(words[1]) * share;
            startUs = nowUs;
            sent = 0;
        }
    }
}
