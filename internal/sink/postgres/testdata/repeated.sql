-- The table's rows are read first; none of them is the batch's.
SET LOCAL enable_bitmapscan = off;
SELECT t."id", t."a"
FROM (VALUES ('10000'::text, '14999'::text)) r (first, last),
  LATERAL (SELECT t.* FROM "public"."t" t WHERE t."id" BETWEEN r.first AND r.last ORDER BY t."id" LIMIT 7500) t;
SET LOCAL enable_bitmapscan = DEFAULT;

-- After the answer.
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 text,
  c1 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM t."a"
  THEN UPDATE SET
    "a" = s.c1
WHEN NOT MATCHED
  THEN INSERT ("id", "a")
    VALUES (s.c0, s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
