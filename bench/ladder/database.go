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

// A Database is where a measurement writes: a separate folder or schema next to the user's tables.
type Database interface {
	Name() string
	// Begin creates the folder or schema, and removes the leftovers of killed runs.
	Begin(ctx context.Context, log *slog.Logger) error
	End(ctx context.Context) error
	// Folder is the measurement's folder; "" for a server.
	Folder() string
	// OpenSQL opens the database like an ordinary program, with one connection.
	OpenSQL(ctx context.Context, level sink.Level) (*sql.DB, error)
	// Sink opens the database like weir.
	Sink(ctx context.Context, o sink.Options) (sink.Sink, error)
	// Wipe empties the folder or schema.
	Wipe(ctx context.Context) error
	Usage(ctx context.Context) (Usage, error)
	// Lost describes which commits a power cut loses.
	Lost(level sink.Level) string
	Placeholder(i int) string
}

const nothing = "nothing"

var discard = slog.New(slog.DiscardHandler)

// databases has a constructor for each driver, by name.
var databases = map[string]func(dest string) Database{
	sqlite.Driver.Name: func(path string) Database { return &SQLite{path: path} },
	postgres.Driver.Name: func(dsn string) Database {
		d := NewPostgres(dsn)
		return &d
	},
}

// Open returns where a measurement writes, in a database of a driver.
func Open(driver, dest string) (Database, error) {
	place := databases[driver]
	if place == nil {
		return nil, fmt.Errorf("the ladder cannot measure %s", driver)
	}
	return place(dest), nil
}

// Within prepares db and a folder, runs f, and removes both.
func Within(ctx context.Context, db Database, log *slog.Logger, f func(dir string) error) (err error) {
	if err := db.Begin(ctx, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.End(context.WithoutCancel(ctx))) }()
	if dir := db.Folder(); dir != "" {
		return f(dir)
	}
	files, err := NewPlace(os.TempDir(), PlacePrefix, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Remove()) }()
	return f(files.Dir)
}

// A SQLite is a folder next to the database file.
type SQLite struct {
	path  string
	place *Place
}

// Name implements [Database].
func (d *SQLite) Name() string {
	dir := filepath.Dir(d.path)
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	return "SQLite " + sqlite.Version + ", in " + dir
}

// Placeholder implements [Database].
func (d *SQLite) Placeholder(int) string { return "?" }

// File returns the database's path.
func (d *SQLite) File() string { return filepath.Join(d.place.Dir, "bench.db") }

// Begin implements [Database].
func (d *SQLite) Begin(_ context.Context, log *slog.Logger) (err error) {
	d.place, err = NewPlace(filepath.Dir(d.path), "."+PlacePrefix, log)
	return err
}

// End implements [Database].
func (d *SQLite) End(context.Context) error { return d.place.Remove() }

// Folder implements [Database].
func (d *SQLite) Folder() string { return d.place.Dir }

// Wipe implements [Database].
func (d *SQLite) Wipe(context.Context) error {
	files, err := os.ReadDir(d.place.Dir)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), filepath.Base(d.File())) {
			err = errors.Join(err, os.Remove(filepath.Join(d.place.Dir, f.Name())))
		}
	}
	return err
}

// OpenSQL implements [Database].
func (d *SQLite) OpenSQL(ctx context.Context, level sink.Level) (*sql.DB, error) {
	return OpenSQLite(ctx, d.File(), level)
}

// OpenSQLite opens a file with one connection in WAL mode, and counts its syncs and writes.
func OpenSQLite(ctx context.Context, path string, level sink.Level) (*sql.DB, error) {
	countIO()
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": {"journal_mode(wal)", "synchronous(" + string(level) + ")"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return pinged(ctx, db)
}

