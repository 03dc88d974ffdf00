-- JSON lines in and out: nested rows, arrays, NULL, missing fields, characters beyond ASCII.

CREATE TABLE edits (
  edited_at TIMESTAMP(3), channel STRING, `user` ROW<name STRING, bot BOOLEAN>, tags ARRAY<STRING>, added INT, page STRING
) WITH ('connector' = 'filesystem', 'path' = 'data/edits.jsonl', 'format' = 'json');

CREATE TABLE edits_out (
  edited_at TIMESTAMP(3), channel STRING, name STRING, `user` ROW<name STRING, bot BOOLEAN>, tags ARRAY<STRING>, added INT, page STRING
) WITH ('connector' = 'filesystem', 'path' = 'out/edits.jsonl', 'format' = 'json');

INSERT INTO edits_out
SELECT edited_at, channel, `user`.name, `user`, tags, added, page FROM edits;
