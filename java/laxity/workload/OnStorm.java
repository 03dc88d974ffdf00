package laxity.workload;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Runs a {@link Dataflow} as a Storm topology in a cluster inside this process, with an executor for each operator and
 * nothing acknowledged: WORKLOAD CONTROL LOG GRAPHITE_PORT. Tells its edges, then that it runs, and ends with its input.
 */
public final class OnStorm {
    private OnStorm() {}

    public static void main(String[] arguments) throws Exception {
        Dataflow flow = Dataflow.named(arguments[0], arguments[2]);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(Dataflow.SOURCE, new Spout(arguments[1], flow), flow.parallelism);
        for (Dataflow.Node node : flow.nodes) {
            BoltDeclarer bolt = builder.setBolt(node.name(), new Bolt(node), flow.parallelism);
            for (String input : node.inputs()) {
                bolt.localOrShuffleGrouping(input);
                System.out.println("edge " + input + " -> " + node.name());
            }
        }
        Config config = new Config();
        config.setNumWorkers(1);
        config.setNumAckers(0);
        config.put(Config.TOPOLOGY_METRICS_REPORTERS, List.of(Map.of(
            "class", "org.apache.storm.metrics2.reporters.GraphiteStormReporter",
            "report.period", 1,
            "report.period.units", "SECONDS",
            "graphite.host", "127.0.0.1",
            "graphite.port", Integer.parseInt(arguments[3]),
            "graphite.transport", "tcp")));
        LocalCluster cluster = new LocalCluster();
        cluster.submitTopology(flow.name, config, builder.createTopology());
        System.out.println("running");
        while (System.in.read() >= 0) {
            // Until whoever started this closes its input.
        }
        // A cluster that is shut down takes half a minute for it.
        Runtime.getRuntime().halt(0);
    }

    private static final class Spout extends BaseRichSpout {
        /** At most so many rows a call, so that Storm gets to look after the executor. */
        private static final int ROWS_MAX = 100;

        private final String control;
        private final Dataflow flow;
        private transient Arrivals arrivals;
        private transient SpoutOutputCollector collector;

        Spout(String control, Dataflow flow) {
            this.control = control;
            this.flow = flow;
        }

        @Override
        public void open(Map<String, Object> config, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
            arrivals = new Arrivals(control, flow, flow.parallelism);
        }

        @Override
        public void nextTuple() {
            for (int i = 0; i < ROWS_MAX; i++) {
                Row row = arrivals.next();
                if (row == null) {
                    return;
                }
                collector.emit(new Values(row));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("row"));
        }
    }

    private static final class Bolt extends BaseRichBolt {
        private final Dataflow.Node node;
        private transient Step step;
        private transient OutputCollector collector;

        Bolt(Dataflow.Node node) {
            this.node = node;
        }

        @Override
        public void prepare(Map<String, Object> config, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            step = node.step().get();
        }

        @Override
        public void execute(Tuple tuple) {
            Row row = (Row) tuple.getValue(0);
            try {
                if (row.isLast) {
                    step.onLast(row);
                    collector.emit(new Values(row));
                    return;
                }
                Cpu.spend(node.costNs());
                step.onRow(row, made -> {
                    made.from = node.name();
                    collector.emit(new Values(made));
                });
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("row"));
        }
    }
}
