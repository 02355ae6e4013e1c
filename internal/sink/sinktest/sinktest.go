// Package sinktest is the suite that every driver must pass. It uses a driver only through the interfaces of package
// sink, with batches that the real fold made from JSON lines, and inspects the database as another program would: with
// SQL.
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

// A Harness creates databases for the suite.
type Harness struct {
	// New creates an empty database, which is removed at the end of the test. Tests in several goroutines call it.
	New func(t *testing.T) Database
	// Groups are the names of the groups to run; nil: all.
	Groups []string
}

// A Trait is a property that not all databases have. Tests that need it are skipped without it.
type Trait string

// The traits.
const (
	Claimable  Trait = "claims that hold a lane for a run" // without them only the fence separates two runs
	Shared     Trait = "tables that other programs make or change"
	Measurable Trait = "a log whose bytes can be counted"
	Scripted   Trait = "statements of on_create"
	Nestable   Trait = "child tables"
	Creatable  Trait = "databases that Open makes where they are missing"
	Alone      Trait = "a process in which nothing but the test allocates"
)

// A Database is a database, seen from outside and through its driver.
type Database interface {
	// Has reports whether the database has a trait.
	Has(Trait) bool
	// Driver returns the database's driver, and the database as --to names it.
	Driver() (d sink.Driver, to string)
	// Open opens the database with the driver, as another run of weir would. The test closes it; closing twice does no
	// harm.
	Open(t *testing.T) sink.Sink
	// Claims opens a job's claims in an open database, as another run of weir would. The test closes them; closing
	// twice does no harm.
	Claims(t *testing.T, job string) sink.Claims
	// Exec runs one SQL statement.
	Exec(t *testing.T, sql string)
	// Query returns the rows of a query; each cell is nil, an int64, a float64, a bool or a string.
	Query(t *testing.T, sql string) [][]any
	// Logged returns how many bytes the database has written to its log since the last call, if it has a log.
	Logged(t *testing.T) int64
}

// Test runs the suite for a driver, with groups in parallel but for those that count what the process or the server
// does. The suite's SQL is understood by all databases.
func Test(t *testing.T, h Harness) {
	files := must(testdata.ReadDir("testdata"))
	for _, group := range []struct {
		name  string
		needs Trait // of all its tests; "": none
		tests []test
	}{
		{"Fold", "", nil},
		{"Columns", "", nil},
		{"Merge", "", nil},
		{"Widening", "", wideningTests},
		{"Types", "", typeTests},
		{"TypeChanges", "", typeChangeTests},
		{"Table", "", tableTests},
		{"UserTables", Shared, userTableTests},
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
		{"Driver", "", driverTests},
		{"Log", Measurable, logTests},
		{"Memory", Alone, memoryTests},
		{"Unchanged", "", unchangedTests},
		{"Version", "", versionTests},
		{"Stamps", "", stampTests},
		{"OnCreate", Scripted, onCreateTests},
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
			if group.needs != Measurable && group.needs != Alone {
				t.Parallel()
			}
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

// need skips a test if the database lacks a trait.
func need(t *testing.T, db Database, trait Trait) {
	t.Helper()
	driver, _ := db.Driver()
	if !db.Has(trait) || trait == Nestable && !driver.Caps.Children {
		t.Skipf("the database has no %s", trait)
	}
}

// theirs runs a statement as another program that shares the database.
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

// Expect compares the rows of a query with lines in the format of psql -At: cells separated by |, with NULL for nulls.
func Expect(t *testing.T, db Database, query string, want ...string) {
	t.Helper()
	got := Rows(t, db, query)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\n got:\n  %s\n want:\n  %s", query, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Rows returns the rows of a query in that format.
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

// Counts compares a flush's counts.
func Counts(t *testing.T, res sink.Result, inserted, updated, unchanged, deleted int64) {
	t.Helper()
	if got, want := res.Total(), (sink.Counts{Inserted: inserted, Updated: updated, Unchanged: unchanged, Deleted: deleted}); got != want {
		t.Errorf("the flush counts %+v; want %+v", got, want)
	}
}
