-- A flush from its fence to its commit, the first of its source.
--   {"id":1,"a":"x"}
--   bad
BEGIN ISOLATION LEVEL READ COMMITTED;
SET application_name = 'weir/feed.jsonl > t';
SET LOCAL synchronous_commit = on;
SET LOCAL idle_in_transaction_session_timeout = 10000;
SET LOCAL work_mem = '64MB';
SET LOCAL jit = off;
SET LOCAL array_nulls = on;
SET LOCAL client_min_messages = warning;
SET LOCAL extra_float_digits = 1;
INSERT INTO public.weir_checkpoints (job, run, tableid, updated, source, seq, line, "offset", mark, rejected, settings)
SELECT 'feed.jsonl > t', 'run', '', now(), v.*
FROM (VALUES ('feed.jsonl', 1, 2, 21, '', 0, '')) v(source, seq, line, "offset", mark, rejected, settings);
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_material = off;
INSERT INTO public.weir_jobs (job, tbl) VALUES ('feed.jsonl > t', 't') ON CONFLICT DO NOTHING;
SELECT pg_advisory_xact_lock_shared(-3747978541595251328);
SELECT 1 / (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ',' ORDER BY attnum) IS NOT DISTINCT FROM 'id text,a text'
    AND '"public"."t"'::regclass::oid = 1 AND row_security_active('"public"."t"'::regclass) = false
  FROM pg_attribute
  WHERE attrelid = '"public"."t"'::regclass AND attnum > 0 AND NOT attisdropped AND NOT EXISTS (SELECT FROM "public"."t" WHERE false))::integer;
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, key bytea, state bytea, found xid,
  c0 text,
  c1 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
SELECT set_config('enable_seqscan', 'off', true)
FROM pg_class
WHERE oid IN (SELECT '"public"."t"'::regclass::oid) AND reltuples = 0
LIMIT 1;
MERGE INTO "public"."t" t
USING pg_temp.weir_stage_0 s ON t."id" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM NULL AND s.c1 IS DISTINCT FROM t."a"
  THEN UPDATE SET
    "a" = coalesce(s.c1, t."a")
WHEN NOT MATCHED
  THEN INSERT ("id", "a")
    VALUES (s.c0, s.c1);
SET LOCAL enable_seqscan = DEFAULT;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
COPY public.weir_rejects (job, source, line, "offset", reason, raw, bytes, time) FROM STDIN;
SET LOCAL enable_hashjoin = DEFAULT;
SET LOCAL enable_mergejoin = DEFAULT;
SET LOCAL enable_material = DEFAULT;
UPDATE public.weir_checkpoints c SET tableid = '' || (SELECT c.oid || coalesce('/' || (SELECT value FROM public.weir_meta WHERE name = 'made "public"."t"')
    || '/' || (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attisdropped), '') || ''
  FROM pg_class c WHERE c.oid = '"public"."t"'::regclass), line = v.line, "offset" = v."offset", mark = v.mark, rejected = v.rejected, settings = v.settings, updated = now()
FROM (VALUES ('feed.jsonl', 1, 2, 21, '', 0, '')) v(source, seq, line, "offset", mark, rejected, settings)
WHERE c.job = 'feed.jsonl > t' AND c.source = v.source
RETURNING c.tableid;
COMMIT;

-- The second one.
--   {"id":1,"a":"y"}
BEGIN ISOLATION LEVEL READ COMMITTED;
SET application_name = 'weir/feed.jsonl > t';
SET LOCAL synchronous_commit = on;
SET LOCAL idle_in_transaction_session_timeout = 10000;
SET LOCAL work_mem = '64MB';
SET LOCAL jit = off;
SET LOCAL array_nulls = on;
SET LOCAL client_min_messages = warning;
SET LOCAL extra_float_digits = 1;
WITH moved AS (
  UPDATE public.weir_checkpoints c SET seq = v.seq, run = 'run', tableid = '1', line = v.line, "offset" = v."offset", mark = v.mark, rejected = v.rejected, settings = v.settings, updated = now()
  FROM (VALUES ('feed.jsonl', 2, 3, 38, '', 0, '')) v(source, seq, line, "offset", mark, rejected, settings)
  WHERE c.job = 'feed.jsonl > t' AND c.source = v.source AND c.seq = v.seq - 1 RETURNING 1)
SELECT 1 / (count(*) = 1)::integer FROM moved;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_material = off;
SELECT pg_advisory_xact_lock_shared(-3747978541595251328);
SELECT 1 / (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ',' ORDER BY attnum) IS NOT DISTINCT FROM 'id text,a text'
    AND '"public"."t"'::regclass::oid = 1 AND row_security_active('"public"."t"'::regclass) = false
  FROM pg_attribute
  WHERE attrelid = '"public"."t"'::regclass AND attnum > 0 AND NOT attisdropped AND NOT EXISTS (SELECT FROM "public"."t" WHERE false))::integer;
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
SELECT set_config('enable_seqscan', 'off', true)
FROM pg_class
WHERE oid IN (SELECT '"public"."t"'::regclass::oid) AND reltuples = 0
LIMIT 1;
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM NULL AND s.c1 IS DISTINCT FROM t."a"
  THEN UPDATE SET
    "a" = coalesce(s.c1, t."a")
WHEN NOT MATCHED
  THEN INSERT ("id", "a")
    VALUES (s.c0, s.c1);
SET LOCAL enable_seqscan = DEFAULT;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
COMMIT;
