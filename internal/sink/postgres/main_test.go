package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testpg.Tests{M: m})
}

// TestSuite runs the suite of all drivers.
func TestSuite(t *testing.T) {
	dbs := databases{create: func() string { return testpg.New(t) }}
	sinktest.Test(t, sinktest.Harness{New: func(t *testing.T) sinktest.Database { return dbs.empty(t) }})
}

// databases are those that tests in parallel use in turn.
type databases struct {
	create func() (url string)
	mu     sync.Mutex
	free   []string
}

// empty connects to a free database and empties it.
func (d *databases) empty(t *testing.T) *database {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.free) == 0 {
		d.free = append(d.free, d.create())
	}
	url := d.free[0]
	d.free = d.free[1:]
	t.Cleanup(func() { // after the connections have ended
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free = append(d.free, url)
	})
	return connectEmpty(t, url)
}

// connectEmpty connects to a database and empties it, in a tenth of the time that a new one takes.
func connectEmpty(t *testing.T, url string) *database {
	t.Helper()
	db := connect(t, url)
	db.Exec(t, "DROP SCHEMA public CASCADE")
	db.Exec(t, "CREATE SCHEMA public")
	db.Exec(t, "GRANT USAGE ON SCHEMA public TO PUBLIC") // as in a new database
	return db
}

// inEachForm are the groups of the suite that depend on who owns the tables, or on a session.
var inEachForm = []string{"Merge", "Table", "Refused", "Transaction", "Fence", "Lanes", "Tables", "Several", "Checkpoints", "Ledger", "Claim", "Inspector", "Driver",
	"Log", "Unchanged", "Version", "Stamps", "OnCreate", "ForeignKeys", "Surrogates", "References", "Stream", "Append", "Faults"}

// TestSuite_Forms runs these groups in two more forms: as a user who does not own the tables; and behind a pooler, with
// another staging table. Each form has its own server, because the suite measures a server's log.
func TestSuite_Forms(t *testing.T) {
	t.Parallel()
	testcheck.Only(t)
	t.Run("user", func(t *testing.T) {
		t.Parallel()
		server := testpg.Start(t)
		dbs := databases{create: func() string { return server.Database(t) }}
		admin := connect(t, server.URL("postgres"))
		admin.Exec(t, "CREATE ROLE app LOGIN")
		admin.Exec(t, "GRANT app TO postgres")
		sinktest.Test(t, sinktest.Harness{Groups: inEachForm, New: func(t *testing.T) sinktest.Database {
			db := dbs.empty(t)
			db.as(t, "app")
			// The suite's tables have their own owner; weir owns its tables.
			db.Exec(t, "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app")
			db.Exec(t, "SET ROLE app")
			return db
		}})
	})
	t.Run("pooled", func(t *testing.T) {
		t.Parallel()
		server := testpg.Start(t)
		dbs := databases{create: func() string { return server.Database(t) }}
		pooler := testpg.Pool(t, server.URL("postgres"), "transaction")
		pooler = pooler[:strings.LastIndex(pooler, "/")]
		sinktest.Test(t, sinktest.Harness{Groups: inEachForm, New: func(t *testing.T) sinktest.Database {
			db := dbs.empty(t)
			db.pooled = true
			db.weir = pooler + db.url[strings.LastIndex(db.url, "/"):]
			return db
		}})
	})
}

// database is a database as another program sees it.
type database struct {
	url  string
	weir string // where weir connects, if different
	conn *pgx.Conn
	opt  sink.Options
	wal  string // the log position at the last call of Logged

	pooled bool // weir has no session of its own, so no session can hold a lane
}

// Has reports traits: only the server creates databases.
func (d *database) Has(trait sinktest.Trait) bool {
	return trait != sinktest.Creatable && (trait != sinktest.Claimable || !d.pooled)
}

// Driver returns the driver of weir.
func (d *database) Driver() (sink.Driver, string) {
	return postgres.Driver, cmp.Or(d.weir, d.url)
}

