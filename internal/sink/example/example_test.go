package example

import (
	"database/sql"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite: the driver passes the parts of the suite that apply to it.
func TestSuite(t *testing.T) {
	sinktest.Test(t, sinktest.Harness{New: newFile, Groups: []string{"Fold", "Append", "Columns", "Table", "Refused", "Transaction", "Fence", "Lanes",
		"Tables", "Several", "Checkpoints", "Driver", "Unchanged", "Stream"}})
}

// file is a database as another program sees it.
type file struct {
	path string
	db   *sql.DB
}

func newFile(t *testing.T) sinktest.Database {
	f := &file{path: filepath.Join(t.TempDir(), "t.db")}
	var err error
	if f.db, err = open(t.Context(), f.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.db.Close() })
	return f
}

// Has reports traits.
func (f *file) Has(trait sinktest.Trait) bool { return false }

// Driver returns the driver.
func (f *file) Driver() (sink.Driver, string) { return Driver, "example:" + f.path }

// Open opens the database as weir does.
func (f *file) Open(t *testing.T) sink.Sink {
	t.Helper()
	s, err := Driver.Open(t.Context(), f.path, sink.Options{})
	testcheck.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Claims opens the claims of a job as weir does.
func (f *file) Claims(t *testing.T, job string) sink.Claims {
	t.Helper()
	c, err := Driver.OpenClaims(t.Context(), f.path, job, sink.Options{})
	testcheck.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Exec runs a statement.
func (f *file) Exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Query returns the rows of a query.
func (f *file) Query(t *testing.T, statement string) (all [][]any) {
	t.Helper()
	all, err := testweir.Cells(f.db, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return all
}

// Logged implements [sinktest.Database]. It is not called: the driver does not count its log.
func (f *file) Logged(t *testing.T) int64 {
	t.Fatal("the database has no log")
	return 0
}
