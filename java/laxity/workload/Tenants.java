package laxity.workload;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** The two jobs of `examples/attach`, with an open loop: one that must stay fast, and one that takes every core it gets. */
final class Tenants {
    private Tenants() {}

    /** SHA-256, so many times over: about 0.15 ms and 1.5 µs a row on processors that have instructions for it. */
    private static final int SIGNATURES = 2_000;
    private static final int DIGESTS = 20;

    static Dataflow alarms(String log) {
        Dataflow flow = new Dataflow("alarms", 0, 0, index -> (index % 100) + "," + (index * 7919 % 1000) / 10.0);
        flow.step("parse", 0, () -> (row, out) -> {
            String[] fields = row.line.split(",");
            out.accept(row.made(Long.parseLong(fields[0]), Double.parseDouble(fields[1])));
        }, Dataflow.SOURCE);
        flow.step("sign", 0, () -> digest(SIGNATURES), "parse");
        return flow.sink(log, 0, "sign");
    }

    /** Three of each operator, as fast as rows are taken. */
    static Dataflow archive(String log) {
        Dataflow flow = new Dataflow("archive", 0, 0, index -> Long.toString(index));
        flow.step("parse", 0, () -> (row, out) -> out.accept(row.made(Long.parseLong(row.line), 0)), Dataflow.SOURCE);
        flow.step("digest", 0, () -> digest(DIGESTS), "parse");
        flow.parallelism = 3;
        return flow.sink(log, 0, "digest");
    }

    private static Step digest(int times) {
        MessageDigest digest;
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException absent) {
            throw new AssertionError("every Java has SHA-256", absent);
        }
        return (row, out) -> {
            byte[] bytes = (row.key + " " + row.value).getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < times; i++) {
                bytes = digest.digest(bytes);
            }
            out.accept(row.made(row.key, bytes[0]));
        };
    }
}
