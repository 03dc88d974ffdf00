package laxity.race;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Properties;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * The race's queries in the DSL of Kafka Streams: SERVERS IN OUT QUERY STATE_FOLDER, where QUERY is q0, q1, q2, q11 or
 * join. Says "running" once it is, and ends with its process.
 *
 * <p>A window answers once, when it closes, as in the SQL: four seconds of event time behind its end.
 */
public final class OnKafkaStreams {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final DateTimeFormatter SQL_TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss[.SSS]");
    private static final Duration DELAY = Duration.ofSeconds(4);
    private static final String[] KINDS = {"person", "auction", "bid"};

    /** An event, or a result. */
    private static final Serde<JsonNode> NODE = Serdes.serdeFrom(
            (Serializer<JsonNode>) (topic, node) -> node == null ? null : bytes(node),
            (Deserializer<JsonNode>) (topic, bytes) -> bytes == null ? null : node(bytes));

    private OnKafkaStreams() {}

    public static void main(String[] arguments) throws InterruptedException {
        String in = arguments[1];
        String out = arguments[2];
        String query = arguments[3];
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], JsonNode> events = builder.stream(in, Consumed.with(Serdes.ByteArray(), NODE)
                .withTimestampExtractor((record, before) -> timeMs((JsonNode) record.value())));
        results(events, query).to(out, Produced.with(Serdes.ByteArray(), NODE));

        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "race-" + out);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // For latency: closed windows are looked for each 5 ms instead of each second, and nothing lingers.
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 5L);
        config.put(StreamsConfig.producerPrefix("linger.ms"), 0);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 10_000);

        KafkaStreams streams = new KafkaStreams(builder.build(config), config);
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.RUNNING) {
                System.out.println("running");
            }
        });
        streams.setUncaughtExceptionHandler(why -> {
            why.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        Thread.currentThread().join();
    }

    private static KStream<byte[], JsonNode> results(KStream<byte[], JsonNode> events, String query) {
        KStream<byte[], JsonNode> bids = events.filter((key, event) -> event.get("event_type").asInt() == 2)
                .mapValues(event -> event.get("bid"));
        switch (query) {
            case "q0":
                return bids.mapValues(bid -> due(bid).setAll(picked(bid, "auction", "bidder", "price", "extra")));
            case "q1":
                return bids.mapValues(bid -> due(bid).put("price", 0.908 * bid.get("price").asLong())
                        .setAll(picked(bid, "auction", "bidder", "extra")));
            case "q2":
                return bids.filter((key, bid) -> bid.get("auction").asLong() % 123 == 0)
                        .mapValues(bid -> due(bid).setAll(picked(bid, "auction", "price")));
            case "q11":
                return bids.groupBy((key, bid) -> bid.get("bidder").asLong(), Grouped.with(Serdes.Long(), NODE))
                        .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(2), DELAY))
                        .emitStrategy(EmitStrategy.onWindowClose())
                        .count(Materialized.with(Serdes.Long(), Serdes.Long()))
                        .toStream()
                        // A session of theirs ends with its last row.
                        .map((of, count) -> pair(due(of, 2_000).put("bidder", of.key()).put("bid_count", count)));
            case "join":
                KStream<Long, JsonNode> auctions = events.filter((key, event) -> event.get("event_type").asInt() == 1)
                        .map((key, event) -> KeyValue.pair(event.get("auction").get("id").asLong(), event.get("auction")));
                JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), DELAY).before(Duration.ZERO);
                return auctions.join(bids.selectKey((key, bid) -> bid.get("auction").asLong()), OnKafkaStreams::joined, window,
                        StreamJoined.with(Serdes.Long(), NODE, NODE)).map((key, row) -> pair(row));
            default:
                throw new IllegalArgumentException("no query " + query);
        }
    }

    private static ObjectNode joined(JsonNode auction, JsonNode bid) {
        JsonNode later = timeMs(auction.get("dateTime")) > timeMs(bid.get("dateTime")) ? auction : bid;
        return due(later).put("id", auction.get("id").asLong()).setAll(picked(bid, "bidder", "price"));
    }

    private static KeyValue<byte[], JsonNode> pair(JsonNode row) {
        return KeyValue.pair(null, row);
    }

    private static ObjectNode due(JsonNode row) {
        return JSON.createObjectNode().put("due", row.get("dateTime").asText());
    }

    private static ObjectNode due(Windowed<?> window, long afterMs) {
        LocalDateTime end = LocalDateTime.ofEpochSecond((window.window().end() + afterMs) / 1_000,
                (int) ((window.window().end() + afterMs) % 1_000) * 1_000_000, ZoneOffset.UTC);
        return JSON.createObjectNode().put("due", SQL_TIME.format(end));
    }

    private static ObjectNode picked(JsonNode row, String... fields) {
        ObjectNode picked = JSON.createObjectNode();
        for (String field : fields) {
            picked.set(field, row.get(field));
        }
        return picked;
    }

    /** Of an event, or of what it says. */
    private static long timeMs(JsonNode node) {
        JsonNode said = node.isTextual() ? node : node.get(KINDS[node.get("event_type").asInt()]).get("dateTime");
        return LocalDateTime.parse(said.asText(), SQL_TIME).toInstant(ZoneOffset.UTC).toEpochMilli();
    }

    private static byte[] bytes(JsonNode node) {
        try {
            return JSON.writeValueAsBytes(node);
        } catch (IOException why) {
            throw new UncheckedIOException(why);
        }
    }

    private static JsonNode node(byte[] bytes) {
        try {
            return JSON.readTree(bytes);
        } catch (IOException why) {
            throw new UncheckedIOException(why);
        }
    }
}
