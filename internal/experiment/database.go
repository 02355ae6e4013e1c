package experiment

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// A Database is where an experiment writes: a place of its own beside the user's tables.
type Database interface {
	name() string
	// begin makes the place, and removes those of runs that were killed.
	begin(ctx context.Context, log *slog.Logger) error
	end(ctx context.Context) error
	// folder is the place's; "" where a server has it that runs already.
	folder() string
	// open opens the place as an ordinary program does, on one connection.
	open(ctx context.Context, level sink.Level) (*sql.DB, error)
	// sink opens the place as weir does.
	sink(ctx context.Context, o sink.Options) (sink.Sink, error)
	// prefetch sets what of a run reads rows of the place before they are written.
	prefetch(c *job.Config)
	// wipe empties the place.
	wipe(ctx context.Context) error
	usage(ctx context.Context) (usage, error)
	// size is that of the place's tables, in bytes.
	size(ctx context.Context) (int64, error)
	// wal is the size of SQLite's log; of Postgres', what was written since it was at a place.
	wal(ctx context.Context, since int64) (int64, error)
	// held reports whether the database belongs to this process, or to one that it starts, so that a
	// limit of its memory holds the database, too.
	held() bool
	// buffers are the bytes of the server's shared buffers; 0: it has none.
	buffers(ctx context.Context) (int64, error)
	// lost is what a power cut takes of what was committed.
	lost(level sink.Level) string
	placeholder(i int) string
}

// usage is what a database has cost so far.
type usage struct{ syncs, written, read int64 }

const nothing = "nothing"

var discard = slog.New(slog.DiscardHandler)

// readerCache is SQLite's page cache of a connection that reads, as weir sync --prefetch has it.
const readerCache = 1 << 20 // bytes

// databases make the place by the names of the drivers.
var databases = map[string]func(dest string) Database{
	sqlite.Driver.Name: func(path string) Database { return &sqliteDB{path: path} },
	postgres.Driver.Name: func(dsn string) Database {
		d := newPostgresDB(dsn)
		return &d
	},
}

// Open returns the place of an experiment in a database of a driver.
func Open(driver, dest string) (Database, error) {
	place := databases[driver]
	if place == nil {
		return nil, fmt.Errorf("weir bench cannot measure %s", driver)
	}
	return place(dest), nil
}

// within makes the place in db, has f write there, and to files in a folder, and removes both.
func within(ctx context.Context, db Database, log *slog.Logger, f func(dir string) error) (err error) {
	if err := db.begin(ctx, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.end(context.WithoutCancel(ctx))) }()
	if dir := db.folder(); dir != "" {
		return f(dir)
	}
	files, err := newPlace(os.TempDir(), placePrefix, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.remove()) }()
	return f(files.dir)
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
func (d *sqliteDB) file() string           { return filepath.Join(d.place.dir, "bench.db") }

func (d *sqliteDB) begin(_ context.Context, log *slog.Logger) (err error) {
	d.place, err = newPlace(filepath.Dir(d.path), "."+placePrefix, log)
	return err
}

func (d *sqliteDB) end(context.Context) error { return d.place.remove() }

func (d *sqliteDB) folder() string { return d.place.dir }

func (d *sqliteDB) wipe(context.Context) error {
	files, err := os.ReadDir(d.place.dir)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), filepath.Base(d.file())) {
			err = errors.Join(err, os.Remove(filepath.Join(d.place.dir, f.Name())))
		}
	}
	return err
}

func (d *sqliteDB) open(ctx context.Context, level sink.Level) (*sql.DB, error) {
	return openSQLite(ctx, d.file(), level)
}

