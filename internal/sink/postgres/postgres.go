// Package postgres is the driver for Postgres.
//
// A flush goes to the server as one string of statements with the rows behind
// it, and is answered at the COMMIT: one round trip, whatever its size and the number
// of its tables, unless rows are read first (versions, repeated rows), tables are emptied,
// or the flush is sent again or in pieces. The string begins with the fence. For each table it copies the rows into
// a staging table, and brings the table up to date from there with one MERGE that leaves
// as it is what does not change.
//
// A flush goes through the files in this order. flush.go tries it until it is written. begin.go makes the tables fit
// (grow.go, rebuild.go) and begins the transaction: settings (planner.go), fence (lanes.go), locks. plan.go decides how the
// rows of each table are written; version.go with children.go, or repeated.go, first read what the table has of them.
// upsert.go has the statements, of a shape (shape.go, resolved.go), from a staging table (stage.go); wire.go sends them.
// outcome.go ends the transaction and takes what came of it; cause.go has what follows an error, and refused.go writes in
// pieces what the database rejects.
package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// DB is a [sink.Sink] for one database.
type DB struct {
	*client
	sink.Ledger
	named string // the job that the session is named after

	tables map[string]*table // that were read, by the names that the feed uses
	stuck  map[string]string // columns of weir's that could not be widened, and why

	last  lastFlush
	wrote bool // a flush was committed
}

// A table is what is known of one that flushes write.
type table struct {
	relation
	n     int      // the table's, among those that were read
	key   []string // by the names that the feed uses
	stage stage
	// unmergeable tells that the server refuses a MERGE.
	unmergeable bool
	news        guess // whether the rows of the next batch seem to be all new
	repeats     bool  // the last batch repeated what was there, so that the next one may
	// incomparable tells that comparing rows before they are staged gains nothing for this table.
	incomparable bool
	names        []string  // the numbered columns of its versions, as of the last flush
	orphans      time.Time // when states of its rows are looked at for those that somebody else has deleted
}

var (
	_ sink.Sink        = (*DB)(nil)
	_ sink.Expirer     = (*DB)(nil)
	_ sink.DeadLetters = (*DB)(nil)
	_ sink.Forgetter   = (*DB)(nil)
	_ sink.Inspector   = (*DB)(nil)
)

const (
	maxColumns = 1590
	maxName    = 63   // bytes, NAMEDATALEN - 1
	maxKey     = 2600 // bytes; an index takes 2704 with all that is around them

	// A row has to fit a page, of which 8,160 bytes are its own. In it, a value that is stored elsewhere takes 18 bytes, and up to
	// 24 bytes are stored nowhere else. A staging table has some columns more.
	safeColumns = 320

	closeTimeout = 10 * time.Second
)

// Open connects to a database to write.
func Open(ctx context.Context, dsn string, o sink.Options) (*DB, error) {
	return open(ctx, dsn, o, false)
}

// Inspect connects to a database to read: any server will do.
func Inspect(ctx context.Context, dsn string, o sink.Options) (*DB, error) {
	return open(ctx, dsn, o, true)
}

func open(ctx context.Context, dsn string, o sink.Options, reads bool) (*DB, error) {
	c, err := newClient(dsn, o, reads)
	if err != nil {
		return nil, err
	}
	d := &DB{client: c, tables: map[string]*table{}, stuck: map[string]string{}}
	d.Ledger = d.ask
	return d, d.connect(ctx)
}

// connect makes a connection where there is none.
func (d *DB) connect(ctx context.Context) error {
	made, err := d.client.connect(ctx)
	if err != nil || !made {
		return err
	}
	d.named = ""
	for _, t := range d.tables {
		t.stage = stage{}
	}
	pooled := ""
	if d.pooled {
		pooled = ", behind a pooler: a staging table is made for each flush"
	}
	d.opt.Log.Debug(fmt.Sprintf("Postgres %d at %s%s", d.version/10000, d.where(), pooled))
	if d.opt.Level == sink.Extra && !d.replicated {
		d.opt.Log.Debug("the server has no synchronous standby: --synchronous extra waits for its own disk alone, as full does")
	}
	return nil
}

// Caps implements [sink.Sink].
func (d *DB) Caps() sink.Caps { return caps }

// Close implements [sink.Sink].
func (d *DB) Close() error {
	if d.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if d.opt.Level == sink.Normal && d.wrote {
		// A commit that waits for the disk takes all before it along.
		_, err = d.query(ctx, "BEGIN", "SET LOCAL synchronous_commit = on", "UPDATE "+d.schema+".weir_meta SET value = value WHERE name = 'format'", "COMMIT")
	}
	d.close(ctx)
	return d.sinkError(err)
}

// number reads an integer of the server's; anything else is 0.
func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}

// systemColumns are in every table.
var systemColumns = []string{"tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"}

// caps are what the driver can do.
var caps = sink.Caps{Columns: maxColumns, Limits: schema.Limits{NoNUL: true, MaxName: maxName, MaxKey: maxKey, SafeColumns: safeColumns, Reserved: systemColumns}}

// Driver is the [sink.Driver] for Postgres.
var Driver = sink.Driver{
	Name:  "Postgres",
	Usage: "postgres://… or postgres: (all from PG* variables)",
	Parse: parseDest,
	Files: func(string) []string { return nil },
	Caps:  caps,
	Plan:  Plan,
	Open: func(ctx context.Context, dsn string, o sink.Options) (sink.Sink, error) {
		return Open(ctx, dsn, o)
	},
	OpenClaims: func(ctx context.Context, dsn, job string, o sink.Options) (sink.Claims, error) {
		return OpenClaims(ctx, dsn, job, o)
	},
	Inspect: func(ctx context.Context, dsn string, o sink.Options) (sink.Inspector, error) {
		return Inspect(ctx, dsn, o)
	},
}

// commitLevels are the values of synchronous_commit. At Normal, Close waits for the disk.
var commitLevels = map[sink.Level]string{sink.Off: "off", sink.Normal: "off", sink.Full: "on", sink.Extra: "remote_apply"}

// keywords matches the beginning of a connection string of keywords and values.
var keywords = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|target_session_attrs|application_name)\s*=`)

// parseDest takes a connection string; one that is not a URL may have the scheme too.
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

// tableOf is what is known of a table.
func (d *DB) tableOf(name string) *table {
	t := d.tables[name]
	if t == nil {
		t = &table{n: len(d.tables)}
		d.tables[name] = t
	}
	return t
}
