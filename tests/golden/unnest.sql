-- Lists taken apart: a row for each tag, edits without tags kept or not, and how often words come in five seconds.

CREATE TABLE edits (
  edited_at TIMESTAMP(3), channel STRING, `user` ROW<name STRING, bot BOOLEAN>, tags ARRAY<STRING>, added INT, page STRING,
  WATERMARK FOR edited_at AS edited_at
) WITH ('connector' = 'filesystem', 'path' = 'data/edits.jsonl', 'format' = 'json');

CREATE TABLE tagged (page STRING, tag STRING)
WITH ('connector' = 'filesystem', 'path' = 'out/tagged.csv', 'format' = 'csv');
CREATE TABLE tagged_or_not (page STRING, tag STRING)
WITH ('connector' = 'filesystem', 'path' = 'out/tagged_or_not.csv', 'format' = 'csv');
CREATE TABLE words (window_end TIMESTAMP(3), word STRING, n BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/words.csv', 'format' = 'csv');

EXECUTE STATEMENT SET BEGIN
INSERT INTO tagged SELECT page, tag FROM edits CROSS JOIN UNNEST(tags) AS t (tag);
INSERT INTO tagged_or_not SELECT page, tag FROM edits LEFT JOIN UNNEST(edits.tags) AS t (tag) ON TRUE WHERE channel <> '#ca';
INSERT INTO words
SELECT window_end, word, COUNT(*)
FROM TABLE(TUMBLE((
  SELECT edited_at, LOWER(word) AS word FROM edits, UNNEST(SPLIT(channel || ' ' || page, ' ')) AS w (word)
), DESCRIPTOR(edited_at), INTERVAL '5' SECOND))
WHERE word <> 'norm'
GROUP BY window_start, window_end, word;
END;
