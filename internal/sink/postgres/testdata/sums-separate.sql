-- An inserted row is marked, so nothing is added to it twice.
--   {"id":1,"v":1}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, key bytea, state bytea, found xid,
  c0 text,
  c1 numeric
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
WITH t AS (INSERT INTO "public"."t" ("id", "v")
SELECT s.c0, s.c1::bigint
FROM pg_temp.weir_stage_0 s
WHERE NOT EXISTS (SELECT FROM "public"."t" t WHERE t."id" = s.c0)
ORDER BY s.n
ON CONFLICT ("id") DO NOTHING
RETURNING "id")
UPDATE pg_temp.weir_stage_0 s SET op = 'i' FROM t WHERE t."id" = s.c0;
WITH t AS (INSERT INTO "public"."t" ("id", "v")
SELECT s.c0, s.c1::bigint
FROM pg_temp.weir_stage_0 s
WHERE NOT EXISTS (SELECT FROM "public"."t" t WHERE t."id" = s.c0)
ORDER BY s.n
RETURNING "id")
UPDATE pg_temp.weir_stage_0 s SET op = 'i' FROM t WHERE t."id" = s.c0;
WITH weir_touched AS MATERIALIZED (
  SELECT s.n, s.c0
  FROM pg_temp.weir_stage_0 s LEFT JOIN "public"."t" t ON t."id" = s.c0
  WHERE (s.op IS DISTINCT FROM 'i' AND (t.ctid IS NULL OR s.c1 IS DISTINCT FROM NULL AND (coalesce(t."v", 0) + s.c1)::bigint IS DISTINCT FROM t."v")))
SELECT set_config('weir.touched', x.n::text, true), set_config('weir.gone', (x.n < y.n)::text, true)
FROM (SELECT count(*) n FROM (SELECT * FROM weir_touched ORDER BY n) s, LATERAL (SELECT FROM "public"."t" t WHERE t."id" = s.c0 FOR NO KEY UPDATE OF t) l) x,
  (SELECT count(*) n FROM weir_touched) y;
SELECT 1 / (current_setting('weir.gone') = 'false')::integer;
UPDATE "public"."t" t
  SET "v" = coalesce((coalesce(t."v", 0) + s.c1)::bigint, t."v")
FROM pg_temp.weir_stage_0 s
WHERE current_setting('weir.touched') <> '0' AND t."id" = s.c0 AND s.op IS DISTINCT FROM 'i' AND s.c1 IS DISTINCT FROM NULL AND (coalesce(t."v", 0) + s.c1)::bigint IS DISTINCT FROM t."v";
