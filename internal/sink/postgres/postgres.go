// Package postgres is the driver for Postgres.
//
// A flush is one string of statements with the rows after it, and the server replies at the COMMIT: one round trip,
// whatever its size and the number of its tables, unless rows are read first (versions, repeated rows), tables are
// emptied, or the flush is resent or split into pieces. The string begins with settings and the fence. For each table
// it copies the rows into the table, or into a staging table, from which an upsert or a MERGE writes those that change.
//
// A flush goes through the files in this order. flush.go tries it until it is written. begin.go adapts the tables
// (grow.go, rebuild.go) and begins the transaction: settings, fence, locks. plan.go decides how
// each table's rows are written; version.go or repeated.go first read what the table has, and children.go what goes
// with other tables' rows. upsert.go has the statements, for a shape (shape.go, resolved.go), from a staging table
// (stage.go); wire.go sends them. outcome.go ends the transaction and handles the results; cause.go handles errors, and
// refused.go writes rows in pieces if the database rejects some.
package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// DB is a [sink.Sink] for one database.
type DB struct {
	*client
	sink.Ledger

	tables map[string]*table // tables read, by the feed's names
	stuck  map[string]string // columns of weir's that could not be widened, and why

	// The previous flush, which may be resent if the reply to its COMMIT was lost, and its result, as far as replies have
	// arrived.
	lastID     string
	lastResult sink.Result
}

// A table is what is known about a table that flushes write.
type table struct {
	relation
	n       int      // its number among the tables read
	key     []string // the feed's names
	stage   stage
	news    guess // whether the rows of the next batch are probably all new
	repeats bool  // the last batch repeated existing rows, so the next one may, too
	// incomparable says that comparing rows before they are staged gains nothing for this table.
	incomparable bool
}

var (
	_ sink.RejectDropper = (*DB)(nil)
	_ sink.Housekeeper   = (*DB)(nil)
	_ sink.Forgetter     = (*DB)(nil)
)

const (
	maxColumns = 1590
	maxName    = 63   // bytes, NAMEDATALEN - 1
	maxKey     = 2600 // bytes; an index entry holds 2704, including overhead

	// A row must fit into a page, which has room for 8,160 bytes of it. A value that is stored elsewhere takes 18 bytes
	// in the row, and up to 24 bytes are never stored elsewhere. A staging table has some more columns.
	safeColumns = 320

	closeTimeout = 10 * time.Second
)

// Open connects to a database for writing.
func Open(ctx context.Context, dsn string, o sink.Options) (sink.Sink, error) {
	return open(ctx, dsn, o, false)
}

// Inspect connects to a database for reading: any server will do.
func Inspect(ctx context.Context, dsn string, o sink.Options) (sink.Inspector, error) {
	return open(ctx, dsn, o, true)
}

func open(ctx context.Context, dsn string, o sink.Options, reads bool) (*DB, error) {
	c, err := newClient(dsn, o, reads)
	if err != nil {
		return nil, err
	}
	d := &DB{client: c, tables: map[string]*table{}, stuck: map[string]string{}}
	d.Ledger = d.ledger()
	return d, d.connect(ctx)
}

// connect connects if necessary.
func (d *DB) connect(ctx context.Context) error {
	made, err := d.client.connect(ctx)
	if err != nil || !made {
		return err
	}
	for _, t := range d.tables {
		t.stage = stage{}
	}
	pooled := ""
	if d.pooled {
		pooled = ", behind a pooler: a staging table is made for each flush"
	}
	d.opt.Log.Debug(fmt.Sprintf("Postgres %d at %s%s", d.version/10000, d.where(), pooled))
	return nil
}

// Caps implements [sink.Sink].
func (d *DB) Caps() sink.Caps { return caps }

// Close implements [sink.Sink].
func (d *DB) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	d.close(ctx)
	return nil
}

// systemColumns are in every table.
var systemColumns = []string{"tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"}

// caps are the driver's limits.
var caps = sink.Caps{Columns: maxColumns, Children: true, Limits: schema.Limits{NoNUL: true, MaxName: maxName, MaxKey: maxKey, SafeColumns: safeColumns, Reserved: systemColumns}}

// Driver is the [sink.Driver] for Postgres.
var Driver = sink.Driver{
	Name:  "Postgres",
	Usage: "postgres://… or postgres: (all from PG* variables)",
	Parse: parseDest,
	Files: func(string) []string { return nil },
	Caps:  caps,
	Plan:  Plan,
	Open:  Open, OpenClaims: OpenClaims, Inspect: Inspect,
}

// commitLevels are the values of synchronous_commit.
var commitLevels = map[sink.Level]string{sink.Off: "off", sink.Normal: "off", sink.Full: "on", sink.Extra: "remote_apply"}

// keywords matches the start of a connection string of keywords and values, with a known keyword or two of any name.
var keywords = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|target_session_attrs|application_name)\s*=|^\s*\w+\s*=\s*\S+\s+\w+\s*=`)

// parseDest parses a connection string; one of keywords may also have the scheme.
func parseDest(to string) (dsn string, ok bool, err error) {
	dsn, named := strings.CutPrefix(to, "postgres:")
	if !named && !strings.HasPrefix(to, "postgresql:") && !keywords.MatchString(to) {
		return "", false, nil
	}
	if !named || strings.HasPrefix(dsn, "//") {
		dsn = to
	}
	_, err = Parse(dsn)
	return dsn, true, err
}

// tableOf returns what is known about a table.
func (d *DB) tableOf(name string) *table {
	t := d.tables[name]
	if t == nil {
		t = &table{n: len(d.tables)}
		d.tables[name] = t
	}
	return t
}
