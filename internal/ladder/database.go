package ladder

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// A Database is where the ladder stands: a place of its own beside the user's
// tables, which is empty before each rung.
type Database interface {
	name() string
	// begin makes the place, and removes those of runs that were killed.
	begin(ctx context.Context, log *slog.Logger) error
	end(ctx context.Context) error
	// open opens the place as an ordinary program does, on one connection.
	open(ctx context.Context, level sink.Level) (*sql.DB, error)
	// sink opens the place as weir does.
	sink(ctx context.Context, level sink.Level) (sink.Sink, error)
	// wipe empties the place.
	wipe(ctx context.Context) error
	usage(ctx context.Context) (usage, error)
	// lost is what a power cut takes of what was committed.
	lost(level sink.Level) string
	placeholder(i int) string
}

// usage is what a database has cost so far.
type usage struct{ syncs, written int64 }

const nothing = "nothing"

// databases make the ladder's place by the names of the drivers.
var databases = map[string]func(dest string) Database{
	sqlite.Driver.Name: func(path string) Database { return &sqliteDB{path: path} },
	postgres.Driver.Name: func(dsn string) Database {
		return &postgresDB{dsn: dsn, schema: schemaPrefix + strings.ToLower(rand.Text()[:8])}
	},
}

// Open returns the ladder's place in a database of a driver.
func Open(driver, dest string) (Database, error) {
	place := databases[driver]
	if place == nil {
		return nil, fmt.Errorf("the ladder cannot measure %s", driver)
	}
	return place(dest), nil
}

// A sqliteDB is a folder beside the file.
type sqliteDB struct {
	path  string
	place *place
}

func (d *sqliteDB) name() string {
	dir := filepath.Dir(d.path)
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	return "SQLite " + sqlite.Version + ", in " + dir
}

func (d *sqliteDB) placeholder(int) string { return "?" }
func (d *sqliteDB) file() string           { return filepath.Join(d.place.dir, "ladder.db") }

func (d *sqliteDB) begin(_ context.Context, log *slog.Logger) (err error) {
	d.place, err = newPlace(filepath.Dir(d.path), ".weir-ladder-", log)
	return err
}

func (d *sqliteDB) end(context.Context) error { return d.place.remove() }

