package laxity.workload;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/**
 * A source and operators behind it, for any engine: each operator gets every row of each of its inputs. Operators are in
 * order, inputs first.
 */
public final class Dataflow implements Serializable {
    /** An operator, the CPU time that it takes for a row besides its own, and those whose rows it gets. */
    public record Node(String name, long costNs, Step.Factory step, List<String> inputs) implements Serializable {}

    /** The text of row number {@code index}; the same each time, so that every run sees the same rows. */
    public interface Lines extends Serializable {
        String line(long index);
    }

    public final String name;
    public final Lines lines;
    /** Distance of two sendings; 0: each row at its own time. */
    public final long tickUs;
    public final List<Node> nodes = new ArrayList<>();
    public int parallelism = 1;
    /** CPU time of one unit of cost; the source's own cost is one. */
    private final long unitNs;

    static final String SOURCE = "source";

    Dataflow(String name, long tickUs, long unitNs, Lines lines) {
        this.name = name;
        this.tickUs = tickUs;
        this.unitNs = unitNs;
        this.lines = lines;
    }

    /** {@code cost} is in units. */
    Dataflow step(String name, double cost, Step.Factory step, String... inputs) {
        nodes.add(new Node(name, (long) (cost * unitNs), step, List.of(inputs)));
        return this;
    }

    long sourceNs() {
        return unitNs;
    }

    /** Ends the dataflow with a sink that writes latencies to {@code log}. */
    Dataflow sink(String log, double cost, String... inputs) {
        int ways = List.of(inputs).stream().mapToInt(this::ways).sum();
        return step("sink", cost, () -> LatencyLog.to(log, ways), inputs);
    }

    /** How many ways lead from the source to an operator: so many last rows of a phase reach it. */
    private int ways(String name) {
        if (name.equals(SOURCE)) {
            return 1;
        }
        Node node = nodes.stream().filter(known -> known.name.equals(name)).findFirst().orElseThrow();
        return node.inputs.stream().mapToInt(this::ways).sum();
    }

    /** The workload of that name. Its sink writes latencies to {@code log}. */
    static Dataflow named(String name, String log) {
        return switch (name) {
            case "alarms" -> Tenants.alarms(log);
            case "archive" -> Tenants.archive(log);
            case "linear-road" -> LinearRoad.dataflow(log);
            case "voip-stream" -> VoipStream.dataflow(log);
            default -> throw new IllegalArgumentException(
                name + " is no workload; expected alarms, archive, linear-road or voip-stream");
        };
    }
}
