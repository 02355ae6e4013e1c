-- Patches are applied to nothing, too, so rows are not copied into the table.
--   {"id":1,"profile":{"a":1,"b":null}}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, key bytea, state bytea, found xid,
  c0 bigint,
  c1 json
) ON COMMIT DELETE ROWS;
CREATE OR REPLACE FUNCTION pg_temp.weir_patch(base jsonb, patches json) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  removed text[];
  plain jsonb;
  nested jsonb;
BEGIN
  IF json_typeof(patches) IS DISTINCT FROM 'object' THEN
    RETURN patches;
  END IF;
  IF jsonb_typeof(base) IS DISTINCT FROM 'object' THEN
    base := '{}';
  END IF;
  SELECT array_agg(key) FILTER (WHERE json_typeof(value) = 'null'),
    jsonb_object_agg(key, value) FILTER (WHERE json_typeof(value) NOT IN ('null', 'object'))
  INTO removed, plain FROM json_each(patches);
  base := base - coalesce(removed, '{}') || coalesce(plain, '{}');
  SELECT jsonb_object_agg(key, pg_temp.weir_patch(base -> key, value))
  INTO nested FROM json_each(patches) WHERE json_typeof(value) = 'object';
  RETURN base || coalesce(nested, '{}');
END
$$;
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM NULL AND (pg_temp.weir_patch(t."profile", s.c1))::text IS DISTINCT FROM (t."profile")::text
  THEN UPDATE SET
    "profile" = coalesce(pg_temp.weir_patch(t."profile", s.c1), t."profile")
WHEN NOT MATCHED
  THEN INSERT ("id", "profile")
    VALUES (s.c0, pg_temp.weir_patch(NULL, s.c1));
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);

-- Two patches of one row.
--   {"id":1,"profile":{"a":null}}
--   {"id":1,"profile":{"a":{"c":2}}}
COPY pg_temp.weir_stage_0 (n, c0, c1) FROM STDIN;
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
MERGE INTO "public"."t" t
USING (SELECT * FROM pg_temp.weir_stage_0 ORDER BY n) s ON t."id" = s.c0
WHEN MATCHED AND s.c1 IS DISTINCT FROM NULL AND (pg_temp.weir_patch(t."profile", s.c1))::text IS DISTINCT FROM (t."profile")::text
  THEN UPDATE SET
    "profile" = coalesce(pg_temp.weir_patch(t."profile", s.c1), t."profile")
WHEN NOT MATCHED
  THEN INSERT ("id", "profile")
    VALUES (s.c0, pg_temp.weir_patch(NULL, s.c1));
SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))
FROM (SELECT '"public"."t"'::regclass::oid) r (id);
