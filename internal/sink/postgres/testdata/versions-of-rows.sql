-- The versions of rows are read first.
--   {"id":1,"v":2,"a":"x"}
--   {"id":2,"v":2,"op":"delete"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 text,
  c1 bigint,
  c2 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, key, c0) FROM STDIN;
SELECT s.n, r.version
FROM pg_temp.weir_stage_0 s,
  LATERAL (SELECT (t."v")::text AS version FROM "public"."t" t WHERE t."id" = s.c0 OFFSET 0) r;

-- After the answer.
DELETE FROM pg_temp.weir_stage_0;
COPY pg_temp.weir_stage_0 (n, key, state, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND (s.c1 IS DISTINCT FROM t."v"
    OR s.c2 IS DISTINCT FROM t."a")
  THEN UPDATE SET
    "v" = s.c1,
    "a" = s.c2
WHEN NOT MATCHED
  THEN INSERT ("id", "v", "a")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
