package postgres

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/schema"
)

// This file is about columns whose values meet by a function other than the last one. The server computes what they become as
// it writes the row: it takes no round trip, and meets what another session has committed meanwhile.

// stagedAs is the type of the staging table's column for a column of the table.
func (t *relation) stagedAs(at int, f merge.Function) string {
	switch f {
	case merge.Sum:
		return "numeric" // the sum of a batch may be larger than what the row has in the end
	case merge.Patch:
		return "json" // jsonb would lose the order of patches in a row, and all but the last of a name
	}
	return t.cols[at].staged
}

// meets has formats of what a staged value, [2], of a column of type [3] makes of what the row has, [1], and of nothing.
func (s *shape) meets(c *staged) (met, alone string) {
	const value = "%[2]s"
	t, kind := s.table.Columns[c.at].Type, s.table.cols[c.at].staged
	switch c.merge {
	case merge.First:
		return "coalesce(%[1]s, %[2]s)", value
	case merge.Sum:
		switch {
		case t == schema.Text: // it is cast by the assignment, which cuts nothing off
			return "trim_scale(coalesce(pg_temp.weir_number(%[1]s), 0) + %[2]s)::text", "%[2]s::text"
		case t == schema.Real: // by its text, for a cast to numeric keeps 15 digits
			return "(coalesce(%[1]s::text::numeric, 0) + %[2]s)::%[3]s", "%[2]s::%[3]s"
		case kind == "numeric":
			return "trim_scale(coalesce(%[1]s, 0) + %[2]s)", value
		}
		return "(coalesce(%[1]s, 0) + %[2]s)::%[3]s", "%[2]s::%[3]s"
	case merge.Min:
		if t == schema.Text {
			return "CASE WHEN %[1]s IS NULL OR pg_temp.weir_older(%[2]s, %[1]s) THEN %[2]s ELSE %[1]s END", value
		}
		return "LEAST(%[1]s, %[2]s)", value
	case merge.Max:
		if t == schema.Text {
			return "CASE WHEN %[1]s IS NULL OR pg_temp.weir_older(%[1]s, %[2]s) THEN %[2]s ELSE %[1]s END", value
		}
		return "GREATEST(%[1]s, %[2]s)", value
	case merge.Patch:
		switch {
		case t == schema.Text:
			return "pg_temp.weir_patch_text(%[1]s, %[2]s)", "pg_temp.weir_patch_text(NULL, %[2]s)"
		case kind == "json":
			return "pg_temp.weir_patch_text(%[1]s::text, %[2]s)::json", "pg_temp.weir_patch_text(NULL, %[2]s)::json"
		}
		return "pg_temp.weir_patch(%[1]s, %[2]s)", "pg_temp.weir_patch(NULL, %[2]s)"
	}
	return value, value
}

// met is what a staged value makes of what the row has in the column. It is NULL, or what the row has, if the value is NULL.
func (s *shape) met(c *staged, has string) string {
	met, _ := s.meets(c)
	return s.fill(met, c, s.table.comparable(c.at, has))
}

// alone is what a staged value makes of nothing.
func (s *shape) alone(c *staged) string {
	_, alone := s.meets(c)
	return s.fill(alone, c, "")
}

func (s *shape) fill(format string, c *staged, has string) string {
	// Not all formats ask for all.
	return strings.NewReplacer("%[1]s", has, "%[2]s", c.value(), "%[3]s", s.table.cols[c.at].staged).Replace(format)
}

// value is the staged value of a column.
func (c *staged) value() string { return fmt.Sprintf("s.c%d", c.at) }

// has is what a staged value of a column meets in a row that exists: NULL if the row or the column starts from nothing,
// and the default if the row began with it.
func (s *shape) has(c *staged) string {
	was := "t." + ident(s.table.Columns[c.at].Name)
	goes := c.absent()
	if s.acts.replaces {
		goes = and("s.op IS DISTINCT FROM 'r'", goes)
	}
	switch {
	case goes == "":
		return was
	case c.initial >= 0:
		return fmt.Sprintf("CASE WHEN %s THEN %s WHEN get_bit(s.marks, %d) = 1 THEN %s END", goes, was, c.initial, s.initial(c.at))
	}
	return fmt.Sprintf("CASE WHEN %s THEN %s END", goes, was)
}

