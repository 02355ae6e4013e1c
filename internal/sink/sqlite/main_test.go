package sqlite_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

func TestMain(m *testing.M) {
	testweir.Main(leakless{m}, map[string]func(){
		"steps": func() { report(stepsChild(os.Args[1], os.Args[2], os.Args[3])) },
		"lock":  func() { report(lockChild(os.Args[1])) },
	})
}

// leakless runs the tests, and checks that they leave no goroutine.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestSuite: the driver passes the suite of all drivers.
func TestSuite(t *testing.T) {
	sinktest.Test(t, sinktest.Harness{New: func(t *testing.T) sinktest.Database {
		return tempFile(t)
	}})
}

// TestSuite_WithoutAWAL is the suite on a file that is not in WAL mode.
func TestSuite_WithoutAWAL(t *testing.T) {
	sinktest.Test(t, sinktest.Harness{New: func(t *testing.T) sinktest.Database {
		f := tempFile(t, "CREATE TABLE theirs (a)") // weir sets the mode only of new files
		f.rollback = true
		return f
	}})
}

// file is a database file as another program sees it.
type file struct {
	path     string
	db       *sql.DB
	rollback bool // not in WAL mode
}

// Has reports all traits; without a WAL the log cannot be measured, because a rollback journal is deleted after the
// transaction.
func (f *file) Has(trait sinktest.Trait) bool { return trait != sinktest.Measurable || !f.rollback }

// Driver returns the driver of weir.
func (f *file) Driver() (sink.Driver, string) { return sqlite.Driver, f.path }

// newFile opens a file. The first statement creates it.
func newFile(t *testing.T, path string) *file {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path)+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	testcheck.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return &file{path: path, db: db}
}

// tempFile returns a file that does not exist yet; statements create it.
func tempFile(t *testing.T, statements ...string) *file {
	t.Helper()
	f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
	for _, s := range statements {
		f.Exec(t, s)
	}
	return f
}

func dsn(path string) string { return "file:" + (&url.URL{Path: path}).EscapedPath() }

// Open opens the file as weir does.
func (f *file) Open(t *testing.T) sink.Sink {
	t.Helper()
	return open(t, f.path, sqlite.Options{Options: sink.Options{Level: sink.Off}})
}

func open(t *testing.T, path string, o sqlite.Options) *sqlite.DB {
	t.Helper()
	if o.Level == "" {
		o.Level = sink.Full
	}
	o.Log = logtest.New(t)
	d, err := sqlite.Open(t.Context(), path, o)
	testcheck.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// Claims opens claims as weir does.
func (f *file) Claims(t *testing.T, job string) sink.Claims {
	t.Helper()
	return openClaims(t, f.path, job)
}

func openClaims(t *testing.T, path, job string) *sqlite.Claims {
	t.Helper()
	c, err := sqlite.OpenClaims(t.Context(), path, job, sink.Options{Level: sink.Off, Log: logtest.New(t)})
	testcheck.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Exec runs SQL as another program.
func (f *file) Exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Query returns the rows of a query.
func (f *file) Query(t *testing.T, query string) [][]any {
	t.Helper()
	rows, err := f.db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	cols, err := rows.ColumnTypes()
	testcheck.NoError(t, err)
	var all [][]any
	for rows.Next() {
		row, into := make([]any, len(cols)), make([]any, len(cols))
		for i := range row {
			into[i] = &row[i]
		}
		testcheck.NoError(t, rows.Scan(into...))
		for i, v := range row {
			switch v := v.(type) {
			case []byte:
				row[i] = string(v)
			case int64: // SQLite has no booleans, but their columns are declared
				if cols[i].DatabaseTypeName() == "BOOLEAN" {
					row[i] = v != 0
				}
			}
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// Logged returns the size of the write-ahead log, and empties it.
func (f *file) Logged(t *testing.T) int64 {
	t.Helper()
	fi, err := os.Stat(f.path + "-wal")
	if os.IsNotExist(err) {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	if row := f.Query(t, "PRAGMA wal_checkpoint(TRUNCATE)")[0]; row[0] != int64(0) {
		t.Fatalf("the log was not emptied: %v", row)
	}
	return fi.Size()
}