func connect(t *testing.T, url string) *database {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	testcheck.NoError(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return &database{url: url, conn: c}
}

// Open opens the database as weir does.
func (d *database) Open(t *testing.T) sink.Sink {
	t.Helper()
	return d.open(t, cmp.Or(d.weir, d.url))
}

// Claims opens the claims of a job as weir does.
func (d *database) Claims(t *testing.T, job string) sink.Claims {
	t.Helper()
	c, err := postgres.OpenClaims(t.Context(), cmp.Or(d.weir, d.url), job, d.options(t))
	testcheck.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// options returns the driver's options.
func (d *database) options(t *testing.T) sink.Options {
	o := d.opt
	o.Level = cmp.Or(o.Level, sink.Full)
	o.Log = cmp.Or(o.Log, logtest.New(t))
	return o
}

func (d *database) open(t *testing.T, url string) sink.Sink {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, d.options(t))
	testcheck.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// tryOpen returns the error of opening the database.
func (d *database) tryOpen(t *testing.T) error {
	t.Helper()
	db, err := postgres.Open(t.Context(), cmp.Or(d.weir, d.url), d.options(t))
	if err != nil {
		return err
	}
	_, err = db.Tables(t.Context(), sink.TableKey{Name: "t", Key: []string{"id"}})
	if failed, ok := errors.AsType[*sink.Error](err); !ok || failed.Reason != "permission" {
		err = nil
	}
	return errors.Join(err, db.Close())
}

// as connects weir as a user who may create tables, and no more.
func (d *database) as(t *testing.T, role string) {
	t.Helper()
	d.Exec(t, "DO $$ BEGIN CREATE ROLE "+role+" LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$")
	d.Exec(t, "GRANT CREATE ON SCHEMA public TO "+role)
	if d.weir == "" {
		d.weir = d.url
	}
	d.weir = strings.Replace(d.weir, "//postgres@", "//"+role+"@", 1)
}

// set changes a setting for new sessions.
func (d *database) set(t *testing.T, setting string) {
	t.Helper()
	d.Exec(t, "ALTER DATABASE "+d.conn.Config().Database+" SET "+setting)
}

// Exec runs SQL as another program.
func (d *database) Exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := d.conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Query returns the rows of a query.
func (d *database) Query(t *testing.T, query string) [][]any {
	t.Helper()
	r := d.conn.PgConn().ExecParams(t.Context(), query, nil, nil, nil, nil)
	var all [][]any
	for r.NextRow() {
		row := make([]any, len(r.Values()))
		for i, v := range r.Values() {
			if v != nil {
				row[i] = value(r.FieldDescriptions()[i], string(v))
			}
		}
		all = append(all, row)
	}
	if _, err := r.Close(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// The types that are not returned as text; see pg_type.
const (
	oidBool, oidInt8, oidInt4, oidInt2 = 16, 20, 23, 21
	oidFloat4, oidFloat8, oidNumeric   = 700, 701, 1700
)

func value(f pgconn.FieldDescription, text string) any {
	switch f.DataTypeOID {
	case oidBool:
		return text == "t"
	case oidInt2, oidInt4, oidInt8:
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	case oidFloat4, oidFloat8:
		n, _ := strconv.ParseFloat(text, 64)
		return n
	}
	return text
}

// Logged returns the bytes written to the write-ahead log.
func (d *database) Logged(t *testing.T) int64 {
	t.Helper()
	if d.wal == "" {
		d.wal = "0/0"
	}
	row := d.Query(t, fmt.Sprintf("SELECT pg_current_wal_insert_lsn(), (pg_current_wal_insert_lsn() - '%s')::bigint", d.wal))[0]
	d.wal = row[0].(string)
	return row[1].(int64)
}

// one returns the only cell of a query, as text.
func (d *database) one(t *testing.T, query string) string {
	t.Helper()
	rows := d.Query(t, query)
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%s: %v", query, rows)
	}
	return fmt.Sprint(rows[0][0])
}
