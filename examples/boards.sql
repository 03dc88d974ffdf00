-- The control tower has a screen on every wall: a board of the day for each airport, airline, destination and route, each
-- a query of its own with a target of 50 ms, 303 of them. They read the departures of two-tenants.sql, beside its six heavy
-- queries: laxity run examples/two-tenants.sql examples/boards.sql --shared --pace 0.9, or make run.
--
-- Results go to out/boards/, one file per query. Written by scripts/boards.py.

CREATE TABLE boards (board STRING, window_end TIMESTAMP(3), departures BIGINT, mean_delay_min INT, worst_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = '../out/boards', 'format' = 'csv');

CREATE VIEW by_day AS
SELECT * FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(event_ts), INTERVAL '1' DAY));

SET 'laxity.latency.target' = '50 ms';
SET 'parallelism.default' = '1';

-- Airports.

SET 'pipeline.name' = 'from EWR';
INSERT INTO boards SELECT 'from EWR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'from JFK';
INSERT INTO boards SELECT 'from JFK', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'from LGA';
INSERT INTO boards SELECT 'from LGA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' GROUP BY window_start, window_end;

-- Airlines.

SET 'pipeline.name' = 'UA';
INSERT INTO boards SELECT 'UA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'UA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'B6';
INSERT INTO boards SELECT 'B6', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'B6' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EV';
INSERT INTO boards SELECT 'EV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'EV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'DL';
INSERT INTO boards SELECT 'DL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'DL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'AA';
INSERT INTO boards SELECT 'AA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'AA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'MQ';
INSERT INTO boards SELECT 'MQ', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'MQ' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'US';
INSERT INTO boards SELECT 'US', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'US' GROUP BY window_start, window_end;

SET 'pipeline.name' = '9E';
INSERT INTO boards SELECT '9E', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = '9E' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'WN';
INSERT INTO boards SELECT 'WN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'WN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'VX';
INSERT INTO boards SELECT 'VX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'VX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'FL';
INSERT INTO boards SELECT 'FL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'FL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'AS';
INSERT INTO boards SELECT 'AS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'AS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'F9';
INSERT INTO boards SELECT 'F9', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'F9' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'YV';
INSERT INTO boards SELECT 'YV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'YV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'HA';
INSERT INTO boards SELECT 'HA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE carrier = 'HA' GROUP BY window_start, window_end;

-- Destinations.

