package sink

import (
	"context"
	"log/slog"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A Driver is one kind of database, as the program knows it. A dest is what its Parse
// returned.
type Driver struct {
	Name    string // of the kind: "SQLite"
	Version string // of the database that is built in; "" where it is a server
	Usage   string // the forms of --to that name such a database
	// Parse returns the database that --to names. ok is false where it names none of this
	// kind. An error is wrong usage, and holds no secrets.
	Parse func(to string) (dest string, ok bool, err error)
	// Files returns the paths that only the database may write; nil where it is a server.
	Files func(dest string) []string
	Caps  Caps // of a database that does not exist yet
	// Plan returns the statements that would make a table what a batch needs, for people.
	Plan func(want *schema.Table) []string
	// Open opens a database to write, and makes it where the kind is one that a program makes.
	Open func(ctx context.Context, dest string, o Options) (Sink, error)
	// OpenClaims opens the claims of a job in a database that is open.
	OpenClaims func(ctx context.Context, dest, job string, o Options) (Claims, error)
	// Inspect opens a database to read. The error is [fs.ErrNotExist] if it is missing. nil if the driver has no
	// Inspector: then the database has no status, verify and forget, and no status page with its rejects.
	Inspect func(ctx context.Context, dest string, o Options) (Inspector, error)
}

// Reader opens a database to read. The error is a [LacksError] if the driver has no [Inspector].
func (d *Driver) Reader(ctx context.Context, dest string, o Options) (Inspector, error) {
	if d.Inspect == nil {
		return nil, LacksError{"read what it has written"}
	}
	return d.Inspect(ctx, dest, o)
}

// Options are those that every driver takes.
type Options struct {
	Level Level // of what is committed; an Inspector needs none
	// IgnoreForeignKeys: flushes neither check foreign keys nor run their actions.
	IgnoreForeignKeys bool
	Cache             int // bytes of a cache inside the program, where the database has one; 0: the driver's default
	Log               *slog.Logger
}

// A Level is how safe a commit is from a power cut.
type Level string

// The levels, from the fastest to the safest.
const (
	Off    Level = "off"    // the database may be damaged, where it has no log that protects it
	Normal Level = "normal" // the last commits may be lost
	Full   Level = "full"   // nothing is lost
	Extra  Level = "extra"  // nor is it, where the disk of a server is lost that has a standby
)

// Levels are all of them.
var Levels = []Level{Off, Normal, Full, Extra}

// An Inspector reads a database, and writes nothing. Its methods are called by one
// goroutine at a time.
type Inspector interface {
	// Caps and Tables are those of [Sink].
	Caps() Caps
	Tables(ctx context.Context, wanted ...TableKey) ([]schema.Table, error)
	// Status returns what the database knows of jobs and rejects.
	Status(ctx context.Context) (Status, error)
	// Rejects calls each with every rejected line that is kept, in the order in which they
	// were rejected; of one job alone where job is not empty.
	Rejects(ctx context.Context, job string, each func(Kept) error) error
	// LastRejects returns the n rejected lines of a job that were kept last, the last one first.
	LastRejects(ctx context.Context, job string, n int) ([]Kept, error)
	// StoredRejects returns how many rejected lines of a job are kept.
	StoredRejects(ctx context.Context, job string) (int64, error)
	// Sample returns the number of rows of a table, and at most n of them as JSON objects.
	Sample(ctx context.Context, table string, n int) (rows []string, total int64, err error)
	// Compare looks up the rows of a batch, which hold all that their messages make, and
	// calls differs for each that the table has otherwise, until it returns false.
	Compare(ctx context.Context, b *fold.Batch, differs func(Difference) bool) error
	// Others calls each with the key of every row of the table that a batch does not name, for
	// people, until it returns false.
	Others(ctx context.Context, b *fold.Batch, each func(key string) bool) error
	// Sums is Compare for a table without a key: it returns checksums of the table's rows and of the batch's, over the
	// columns that the batch names and that have no default.
	Sums(ctx context.Context, b *fold.Batch) (have, want RowSum, err error)
	// Close releases the database. It is safe to call it twice.
	Close() error
}
