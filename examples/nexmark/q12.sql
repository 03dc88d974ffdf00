-- Nexmark 12, processing-time windows: bids of one person in ten seconds of the clock. A table of its own, whose time is the
-- clock's alone.

CREATE TABLE bids_as_they_come (event_type INT, bid ROW<bidder BIGINT>, p_time AS PROCTIME())
WITH ('connector' = 'nexmark', 'first-event.rate' = '10000', 'events.num' = '1000000');
CREATE TABLE nexmark_q12 (bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3))
WITH ('connector' = 'blackhole');

CREATE VIEW bidders AS SELECT bid.bidder, p_time FROM bids_as_they_come WHERE event_type = 2;

INSERT INTO nexmark_q12
SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bidders, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
