-- A flush from its fence to its commit, the first of its source.
--   {"id":1,"a":"x"}
--   bad
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL synchronous_commit = on;
SET LOCAL client_min_messages = error;
SET LOCAL extra_float_digits = 1;
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET application_name = 'weir/feed.jsonl > t';
SET LOCAL idle_in_transaction_session_timeout = 60000;
SET LOCAL work_mem = '64MB';
SET LOCAL array_nulls = on;
SELECT pg_advisory_xact_lock_shared(364501995817226117);
INSERT INTO public.weir_checkpoints (job, source, seq, run, line, "offset", mark, rejected, settings, tableid, updated)
VALUES ('feed.jsonl > t', 'feed.jsonl', 0, 'run', 0, 0, '', 0, '', '', now())
ON CONFLICT DO NOTHING;
SELECT 1 / ((SELECT count(*) FROM (
  SELECT FROM public.weir_checkpoints c JOIN (VALUES ('feed.jsonl', 0)) v (source, seq) ON c.source = v.source AND c.seq = v.seq
  WHERE c.job = 'feed.jsonl > t'
  ORDER BY c.source FOR NO KEY UPDATE OF c) x) = 1)::integer;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_material = off;
INSERT INTO public.weir_jobs (job, tbl) VALUES ('feed.jsonl > t', 't') ON CONFLICT DO NOTHING;
SELECT pg_advisory_xact_lock_shared(-3747978541595251328);
SELECT 1 / ((SELECT concat_ws('; ',
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN atthasdef OR typdefaultbin IS NOT NULL THEN 'DEFAULT' END, nullif(attidentity, ''), nullif(attgenerated, ''),
        (SELECT string_agg(enumlabel, '|' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid IN (y.oid, typbasetype))), ', ' ORDER BY attnum)
      FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg('UNIQUE ' || indkey::text, ', ' ORDER BY indkey::text) FROM pg_index
      WHERE indrelid = c.oid AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL),
    CASE WHEN relchecks > 0 THEN 'CHECK' END, CASE WHEN relhasrules THEN 'RULE' END, CASE WHEN relhassubclass THEN 'INHERITED' END,
    CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN 'TRIGGER' END)
  FROM pg_class c WHERE c.oid = 1) = 'id text, a text'
    AND '"public"."t"'::regclass::oid = 1 AND NOT EXISTS (SELECT FROM "public"."t" WHERE false))::integer;
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 text,
  c1 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM t."a"
  THEN UPDATE SET
    "a" = s.c1
WHEN NOT MATCHED
  THEN INSERT ("id", "a")
    VALUES (s.c0, s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
COPY public.weir_rejects (job, source, line, "offset", element, reason, raw, bytes, time) FROM STDIN;
INSERT INTO public.weir_checkpoints (job, source, seq, run, line, "offset", mark, rejected, settings, tableid, updated)
VALUES ('feed.jsonl > t', 'feed.jsonl', 1, 'run', 2, 21, '', 0, '', '"t"
' || (SELECT c.oid || coalesce('/' || (SELECT value FROM public.weir_meta WHERE name = 'made ' || concat('"', replace(n.nspname, '"', '""'), '"."', replace(c.relname, '"', '""'), '"'))
    || '/' || (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attisdropped), '')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = '"public"."t"'::regclass), now())
ON CONFLICT (job, source) DO UPDATE SET seq = excluded.seq, run = excluded.run, line = excluded.line, "offset" = excluded."offset", mark = excluded.mark, rejected = excluded.rejected, settings = excluded.settings, tableid = excluded.tableid, updated = excluded.updated
RETURNING tableid;
COMMIT;

-- The second one.
--   {"id":1,"a":"y"}
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL synchronous_commit = on;
SET LOCAL client_min_messages = error;
SET LOCAL extra_float_digits = 1;
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET application_name = 'weir/feed.jsonl > t';
SET LOCAL idle_in_transaction_session_timeout = 60000;
SET LOCAL work_mem = '64MB';
SET LOCAL array_nulls = on;
SELECT pg_advisory_xact_lock_shared(364501995817226117);
SELECT 1 / ((SELECT count(*) FROM (
  SELECT FROM public.weir_checkpoints c JOIN (VALUES ('feed.jsonl', 1)) v (source, seq) ON c.source = v.source AND c.seq = v.seq
  WHERE c.job = 'feed.jsonl > t'
  ORDER BY c.source FOR NO KEY UPDATE OF c) x) = 1)::integer;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_material = off;
SELECT pg_advisory_xact_lock_shared(-3747978541595251328);
SELECT 1 / ((SELECT concat_ws('; ',
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN atthasdef OR typdefaultbin IS NOT NULL THEN 'DEFAULT' END, nullif(attidentity, ''), nullif(attgenerated, ''),
        (SELECT string_agg(enumlabel, '|' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid IN (y.oid, typbasetype))), ', ' ORDER BY attnum)
      FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg('UNIQUE ' || indkey::text, ', ' ORDER BY indkey::text) FROM pg_index
      WHERE indrelid = c.oid AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL),
    CASE WHEN relchecks > 0 THEN 'CHECK' END, CASE WHEN relhasrules THEN 'RULE' END, CASE WHEN relhassubclass THEN 'INHERITED' END,
    CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN 'TRIGGER' END)
  FROM pg_class c WHERE c.oid = 1) = 'id text, a text'
    AND '"public"."t"'::regclass::oid = 1 AND NOT EXISTS (SELECT FROM "public"."t" WHERE false))::integer;
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM t."a"
  THEN UPDATE SET
    "a" = s.c1
WHEN NOT MATCHED
  THEN INSERT ("id", "a")
    VALUES (s.c0, s.c1);
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
INSERT INTO public.weir_checkpoints (job, source, seq, run, line, "offset", mark, rejected, settings, tableid, updated)
VALUES ('feed.jsonl > t', 'feed.jsonl', 2, 'run', 3, 38, '', 0, '', '"t"
' || '1', now())
ON CONFLICT (job, source) DO UPDATE SET seq = excluded.seq, run = excluded.run, line = excluded.line, "offset" = excluded."offset", mark = excluded.mark, rejected = excluded.rejected, settings = excluded.settings, tableid = excluded.tableid, updated = excluded.updated
RETURNING tableid;
COMMIT;