func (d *sqliteDB) wipe(context.Context) error {
	files, err := filepath.Glob(d.file() + "*")
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

func (d *sqliteDB) open(ctx context.Context, level sink.Level) (*sql.DB, error) {
	sqlite.CountIO() // makes the file system known
	u := url.URL{Scheme: "file", OmitHost: true, Path: d.file(), RawQuery: url.Values{"vfs": {sqlite.CountingVFS},
		"_pragma": {"journal_mode(wal)", "synchronous(" + string(level) + ")"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, db.PingContext(ctx)
}

func (d *sqliteDB) sink(ctx context.Context, level sink.Level) (sink.Sink, error) {
	sqlite.CountIO()
	return sqlite.Open(ctx, d.file(), sqlite.Options{Synchronous: level, VFS: sqlite.CountingVFS, Log: slog.New(slog.DiscardHandler)})
}

func (d *sqliteDB) usage(context.Context) (usage, error) {
	io := sqlite.CountIO()
	return usage{io.Syncs, io.Written}, nil
}

func (d *sqliteDB) lost(level sink.Level) string {
	switch level {
	case sink.Off:
		return "the database, perhaps"
	case sink.Normal:
		return "what was committed since the last sync"
	}
	return nothing
}

// schemaPrefix begins the names of the ladder's schemas; eight letters and digits follow.
const schemaPrefix = "weir_ladder_"

// A postgresDB is a schema that the ladder makes and drops.
type postgresDB struct {
	dsn, schema string
	// control has the schema locked. Its statements are short and end by themselves: pgx closes a
	// connection whose statement is cancelled, and then nothing would drop the schema.
	control *pgx.Conn
	version int
	words   string
}

func (d *postgresDB) name() string             { return d.words }
func (d *postgresDB) placeholder(i int) string { return fmt.Sprint("$", i) }

func (d *postgresDB) begin(ctx context.Context, log *slog.Logger) (err error) {
	if d.control, err = pgx.Connect(ctx, cmp.Or(d.dsn, " ")); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	err = d.control.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, 'Postgres ' || current_setting('server_version') || ', database ' || current_database()").Scan(&d.version, &d.words)
	if err == nil {
		err = d.removeLeft(ctx, log)
	}
	if err == nil {
		_, err = d.take(ctx, d.schema)
	}
	if err == nil {
		_, err = d.control.Exec(ctx, "CREATE SCHEMA "+d.schema)
	}
	if err != nil {
		return errors.Join(err, d.control.Close(ctx))
	}
	return nil
}

// take locks a schema for as long as the session lives, and reports whether no other
// session has it.
func (d *postgresDB) take(ctx context.Context, schema string) (mine bool, err error) {
	err = d.control.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", schema).Scan(&mine)
	return mine, err
}

// removeLeft drops the schemas of this user that runs which were killed have left.
func (d *postgresDB) removeLeft(ctx context.Context, log *slog.Logger) error {
	rows, err := d.control.Query(ctx, "SELECT nspname FROM pg_namespace WHERE nspname ~ $1 AND pg_has_role(nspowner, 'USAGE')", "^"+schemaPrefix+"[a-z2-7]{8}$")
	if err != nil {
		return err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, schema := range left {
		mine, err := d.take(ctx, schema)
		if err != nil {
			return err
		}
		if !mine {
			continue
		}
		if _, err := d.control.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			return err
		}
		log.Info(fmt.Sprintf("dropped the schema %s, which a run that was killed had left", schema))
	}
	return err
}

func (d *postgresDB) end(ctx context.Context) error {
	_, err := d.control.Exec(ctx, "DROP SCHEMA IF EXISTS "+d.schema+" CASCADE")
	return errors.Join(err, d.control.Close(ctx))
}

func (d *postgresDB) wipe(ctx context.Context) error {
	_, err := d.control.Exec(context.WithoutCancel(ctx), "SET client_min_messages = error; DROP SCHEMA "+d.schema+" CASCADE; CREATE SCHEMA "+d.schema)
	return err
}

func (d *postgresDB) open(ctx context.Context, level sink.Level) (*sql.DB, error) {
	c, err := pgx.ParseConfig(cmp.Or(d.dsn, " "))
	if err != nil {
		return nil, err
	}
	c.RuntimeParams["search_path"] = d.schema
	c.RuntimeParams["synchronous_commit"] = commitLevel(level)
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(1)
	return db, db.PingContext(ctx)
}

func commitLevel(level sink.Level) string {
	if level == sink.Full {
		return "on"
	}
	return "off"
}

func (d *postgresDB) sink(ctx context.Context, level sink.Level) (sink.Sink, error) {
	dsn := d.dsn + " search_path=" + d.schema
	if strings.Contains(d.dsn, "://") {
		u, err := url.Parse(d.dsn)
		if err != nil {
			return nil, err
		}
		q := u.Query()
		q.Set("search_path", d.schema)
		u.RawQuery = q.Encode()
		dsn = u.String()
	}
	return postgres.Open(ctx, dsn, sink.Options{Level: level, Log: slog.New(slog.DiscardHandler)})
}

// settle is how long a server's statistics take to be known after a connection
// ended.
const settle = 300 * time.Millisecond

func (d *postgresDB) usage(ctx context.Context) (u usage, err error) {
	time.Sleep(settle)
	syncs := "(SELECT wal_sync FROM pg_stat_wal)"
	if d.version >= 180000 {
		syncs = "(SELECT coalesce(sum(fsyncs), 0)::bigint FROM pg_stat_io WHERE object = 'wal')"
	}
	err = d.control.QueryRow(context.WithoutCancel(ctx), "SELECT "+syncs+", (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").Scan(&u.syncs, &u.written)
	return u, err
}

func (d *postgresDB) lost(level sink.Level) string {
	if level == sink.Full {
		return nothing
	}
	return "the commits of the last 0.6 s" // 3 times wal_writer_delay
}
