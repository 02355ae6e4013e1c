package sinktest

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// untyped is the shop with columns that have the types of their values.
func untyped(m *mapping.Mapping) *mapping.Mapping {
	for i, spec := range []string{"id, status", "sku, qty", "code, amount"} {
		m.Tables[i].Columns = columns(spec)
	}
	return m
}

// refusesOrphans checks that an item without its order, and a tax without its item, are refused.
func refusesOrphans(t *testing.T, db Database) {
	t.Helper()
	for _, c := range []struct{ table, keys, line string }{
		{"items", "order_id,sku", `{"order_id":999,"sku":"x"}`},
		{"taxes", "order_id,sku,code", `{"order_id":999,"sku":"x","code":"a"}`},
	} {
		r := BeginTable(t, db, c.table, strings.Split(c.keys, ",")...)
		if _, err := r.TryFlush(c.line); !errors.As(err, new(sink.UnloggedError)) {
			t.Errorf("%s took an orphan: %v", c.table, err)
		}
		r.End()
	}
}

// foreignTests: the foreign keys of tables that weir creates.
var foreignTests = []test{
	{"TheyAreNoConstraintsToWeir", func(t *testing.T, db Database) {
		n := BeginNested(t, db, Shop(t))
		n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
		n.End()
		look := func(name string, keys ...string) schema.Table {
			t.Helper()
			s := db.Open(t)
			defer s.Close()
			found, err := sink.Table(t.Context(), s.Tables, name, keys)
			testcheck.NoError(t, err)
			return found
		}
		for i, found := range []schema.Table{look("orders", "id"), look("items", "order_id", "sku"), look("taxes", "order_id", "sku", "code")} {
			if found.HasConstraints || !found.Made || len(found.ForeignKeys) != min(i, 1) || len(found.Referrers) != min(2-i, 1) {
				t.Errorf("table %+v", found)
			}
		}
		theirs(t, db, "CREATE TABLE notes (id integer PRIMARY KEY, no bigint REFERENCES orders (id))")
		if found := look("orders", "id"); !found.HasConstraints || found.Made {
			t.Errorf("with a foreign key of others: %+v", found)
		}
		if found := look("notes", "id"); !found.HasConstraints || found.Made {
			t.Errorf("with one of its own: %+v", found)
		}
	}},
	{"NamesThatNeedQuotes", func(t *testing.T, db Database) {
		m := Shop(t)
		m.Tables[0].Columns = columns(`the "no": id as integer, status: as text`)
		m.Tables[0].Key = []string{`the "no"`}
		m.Tables[1].Parent = map[string]string{`the "no"`: `select ''`}
		for range 2 {
			n := BeginNested(t, db, m)
			n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
			if have, err := sink.Table(t.Context(), n.Sink.Tables, "taxes", []string{`select ''`, "sku", "code"}); err != nil || len(have.ForeignKeys) != 1 || have.HasConstraints {
				t.Errorf("table %+v, %v", have, err)
			}
			n.End()
		}
	}},
}
