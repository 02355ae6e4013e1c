-- The states of rows are read first, and written before them.
--   {"id":1,"v":2,"a":"x"}
--   {"id":2,"v":2,"op":"delete"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 text,
  c1 bigint,
  c2 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, key, c0) FROM STDIN;
SELECT s.n, encode(v.state, 'hex'), EXISTS (SELECT FROM "public"."t" t WHERE t."id" = s.c0)
FROM pg_temp.weir_stage_0 s,
  LATERAL (SELECT state FROM public.weir_versions WHERE tbl = '"public"."t"' AND key = s.key OFFSET 0) v;
SELECT value FROM public.weir_meta WHERE name = 'versions "public"."t"';

-- After the answer.
DELETE FROM pg_temp.weir_stage_0;
COPY pg_temp.weir_stage_0 (n, op, key, state, c0, c1, c2) FROM STDIN;
INSERT INTO public.weir_versions AS v (tbl, key, state, gone)
SELECT '"public"."t"', key, state, CASE WHEN op = 'd' THEN now() END
FROM pg_temp.weir_stage_0
WHERE state IS NOT NULL
ON CONFLICT (tbl, key) DO UPDATE SET state = excluded.state, gone = excluded.gone;
DELETE FROM public.weir_versions WHERE tbl = '"public"."t"' AND gone < now() - interval '3600 seconds';
INSERT INTO public.weir_meta (name, value) VALUES ('versions "public"."t"', '["id","v","a"]') ON CONFLICT (name) DO UPDATE SET value = excluded.value;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED AND s.op IS NULL AND (s.c1 IS DISTINCT FROM t."v"
    OR s.c2 IS DISTINCT FROM t."a")
  THEN UPDATE SET
    "v" = s.c1,
    "a" = s.c2
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd'
  THEN INSERT ("id", "v", "a")
    VALUES (s.c0, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
