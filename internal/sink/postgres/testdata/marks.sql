-- Null is a value; a has a default.
--   {"id":1,"a":null}
--   {"id":2,"b":"x"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 text,
  c1 text,
  c2 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, marks, fill, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND (CASE WHEN s.c1 IS NOT DISTINCT FROM NULL AND get_bit(s.marks, 0) IS DISTINCT FROM 1 THEN t."a" ELSE s.c1 END IS DISTINCT FROM t."a"
    OR s.c2 IS DISTINCT FROM NULL AND s.c2 IS DISTINCT FROM t."b")
  THEN UPDATE SET
    "a" = CASE WHEN s.c1 IS NOT DISTINCT FROM NULL AND get_bit(s.marks, 0) IS DISTINCT FROM 1 THEN t."a" ELSE s.c1 END,
    "b" = coalesce(s.c2, t."b")
WHEN NOT MATCHED AND s.fill = 0
  THEN INSERT ("id", "a", "b")
    VALUES (s.c0, s.c1, s.c2)
WHEN NOT MATCHED AND s.fill = 1
  THEN INSERT ("id", "b")
    VALUES (s.c0, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);

-- A row is replaced, and one deleted.
--   {"id":1,"op":"delete"}
--   {"id":1,"b":"y"}
--   {"id":2,"op":"delete"}
COPY pg_temp.weir_stage_0 (n, op, c0, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED AND s.op = 'r'
  THEN UPDATE SET
    "a" = DEFAULT,
    "b" = s.c2
WHEN MATCHED AND s.op IS NULL AND s.c2 IS DISTINCT FROM t."b"
  THEN UPDATE SET
    "b" = s.c2
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd'
  THEN INSERT ("id", "b")
    VALUES (s.c0, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
