-- The states of rows are read first, and written before them.
--   {"id":1,"v":2,"a":"x"}
--   {"id":2,"v":2,"op":"delete"}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea, found xid,
  c0 text,
  c1 bigint,
  c2 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, key, c0) FROM STDIN;
SELECT s.n, (SELECT t.xmin FROM "public"."t" t WHERE t."id" = s.c0), encode(v.state, 'hex'), v.xmin
FROM pg_temp.weir_stage_0 s,
  LATERAL (SELECT state, xmin FROM public.weir_versions WHERE tbl = '"public"."t"' AND key = s.key OFFSET 0) v;
SELECT value FROM public.weir_meta WHERE name = 'versions "public"."t"';

-- After the answer.
DELETE FROM pg_temp.weir_stage_0;
COPY pg_temp.weir_stage_0 (n, op, key, state, found, c0, c1, c2) FROM STDIN;
MERGE INTO public.weir_versions v
USING (SELECT n, op, key, state, found FROM pg_temp.weir_stage_0 ORDER BY n) s ON v.tbl = CASE WHEN s.state IS NOT NULL THEN '"public"."t"' END AND v.key = s.key
WHEN MATCHED
  THEN UPDATE SET
    state = CASE 1 / (v.xmin IS NOT DISTINCT FROM s.found)::integer WHEN 1 THEN s.state END,
    gone = CASE WHEN s.op = 'd' THEN now() END
WHEN NOT MATCHED AND s.state IS NOT NULL
  THEN INSERT (tbl, key, state, gone)
    VALUES ('"public"."t"', s.key, CASE 1 / (s.found IS NULL)::integer WHEN 1 THEN s.state END, CASE WHEN s.op = 'd' THEN now() END);
DELETE FROM public.weir_versions WHERE ctid = ANY (ARRAY(SELECT ctid FROM public.weir_versions WHERE tbl = '"public"."t"' AND gone < now() - interval '3600 seconds' FOR UPDATE SKIP LOCKED));
INSERT INTO public.weir_meta (name, value) VALUES ('versions "public"."t"', '["id","v","a"]') ON CONFLICT (name) DO UPDATE SET value = CASE 1 / (weir_meta.value IS NOT DISTINCT FROM NULL)::integer WHEN 1 THEN excluded.value END;
SELECT 1 / ((WITH weir_deleted AS MATERIALIZED (
  SELECT s.n, s.found, s.state IS NOT NULL AS sure, s.c0
  FROM pg_temp.weir_stage_0 s LEFT JOIN "public"."t" t ON t."id" = s.c0
  WHERE (t.ctid IS NULL) IS FALSE AND s.op = 'd')
SELECT x.n = y.n
FROM (SELECT count(*) n FROM (SELECT * FROM weir_deleted ORDER BY n) s, LATERAL (SELECT FROM "public"."t" t WHERE (s.sure OR t.xmin = s.found OR t.xmin = pg_current_xact_id()::xid) AND t."id" = s.c0 FOR UPDATE OF t) l) x,
  (SELECT count(*) n FROM weir_deleted) y))::integer;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.op IS NULL AND (s.c1 IS DISTINCT FROM t."v"
    OR s.c2 IS DISTINCT FROM t."a")
  THEN UPDATE SET
    "v" = CASE WHEN CASE WHEN (s.state IS NOT NULL OR t.xmin = s.found OR t.xmin = pg_current_xact_id()::xid) THEN true ELSE set_config('weir.raced', 'on', true) = 'on' END THEN s.c1 END,
    "a" = s.c2
WHEN NOT MATCHED AND s.op IS DISTINCT FROM 'd'
  THEN INSERT ("id", "v", "a")
    VALUES (CASE WHEN CASE WHEN s.state IS NOT NULL OR s.found IS NULL THEN true ELSE set_config('weir.raced', 'on', true) = 'on' END THEN s.c0 END, s.c1, s.c2);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
SELECT 1 / (coalesce(current_setting('weir.raced', true), '') = '')::integer;
DELETE FROM "public"."t" t
USING pg_temp.weir_stage_0 s
WHERE (s.state IS NOT NULL OR t.xmin = s.found OR t.xmin = pg_current_xact_id()::xid) AND t."id" = s.c0 AND s.op = 'd';
