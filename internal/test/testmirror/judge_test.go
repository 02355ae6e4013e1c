package testmirror

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// excuses are the expected differences between the sources and the mirror, with reasons. "" matches anything.
var excuses = []struct{ source, table, key, column, is, why string }{
	{"", "kinds", "", "lasting", "NULL", "the stream has no event for a row that gets the default of a new column"},
	{"", "kinds", "", "bits", `\x`, "Debezium sends no bytes for bits that are all 0"},
	{"shop", "odd", "spot", "spot", "", "a point is an object with x and y"},
	{"shop", "odd", "moved", "the row", "", "the key changed, and Postgres sends no TOAST value that did not"},
	{"depot", "odd", "born zero", "born", "NULL", "Debezium sends NULL for a date of zeros"},
	{"depot", "odd", "local zero", "local", "NULL", "Debezium sends NULL for a date of zeros"},
	{"depot", "odd", "y zero", "y", "1900", "Debezium sends 1900 for the year 0"},
	{"depot", "odd", "spot", "spot", "", "a point is an object with x and y"},
	{"depot", "odd", "uid", "uid", "", "Debezium 3.5 reads the type uuid wrongly from the binlog"},
}

// A judge compares sources with the mirror.
type judge struct {
	t      *testing.T
	values int
	used   [100]bool // by excuse
}

// differs reports a difference, unless it is excused.
func (j *judge) differs(source, table, key, column, has, want string) {
	if key == "" {
		key = "(empty)"
	}
	excused := false
	for i, e := range excuses {
		if (e.source == source || e.source == "") && e.table == table && (e.key == key || e.key == "") && (e.column == column || e.column == "") && (e.is == has || e.is == "") {
			j.used[i], excused = true, true
		}
	}
	if !excused {
		j.t.Errorf("%s: %s %q, %s: is %.200s, want %.200s", source, table, key, column, has, want)
	}
}

// compare compares a table.
func (j *judge) compare(s *source, table *table, mirror *postgres) {
	j.t.Helper()
	want := s.rows(table.name, table.expressions(func(c column) string {
		if c.source == "" {
			c.source = c.name
		}
		return s.text(c.source)
	}))
	has := mirror.rows(s.schema+"."+table.name, table.expressions(func(c column) string {
		if c.mirror == "" {
			c.mirror = c.name
		}
		return mirror.text(c.mirror)
	}))
	keys := slices.Sorted(maps.Keys(want))
	for _, key := range slices.Sorted(maps.Keys(has)) {
		if _, ok := want[key]; !ok {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if want[key] == nil || has[key] == nil {
			j.differs(s.name, table.name, key, "the row", strings.Join(has[key], "|"), strings.Join(want[key], "|"))
			continue
		}
		for i, c := range table.columns {
			if j.values++; has[key][i] != want[key][i] {
				j.differs(s.name, table.name, key, c.name, has[key][i], want[key][i])
			}
		}
	}
}

// end fails the test unless there were values and each excuse was needed.
func (j *judge) end() {
	if j.values < 800 {
		j.t.Errorf("did not exercise: %d values", j.values)
	}
	for i, e := range excuses {
		if !j.used[i] {
			j.t.Errorf("not needed any more: %q", e)
		}
	}
	j.t.Logf("%d values compared", j.values)
}
