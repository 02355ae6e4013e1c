package sinktest

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// tableTests: an existing table is used unchanged.
var tableTests = []test{
	{"NewFieldsAreIgnored", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x","new":1}`, `{"id":2,"new":2}`)
		Expect(t, db, "SELECT * FROM t ORDER BY id", "1|x", "2|NULL")
		if got := r.folders[0].TakeIgnored()["new"]; got != 2 {
			t.Errorf("%d values were counted as ignored, want 2", got)
		}
	}},
	{"WithoutAUniqueKeyTheErrorHasTheStatement", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (pk INTEGER UNIQUE, id INTEGER, kind TEXT)")
		theirs(t, db, "CREATE INDEX t_plain ON t (id)")
		theirs(t, db, "CREATE UNIQUE INDEX t_wider ON t (id, kind)")
		theirs(t, db, "CREATE UNIQUE INDEX t_partial ON t (id) WHERE kind = 'x'")
		_, err := TryBegin(t, db)
		if err == nil {
			t.Fatal("a table that can hold a key twice was accepted")
		}
		_, statement, found := strings.Cut(err.Error(), "CREATE UNIQUE INDEX")
		if !found {
			t.Fatalf("no way out is in the error: %v", err)
		}
		theirs(t, db, "CREATE UNIQUE INDEX"+strings.TrimSuffix(strings.TrimSpace(statement), ";"))
		r := Begin(t, db, func(o *fold.Options) { o.UnknownFields = fold.IgnoreUnknown })
		r.Flush(`{"id":1,"kind":"a"}`, `{"id":1,"kind":"b"}`)
		Expect(t, db, "SELECT id, kind FROM t", "1|b")
	}},
	{"WhatCannotBeWrittenIsAnError", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE other (pk INTEGER PRIMARY KEY)")
		theirs(t, db, "CREATE VIEW t AS SELECT pk AS id FROM other")
		s := db.Open(t)
		defer s.Close()
		for name, word := range map[string]string{"other": `"id"`, "t": "view"} {
			if _, err := sink.Table(t.Context(), s.Tables, name, []string{"id"}); err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("table %s: %v; want an error with %s", name, err, word)
			}
		}
	}},
	{"NamesOfWeirAreReserved", func(t *testing.T, db Database) {
		s := db.Open(t)
		defer s.Close()
		if _, err := sink.Table(t.Context(), s.Tables, "weir_rejects", []string{"id"}); err == nil {
			t.Error("weir_rejects can be synced into")
		}
	}},
}