// openSQLite opens a file on one connection, in WAL mode, with its syncs and writes counted.
func openSQLite(ctx context.Context, path string, level sink.Level) (*sql.DB, error) {
	sqlite.CountIO() // makes the file system known
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"vfs": {sqlite.CountingVFS},
		"_pragma": {"journal_mode(wal)", "synchronous(" + string(level) + ")"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return pinged(ctx, db)
}

// pinged is a database that has answered, or is closed.
func pinged(ctx context.Context, db *sql.DB) (*sql.DB, error) {
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (d *sqliteDB) sink(ctx context.Context, o sink.Options) (sink.Sink, error) {
	sqlite.CountIO()
	return sqlite.Open(ctx, d.file(), sqlite.Options{Synchronous: o.Level, Cache: o.Cache, VFS: sqlite.CountingVFS, Log: discard})
}

func (d *sqliteDB) prefetch(c *job.Config) {
	c.SlowRow = sqlite.Driver.SlowRow
	c.OpenReader = func(ctx context.Context) (sink.RowReader, error) {
		return sqlite.Driver.OpenReader(ctx, d.file(), sink.Options{Cache: readerCache, Log: discard})
	}
}

func (d *sqliteDB) size(context.Context) (int64, error) {
	return fileSize(d.file())
}

// fileSize is 0 where the file is missing.
func fileSize(path string) (int64, error) {
	f, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return f.Size(), nil
}

func (d *sqliteDB) wal(context.Context, int64) (int64, error) { return fileSize(d.file() + "-wal") }

func (d *sqliteDB) held() bool { return true }

func (d *sqliteDB) buffers(context.Context) (int64, error) { return 0, nil }

func (d *sqliteDB) usage(context.Context) (usage, error) {
	io := sqlite.CountIO()
	return usage{io.Syncs, io.Written, diskRead("self")}, nil
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

// diskRead is how many bytes processes, and those of their children that have ended, have read from the disk; 0 where
// the system does not tell.
func diskRead(pids ...string) (bytes int64) {
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

// schemaPrefix begins the names of the schemas; eight letters and digits follow.
const schemaPrefix = "weir_bench_"

// A postgresDB is a schema that the experiment makes and drops.
type postgresDB struct {
	dsn, schema string
	// control has the schema locked. Its statements are short and end by themselves: pgx closes a
	// connection whose statement is cancelled, and then nothing would drop the schema.
	control *pgx.Conn
	version int
	words   string
	fsync   bool // the server's; without it no commit is safe
}

func newPostgresDB(dsn string) postgresDB {
	return postgresDB{dsn: dsn, schema: schemaPrefix + strings.ToLower(rand.Text()[:8])}
}

func (d *postgresDB) name() string             { return d.words }
func (d *postgresDB) postgres() *postgresDB    { return d }
func (d *postgresDB) placeholder(i int) string { return fmt.Sprint("$", i) }

func (d *postgresDB) begin(ctx context.Context, log *slog.Logger) (err error) {
	if d.control, err = pgx.Connect(ctx, cmp.Or(d.dsn, " ")); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	err = d.control.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, 'Postgres ' || current_setting('server_version') || ', database ' || current_database(), current_setting('fsync')::bool").Scan(&d.version, &d.words, &d.fsync)
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

func (d *postgresDB) folder() string { return "" }

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
	return pinged(ctx, db)
}

func commitLevel(level sink.Level) string {
	if level == sink.Full {
		return "on"
	}
	return "off"
}

// inSchema is the connection string for the schema.
func (d *postgresDB) inSchema() (string, error) {
	dsn := d.dsn + " search_path=" + d.schema
	if strings.Contains(d.dsn, "://") {
		u, err := url.Parse(d.dsn)
		if err != nil {
			return "", err
		}
		q := u.Query()
		q.Set("search_path", d.schema)
		u.RawQuery = q.Encode()
		dsn = u.String()
	}
	return dsn, nil
}

func (d *postgresDB) sink(ctx context.Context, o sink.Options) (sink.Sink, error) {
	dsn, err := d.inSchema()
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, dsn, sink.Options{Level: o.Level, Log: discard})
}

func (d *postgresDB) prefetch(c *job.Config) { c.SlowRow = postgres.Driver.SlowRow }

func (d *postgresDB) size(ctx context.Context) (bytes int64, err error) {
	err = d.control.QueryRow(context.WithoutCancel(ctx), "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace", d.schema).Scan(&bytes)
	return bytes, err
}

const walWritten = "(pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"

func (d *postgresDB) wal(ctx context.Context, since int64) (bytes int64, err error) {
	err = d.control.QueryRow(context.WithoutCancel(ctx), "SELECT "+walWritten).Scan(&bytes)
	return bytes - since, err
}

func (d *postgresDB) held() bool { return false }

func (d *postgresDB) buffers(ctx context.Context) (bytes int64, err error) {
	err = d.control.QueryRow(context.WithoutCancel(ctx), "SELECT pg_size_bytes(current_setting('shared_buffers'))").Scan(&bytes)
	return bytes, err
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
	err = d.control.QueryRow(context.WithoutCancel(ctx), "SELECT "+syncs+", "+walWritten).Scan(&u.syncs, &u.written)
	return u, err
}

func (d *postgresDB) lost(level sink.Level) string {
	switch {
	case !d.fsync:
		return "the database, perhaps: the server's fsync is off"
	case level == sink.Full:
		return nothing
	}
	return "the commits of the last 0.6 s" // 3 times wal_writer_delay
}
