-- All rows seem to be new, so they are copied into the table.
--   {"id":1,"a":"x","n":1}
COPY "public"."t" ("id", "a", "n") FROM STDIN;

-- Each row names some columns.
--   {"id":1,"a":"y"}
--   {"id":2,"n":2}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea, found xid,
  c0 bigint,
  c1 text,
  c2 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND (s.c1 IS DISTINCT FROM NULL AND s.c1 IS DISTINCT FROM t."a"
    OR s.c2 IS DISTINCT FROM NULL AND s.c2 IS DISTINCT FROM t."n")
  THEN UPDATE SET
    "a" = coalesce(s.c1, t."a"),
    "n" = coalesce(s.c2, t."n")
WHEN NOT MATCHED
  THEN INSERT ("id", "a", "n")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);

-- The staging table is used again.
--   {"id":1,"a":"z","n":3}
COPY pg_temp.weir_stage_0 (n, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND (s.c1 IS DISTINCT FROM NULL AND s.c1 IS DISTINCT FROM t."a"
    OR s.c2 IS DISTINCT FROM NULL AND s.c2 IS DISTINCT FROM t."n")
  THEN UPDATE SET
    "a" = coalesce(s.c1, t."a"),
    "n" = coalesce(s.c2, t."n")
WHEN NOT MATCHED
  THEN INSERT ("id", "a", "n")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
