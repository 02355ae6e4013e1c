package cli

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// database is what the commands need of a driver.
type database interface {
	sink.Sink
	Status(ctx context.Context) (sink.Status, error)
	Rejects(ctx context.Context, job string, each func(sink.Kept) error) error
	sink.Comparer
	sink.Forgetter
	Read(ctx context.Context, b *fold.Batch, rows []*fold.Row) error
	Sample(ctx context.Context, table string, n int) (rows []string, total int64, err error)
}

// destination is the database that --to names: the path of an SQLite file, or a
// connection string for Postgres.
type destination struct {
	path     string
	dsn      string
	postgres bool
}

// openOptions are those of the drivers.
type openOptions struct {
	synchronous string
	readOnly    bool
	cache       int // bytes, of SQLite's pages; 0: the driver's default
	warn, debug func(format string, args ...any)
}

// The levels of --synchronous.
var levels = []string{sqlite.Off, sqlite.Normal, sqlite.Full, sqlite.Extra}

// destination reads --to. If it is empty, WEIR_TO and then DATABASE_URL are used.
func (e *env) destination(to string) (d destination, err error) {
	for _, name := range []string{config.Env("to"), "DATABASE_URL"} {
		if to == "" {
			to, _ = e.lookupEnv(name)
		}
	}
	path, isSQLite := strings.CutPrefix(to, "sqlite:")
	dsn, isPostgres := strings.CutPrefix(to, "postgres:")
	switch {
	case to == "":
		return d, usagef("no database is named: --to flights.db, or --to postgres://…")
	case isSQLite:
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return d, usagef("--to %s names no file; such as --to sqlite:flights.db", to)
		}
		return destination{path: path}, nil
	case isPostgres || strings.HasPrefix(to, "postgresql:") || keywords.MatchString(to):
		if !isPostgres || strings.HasPrefix(dsn, "//") {
			dsn = to
		}
		if _, err := postgres.Parse(dsn); err != nil {
			return d, usageError{fmt.Errorf("--to: %w", err)}
		}
		return destination{dsn: dsn, postgres: true}, nil
	case strings.Contains(to, "://"):
		scheme, _, _ := strings.Cut(to, "://")
		return d, usagef("--to: weir does not write to %s, only to an SQLite file, sqlite:PATH or postgres://…", redacted(scheme))
	}
	return destination{path: to}, nil
}

// keywords matches the beginning of a connection string of keywords and values.
var keywords = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|target_session_attrs|application_name)\s*=`)

// open opens the database.
func (d destination) open(ctx context.Context, o openOptions) (database, error) {
	if d.postgres {
		commit := map[string]string{sqlite.Off: "off", sqlite.Normal: "off", sqlite.Full: "on", sqlite.Extra: "remote_apply"}[o.synchronous]
		return nonNil(postgres.Open(ctx, d.dsn, postgres.Options{Synchronous: commit, SyncAtEnd: o.synchronous == sqlite.Normal,
			ReadOnly: o.readOnly, Warn: o.warn, Debug: o.debug}))
	}
	return nonNil(sqlite.Open(ctx, d.path, sqlite.Options{Synchronous: o.synchronous, Cache: o.cache, ReadOnly: o.readOnly, Warn: o.warn, Yield: true}))
}

// claims opens what holds the sources of a job. The database is open already.
func (d destination) claims(ctx context.Context, job string, o openOptions) (sink.Claims, error) {
	if d.postgres {
		return postgres.OpenClaims(ctx, d.dsn, job, postgres.Options{Warn: o.warn, Debug: o.debug})
	}
	return sqlite.OpenClaims(ctx, d.path, job, sqlite.Options{Synchronous: o.synchronous, Warn: o.warn})
}

// nonNil avoids a typed nil.
func nonNil[D database](db D, err error) (database, error) {
	if err != nil {
		return nil, err
	}
	return db, nil
}

// openToRead is openExisting for commands that only read.
func (d destination) openToRead(ctx context.Context, warn, debug func(string, ...any)) (database, error) {
	return d.openExisting(ctx, openOptions{synchronous: sqlite.Full, readOnly: true, warn: warn, debug: debug})
}

// openExisting opens a database that exists; the error is [fs.ErrNotExist] if none does.
func (d destination) openExisting(ctx context.Context, o openOptions) (database, error) {
	if !d.postgres {
		if _, err := os.Stat(d.path); err != nil {
			return nil, fmt.Errorf("the database is missing: %w", err)
		}
	}
	return d.open(ctx, o)
}

// newTable is a table in a database that does not exist yet.
func (d destination) newTable(name string) schema.Table { return sqlite.NewTable(name) }

// plan returns the statements that would give a table what a batch needs.
func (d destination) plan(t *schema.Table) []string {
	if d.postgres {
		return postgres.Plan(t)
	}
	return sqlite.Plan(t)
}