// pinged returns a database that has answered; otherwise it closes it.
func pinged(ctx context.Context, db *sql.DB) (*sql.DB, error) {
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Sink implements [Database].
func (d *SQLite) Sink(ctx context.Context, o sink.Options) (sink.Sink, error) {
	countIO()
	return sqlite.Open(ctx, d.File(), sqlite.Options{Options: sink.Options{Level: o.Level, Cache: o.Cache, Log: discard}})
}

// Usage implements [Database].
func (d *SQLite) Usage(context.Context) (Usage, error) {
	u := SQLiteUsage()
	u.Read = DiskRead("self")
	return u, nil
}

// Lost implements [Database].
func (d *SQLite) Lost(level sink.Level) string {
	switch level {
	case sink.Off:
		return "the database, perhaps"
	case sink.Normal:
		return "what was committed since the last sync"
	}
	return nothing
}

// DiskRead returns how many bytes processes, and their children that have ended, have read from the disk; 0 if the
// system does not report it.
func DiskRead(pids ...string) (bytes int64) {
	for _, pid := range pids {
		io, _ := os.ReadFile(filepath.Join("/proc", pid, "io"))
		for line := range strings.Lines(string(io)) {
			var n int64
			if found, _ := fmt.Sscanf(line, "read_bytes: %d", &n); found == 1 {
				bytes += n
			}
		}
	}
	return bytes
}

// schemaPrefix is the prefix of the schemas' names; eight letters and digits follow.
const schemaPrefix = "weir_bench_"

// A Postgres is a schema that the measurement creates and drops.
type Postgres struct {
	dsn    string
	Schema string
	// Control holds a lock on the schema. Its statements are short and never cancelled: pgx closes a connection whose
	// statement is cancelled, and then nothing would drop the schema.
	Control *pgx.Conn
	version int
	words   string
	fsync   bool // the server's setting; without it no commit is safe
}

// NewPostgres returns a schema that does not exist yet, in the database of dsn.
func NewPostgres(dsn string) Postgres {
	return Postgres{dsn: dsn, Schema: schemaPrefix + strings.ToLower(rand.Text()[:8])}
}

// Name implements [Database].
func (d *Postgres) Name() string { return d.words }

// Placeholder implements [Database].
func (d *Postgres) Placeholder(i int) string { return fmt.Sprint("$", i) }

// Begin implements [Database].
func (d *Postgres) Begin(ctx context.Context, log *slog.Logger) (err error) {
	if d.Control, err = pgx.Connect(ctx, cmp.Or(d.dsn, " ")); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	err = d.Control.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, 'Postgres ' || current_setting('server_version') || ', database ' || current_database(), current_setting('fsync')::bool").Scan(&d.version, &d.words, &d.fsync)
	if err == nil {
		err = d.removeLeft(ctx, log)
	}
	if err == nil {
		_, err = d.take(ctx, d.Schema)
	}
	if err == nil {
		_, err = d.Control.Exec(ctx, "CREATE SCHEMA "+d.Schema)
	}
	if err != nil {
		return errors.Join(err, d.Control.Close(ctx))
	}
	return nil
}

// take locks a schema for the life of the session, and reports whether no other session has it.
func (d *Postgres) take(ctx context.Context, schema string) (mine bool, err error) {
	err = d.Control.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", schema).Scan(&mine)
	return mine, err
}

// removeLeft drops this user's schemas that killed runs left behind.
func (d *Postgres) removeLeft(ctx context.Context, log *slog.Logger) error {
	rows, err := d.Control.Query(ctx, "SELECT nspname FROM pg_namespace WHERE nspname ~ $1 AND pg_has_role(nspowner, 'USAGE')", "^"+schemaPrefix+"[a-z2-7]{8}$")
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
		if _, err := d.Control.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			return err
		}
		log.Info(fmt.Sprintf("dropped the schema %s, left by a killed run", schema))
	}
	return err
}

// End implements [Database].
func (d *Postgres) End(ctx context.Context) error {
	_, err := d.Control.Exec(ctx, "DROP SCHEMA IF EXISTS "+d.Schema+" CASCADE")
	return errors.Join(err, d.Control.Close(ctx))
}

// Folder implements [Database].
func (d *Postgres) Folder() string { return "" }

// Wipe implements [Database].
func (d *Postgres) Wipe(ctx context.Context) error {
	_, err := d.Control.Exec(context.WithoutCancel(ctx), "SET client_min_messages = error; DROP SCHEMA "+d.Schema+" CASCADE; CREATE SCHEMA "+d.Schema)
	return err
}

// OpenSQL implements [Database].
func (d *Postgres) OpenSQL(ctx context.Context, level sink.Level) (*sql.DB, error) {
	c, err := pgx.ParseConfig(cmp.Or(d.dsn, " "))
	if err != nil {
		return nil, err
	}
	c.RuntimeParams["search_path"] = d.Schema
	c.RuntimeParams["synchronous_commit"] = commitLevel(level)
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(1)
	return pinged(ctx, db)
}

func commitLevel(level sink.Level) string {
	if level == sink.Full {
		return "on"
	}
	return "off"
}

// InSchema returns a connection string whose search_path is the schema.
func (d *Postgres) InSchema() (string, error) {
	dsn := d.dsn + " search_path=" + d.Schema
	if strings.Contains(d.dsn, "://") {
		u, err := url.Parse(d.dsn)
		if err != nil {
			return "", err
		}
		q := u.Query()
		q.Set("search_path", d.Schema)
		u.RawQuery = q.Encode()
		dsn = u.String()
	}
	return dsn, nil
}

// Sink implements [Database].
func (d *Postgres) Sink(ctx context.Context, o sink.Options) (sink.Sink, error) {
	dsn, err := d.InSchema()
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, dsn, sink.Options{Level: o.Level, Log: discard})
}

// WALWritten is an SQL expression for the bytes written to the server's WAL since it was created.
const WALWritten = "(pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"

// settle is how long a server takes to publish statistics after a connection ended.
const settle = 300 * time.Millisecond

// Usage implements [Database].
func (d *Postgres) Usage(ctx context.Context) (u Usage, err error) {
	time.Sleep(settle)
	syncs := "(SELECT wal_sync FROM pg_stat_wal)"
	if d.version >= 180000 {
		syncs = "(SELECT coalesce(sum(fsyncs), 0)::bigint FROM pg_stat_io WHERE object = 'wal')"
	}
	err = d.Control.QueryRow(context.WithoutCancel(ctx), "SELECT "+syncs+", "+WALWritten).Scan(&u.Syncs, &u.Written)
	return u, err
}

// Lost implements [Database].
func (d *Postgres) Lost(level sink.Level) string {
	switch {
	case !d.fsync:
		return "the database, perhaps: the server's fsync is off"
	case level == sink.Full:
		return nothing
	}
	return "the commits of the last 0.6 s" // 3 times wal_writer_delay
}
