-- All rows seem to be new, so they are copied into the table.
--   {"id":1,"n":1,"top":5}
COPY "public"."t" ("id", "n", "top") FROM STDIN;

-- The server adds, and compares.
--   {"id":1,"n":1}
--   {"id":1,"n":2,"top":7}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 bigint,
  c1 numeric,
  c2 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND (s.c1 IS DISTINCT FROM NULL AND pg_catalog.numeric_send(trim_scale(coalesce(t."n", 0) + s.c1)) IS DISTINCT FROM pg_catalog.numeric_send(t."n")
    OR s.c2 IS DISTINCT FROM NULL AND GREATEST(t."top", s.c2) IS DISTINCT FROM t."top")
  THEN UPDATE SET
    "n" = coalesce(trim_scale(coalesce(t."n", 0) + s.c1), t."n"),
    "top" = GREATEST(t."top", s.c2)
WHEN NOT MATCHED
  THEN INSERT ("id", "n", "top")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);

-- A sum begins again from null.
--   {"id":1,"n":null}
--   {"id":1,"n":2}
--   {"id":2,"n":1}
COPY pg_temp.weir_stage_0 (n, marks, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND pg_catalog.numeric_send(CASE WHEN s.c1 IS NOT DISTINCT FROM NULL AND get_bit(s.marks, 0) IS DISTINCT FROM 1 THEN t."n" ELSE trim_scale(coalesce(CASE WHEN get_bit(s.marks, 0) IS DISTINCT FROM 1 THEN t."n" END, 0) + s.c1) END) IS DISTINCT FROM pg_catalog.numeric_send(t."n")
  THEN UPDATE SET
    "n" = CASE WHEN s.c1 IS NOT DISTINCT FROM NULL AND get_bit(s.marks, 0) IS DISTINCT FROM 1 THEN t."n" ELSE trim_scale(coalesce(CASE WHEN get_bit(s.marks, 0) IS DISTINCT FROM 1 THEN t."n" END, 0) + s.c1) END
WHEN NOT MATCHED
  THEN INSERT ("id", "n")
    VALUES (s.c0, s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);

-- One row is replaced, and one deleted.
--   {"id":1,"op":"delete"}
--   {"id":1,"n":2,"top":1}
--   {"id":2,"op":"delete"}
COPY pg_temp.weir_stage_0 (n, op, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED AND s.op = 'r' AND (pg_catalog.numeric_send(s.c1) IS DISTINCT FROM pg_catalog.numeric_send(t."n")
    OR s.c2 IS DISTINCT FROM t."top")
  THEN UPDATE SET
    "n" = s.c1,
    "top" = s.c2
WHEN MATCHED AND s.op IS NULL AND (s.c1 IS DISTINCT FROM NULL AND pg_catalog.numeric_send(trim_scale(coalesce(t."n", 0) + s.c1)) IS DISTINCT FROM pg_catalog.numeric_send(t."n")
    OR s.c2 IS DISTINCT FROM NULL AND GREATEST(t."top", s.c2) IS DISTINCT FROM t."top")
  THEN UPDATE SET
    "n" = coalesce(trim_scale(coalesce(t."n", 0) + s.c1), t."n"),
    "top" = GREATEST(t."top", s.c2)
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd'
  THEN INSERT ("id", "n", "top")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
