-- The wait for the table lock is short, the wait for row locks unlimited.
--   {"id":1,"b":"x"}
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
SET LOCAL lock_timeout = '2s';
LOCK TABLE "public"."t" IN ACCESS EXCLUSIVE MODE;
SELECT 1 / ((SELECT max(value) FROM public.weir_meta WHERE name = 'columns "public"."t"') IS NOT DISTINCT FROM '{"a":"text","id":"small integer"}')::integer;
SELECT 1 / ((SELECT concat_ws('; ',
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN atthasdef OR typdefaultbin IS NOT NULL THEN 'DEFAULT' END, nullif(attidentity, ''), nullif(attgenerated, ''),
        (SELECT string_agg(enumlabel, '|' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid IN (y.oid, typbasetype))), ', ' ORDER BY attnum)
      FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg('UNIQUE ' || indkey::text, ', ' ORDER BY indkey::text) FROM pg_index
      WHERE indrelid = c.oid AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL),
    CASE WHEN relchecks > 0 THEN 'CHECK' END, CASE WHEN relhasrules THEN 'RULE' END, CASE WHEN relhassubclass THEN 'INHERITED' END,
    CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN 'TRIGGER' END)
  FROM pg_class c WHERE c.oid = 1) = 'id bigint, a text'
    AND '"public"."t"'::regclass::oid = 1 AND NOT EXISTS (SELECT FROM "public"."t" WHERE false))::integer;
ALTER TABLE "public"."t" ADD COLUMN "b" text;
INSERT INTO public.weir_meta (name, value) VALUES ('columns "public"."t"', '{"a":"text","b":"text","id":"small integer"}') ON CONFLICT (name) DO UPDATE SET value = excluded.value;
SET LOCAL lock_timeout = DEFAULT;
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 bigint,
  c2 text
) ON COMMIT DELETE ROWS;
COPY pg_temp.weir_stage_0 (n, c0, c2) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
INSERT INTO "public"."t" AS t ("id", "b")
SELECT s.c0, s.c2
FROM pg_temp.weir_stage_0 s
ORDER BY s.n
ON CONFLICT ("id") DO UPDATE SET
    "b" = excluded."b"
  WHERE excluded."b" IS DISTINCT FROM t."b";
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
INSERT INTO public.weir_checkpoints (job, source, seq, run, line, "offset", mark, rejected, settings, tableid, updated)
VALUES ('feed.jsonl > t', 'feed.jsonl', 2, 'run', 2, 34, '', 0, '', '"t"
' || '1', now())
ON CONFLICT (job, source) DO UPDATE SET seq = excluded.seq, run = excluded.run, line = excluded.line, "offset" = excluded."offset", mark = excluded.mark, rejected = excluded.rejected, settings = excluded.settings, tableid = excluded.tableid, updated = excluded.updated
RETURNING tableid;
SELECT concat_ws('; ',
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN atthasdef OR typdefaultbin IS NOT NULL THEN 'DEFAULT' END, nullif(attidentity, ''), nullif(attgenerated, ''),
        (SELECT string_agg(enumlabel, '|' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid IN (y.oid, typbasetype))), ', ' ORDER BY attnum)
      FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg('UNIQUE ' || indkey::text, ', ' ORDER BY indkey::text) FROM pg_index
      WHERE indrelid = c.oid AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL),
    CASE WHEN relchecks > 0 THEN 'CHECK' END, CASE WHEN relhasrules THEN 'RULE' END, CASE WHEN relhassubclass THEN 'INHERITED' END,
    CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN 'TRIGGER' END)
  FROM pg_class c WHERE c.oid = '"public"."t"'::regclass;
COMMIT;
