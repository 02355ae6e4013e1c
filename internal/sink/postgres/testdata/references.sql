-- An order names its customer by a key that the database generates.
--   {"order":1,"customer":8}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c1 bigint
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."customers_t"'::regclass::oid) r (id);
MERGE INTO "public"."customers_t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."nr" = s.c1
WHEN NOT MATCHED
  THEN INSERT ("nr")
    VALUES (s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."customers_t"'::regclass::oid) r (id);
COPY pg_temp.weir_stage_1 (n, c0, h2) FROM STDIN;
UPDATE pg_temp.weir_stage_1 s SET c1 = (SELECT "cid" FROM "public"."customers_t" weir_1 WHERE "nr" = s.h2)
WHERE s.h2 IS DISTINCT FROM NULL;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."orders_t"'::regclass::oid) r (id);
MERGE INTO "public"."orders_t" t
USING (SELECT * FROM pg_temp.weir_stage_1 ORDER BY n) s ON t."nr" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM t."customer_id"
  THEN UPDATE SET
    "customer_id" = s.c1
WHEN NOT MATCHED
  THEN INSERT ("nr", "customer_id")
    VALUES (s.c0, s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."orders_t"'::regclass::oid) r (id);
