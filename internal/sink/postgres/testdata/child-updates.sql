-- Items are updates, and one takes its taxes along.
--   {"id":1,"items":[{"sku":"x","gone":true},{"sku":"y","qty":2}]}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."orders"'::regclass::oid) r (id);
MERGE INTO "public"."orders" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN NOT MATCHED
  THEN INSERT ("id")
    VALUES (s.c0);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."orders"'::regclass::oid) r (id);
DROP TABLE IF EXISTS pg_temp.weir_stage_1;
CREATE TEMP TABLE weir_stage_1 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 bigint,
  c1 text,
  c2 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_1 (n, op, c0, c1, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."items"'::regclass::oid) r (id);
MERGE INTO "public"."items" t
USING (SELECT * FROM pg_temp.weir_stage_1 ORDER BY n) s ON t."order_id" = s.c0 AND t."sku" = s.c1
WHEN MATCHED AND s.op IS NULL AND s.c2 IS DISTINCT FROM t."qty"
  THEN UPDATE SET
    "qty" = s.c2
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd'
  THEN INSERT ("order_id", "sku", "qty")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."items"'::regclass::oid) r (id);
DELETE FROM "public"."taxes" t
USING (
  SELECT DISTINCT t."order_id" AS c0, t."sku" AS c1, t."code" AS c2
  FROM pg_temp.weir_stage_1 s JOIN "public"."taxes" t ON t."order_id" = s.c0 AND t."sku" = s.c1
  WHERE s.op IN ('d', 'r')
  ORDER BY 1, 2, 3) g
WHERE t."order_id" = g.c0 AND t."sku" = g.c1 AND t."code" = g.c2;
DELETE FROM "public"."items" t
USING pg_temp.weir_stage_1 s
WHERE t."order_id" = s.c0 AND t."sku" = s.c1 AND s.op = 'd';
