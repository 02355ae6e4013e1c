package sinktest

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A router is a test's mapping of messages to several tables. The field TABLE.FIELD is FIELD of a table. A field
// without a dot belongs to each table for which the message has other fields.
type router struct {
	tables  []string
	names   *feed.Names
	mappers []*Mapper // by table
	fields  [][]feed.Field
	changes []fold.TableChange
}

// newRouter returns a router to tables, with the options of their folds.
func newRouter(names *feed.Names, tables []string, options []fold.Options) *router {
	r := &router{tables: tables, names: names, fields: make([][]feed.Field, len(tables))}
	for _, o := range options {
		r.mappers = append(r.mappers, NewMapper(names, o, deleteWhen(&o)))
	}
	return r
}

// Map returns the changes of a line, in the order of the tables. No table rejects a line here.
func (r *router) Map(l *feed.Line, _ string, _ fold.Place) (_ []fold.TableChange, table int, _ error) {
	r.changes = r.changes[:0]
	for i, name := range r.tables {
		fields, own := r.fields[i][:0], false
		for _, f := range l.Fields {
			table, field, dotted := strings.Cut(r.names.Name(f.Name), ".")
			if dotted && table != name {
				continue
			}
			if own = own || dotted; dotted {
				f.Name = r.names.Number(field)
			}
			fields = append(fields, f)
		}
		if r.fields[i] = fields; own {
			of := feed.Line{Fields: fields, Text: l.Text}
			r.changes = append(r.changes, fold.TableChange{Table: i, Change: r.mappers[i].Map(&of)})
		}
	}
	return r.changes, -1, nil
}

// severalTests: a flush writes several tables in one transaction, and a message is one unit.
var severalTests = []test{
	{"OneTransactionAndCheckpoint", func(t *testing.T, db Database) {
		s := BeginTables(t, db, []string{"a", "b"})
		f := s.failing(After, `{"id":1,"a.x":1,"b.y":"u"}`, `{"a.id":2,"a.x":2}`, `{"b.id":3,"b.y":"v"}`, `{"none":1}`, `{"id":1,"b.y":"w"}`)
		tablesCount(t, s.again(f), sink.Counts{Inserted: 2}, sink.Counts{Inserted: 2})
		Expect(t, db, "SELECT id, x FROM a ORDER BY id", "1|1", "2|2")
		Expect(t, db, "SELECT id, y FROM b ORDER BY id", "1|w", "3|v")
		tables, err := s.Claims.Tables(t.Context())
		if err != nil || !slices.Equal(tables, []string{"a", "b"}) {
			t.Errorf("the job has written %q, %v", tables, err)
		}
		if _, ids := sink.SplitIDs(tableID(t, s)); len(ids) != 2 || ids[0] == "" || ids[1] == "" || ids[0] == ids[1] {
			t.Errorf("the checkpoint has the tables %q", ids)
		}
		tablesCount(t, s.Flush(`{"id":1,"a.op":"delete","b.y":"w"}`), sink.Counts{Deleted: 1}, sink.Counts{Unchanged: 1})
		s.End()
		s = BeginTables(t, db, []string{"a", "b"})
		s.FlushAs(rebuild, `{"id":3,"a.x":3,"b.y":3}`)
		Expect(t, db, "SELECT id, x FROM a", "3|3")
		Expect(t, db, "SELECT id, y FROM b", "3|3")
	}},
	{"ATableComesLater", func(t *testing.T, db Database) {
		s := BeginTables(t, db, []string{"a", "b"})
		s.Flush(`{"a.id":1,"a.x":1}`)
		if _, ids := sink.SplitIDs(tableID(t, s)); len(ids) != 2 || ids[0] == "" || ids[1] != "" {
			t.Errorf("the checkpoint has the tables %q", ids)
		}
		s.Flush(`{"id":1,"a.x":2,"b.y":1}`)
		if _, ids := sink.SplitIDs(tableID(t, s)); ids[1] == "" {
			t.Errorf("the checkpoint has the tables %q", ids)
		}
		s.End()
		next := BeginTables(t, db, []string{"b", "c", "a"}) // in another order, with one more
		var tables []schema.Table
		for _, b := range next.Seal().Batches {
			tables = append(tables, b.Table)
		}
		if others := sink.OtherTables(next.cp(), tables); len(others) > 0 {
			t.Errorf("the checkpoint has %q, and not %q", next.cp().TableID, others[0].ID)
		}
		for i := range tables {
			tables[i].ID += "another"
		}
		if others := sink.OtherTables(next.cp(), tables); len(others) != 2 || others[0].Name != "b" || others[1].Name != "a" {
			t.Errorf("the checkpoint has %q, and %d are other tables", next.cp().TableID, len(others))
		}
	}},
	{"WhatATableRejectsLeavesNothing", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE b (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0))")
		s := BeginTables(t, db, []string{"a", "b"})
		// A column that only a rejected line has is not created, and a rejected line widens no column.
		res := s.Flush(`{"id":1,"a.x":1,"b.n":1}`, `{"id":1,"a.x":"wide","a.new":1,"b.n":"no"}`, `{"id":1,"a.x":2,"b.n":-1}`, `{"a.id":1,"a.y":3}`, `{"id":2,"a.x":2,"b.n":-2}`,
			`{"id":3,"a.x":3,"b.n":3}`, `{"a.id":4,"a.x":4}`)
		Expect(t, db, "SELECT * FROM a ORDER BY id", "1|1|3", "3|3|NULL", "4|4|NULL")
		Expect(t, db, "SELECT id, n FROM b ORDER BY id", "1|1", "3|3")
		Expect(t, db, "SELECT line FROM weir_rejects WHERE reason LIKE '%table \"b\"%' ORDER BY line", "2", "3", "5")
		if len(res.Refused) != 2 || res.Refused[0].Table != 1 || !strings.Contains(res.Refused[0].Detail, `table "b"`) {
			t.Errorf("refused: %+v", res.Refused)
		}
		s.End()
		theirs(t, db, "CREATE UNIQUE INDEX once ON a (y)")
		BeginTables(t, db, []string{"a", "b"}).Flush(`{"id":5,"a.y":3,"b.n":5}`, `{"id":6,"a.y":6,"b.n":6}`) // also with a parent
		Expect(t, db, "SELECT id, n FROM b WHERE id > 4", "6|6")
	}},
}

// idIn returns the ID of the first table in a checkpoint, or "".
func idIn(cp *sink.Checkpoint) string {
	_, ids := sink.SplitIDs(cp.TableID)
	return ids[0]
}

// tableID returns the table IDs in the checkpoint of the run's lane.
func tableID(t *testing.T, s *Run) string {
	t.Helper()
	cps, err := s.Claims.Checkpoints(t.Context(), s.lanes[s.lane].Source)
	testcheck.NoError(t, err)
	return cps[0].TableID
}

// tablesCount compares a flush's counts for each table.
func tablesCount(t *testing.T, res sink.Result, want ...sink.Counts) {
	t.Helper()
	if !slices.Equal(res.Tables, want) || len(res.Refused) > 0 {
		t.Errorf("%+v, want %+v", res, want)
	}
}
