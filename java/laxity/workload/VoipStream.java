package laxity.workload;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * VoipStream (Bianchi et al., 2011) with the fifteen operators that DSPBench and Lachesis run: telemarketers among callers,
 * found by decaying rates per number. A call is established in 95 of 100 cases. The first copy of a call that pre_rcr gives
 * is counted for the called number, the second asks for the caller. What operators cost is what `crates/workload` has them cost.
 */
final class VoipStream {
    private VoipStream() {}

    /** The 3 500 rows/s that Lachesis sustains fill its four cores; a row takes 45.6 units on all its ways. */
    private static final long UNIT_NS = 25_100;
    private static final int CELLS = 180_000;
    /** Such that one in twenty new pairs is taken for a known one, as there is a call a minute and counts halve in a day. */
    private static final int PAIR_CELLS = 17_000;
    private static final double HOUR_S = 3_600;
    private static final double DAY_S = 86_400;
    private static final int NUMBERS = 50_000;
    /** Calls of which parts may be on their way; what is older waits for a part that never comes. */
    private static final int CALLS_KEPT = 200_000;

    static Dataflow dataflow(String log) {
        return new Dataflow("voip-stream", 100_000, UNIT_NS, VoipStream::line)
            .step("parser", 4, () -> VoipStream::parse, Dataflow.SOURCE)
            .step("dispatcher", 5, Dispatcher::new, "parser")
            .step("ct24", 3, () -> new Rate(DAY_S, false, true), "dispatcher")
            .step("global_acd", 1, GlobalDuration::new, "dispatcher")
            .step("ecr24", 3, () -> new Rate(DAY_S, true, false), "dispatcher")
            .step("pre_rcr", 1, () -> VoipStream::twice, "dispatcher")
            .step("rcr", 3, Received::new, "pre_rcr")
            .step("ecr", 3, () -> new Rate(HOUR_S, true, false), "dispatcher")
            .step("encr", 3, () -> new Rate(HOUR_S, true, true), "dispatcher")
            .step("acd", 1.5, () -> new Joined("ct24", "global_acd", "ecr24"), "ct24", "global_acd", "ecr24")
            .step("fofir", 1.5, () -> new Joined("ecr", "rcr"), "rcr", "ecr")
            .step("url", 1.5, () -> new Joined("encr", "ecr"), "ecr", "encr")
            .step("score", 1.5, Score::new, "acd", "fofir", "url")
            .sink(log, 0.5, "score");
    }

    /** Caller, called, start in seconds, duration, established. A tenth of all calls is by one number in 500. */
    private static String line(long index) {
        long random = Hash.of(index, 7);
        long caller = random % 10 == 0 ? random % (NUMBERS / 500) : random / 10 % NUMBERS;
        long called = Hash.of(index, 8) % NUMBERS;
        return caller + "," + called + "," + index * 60 + "," + random % 300 + "," + (Hash.of(index, 9) % 100 < 95);
    }

    /** Time, and the caller as key; the called number and the rest stay in the line, which later operators read. */
    private static void parse(Row row, Consumer<Row> out) {
        String[] fields = row.line.split(",");
        Row call = row.made(Long.parseLong(fields[0]), Double.parseDouble(fields[3]));
        call.time = Long.parseLong(fields[2]);
        call.line = fields[1] + (fields[4].equals("true") ? "+" : "-");
        out.accept(call);
    }

    private static long called(Row call) {
        return Long.parseLong(call.line, 0, call.line.indexOf(isEstablished(call) ? '+' : '-'), 10);
    }

    private static boolean isEstablished(Row call) {
        return call.line.indexOf('+') > 0;
    }

    private static boolean isNew(Row call) {
        return call.line.endsWith("new");
    }

    /** Marks calls of pairs of numbers that have not called before. */
    private static final class Dispatcher implements Step {
        private final DecayingFilter pairs = new DecayingFilter(PAIR_CELLS, DAY_S);

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            long pair = row.key * NUMBERS + called(row);
            boolean isNew = pairs.estimate(pair, row.time) < 0.5;
            pairs.add(pair, 1, row.time);
            Row call = row.made(row.key, row.value);
            call.line = isNew ? row.line + "new" : row.line;
            out.accept(call);
        }
    }

    /** How often the caller called of late, of established calls, of new pairs, or of both; of other calls it says nothing. */
    private static final class Rate implements Step {
        private final DecayingFilter calls;
        private final boolean ofEstablished;
        private final boolean ofNew;

        Rate(double halfLifeS, boolean ofEstablished, boolean ofNew) {
            calls = new DecayingFilter(CELLS, halfLifeS);
            this.ofEstablished = ofEstablished;
            this.ofNew = ofNew;
        }

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            if (ofEstablished && !isEstablished(row) || ofNew && !isNew(row)) {
                return;
            }
            calls.add(row.key, 1, row.time);
            out.accept(row.made(row.key, calls.estimate(row.key, row.time)));
        }
    }

    private static final class GlobalDuration implements Step {
        private double sum;
        private long count;

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            sum += row.value;
            count++;
            out.accept(row.made(row.key, sum / count));
        }
    }

    private static void twice(Row row, Consumer<Row> out) {
        Row received = row.made(called(row), 1);
        out.accept(received);
        out.accept(row.made(row.key, 0));
    }

    private static final class Received implements Step {
        private final DecayingFilter calls = new DecayingFilter(CELLS, HOUR_S);

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            if (row.value > 0) {
                calls.add(row.key, 1, row.time);
            } else {
                out.accept(row.made(row.key, calls.estimate(row.key, row.time)));
            }
        }
    }

    /** The first part over the others, once all parts of a call are there. */
    private static final class Joined implements Step {
        private final List<String> parts;
        private final Map<Long, double[]> calls = new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<Long, double[]> eldest) {
                return size() > CALLS_KEPT;
            }
        };

        Joined(String... parts) {
            this.parts = List.of(parts);
        }

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            // The last cell counts the parts.
            double[] call = calls.computeIfAbsent(row.id, id -> new double[parts.size() + 1]);
            call[parts.indexOf(row.from)] = row.value;
            if (++call[parts.size()] == parts.size()) {
                calls.remove(row.id);
                double ratio = call[0];
                for (int part = 1; part < parts.size(); part++) {
                    ratio /= Math.max(call[part], 1e-9);
                }
                out.accept(row.made(row.key, ratio));
            }
        }
    }

    private static final class Score implements Step {
        private static final Map<String, Double> WEIGHTS = Map.of("acd", 3.0, "fofir", 2.0, "url", 3.0);
        private final DecayingFilter scores = new DecayingFilter(CELLS, HOUR_S);

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            scores.add(row.key, WEIGHTS.get(row.from) * Math.min(row.value, 1), row.time);
            out.accept(row.made(row.key, scores.estimate(row.key, row.time)));
        }
    }
}
