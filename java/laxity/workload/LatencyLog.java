package laxity.workload;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * A sink that writes, for each second, how long rows took since they were due: "SECOND PHASE ROWS SUM_US BUCKET:ROWS …",
 * bucket b being latencies of 1.02^b µs or a little more. A phase that has wholly come is told as "last PHASE SENT".
 */
final class LatencyLog implements Step {
    private static final double LOG_OF_BUCKET = Math.log(1.02);

    private final BufferedWriter log;
    private final int ways;
    private final TreeMap<Integer, int[]> buckets = new TreeMap<>();
    private long second;
    private int phase;
    private long rows;
    private long sumUs;
    private int lasts;

    private LatencyLog(String path, int ways) throws IOException {
        this.log = Files.newBufferedWriter(Path.of(path), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        this.ways = ways;
    }

    /** {@code ways}: so many last rows of a phase come. */
    static LatencyLog to(String path, int ways) {
        try {
            return new LatencyLog(path, ways);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void onRow(Row row, Consumer<Row> out) throws IOException {
        long nowUs = Arrivals.nowUs();
        if (nowUs / 1_000_000 != second || row.phase != phase) {
            write();
            second = nowUs / 1_000_000;
            phase = row.phase;
        }
        long us = Math.max(nowUs - row.arrivalUs, 1);
        rows++;
        sumUs += us;
        buckets.computeIfAbsent((int) (Math.log(us) / LOG_OF_BUCKET), bucket -> new int[1])[0]++;
    }

    @Override
    public void onLast(Row row) throws IOException {
        if (++lasts == ways) {
            lasts = 0;
            write();
            log.write("last " + row.phase + " " + row.id + "\n");
            log.flush();
        }
    }

    private void write() throws IOException {
        if (rows > 0) {
            log.write(second + " " + phase + " " + rows + " " + sumUs);
            for (Map.Entry<Integer, int[]> bucket : buckets.entrySet()) {
                log.write(" " + bucket.getKey() + ":" + bucket.getValue()[0]);
            }
            log.write("\n");
            log.flush();
        }
        buckets.clear();
        rows = 0;
        sumUs = 0;
    }
}
