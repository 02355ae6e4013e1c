package sink

import (
	"context"
	"log/slog"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Driver is a kind of database, as the program sees it. A dest is a value that its Parse returned.
type Driver struct {
	Name  string // of the kind, such as "SQLite"
	Usage string // the forms of --to for such a database
	// Parse returns the database that --to names. ok is false if it names another kind. An error means wrong usage, and
	// contains no secrets.
	Parse func(to string) (dest string, ok bool, err error)
	// Files returns the paths that only the database may write; nil for a server.
	Files func(dest string) []string
	Caps  Caps // of a database that does not exist yet
	// Plan returns, to show to the user, the statements that would create a table for a batch.
	Plan func(want *schema.Table) []string
	// Open opens a database for writing. It creates the database if the kind allows that.
	Open func(ctx context.Context, dest string, o Options) (Sink, error)
	// OpenClaims opens a job's claims in an existing database.
	OpenClaims func(ctx context.Context, dest, job string, o Options) (Claims, error)
	// Inspect opens a database for reading. The error is [fs.ErrNotExist] if it is missing. Inspect is nil if the
	// driver has no Inspector: status, verify, forget and the rejects on the status page are then unavailable.
	Inspect func(ctx context.Context, dest string, o Options) (Inspector, error)
}

// Reader opens a database for reading. The error is a [LacksError] if the driver has no [Inspector].
func (d *Driver) Reader(ctx context.Context, dest string, o Options) (Inspector, error) {
	if d.Inspect == nil {
		return nil, LacksError{"read what it has written"}
	}
	return d.Inspect(ctx, dest, o)
}

// Options are the options of every driver.
type Options struct {
	Level Level // durability of commits; unused by an Inspector
	// IgnoreForeignKeys: flushes neither check foreign keys nor run their actions.
	IgnoreForeignKeys bool
	Cache             int // bytes of the cache inside the program, if the database has one; 0: the driver's default
	// Stop ends when the run is stopped. What waits for an unavailable database then soon gives up. It may be nil.
	Stop context.Context
	Log  *slog.Logger
}

// A Level is how durable a commit is.
type Level string

// The levels, from the fastest to the safest.
const (
	Off    Level = "off"    // a crash may damage a database without a protecting log
	Normal Level = "normal" // a power cut may lose the last commits
	Full   Level = "full"   // survives a power cut
	Extra  Level = "extra"  // survives the loss of the primary's disk, if there is a standby
)

// An Inspector reads a database and writes nothing. One goroutine at a time calls its methods.
type Inspector interface {
	// Caps and Tables are like the methods of [Sink].
	Caps() Caps
	Tables(ctx context.Context, wanted ...TableKey) ([]schema.Table, error)
	// Status returns what the database has about jobs and rejects.
	Status(ctx context.Context) (Status, error)
	// Rejects calls each with every rejected line kept, in the order in which they were rejected, up to the last one when
	// it was called. If job is not empty, it returns only that job's.
	Rejects(ctx context.Context, job string, each func(Kept) error) error
	// StoredRejects returns the number of a job's rejected lines.
	StoredRejects(ctx context.Context, job string) (int64, error)
	// Sample returns a table's row count, and at most n of its rows as JSON objects.
	Sample(ctx context.Context, table string, n int) (rows []string, total int64, err error)
	// Compare looks up the rows of a batch, which hold everything that their messages set. It calls differs for each
	// difference from the table, until differs returns false.
	Compare(ctx context.Context, b *fold.Batch, differs func(Difference) bool) error
	// Others calls each with the key, formatted for messages, of every row in the table that is not in the batch, until
	// each returns false.
	Others(ctx context.Context, b *fold.Batch, each func(key string) bool) error
	// Sums is Compare for a table without a key. It returns checksums of the table's rows and of the batch's, over the
	// batch's columns that have no default.
	Sums(ctx context.Context, b *fold.Batch) (have, want RowSum, err error)
	// Close releases the database. It is safe to call it twice.
	Close() error
}
