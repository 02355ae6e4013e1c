-- Patches are applied to nothing, too, so rows are not copied into the table.
--   {"id":1,"profile":{"a":1,"b":null}}
DROP TABLE IF EXISTS pg_temp.weir_stage_0;
CREATE TEMP TABLE weir_stage_0 (
  n integer, op "char", marks varbit, fill integer, key bytea, state bytea,
  c0 bigint,
  c1 json
) ON COMMIT DELETE ROWS;
CREATE OR REPLACE FUNCTION pg_temp.weir_number(base text) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN base COLLATE "C" ~ '^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$' THEN base::numeric
    ELSE quote_literal(base)::numeric
  END
$$;
CREATE OR REPLACE FUNCTION pg_temp.weir_instant(v text) RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  p CONSTANT text[] := regexp_match(v COLLATE "C",
    '^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})([.][0-9]+)?([Zz]|([-+])([0-9]{2}):([0-9]{2}))?$');
  days interval;
BEGIN
  IF p IS NULL OR p[1]::int < 1 OR p[4]::int > 23 OR p[5]::int > 59 OR p[6]::int > 60 OR p[10]::int > 23 OR p[11]::int > 59
    OR p[2]::int NOT BETWEEN 1 AND 12 THEN
    RETURN NULL;
  END IF;
  days := make_interval(days => p[3]::int - 1);
  IF days < interval '0' OR extract(month FROM make_date(p[1]::int, p[2]::int, 1) + days) <> p[2]::int THEN
    RETURN NULL;
  END IF;
  RETURN ARRAY[(p[8] IS NOT NULL)::int, extract(epoch FROM make_date(p[1]::int, p[2]::int, 1) + days)
    + (p[4]::int * 60 + p[5]::int) * 60 + p[6]::int + coalesce(p[7], '0')::numeric
    - coalesce((p[9] || (p[10]::int * 60 + p[11]::int))::int * 60, 0)];
END
$$;
CREATE OR REPLACE FUNCTION pg_temp.weir_older(a text, b text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  number CONSTANT text := '^[-+]?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?$';
  is_a CONSTANT boolean := a COLLATE "C" ~ number;
  is_b CONSTANT boolean := b COLLATE "C" ~ number;
  at_a numeric[];
  at_b numeric[];
BEGIN
  IF is_a AND is_b THEN
    RETURN a::numeric < b::numeric;
  ELSIF is_a OR is_b THEN
    RETURN is_a;
  END IF;
  at_a := pg_temp.weir_instant(a);
  at_b := pg_temp.weir_instant(b);
  IF at_a IS NOT NULL AND at_b IS NOT NULL THEN
    RETURN at_a < at_b;
  ELSIF at_a IS NOT NULL OR at_b IS NOT NULL THEN
    RETURN at_a IS NOT NULL;
  END IF;
  RETURN a COLLATE "C" < b;
END
$$;
CREATE OR REPLACE FUNCTION pg_temp.weir_patch(base jsonb, patches json) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  removed text[];
  plain jsonb;
  nested jsonb;
BEGIN
  IF json_typeof(patches) IS DISTINCT FROM 'object' THEN
    RETURN patches;
  ELSIF octet_length(patches::text) > 2000 THEN
    RETURN pg_temp.weir_patch_text(base::text, patches);
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
CREATE OR REPLACE FUNCTION pg_temp.weir_patch_text(base text, patches json) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  names text[] := '{NULL}'; -- of all members, after the object itself
  vals text[] := ARRAY[base];
  nested text[] := ARRAY[patches]; -- patches of values
  firsts int[]; -- members of a patched value
  lasts int[];
  n int := 1;
  i int := 1;
  m record;
  had json;
  patch json;
  parts text[];
BEGIN
  IF json_typeof(patches) IS DISTINCT FROM 'object' THEN
    RETURN patches;
  END IF;
  BEGIN
    had := base;
  EXCEPTION WHEN data_exception THEN
    vals[1] := NULL;
  END;
  WHILE i <= n LOOP
    IF nested[i] IS NOT NULL THEN
      firsts[i] := n + 1;
      had := vals[i];
      IF json_typeof(had) IS DISTINCT FROM 'object' THEN
        had := '{}';
      END IF;
      patch := nested[i]; -- a query with an array would copy it
      FOR m IN
        SELECT name, coalesce(min(value) FILTER (WHERE kind = 'plain'), (array_agg(value ORDER BY place DESC) FILTER (WHERE kind = 'old' AND NOT removed))[1]) AS value,
          min(value) FILTER (WHERE kind = 'object') AS object
        FROM (
          SELECT key AS name, value::text, place, kind, bool_or(kind = 'null') OVER (PARTITION BY key) AS removed
          FROM (
            SELECT key COLLATE "C", value, place, 'old' AS kind
            FROM json_each(had) WITH ORDINALITY b (key, value, place)
            UNION ALL
            SELECT key, value, 4294967296 + place, CASE WHEN json_typeof(value) IN ('null', 'object') THEN json_typeof(value) ELSE 'plain' END
            FROM json_each(patch) WITH ORDINALITY p (key, value, place)
          ) each
        ) members
        GROUP BY name
        ORDER BY coalesce(min(place) FILTER (WHERE kind = 'old' AND NOT removed), min(place) FILTER (WHERE kind IN ('plain', 'object')))
      LOOP
        n := n + 1;
        names[n] := m.name;
        vals[n] := m.value;
        nested[n] := m.object;
      END LOOP;
      lasts[i] := n;
    END IF;
    i := i + 1;
  END LOOP;
  FOR i IN REVERSE n .. 1 LOOP
    IF nested[i] IS NOT NULL THEN
      parts := '{}';
      FOR j IN firsts[i] .. lasts[i] LOOP
        parts := array_append(parts, to_json(names[j]) || ':' || vals[j]); -- NULL: it was removed
      END LOOP;
      vals[i] := '{' || array_to_string(parts, ',') || '}';
    END IF;
  END LOOP;
  RETURN vals[1];
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
