// Package sinktest is the suite that every driver must pass. It drives a driver
// through the interfaces of package sink alone, with batches that the real fold made of
// JSON lines, and looks at the database only as another program would: by SQL.
package sinktest

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
)

// A Harness makes databases for the suite.
type Harness struct {
	// New makes an empty database, which goes with the test.
	New func(t *testing.T) Database
	// Groups are the tests that are run, by the names of their groups; nil: all.
	Groups []string
}

// A Trait is what not all databases have. Tests that need one are skipped without it.
type Trait string

// What a database may have.
const (
	Claimable  Trait = "claims that hold a lane for a run" // without them only the fence tells two runs apart
	Shared     Trait = "tables that other programs make or change"
	Measurable Trait = "a log whose bytes can be counted"
	Scripted   Trait = "statements of on_create"
	Nestable   Trait = "tables whose rows belong to rows of others"
	Creatable  Trait = "databases that Open makes where they are missing"
	Alone      Trait = "a process in which nothing but the test allocates"
)

// A Database is one database, seen from outside and by way of its driver.
type Database interface {
	// Has reports whether the database has a trait.
	Has(Trait) bool
	// Driver returns the database's driver, and the database as --to names it.
	Driver() (d sink.Driver, to string)
	// Open opens the database with the driver, as a further run of weir does.
	// The test closes what it opens; a close more does no harm.
	Open(t *testing.T) sink.Sink
	// Claims opens the claims of a job in a database that is open, as a further run of
	// weir does. The test closes what it opens; a close more does no harm.
	Claims(t *testing.T, job string) sink.Claims
	// Exec runs one statement of SQL.
	Exec(t *testing.T, sql string)
	// Query returns the rows of a query; each cell is nil, an int64, a float64,
	// a bool or a string.
	Query(t *testing.T, sql string) [][]any
	// Logged returns the bytes that a database with a log has written to it since the
	// last call.
	Logged(t *testing.T) int64
}

// Test has a driver pass the suite. The SQL of the suite is what all databases
// understand.
func Test(t *testing.T, h Harness) {
	files := must(testdata.ReadDir("testdata"))
	for _, group := range []struct {
		name  string
		needs Trait // of all its tests; "" is none
		tests []test
	}{
		{"Fold", "", nil},
		{"Columns", "", nil},
		{"Merge", "", mergeTests},
		{"Widening", "", wideningTests},
		{"Types", "", typeTests},
		{"Table", "", tableTests},
		{"Refused", "", refusedTests},
		{"Transaction", "", transactionTests},
		{"Fence", "", fenceTests},
		{"Lanes", "", laneTests},
		{"Tables", "", nil},
		{"Several", "", severalTests},
		{"Checkpoints", "", checkpointTests},
		{"Ledger", "", ledgerTests},
		{"Claim", Claimable, claimTests},
		{"Inspector", "", inspectorTests},
		{"Outbox", "", outboxTests},
		{"Resend", "", resendTests},
		{"Driver", "", driverTests},
		{"Unchanged", "", unchangedTests},
		{"Version", "", versionTests},
		{"Stamps", "", stampTests},
		{"OnCreate", Scripted, onCreateTests},
		{"Expiry", "", expiryTests},
		{"Nested", Nestable, nestedTests},
		{"ForeignKeys", Nestable, foreignTests},
		{"Surrogates", Nestable, surrogateTests},
		{"References", Nestable, referenceTests},
		{"Stream", "", streamTests},
		{"Append", "", appendTests},
		{"Faults", "", faultTests},
	} {
		files = slices.DeleteFunc(files, func(f fs.DirEntry) bool { return f.Name() == strings.ToLower(group.name)+".txtar" })
		if h.Groups != nil && !slices.Contains(h.Groups, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, test := range append(scripted(group.name), group.tests...) {
				t.Run(test.name, func(t *testing.T) {
					db := h.New(t)
					if group.needs != "" {
						need(t, db, group.needs)
					}
					test.run(t, db)
				})
			}
		})
	}
	if len(files) > 0 {
		t.Errorf("no group has the scripts in %v", files)
	}
}

// need skips a test where the database lacks a trait.
func need(t *testing.T, db Database, trait Trait) {
	t.Helper()
	if !db.Has(trait) {
		t.Skipf("the database has no %s", trait)
	}
}

// theirs runs a statement as a program that shares the database.
func theirs(t *testing.T, db Database, sql string) {
	t.Helper()
	need(t, db, Shared)
	db.Exec(t, sql)
}

// Lines of a feed.
type lines = []string

type test struct {
	name string
	run  func(t *testing.T, db Database)
}

// Expect compares the rows of a query with lines as psql -At prints them: cells
// divided by |, NULL where there is none.
func Expect(t *testing.T, db Database, query string, want ...string) {
	t.Helper()
	got := Rows(t, db, query)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\n got:\n  %s\n want:\n  %s", query, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Rows returns the rows of a query in this form.
func Rows(t *testing.T, db Database, query string) (rows []string) {
	t.Helper()
	for _, row := range db.Query(t, query) {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = show(v)
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return rows
}

func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// Counts compares what a flush says it did.
func Counts(t *testing.T, res sink.Result, inserted, updated, unchanged, deleted int64) {
	t.Helper()
	if got, want := res.Total(), (sink.Counts{Inserted: inserted, Updated: updated, Unchanged: unchanged, Deleted: deleted}); got != want {
		t.Errorf("the flush counts %+v; want %+v", got, want)
	}
}
