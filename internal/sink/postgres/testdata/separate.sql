-- The table has policies and triggers.
--   {"id":1,"a":"x"}
--   {"id":2,"op":"delete"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, key bytea, state bytea, found xid,
  c0 text,
  c1 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, op, c0, c1) FROM STDIN;
WITH t AS (INSERT INTO "public"."t" ("id", "a")
SELECT s.c0, s.c1
FROM pg_temp.weir_stage_0 s
WHERE s.op IS DISTINCT FROM 'd' AND NOT EXISTS (SELECT FROM "public"."t" t WHERE t."id" = s.c0)
ORDER BY s.n
ON CONFLICT ("id") DO NOTHING
RETURNING "id")
UPDATE pg_temp.weir_stage_0 s SET op = 'i' FROM t WHERE t."id" = s.c0;
INSERT INTO "public"."t" ("id", "a")
SELECT s.c0, s.c1
FROM pg_temp.weir_stage_0 s
WHERE s.op IS DISTINCT FROM 'd' AND NOT EXISTS (SELECT FROM "public"."t" t WHERE t."id" = s.c0)
ORDER BY s.n;
WITH weir_touched AS MATERIALIZED (
  SELECT s.n, s.c0
  FROM pg_temp.weir_stage_0 s LEFT JOIN "public"."t" t ON t."id" = s.c0
  WHERE (s.op IS DISTINCT FROM 'd' AND s.op IS DISTINCT FROM 'i' AND (t.ctid IS NULL OR s.c1 IS DISTINCT FROM NULL AND s.c1 IS DISTINCT FROM t."a") OR s.op = 'd' AND (t.ctid IS NULL) IS FALSE))
SELECT set_config('weir.touched', x.n::text, true), set_config('weir.gone', (x.n < y.n)::text, true)
FROM (SELECT count(*) n FROM (SELECT * FROM weir_touched ORDER BY n) s, LATERAL (SELECT FROM "public"."t" t WHERE t."id" = s.c0 FOR UPDATE OF t) l) x,
  (SELECT count(*) n FROM weir_touched) y;
SELECT 1 / (current_setting('weir.gone') = 'false')::integer;
UPDATE "public"."t" t
  SET "a" = coalesce(s.c1, t."a")
FROM pg_temp.weir_stage_0 s
WHERE current_setting('weir.touched') <> '0' AND t."id" = s.c0 AND s.op IS DISTINCT FROM 'd' AND s.op IS DISTINCT FROM 'i' AND s.c1 IS DISTINCT FROM NULL AND s.c1 IS DISTINCT FROM t."a";
DELETE FROM "public"."t" t
USING pg_temp.weir_stage_0 s
WHERE t."id" = s.c0 AND s.op = 'd';

-- Only a delete.
--   {"id":1,"op":"delete"}
COPY pg_temp.weir_stage_0 (n, op, c0) FROM STDIN;
INSERT INTO "public"."t" ("id")
SELECT s.c0
FROM pg_temp.weir_stage_0 s
WHERE s.op IS DISTINCT FROM 'd' AND NOT EXISTS (SELECT FROM "public"."t" t WHERE t."id" = s.c0)
ORDER BY s.n
ON CONFLICT ("id") DO NOTHING;
INSERT INTO "public"."t" ("id")
SELECT s.c0
FROM pg_temp.weir_stage_0 s
WHERE s.op IS DISTINCT FROM 'd' AND NOT EXISTS (SELECT FROM "public"."t" t WHERE t."id" = s.c0)
ORDER BY s.n;
WITH weir_touched AS MATERIALIZED (
  SELECT s.n, s.c0
  FROM pg_temp.weir_stage_0 s LEFT JOIN "public"."t" t ON t."id" = s.c0
  WHERE (s.op = 'd' AND (t.ctid IS NULL) IS FALSE))
SELECT set_config('weir.touched', x.n::text, true), set_config('weir.gone', (x.n < y.n)::text, true)
FROM (SELECT count(*) n FROM (SELECT * FROM weir_touched ORDER BY n) s, LATERAL (SELECT FROM "public"."t" t WHERE t."id" = s.c0 FOR UPDATE OF t) l) x,
  (SELECT count(*) n FROM weir_touched) y;
SELECT 1 / (current_setting('weir.gone') = 'false')::integer;
DELETE FROM "public"."t" t
USING pg_temp.weir_stage_0 s
WHERE t."id" = s.c0 AND s.op = 'd';
