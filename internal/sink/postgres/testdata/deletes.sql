-- One table is written, so deletes are part of the MERGE.
--   {"id":1,"op":"delete"}
--   {"id":2,"a":"x"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 text,
  c1 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, op, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED AND s.op IS NULL AND s.c1 IS DISTINCT FROM t."a"
  THEN UPDATE SET
    "a" = s.c1
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd'
  THEN INSERT ("id", "a")
    VALUES (s.c0, s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