SET 'pipeline.name' = 'to ATL';
INSERT INTO boards SELECT 'to ATL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ATL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to ORD';
INSERT INTO boards SELECT 'to ORD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ORD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to LAX';
INSERT INTO boards SELECT 'to LAX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'LAX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BOS';
INSERT INTO boards SELECT 'to BOS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BOS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MCO';
INSERT INTO boards SELECT 'to MCO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MCO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CLT';
INSERT INTO boards SELECT 'to CLT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CLT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SFO';
INSERT INTO boards SELECT 'to SFO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SFO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to FLL';
INSERT INTO boards SELECT 'to FLL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'FLL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MIA';
INSERT INTO boards SELECT 'to MIA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MIA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to DCA';
INSERT INTO boards SELECT 'to DCA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'DCA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to DTW';
INSERT INTO boards SELECT 'to DTW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'DTW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to DFW';
INSERT INTO boards SELECT 'to DFW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'DFW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to RDU';
INSERT INTO boards SELECT 'to RDU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'RDU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to TPA';
INSERT INTO boards SELECT 'to TPA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'TPA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to DEN';
INSERT INTO boards SELECT 'to DEN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'DEN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to IAH';
INSERT INTO boards SELECT 'to IAH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'IAH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MSP';
INSERT INTO boards SELECT 'to MSP', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MSP' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PBI';
INSERT INTO boards SELECT 'to PBI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PBI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BNA';
INSERT INTO boards SELECT 'to BNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to LAS';
INSERT INTO boards SELECT 'to LAS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'LAS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SJU';
INSERT INTO boards SELECT 'to SJU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SJU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to IAD';
INSERT INTO boards SELECT 'to IAD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'IAD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PHX';
INSERT INTO boards SELECT 'to PHX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PHX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BUF';
INSERT INTO boards SELECT 'to BUF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BUF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CLE';
INSERT INTO boards SELECT 'to CLE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CLE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to STL';
INSERT INTO boards SELECT 'to STL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'STL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MDW';
INSERT INTO boards SELECT 'to MDW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MDW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SEA';
INSERT INTO boards SELECT 'to SEA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SEA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CVG';
INSERT INTO boards SELECT 'to CVG', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CVG' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MSY';
INSERT INTO boards SELECT 'to MSY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MSY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to RSW';
INSERT INTO boards SELECT 'to RSW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'RSW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CMH';
INSERT INTO boards SELECT 'to CMH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CMH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CHS';
INSERT INTO boards SELECT 'to CHS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CHS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PIT';
INSERT INTO boards SELECT 'to PIT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PIT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SAN';
INSERT INTO boards SELECT 'to SAN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SAN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MKE';
INSERT INTO boards SELECT 'to MKE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MKE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to JAX';
INSERT INTO boards SELECT 'to JAX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'JAX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BTV';
INSERT INTO boards SELECT 'to BTV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BTV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SLC';
INSERT INTO boards SELECT 'to SLC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SLC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to AUS';
INSERT INTO boards SELECT 'to AUS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'AUS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to ROC';
INSERT INTO boards SELECT 'to ROC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ROC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to RIC';
INSERT INTO boards SELECT 'to RIC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'RIC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PWM';
INSERT INTO boards SELECT 'to PWM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PWM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to HOU';
INSERT INTO boards SELECT 'to HOU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'HOU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to IND';
INSERT INTO boards SELECT 'to IND', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'IND' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MCI';
INSERT INTO boards SELECT 'to MCI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MCI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SYR';
INSERT INTO boards SELECT 'to SYR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SYR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BWI';
INSERT INTO boards SELECT 'to BWI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BWI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MEM';
INSERT INTO boards SELECT 'to MEM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MEM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PHL';
INSERT INTO boards SELECT 'to PHL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PHL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to GSO';
INSERT INTO boards SELECT 'to GSO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'GSO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to ORF';
INSERT INTO boards SELECT 'to ORF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ORF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to DAY';
INSERT INTO boards SELECT 'to DAY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'DAY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PDX';
INSERT INTO boards SELECT 'to PDX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PDX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SRQ';
INSERT INTO boards SELECT 'to SRQ', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SRQ' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SDF';
INSERT INTO boards SELECT 'to SDF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SDF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to XNA';
INSERT INTO boards SELECT 'to XNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'XNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MHT';
INSERT INTO boards SELECT 'to MHT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MHT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BQN';
INSERT INTO boards SELECT 'to BQN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BQN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CAK';
INSERT INTO boards SELECT 'to CAK', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CAK' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to OMA';
INSERT INTO boards SELECT 'to OMA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'OMA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SNA';
INSERT INTO boards SELECT 'to SNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to GSP';
INSERT INTO boards SELECT 'to GSP', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'GSP' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SAV';
INSERT INTO boards SELECT 'to SAV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SAV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to GRR';
INSERT INTO boards SELECT 'to GRR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'GRR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to HNL';
INSERT INTO boards SELECT 'to HNL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'HNL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SAT';
INSERT INTO boards SELECT 'to SAT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SAT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to LGB';
INSERT INTO boards SELECT 'to LGB', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'LGB' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to TYS';
INSERT INTO boards SELECT 'to TYS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'TYS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MSN';
INSERT INTO boards SELECT 'to MSN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MSN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to DSM';
INSERT INTO boards SELECT 'to DSM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'DSM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to STT';
INSERT INTO boards SELECT 'to STT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'STT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to ALB';
INSERT INTO boards SELECT 'to ALB', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ALB' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BDL';
INSERT INTO boards SELECT 'to BDL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BDL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BUR';
INSERT INTO boards SELECT 'to BUR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BUR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PSE';
INSERT INTO boards SELECT 'to PSE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PSE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BGR';
INSERT INTO boards SELECT 'to BGR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BGR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to PVD';
INSERT INTO boards SELECT 'to PVD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'PVD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SJC';
INSERT INTO boards SELECT 'to SJC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SJC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to OKC';
INSERT INTO boards SELECT 'to OKC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'OKC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to OAK';
INSERT INTO boards SELECT 'to OAK', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'OAK' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to TUL';
INSERT INTO boards SELECT 'to TUL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'TUL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to SMF';
INSERT INTO boards SELECT 'to SMF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'SMF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to BHM';
INSERT INTO boards SELECT 'to BHM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'BHM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to ACK';
INSERT INTO boards SELECT 'to ACK', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ACK' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to AVL';
INSERT INTO boards SELECT 'to AVL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'AVL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to ABQ';
INSERT INTO boards SELECT 'to ABQ', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ABQ' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to MVY';
INSERT INTO boards SELECT 'to MVY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'MVY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to EGE';
INSERT INTO boards SELECT 'to EGE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'EGE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CRW';
INSERT INTO boards SELECT 'to CRW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CRW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to ILM';
INSERT INTO boards SELECT 'to ILM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'ILM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'to CAE';
INSERT INTO boards SELECT 'to CAE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE dest = 'CAE' GROUP BY window_start, window_end;

