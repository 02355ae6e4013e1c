-- Only what is NULL is written.
--   {"id":1,"a":"x"}
--   {"id":2,"b":"x"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 text,
  c1 text,
  c2 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND (t."a" IS NOT DISTINCT FROM NULL AND s.c1 IS DISTINCT FROM NULL
    OR t."b" IS NOT DISTINCT FROM NULL AND s.c2 IS DISTINCT FROM NULL)
  THEN UPDATE SET
    "a" = coalesce(t."a", s.c1),
    "b" = coalesce(t."b", s.c2)
WHEN NOT MATCHED
  THEN INSERT ("id", "a", "b")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
