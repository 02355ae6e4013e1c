-- All rows seem to be new, so they are copied into the table.
--   {"id":1,"a":"x","n":1}
COPY "public"."t" ("id", "a", "n") FROM STDIN;

-- Each row names some columns.
--   {"id":1,"a":"y"}
--   {"id":2,"n":2}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 bigint,
  c1 text,
  c2 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
INSERT INTO "public"."t" AS t ("id", "a", "n")
SELECT s.c0, s.c1, s.c2
FROM pg_temp.weir_stage_0 s
ORDER BY s.n
ON CONFLICT ("id") DO UPDATE SET
    "a" = coalesce(excluded."a", t."a"),
    "n" = coalesce(excluded."n", t."n")
  WHERE (excluded."a" IS DISTINCT FROM NULL AND excluded."a" IS DISTINCT FROM t."a"
    OR excluded."n" IS DISTINCT FROM NULL AND excluded."n" IS DISTINCT FROM t."n");
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);

-- The staging table is used again.
--   {"id":1,"a":"z","n":3}
COPY pg_temp.weir_stage_0 (n, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
INSERT INTO "public"."t" AS t ("id", "a", "n")
SELECT s.c0, s.c1, s.c2
FROM pg_temp.weir_stage_0 s
ORDER BY s.n
ON CONFLICT ("id") DO UPDATE SET
    "a" = excluded."a",
    "n" = excluded."n"
  WHERE (excluded."a" IS DISTINCT FROM t."a"
    OR excluded."n" IS DISTINCT FROM t."n");
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