-- Routes.

SET 'pipeline.name' = 'JFK to LAX';
INSERT INTO boards SELECT 'JFK to LAX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'LAX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to ATL';
INSERT INTO boards SELECT 'LGA to ATL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'ATL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to ORD';
INSERT INTO boards SELECT 'LGA to ORD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'ORD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SFO';
INSERT INTO boards SELECT 'JFK to SFO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SFO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to CLT';
INSERT INTO boards SELECT 'LGA to CLT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'CLT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to ORD';
INSERT INTO boards SELECT 'EWR to ORD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'ORD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to BOS';
INSERT INTO boards SELECT 'JFK to BOS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'BOS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MIA';
INSERT INTO boards SELECT 'LGA to MIA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MIA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to MCO';
INSERT INTO boards SELECT 'JFK to MCO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'MCO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to BOS';
INSERT INTO boards SELECT 'EWR to BOS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'BOS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SFO';
INSERT INTO boards SELECT 'EWR to SFO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SFO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to DTW';
INSERT INTO boards SELECT 'LGA to DTW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'DTW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to CLT';
INSERT INTO boards SELECT 'EWR to CLT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'CLT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MCO';
INSERT INTO boards SELECT 'EWR to MCO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MCO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to ATL';
INSERT INTO boards SELECT 'EWR to ATL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'ATL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to LAX';
INSERT INTO boards SELECT 'EWR to LAX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'LAX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SJU';
INSERT INTO boards SELECT 'JFK to SJU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SJU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to DFW';
INSERT INTO boards SELECT 'LGA to DFW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'DFW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to DCA';
INSERT INTO boards SELECT 'LGA to DCA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'DCA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to FLL';
INSERT INTO boards SELECT 'JFK to FLL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'FLL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to BOS';
INSERT INTO boards SELECT 'LGA to BOS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'BOS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to LAS';
INSERT INTO boards SELECT 'JFK to LAS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'LAS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to FLL';
INSERT INTO boards SELECT 'LGA to FLL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'FLL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to IAH';
INSERT INTO boards SELECT 'EWR to IAH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'IAH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to FLL';
INSERT INTO boards SELECT 'EWR to FLL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'FLL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to DEN';
INSERT INTO boards SELECT 'LGA to DEN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'DEN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MCO';
INSERT INTO boards SELECT 'LGA to MCO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MCO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MSP';
INSERT INTO boards SELECT 'LGA to MSP', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MSP' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to BUF';
INSERT INTO boards SELECT 'JFK to BUF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'BUF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to RDU';
INSERT INTO boards SELECT 'LGA to RDU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'RDU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to MIA';
INSERT INTO boards SELECT 'JFK to MIA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'MIA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to BNA';
INSERT INTO boards SELECT 'LGA to BNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'BNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to DCA';
INSERT INTO boards SELECT 'JFK to DCA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'DCA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to DFW';
INSERT INTO boards SELECT 'EWR to DFW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'DFW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to DTW';
INSERT INTO boards SELECT 'EWR to DTW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'DTW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to RDU';
INSERT INTO boards SELECT 'JFK to RDU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'RDU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to TPA';
INSERT INTO boards SELECT 'JFK to TPA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'TPA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to IAH';
INSERT INTO boards SELECT 'LGA to IAH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'IAH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to DEN';
INSERT INTO boards SELECT 'EWR to DEN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'DEN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to CLT';
INSERT INTO boards SELECT 'JFK to CLT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'CLT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to PHX';
INSERT INTO boards SELECT 'EWR to PHX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'PHX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MIA';
INSERT INTO boards SELECT 'EWR to MIA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MIA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to CVG';
INSERT INTO boards SELECT 'EWR to CVG', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'CVG' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to IAD';
INSERT INTO boards SELECT 'JFK to IAD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'IAD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to PBI';
INSERT INTO boards SELECT 'LGA to PBI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'PBI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to STL';
INSERT INTO boards SELECT 'EWR to STL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'STL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to PBI';
INSERT INTO boards SELECT 'EWR to PBI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'PBI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to TPA';
INSERT INTO boards SELECT 'EWR to TPA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'TPA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MSP';
INSERT INTO boards SELECT 'EWR to MSP', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MSP' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to BNA';
INSERT INTO boards SELECT 'EWR to BNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'BNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to ORD';
INSERT INTO boards SELECT 'JFK to ORD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'ORD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to TPA';
INSERT INTO boards SELECT 'LGA to TPA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'TPA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SLC';
INSERT INTO boards SELECT 'JFK to SLC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SLC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SEA';
INSERT INTO boards SELECT 'JFK to SEA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SEA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MDW';
INSERT INTO boards SELECT 'LGA to MDW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MDW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to CLE';
INSERT INTO boards SELECT 'LGA to CLE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'CLE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MDW';
INSERT INTO boards SELECT 'EWR to MDW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MDW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to LAS';
INSERT INTO boards SELECT 'EWR to LAS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'LAS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to CMH';
INSERT INTO boards SELECT 'LGA to CMH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'CMH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to ATL';
INSERT INTO boards SELECT 'JFK to ATL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'ATL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to PHX';
INSERT INTO boards SELECT 'JFK to PHX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'PHX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SEA';
INSERT INTO boards SELECT 'EWR to SEA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SEA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to STL';
INSERT INTO boards SELECT 'LGA to STL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'STL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to CLE';
INSERT INTO boards SELECT 'EWR to CLE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'CLE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to PBI';
INSERT INTO boards SELECT 'JFK to PBI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'PBI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to IAD';
INSERT INTO boards SELECT 'LGA to IAD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'IAD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to ROC';
INSERT INTO boards SELECT 'JFK to ROC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'ROC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to RIC';
INSERT INTO boards SELECT 'EWR to RIC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'RIC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to MSY';
INSERT INTO boards SELECT 'JFK to MSY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'MSY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SAN';
INSERT INTO boards SELECT 'JFK to SAN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SAN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to DCA';
INSERT INTO boards SELECT 'EWR to DCA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'DCA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MKE';
INSERT INTO boards SELECT 'LGA to MKE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MKE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to AUS';
INSERT INTO boards SELECT 'JFK to AUS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'AUS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to RSW';
INSERT INTO boards SELECT 'EWR to RSW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'RSW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to RDU';
INSERT INTO boards SELECT 'EWR to RDU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'RDU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to CHS';
INSERT INTO boards SELECT 'EWR to CHS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'CHS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to BTV';
INSERT INTO boards SELECT 'JFK to BTV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'BTV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to RSW';
INSERT INTO boards SELECT 'JFK to RSW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'RSW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SYR';
INSERT INTO boards SELECT 'JFK to SYR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SYR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to PWM';
INSERT INTO boards SELECT 'JFK to PWM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'PWM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MCI';
INSERT INTO boards SELECT 'EWR to MCI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MCI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to JAX';
INSERT INTO boards SELECT 'JFK to JAX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'JAX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to IND';
INSERT INTO boards SELECT 'EWR to IND', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'IND' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to PIT';
INSERT INTO boards SELECT 'JFK to PIT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'PIT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to IAD';
INSERT INTO boards SELECT 'EWR to IAD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'IAD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to JAX';
INSERT INTO boards SELECT 'EWR to JAX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'JAX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to BWI';
INSERT INTO boards SELECT 'JFK to BWI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'BWI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SAN';
INSERT INTO boards SELECT 'EWR to SAN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SAN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MSY';
INSERT INTO boards SELECT 'EWR to MSY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MSY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to DTW';
INSERT INTO boards SELECT 'JFK to DTW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'DTW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MKE';
INSERT INTO boards SELECT 'EWR to MKE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MKE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SJU';
INSERT INTO boards SELECT 'EWR to SJU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SJU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to MSP';
INSERT INTO boards SELECT 'JFK to MSP', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'MSP' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to DAY';
INSERT INTO boards SELECT 'EWR to DAY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'DAY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to GSO';
INSERT INTO boards SELECT 'EWR to GSO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'GSO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to PIT';
INSERT INTO boards SELECT 'LGA to PIT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'PIT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MSY';
INSERT INTO boards SELECT 'LGA to MSY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MSY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to AUS';
INSERT INTO boards SELECT 'EWR to AUS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'AUS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to HOU';
INSERT INTO boards SELECT 'EWR to HOU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'HOU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to CVG';
INSERT INTO boards SELECT 'JFK to CVG', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'CVG' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to CHS';
INSERT INTO boards SELECT 'JFK to CHS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'CHS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to BUF';
INSERT INTO boards SELECT 'EWR to BUF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'BUF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to PHL';
INSERT INTO boards SELECT 'JFK to PHL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'PHL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to BTV';
INSERT INTO boards SELECT 'EWR to BTV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'BTV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SDF';
INSERT INTO boards SELECT 'EWR to SDF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SDF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MEM';
INSERT INTO boards SELECT 'EWR to MEM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MEM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to CAK';
INSERT INTO boards SELECT 'LGA to CAK', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'CAK' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MEM';
INSERT INTO boards SELECT 'LGA to MEM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MEM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MHT';
INSERT INTO boards SELECT 'EWR to MHT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MHT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SNA';
INSERT INTO boards SELECT 'EWR to SNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to PDX';
INSERT INTO boards SELECT 'JFK to PDX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'PDX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to RSW';
INSERT INTO boards SELECT 'LGA to RSW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'RSW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to PWM';
INSERT INTO boards SELECT 'EWR to PWM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'PWM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to SRQ';
INSERT INTO boards SELECT 'LGA to SRQ', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'SRQ' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to OMA';
INSERT INTO boards SELECT 'EWR to OMA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'OMA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to XNA';
INSERT INTO boards SELECT 'LGA to XNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'XNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to HOU';
INSERT INTO boards SELECT 'JFK to HOU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'HOU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to DFW';
INSERT INTO boards SELECT 'JFK to DFW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'DFW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to CMH';
INSERT INTO boards SELECT 'JFK to CMH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'CMH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to DEN';
INSERT INTO boards SELECT 'JFK to DEN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'DEN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to ORF';
INSERT INTO boards SELECT 'JFK to ORF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'ORF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to GSP';
INSERT INTO boards SELECT 'EWR to GSP', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'GSP' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to BNA';
INSERT INTO boards SELECT 'JFK to BNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'BNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to GRR';
INSERT INTO boards SELECT 'EWR to GRR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'GRR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to CMH';
INSERT INTO boards SELECT 'EWR to CMH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'CMH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SAV';
INSERT INTO boards SELECT 'EWR to SAV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SAV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to CLE';
INSERT INTO boards SELECT 'JFK to CLE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'CLE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to IND';
INSERT INTO boards SELECT 'JFK to IND', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'IND' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to LGB';
INSERT INTO boards SELECT 'JFK to LGB', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'LGB' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to PHL';
INSERT INTO boards SELECT 'LGA to PHL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'PHL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to BQN';
INSERT INTO boards SELECT 'JFK to BQN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'BQN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to PDX';
INSERT INTO boards SELECT 'EWR to PDX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'PDX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to ORF';
INSERT INTO boards SELECT 'EWR to ORF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'ORF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to PIT';
INSERT INTO boards SELECT 'EWR to PIT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'PIT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to BWI';
INSERT INTO boards SELECT 'EWR to BWI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'BWI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to RIC';
INSERT INTO boards SELECT 'LGA to RIC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'RIC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to ROC';
INSERT INTO boards SELECT 'EWR to ROC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'ROC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to CHS';
INSERT INTO boards SELECT 'LGA to CHS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'CHS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SRQ';
INSERT INTO boards SELECT 'JFK to SRQ', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SRQ' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to GSO';
INSERT INTO boards SELECT 'LGA to GSO', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'GSO' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to HOU';
INSERT INTO boards SELECT 'LGA to HOU', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'HOU' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to ALB';
INSERT INTO boards SELECT 'EWR to ALB', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'ALB' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to BDL';
INSERT INTO boards SELECT 'EWR to BDL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'BDL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to DSM';
INSERT INTO boards SELECT 'EWR to DSM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'DSM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to BUR';
INSERT INTO boards SELECT 'JFK to BUR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'BUR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to HNL';
INSERT INTO boards SELECT 'EWR to HNL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'HNL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to PSE';
INSERT INTO boards SELECT 'JFK to PSE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'PSE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to BGR';
INSERT INTO boards SELECT 'LGA to BGR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'BGR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to PVD';
INSERT INTO boards SELECT 'EWR to PVD', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'PVD' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MCI';
INSERT INTO boards SELECT 'LGA to MCI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MCI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SAT';
INSERT INTO boards SELECT 'JFK to SAT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SAT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SLC';
INSERT INTO boards SELECT 'EWR to SLC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SLC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to MSN';
INSERT INTO boards SELECT 'EWR to MSN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'MSN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to DAY';
INSERT INTO boards SELECT 'LGA to DAY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'DAY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to HNL';
INSERT INTO boards SELECT 'JFK to HNL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'HNL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to STT';
INSERT INTO boards SELECT 'JFK to STT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'STT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SJC';
INSERT INTO boards SELECT 'JFK to SJC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SJC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to OKC';
INSERT INTO boards SELECT 'EWR to OKC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'OKC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SAT';
INSERT INTO boards SELECT 'EWR to SAT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SAT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to TYS';
INSERT INTO boards SELECT 'EWR to TYS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'TYS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to OAK';
INSERT INTO boards SELECT 'JFK to OAK', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'OAK' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to TUL';
INSERT INTO boards SELECT 'EWR to TUL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'TUL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to BQN';
INSERT INTO boards SELECT 'EWR to BQN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'BQN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to XNA';
INSERT INTO boards SELECT 'EWR to XNA', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'XNA' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to SMF';
INSERT INTO boards SELECT 'JFK to SMF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'SMF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to BTV';
INSERT INTO boards SELECT 'LGA to BTV', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'BTV' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to PWM';
INSERT INTO boards SELECT 'LGA to PWM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'PWM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to IAH';
INSERT INTO boards SELECT 'JFK to IAH', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'IAH' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to BHM';
INSERT INTO boards SELECT 'LGA to BHM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'BHM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to SYR';
INSERT INTO boards SELECT 'LGA to SYR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'SYR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to ACK';
INSERT INTO boards SELECT 'JFK to ACK', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'ACK' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to TYS';
INSERT INTO boards SELECT 'LGA to TYS', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'TYS' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to CVG';
INSERT INTO boards SELECT 'LGA to CVG', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'CVG' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to MCI';
INSERT INTO boards SELECT 'JFK to MCI', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'MCI' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to ABQ';
INSERT INTO boards SELECT 'JFK to ABQ', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'ABQ' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to AVL';
INSERT INTO boards SELECT 'EWR to AVL', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'AVL' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to RIC';
INSERT INTO boards SELECT 'JFK to RIC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'RIC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to ROC';
INSERT INTO boards SELECT 'LGA to ROC', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'ROC' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to MVY';
INSERT INTO boards SELECT 'JFK to MVY', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'MVY' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MSN';
INSERT INTO boards SELECT 'LGA to MSN', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MSN' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to SDF';
INSERT INTO boards SELECT 'LGA to SDF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'SDF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to ORF';
INSERT INTO boards SELECT 'LGA to ORF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'ORF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to STT';
INSERT INTO boards SELECT 'EWR to STT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'STT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to JAX';
INSERT INTO boards SELECT 'LGA to JAX', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'JAX' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to MKE';
INSERT INTO boards SELECT 'JFK to MKE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'MKE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to SYR';
INSERT INTO boards SELECT 'EWR to SYR', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'SYR' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to CRW';
INSERT INTO boards SELECT 'LGA to CRW', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'CRW' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to DSM';
INSERT INTO boards SELECT 'LGA to DSM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'DSM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to BUF';
INSERT INTO boards SELECT 'LGA to BUF', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'BUF' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to ILM';
INSERT INTO boards SELECT 'LGA to ILM', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'ILM' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'LGA to MHT';
INSERT INTO boards SELECT 'LGA to MHT', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'LGA' AND dest = 'MHT' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'EWR to EGE';
INSERT INTO boards SELECT 'EWR to EGE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'EWR' AND dest = 'EGE' GROUP BY window_start, window_end;

SET 'pipeline.name' = 'JFK to EGE';
INSERT INTO boards SELECT 'JFK to EGE', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE origin = 'JFK' AND dest = 'EGE' GROUP BY window_start, window_end;
