package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
)

// Columns with a merge function. The server merges while it writes the row, which needs no round trip, and includes
// what another session has just committed.

// stagedAs returns the type of a column in the staging table.
func (t *relation) stagedAs(at int, f merge.Function) string {
	switch f {
	case merge.Sum:
		return "numeric" // the sum of a batch may exceed the final sum
	case merge.Patch:
		return "json" // jsonb would lose order and repeated names of a patch sequence
	}
	return t.cols[at].staged
}

// mergedValue returns the result of merging a staged value into base. If the staged value is NULL, it is NULL or base.
func (s *shape) mergedValue(c *staged, base string) string {
	value := c.value
	t, kind := s.table.Columns[c.at].Type, s.table.cols[c.at].staged
	switch c.merge {
	case merge.First:
		return fmt.Sprintf("coalesce(%s, %s)", base, value)
	case merge.Sum:
		switch {
		case t == schema.Text: // the assignment casts it, and cuts nothing off
			return fmt.Sprintf("trim_scale(coalesce(pg_temp.weir_number(%s), 0) + %s)::text", base, value)
		case t == schema.Real: // through text, because a cast to numeric keeps 15 digits
			return fmt.Sprintf("(coalesce(%s::text::numeric, 0) + %s)::%s", base, value, kind)
		case kind == "numeric":
			return fmt.Sprintf("trim_scale(coalesce(%s, 0) + %s)", base, value)
		}
		return fmt.Sprintf("(coalesce(%s, 0) + %s)::%s", base, value, kind)
	case merge.Min, merge.Max:
		least, older, newer := "LEAST", value, base
		if c.merge == merge.Max {
			least, older, newer = "GREATEST", base, value
		}
		if t == schema.Text {
			return fmt.Sprintf("CASE WHEN %s IS NULL OR pg_temp.weir_older(%s, %s) THEN %s ELSE %[1]s END", base, older, newer, value)
		}
		return fmt.Sprintf("%s(%s, %s)", least, base, value)
	case merge.Patch:
		return s.patched(c, base)
	}
	return value
}

// insertValue returns what an insert writes for a staged value.
func (s *shape) insertValue(c *staged) string {
	kind := s.table.cols[c.at].staged
	switch {
	case c.merge == merge.Sum && s.table.Columns[c.at].Type == schema.Text:
		return c.value + "::text"
	case c.merge == merge.Sum && kind != "numeric":
		return c.value + "::" + kind
	case c.merge == merge.Patch:
		return s.patched(c, "NULL")
	}
	return c.value
}

// patched returns the result of patching base with a staged value.
func (s *shape) patched(c *staged, base string) string {
	switch {
	case s.table.Columns[c.at].Type == schema.Text:
		return fmt.Sprintf("pg_temp.weir_patch_text(%s, %s)", base, c.value)
	case s.table.cols[c.at].staged == "json":
		return fmt.Sprintf("pg_temp.weir_patch_text(%s::text, %s)::json", base, c.value)
	}
	return fmt.Sprintf("pg_temp.weir_patch(%s, %s)", base, c.value)
}

// mergeBase returns what a staged value is merged into in an existing row: NULL if the column starts over.
func (s *shape) mergeBase(c *staged) string {
	was := "t." + ident(s.table.Columns[c.at].Name)
	if keeps := c.absent(); keeps != "" {
		return fmt.Sprintf("CASE WHEN %s THEN %s END", keeps, was)
	}
	return was
}

// needsFunctions reports whether a merge function of the columns is one of the session's.
func (s *shape) needsFunctions() bool {
	return slices.ContainsFunc(s.columns, func(c staged) bool { return strings.Contains(s.mergedValue(&c, "NULL"), tempSchema) })
}

// functions create functions that implement package merge in the database. Like the staging table, they are temporary:
// they need no further privilege, and other sessions do not see them. They contain no backslash, whose meaning depends
// on standard_conforming_strings, and compare texts with their own collation, because different names may be equal in
// the column's collation.
var functions = []string{
	// weir_number raises an error for a text that is not a JSON number, even if a cast would accept it.
	`CREATE OR REPLACE FUNCTION pg_temp.weir_number(base text) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN base COLLATE "C" ~ '^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$' THEN base::numeric
    ELSE quote_literal(base)::numeric
  END
$$`,
	// weir_instant returns an RFC 3339 time as numbers to compare, or NULL: whether it has a zone, and seconds since 1970.
	`CREATE OR REPLACE FUNCTION pg_temp.weir_instant(v text) RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE STRICT AS $$
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
$$`,
	// weir_older reports a < b: numbers sort before times, and these before other texts, which compare byte by byte.
	`CREATE OR REPLACE FUNCTION pg_temp.weir_older(a text, b text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS $$
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
$$`,
	// weir_patch applies a patch sequence by RFC 7396. For a repeated name, null comes first and an object last. A long
	// patch may have more levels than the server's stack, and more names than can be compared with all others.
	`CREATE OR REPLACE FUNCTION pg_temp.weir_patch(base jsonb, patches json) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
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
$$`,
	// weir_patch_text is the same for text, which keeps the order of members. A text that is not an object counts as
	// {}. It does not recur: it takes objects apart from the outside, and puts them together from the inside.
	`CREATE OR REPLACE FUNCTION pg_temp.weir_patch_text(base text, patches json) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
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
$$`,
}
