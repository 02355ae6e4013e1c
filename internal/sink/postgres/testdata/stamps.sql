-- A stamp moves with its row alone.
--   {"id":1,"a":"x"}
--   {"id":2,"op":"delete"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c2 bigint,
  c3 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, op, c2, c3) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c2
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED AND s.op IS NULL AND s.c3 IS DISTINCT FROM t."a"
  THEN UPDATE SET
    "a" = s.c3,
    "moved" = '2024-05-17 09:30:00.000+00'
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd'
  THEN INSERT ("id", "a", "made", "moved")
    VALUES (s.c2, s.c3, '2024-05-17 09:30:00.000+00', '2024-05-17 09:30:00.000+00');
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
