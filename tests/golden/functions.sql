-- Scalar functions on values, empty values and NULL. An empty CSV field is NULL but for a STRING, where it
-- is the empty string; in Flink with ignore-parse-errors alone.

CREATE TABLE people (
  id INT, name STRING, email STRING, born TIMESTAMP(3), height_cm DOUBLE, balance DECIMAL(10, 2), note STRING
) WITH ('connector' = 'filesystem', 'path' = 'data/people.csv', 'format' = 'csv', 'csv.header' = 'true',
        'csv.ignore-parse-errors' = 'true');
CREATE TABLE people_out (id INT, name STRING, shout STRING, host STRING, born_year BIGINT, born_month STRING, height_class STRING, metres DOUBLE, cents BIGINT, half INT, remainder INT, note_length INT)
WITH ('connector' = 'filesystem', 'path' = 'out/people_out.csv', 'format' = 'csv');

INSERT INTO people_out
SELECT id,
       TRIM(name),
       UPPER(SUBSTRING(TRIM(name), 1, 3)),
       SPLIT_INDEX(email, '@', 1),
       EXTRACT(YEAR FROM born),
       DATE_FORMAT(born, 'yyyy-MM') || '/' || CAST(id AS STRING),
       CASE WHEN height_cm > 170 THEN 'tall' WHEN height_cm IS NULL THEN 'unknown' ELSE 'not tall' END,
       ROUND(COALESCE(height_cm, 0) / 100, 2),
       CAST(balance * 100 AS BIGINT),
       id / 2,
       MOD(id, 2),
       CHAR_LENGTH(note)
FROM people;
