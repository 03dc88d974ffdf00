package laxity.workload;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.util.Collector;

/** Runs a {@link Dataflow} as a Flink job with a thread for each operator: WORKLOAD CONTROL LOG. */
public final class OnFlink {
    private OnFlink() {}

    /** Instead of 100 ms, which each of the operators in a row would add at low rates. */
    private static final long BUFFER_TIMEOUT_MS = 5;

    public static void main(String[] arguments) throws Exception {
        Dataflow flow = Dataflow.named(arguments[0], arguments[2]);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(flow.parallelism);
        environment.disableOperatorChaining();
        environment.setBufferTimeout(BUFFER_TIMEOUT_MS);
        Map<String, DataStream<Row>> streams = new HashMap<>();
        streams.put(Dataflow.SOURCE, environment.addSource(new Source(arguments[1], flow), Dataflow.SOURCE));
        for (Dataflow.Node node : flow.nodes) {
            List<DataStream<Row>> inputs = node.inputs().stream().map(streams::get).toList();
            DataStream<Row> input = inputs.get(0);
            for (DataStream<Row> other : inputs.subList(1, inputs.size())) {
                input = input.union(other);
            }
            streams.put(node.name(), input.process(new Operator(node)).name(node.name()));
        }
        environment.execute(flow.name);
    }

    /** Runs in a thread of its own beside the task's: blocked where the job takes no more. */
    private static final class Source extends RichParallelSourceFunction<Row> {
        private final String control;
        private final Dataflow flow;
        private volatile boolean isCancelled;

        Source(String control, Dataflow flow) {
            this.control = control;
            this.flow = flow;
        }

        @Override
        public void run(SourceContext<Row> context) {
            int instances = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            Arrivals arrivals = new Arrivals(control, flow, instances);
            while (!isCancelled) {
                Row row = arrivals.next();
                if (row == null) {
                    LockSupport.parkNanos(arrivals.pauseNs());
                } else {
                    context.collect(row);
                }
            }
        }

        @Override
        public void cancel() {
            isCancelled = true;
        }
    }

    private static final class Operator extends ProcessFunction<Row, Row> {
        private final Dataflow.Node node;
        private transient Step step;

        Operator(Dataflow.Node node) {
            this.node = node;
        }

        @Override
        public void open(OpenContext context) {
            step = node.step().get();
        }

        @Override
        public void processElement(Row row, Context context, Collector<Row> out) throws IOException {
            if (row.isLast) {
                step.onLast(row);
                out.collect(row);
                return;
            }
            Cpu.spend(node.costNs());
            step.onRow(row, made -> {
                made.from = node.name();
                out.collect(made);
            });
        }
    }
}
