-- Items name their order by a key that the database generates.
--   {"id":1,"items":[{"sku":"x"}]}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c1 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."orders"'::regclass::oid) r (id);
MERGE INTO "public"."orders" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c1
WHEN NOT MATCHED
  THEN INSERT ("id")
    VALUES (s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."orders"'::regclass::oid) r (id);
COPY pg_temp.weir_stage_1 (n, op, c1, c2, h1) FROM STDIN;
UPDATE pg_temp.weir_stage_1 s SET c0 = (SELECT "oid" FROM "public"."orders" weir_1 WHERE "id" = s.h1);
DELETE FROM pg_temp.weir_stage_1 WHERE c0 IS NULL AND op IS DISTINCT FROM 's';
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."items"'::regclass::oid) r (id);
MERGE INTO "public"."items" t
USING (SELECT * FROM pg_temp.weir_stage_1 ORDER BY n) s ON t."oid" = s.c0 AND t."sku" = s.c1
WHEN MATCHED AND s.op IS NULL AND s.c2 IS DISTINCT FROM t."qty"
  THEN UPDATE SET
    "qty" = s.c2
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 's'
  THEN INSERT ("sku", "qty", "oid")
    VALUES (s.c1, s.c2, s.c0);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."items"'::regclass::oid) r (id);
DROP TABLE IF EXISTS pg_temp.weir_stage_2;
CREATE TEMP TABLE weir_stage_2 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 bigint,
  c1 text,
  c2 text,
  h1 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_2 (n, op, c1, c2, h1) FROM STDIN;
UPDATE pg_temp.weir_stage_2 s SET c0 = (SELECT "oid" FROM "public"."orders" weir_1 WHERE "id" = s.h1);
DELETE FROM pg_temp.weir_stage_2 WHERE c0 IS NULL AND op IS DISTINCT FROM 's';
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."taxes"'::regclass::oid) r (id);
MERGE INTO "public"."taxes" t
USING (SELECT * FROM pg_temp.weir_stage_2 ORDER BY n) s ON t."oid" = s.c0 AND t."sku" = s.c1 AND t."code" = s.c2
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 's'
  THEN INSERT ("sku", "code", "oid")
    VALUES (s.c1, s.c2, s.c0);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."taxes"'::regclass::oid) r (id);
DELETE FROM "public"."taxes" t
USING (
  SELECT t."oid" AS c0, t."sku" AS c1, t."code" AS c2
  FROM pg_temp.weir_stage_2 s JOIN "public"."taxes" t ON t."oid" = s.c0
  WHERE s.op = 's'
  EXCEPT SELECT s.c0, s.c1, s.c2 FROM pg_temp.weir_stage_2 s WHERE s.op IS DISTINCT FROM 's'
  ORDER BY 1, 2, 3) g
WHERE t."oid" = g.c0 AND t."sku" = g.c1 AND t."code" = g.c2;
DELETE FROM "public"."items" t
USING (
  SELECT t."oid" AS c0, t."sku" AS c1
  FROM pg_temp.weir_stage_1 s JOIN "public"."items" t ON t."oid" = s.c0
  WHERE s.op = 's'
  EXCEPT SELECT s.c0, s.c1 FROM pg_temp.weir_stage_1 s WHERE s.op IS DISTINCT FROM 's'
  ORDER BY 1, 2) g
WHERE t."oid" = g.c0 AND t."sku" = g.c1;
