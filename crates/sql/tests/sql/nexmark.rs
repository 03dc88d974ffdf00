//! Nexmark's official texts, word for word but for the connector: `flink/datagen`'s DDL, and queries that append.

use laxity_sql::{SqlFile, compile};

const TABLES: &str = "
CREATE TABLE datagen (
    event_type int,
    person ROW<
        id  BIGINT, name  VARCHAR, emailAddress  VARCHAR, creditCard  VARCHAR, city  VARCHAR, state  VARCHAR,
        dateTime TIMESTAMP(3), extra  VARCHAR>,
    auction ROW<
        id  BIGINT, itemName  VARCHAR, description  VARCHAR, initialBid  BIGINT, reserve  BIGINT,
        dateTime  TIMESTAMP(3), expires  TIMESTAMP(3), seller  BIGINT, category  BIGINT, extra  VARCHAR>,
    bid ROW<
        auction  BIGINT, bidder  BIGINT, price  BIGINT, channel  VARCHAR, url  VARCHAR, dateTime  TIMESTAMP(3),
        extra  VARCHAR>,
    dateTime AS
        CASE
            WHEN event_type = 0 THEN person.dateTime
            WHEN event_type = 1 THEN auction.dateTime
            ELSE bid.dateTime
        END,
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'events.json', 'format' = 'json');
CREATE VIEW person AS
SELECT person.id, person.name, person.emailAddress, person.creditCard, person.city, person.state, dateTime, person.extra
FROM datagen WHERE event_type = 0;
CREATE VIEW auction AS
SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, dateTime,
    auction.expires, auction.seller, auction.category, auction.extra
FROM datagen WHERE event_type = 1;
CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, dateTime, bid.extra
FROM datagen WHERE event_type = 2;
";

/// Columns of the sink, and the query.
const QUERIES: &[(&str, &str, &str)] = &[
    (
        "q0",
        "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra VARCHAR",
        "SELECT auction, bidder, price, dateTime, extra FROM bid",
    ),
    (
        "q1",
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), dateTime TIMESTAMP(3), extra VARCHAR",
        "SELECT auction, bidder, 0.908 * price as price, dateTime, extra FROM bid",
    ),
    ("q2", "auction BIGINT, price BIGINT", "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"),
    (
        "q5",
        "auction BIGINT, num BIGINT",
        "SELECT AuctionBids.auction, AuctionBids.num
         FROM (
           SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
           FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
           GROUP BY auction, window_start, window_end
         ) AS AuctionBids
         JOIN (
           SELECT max(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime
           FROM (
             SELECT count(*) AS num, window_start AS starttime, window_end AS endtime
             FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
             GROUP BY auction, window_start, window_end
           ) AS CountBids
           GROUP BY CountBids.starttime, CountBids.endtime
         ) AS MaxBids
         ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
            AND AuctionBids.num >= MaxBids.maxn",
    ),
    (
        "q8",
        "id BIGINT, name VARCHAR, stime TIMESTAMP(3)",
        "SELECT P.id, P.name, P.starttime
         FROM (
           SELECT id, name, window_start AS starttime, window_end AS endtime
           FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
           GROUP BY id, name, window_start, window_end
         ) P
         JOIN (
           SELECT seller, window_start AS starttime, window_end AS endtime
           FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
           GROUP BY seller, window_start, window_end
         ) A
         ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime",
    ),
    (
        "q10",
        "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra VARCHAR, dt STRING, hm STRING",
        "SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd'), DATE_FORMAT(dateTime, 'HH:mm') FROM bid",
    ),
    (
        "q11",
        "bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        "SELECT B.bidder, count(*) as bid_count, SESSION_START(B.dateTime, INTERVAL '10' SECOND) as starttime,
           SESSION_END(B.dateTime, INTERVAL '10' SECOND) as endtime
         FROM bid B
         GROUP BY B.bidder, SESSION(B.dateTime, INTERVAL '10' SECOND)",
    ),
    (
        "q21",
        "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, channel_id VARCHAR",
        "SELECT auction, bidder, price, channel,
           CASE
             WHEN lower(channel) = 'apple' THEN '0'
             WHEN lower(channel) = 'google' THEN '1'
             WHEN lower(channel) = 'facebook' THEN '2'
             WHEN lower(channel) = 'baidu' THEN '3'
             ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
           END AS channel_id
         FROM bid
         where REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) is not null or
           lower(channel) in ('apple', 'google', 'facebook', 'baidu')",
    ),
    (
        "q22",
        "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, dir1 VARCHAR, dir2 VARCHAR, dir3 VARCHAR",
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) as dir1, SPLIT_INDEX(url, '/', 4) as dir2,
           SPLIT_INDEX(url, '/', 5) as dir3 FROM bid",
    ),
];

#[test]
fn official_queries_compile() {
    for (name, columns, query) in QUERIES {
        let text = format!(
            "{TABLES} CREATE TABLE nexmark_{name} ({columns}) WITH ('connector' = 'blackhole'); \
             INSERT INTO nexmark_{name} {query};"
        );
        let script = compile(&[SqlFile { path: format!("{name}.sql").into(), text }]);
        let script = script.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(script.queries.len(), 1, "{name}");
    }
}
