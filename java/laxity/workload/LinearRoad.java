package laxity.workload;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Linear Road (Arasu et al., VLDB 2004) with the nine operators of the evaluation of Lachesis (Palyvos-Giannas et al., ICDE
 * 2021, section 6): each of three branches sends a row for each position report, and none has a window. What each computes
 * follows the rules of the benchmark, by reports; what each costs is what `crates/workload` has it cost.
 */
final class LinearRoad {
    private LinearRoad() {}

    /** The 6 500 rows/s that Lachesis sustains fill its four cores; a row takes 18.4 units on all its ways. */
    private static final long UNIT_NS = 33_400;
    /** Each reports every 30 s of its own time. */
    private static final int CARS = 10_000;
    private static final int REPORT_EVERY_S = 30;
    private static final int ROAD_FT = 528_000;
    private static final int SEGMENT_FT = 5_280;
    private static final int MINUTES_KEPT = 6;

    static Dataflow dataflow(String log) {
        return new Dataflow("linear-road", 100_000, UNIT_NS, LinearRoad::line)
            .step("dispatcher", 4, Dispatcher::new, Dataflow.SOURCE)
            .step("average_speed", 2, AverageSpeed::new, "dispatcher")
            .step("last_average_speed", 2, LastAverageSpeed::new, "average_speed")
            .step("toll_las", 2, TollBySpeed::new, "last_average_speed")
            .step("count_vehicles", 2, CountVehicles::new, "dispatcher")
            .step("toll_cv", 2, TollByCount::new, "count_vehicles")
            .step("toll_pos", 2, TollByPosition::new, "dispatcher")
            .sink(log, 0.5, "toll_las", "toll_cv", "toll_pos");
    }

    /** Type, time, car, speed, expressway, lane, direction, segment, position; 6 in 1000 ask for a balance instead. */
    private static String line(long index) {
        long car = index % CARS;
        long round = index / CARS;
        int type = index % 1_000 < 994 ? 0 : 2;
        long mph = 20 + Hash.of(car, round) % 60;
        // 1 mph is 44 ft in 30 s; at its own mean speed, so that a car goes only forward.
        long position = Math.floorMod(Hash.of(car, 0) + round * (20 + car % 60) * 44, (long) ROAD_FT);
        return type + "," + round * REPORT_EVERY_S + "," + car + "," + mph + ",0," + (1 + car % 3) + "," + car % 2 + ","
            + position / SEGMENT_FT + "," + position;
    }

    /** Takes the position reports: the car in {@code id}, direction and segment in {@code key}, the speed as value. */
    private static final class Dispatcher implements Step {
        @Override
        public void onRow(Row row, Consumer<Row> out) {
            String[] fields = row.line.split(",");
            if (!fields[0].equals("0")) {
                return;
            }
            Row report = row.made(Long.parseLong(fields[6]) * 100 + Long.parseLong(fields[7]), Integer.parseInt(fields[3]));
            report.time = Long.parseLong(fields[1]);
            report.id = Long.parseLong(fields[2]);
            out.accept(report);
        }
    }

    /** What is known of each segment in each of the last minutes. */
    private static final class Minutes<T> {
        private final Map<Long, T> known = new HashMap<>();
        private long newest;

        T at(long segment, long minute, Supplier<T> make) {
            if (minute > newest) {
                newest = minute;
                known.keySet().removeIf(key -> key / 1_000 <= minute - MINUTES_KEPT);
            }
            return known.computeIfAbsent(minute * 1_000 + segment, key -> make.get());
        }
    }

    private static final class AverageSpeed implements Step {
        private final Minutes<double[]> sums = new Minutes<>();

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            double[] sum = sums.at(row.key, row.time / 60, () -> new double[2]);
            sum[0] += row.value;
            sum[1]++;
            out.accept(row.made(row.key, sum[0] / sum[1]));
        }
    }

    /** LAV: over the five minutes before. */
    private static final class LastAverageSpeed implements Step {
        private final Minutes<double[]> averages = new Minutes<>();

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            long minute = row.time / 60;
            averages.at(row.key, minute, () -> new double[1])[0] = row.value;
            double sum = 0;
            int count = 0;
            for (long before = Math.max(minute - 5, 0); before < minute; before++) {
                double average = averages.at(row.key, before, () -> new double[1])[0];
                sum += average;
                count += average > 0 ? 1 : 0;
            }
            out.accept(row.made(row.key, count > 0 ? sum / count : row.value));
        }
    }

    private static final class TollBySpeed implements Step {
        private final Map<Long, Double> speeds = new HashMap<>();

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            speeds.put(row.key, row.value);
            out.accept(row.made(row.key, row.value < 40 ? 1 : 0));
        }
    }

    /** numv: different cars in the minute. */
    private static final class CountVehicles implements Step {
        private final Minutes<Set<Long>> cars = new Minutes<>();

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            Set<Long> seen = cars.at(row.key, row.time / 60, HashSet::new);
            seen.add(row.id);
            out.accept(row.made(row.key, seen.size()));
        }
    }

    private static final class TollByCount implements Step {
        private final Map<Long, Double> counts = new HashMap<>();

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            counts.put(row.key, row.value);
            double over = Math.max(row.value - 50, 0);
            out.accept(row.made(row.key, 2 * over * over));
        }
    }

    /** A car that comes to another segment is told of its toll; one that does not, that there is none. */
    private static final class TollByPosition implements Step {
        private final Map<Long, Long> segments = new HashMap<>();

        @Override
        public void onRow(Row row, Consumer<Row> out) {
            Long before = segments.put(row.id, row.key);
            out.accept(row.made(row.key, before == null || before == row.key ? 0 : 1));
        }
    }
}