// merges reports whether writing a staged row twice is not the same as writing it once.
func (s *shape) merges() bool {
	for i := range s.columns {
		if s.columns[i].merge > merge.First {
			return true
		}
	}
	return false
}

// functions are the statements that make the functions that the columns of the shape need. They are temporary, as the
// staging table is: that takes no right more than the table does, and no other session has them.
func (s *shape) functions() (all []string) {
	for _, f := range functions {
		for i := range s.columns {
			if met, _ := s.meets(&s.columns[i]); strings.Contains(met, f.name+"(") {
				all = append(all, "CREATE OR REPLACE FUNCTION "+f.name+f.definition)
				break
			}
		}
	}
	return all
}

// functions by their names. They do to values of a database what the package merge does to those of a batch. No backslash is in
// them, which means another thing without standard_conforming_strings, and they compare texts with a collation of their own,
// for that of the column may take different names for one.
var functions = []struct{ name, definition string }{
	// weir_number raises an error for a text that is no number to JSON, though it may be one to a cast.
	{"pg_temp.weir_number", `(base text) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN base COLLATE "C" ~ '^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$' THEN base::numeric
    ELSE quote_literal(base)::numeric
  END
$$`},
	// weir_older has numbers before other texts, which are compared byte by byte.
	{"pg_temp.weir_older", `(a text, b text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  number CONSTANT text := '^[-+]?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?$';
  is_a CONSTANT boolean := a COLLATE "C" ~ number;
  is_b CONSTANT boolean := b COLLATE "C" ~ number;
BEGIN
  IF is_a AND is_b THEN
    RETURN a::numeric < b::numeric;
  ELSIF is_a OR is_b THEN
    RETURN is_a;
  END IF;
  RETURN a COLLATE "C" < b;
END
$$`},
	// weir_patch applies the members of patches one after the other, as RFC 7396 has it. A name may come several times.
	{"pg_temp.weir_patch", `(base jsonb, patches json) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  m record;
BEGIN
  IF json_typeof(patches) IS DISTINCT FROM 'object' THEN
    RETURN patches;
  END IF;
  IF jsonb_typeof(base) IS DISTINCT FROM 'object' THEN
    base := '{}';
  END IF;
  FOR m IN SELECT key, value FROM json_each(patches) LOOP
    CASE json_typeof(m.value)
    WHEN 'null' THEN
      base := base - m.key;
    WHEN 'object' THEN
      base := base || jsonb_build_object(m.key, pg_temp.weir_patch(base -> m.key, m.value));
    ELSE
      base := base || jsonb_build_object(m.key, m.value);
    END CASE;
  END LOOP;
  RETURN base;
END
$$`},
	// weir_patch_text is the same for texts, which keep the order of their members. One that is no object counts as {}.
	{"pg_temp.weir_patch_text", `(base text, patches json) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  names text[] := '{}';
  members text[] := '{}';
  m record;
  i integer;
BEGIN
  IF json_typeof(patches) IS DISTINCT FROM 'object' THEN
    RETURN patches;
  END IF;
  BEGIN
    FOR m IN SELECT key, value FROM json_each(base::json) LOOP
      i := coalesce(array_position(names, m.key COLLATE "C"), cardinality(names) + 1);
      names[i] := m.key;
      members[i] := m.value;
    END LOOP;
  EXCEPTION WHEN data_exception THEN
  END;
  FOR m IN SELECT key, value FROM json_each(patches) LOOP
    i := array_position(names, m.key COLLATE "C");
    IF json_typeof(m.value) <> 'null' THEN
      i := coalesce(i, cardinality(names) + 1);
      names[i] := m.key;
      members[i] := pg_temp.weir_patch_text(members[i], m.value);
    ELSIF i IS NOT NULL THEN
      names[i] := NULL;
    END IF;
  END LOOP;
  RETURN '{' || (
    SELECT coalesce(string_agg(to_json(u.name) || ':' || u.member, ',' ORDER BY u.i), '')
    FROM unnest(names, members) WITH ORDINALITY u (name, member, i)
    WHERE u.name IS NOT NULL) || '}';
END
$$`},
}
