package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

var discard = slog.New(slog.DiscardHandler)

// errNoPostgres is returned if a story needs a server and none can be had.
var errNoPostgres = errors.New("it needs Postgres: -to postgres://…, or Postgres' programs (PG_BIN names their folder)")

// open returns the place in the database that dest names as weir sync --to does: an SQLite file or a Postgres server.
func open(dest string) (ladder.Database, error) {
	for _, d := range []sink.Driver{postgres.Driver, sqlite.Driver} { // SQLite takes every path
		if name, ok, err := d.Parse(dest); ok || err != nil {
			if err != nil {
				return nil, err
			}
			return ladder.Open(d.Name, name)
		}
	}
	return nil, fmt.Errorf("%q names no database", dest)
}

// server returns the Postgres schema of a place; nil in SQLite.
func server(db ladder.Database) *ladder.Postgres {
	switch d := db.(type) {
	case *ladder.Postgres:
		return d
	case *privateDB:
		return &d.Postgres
	}
	return nil
}

// sizeOf returns the bytes of the place's tables.
func sizeOf(ctx context.Context, db ladder.Database) (bytes int64, err error) {
	d := server(db)
	if d == nil {
		return fileSize(db.(*ladder.SQLite).File())
	}
	err = d.Control.QueryRow(context.WithoutCancel(ctx), "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace", d.Schema).Scan(&bytes)
	return bytes, err
}

// walOf returns the size of SQLite's log; of Postgres', what was written since it was at a place.
func walOf(ctx context.Context, db ladder.Database, since int64) (bytes int64, err error) {
	d := server(db)
	if d == nil {
		return fileSize(db.(*ladder.SQLite).File() + "-wal")
	}
	err = d.Control.QueryRow(context.WithoutCancel(ctx), "SELECT "+ladder.WALWritten).Scan(&bytes)
	return bytes - since, err
}

// fileSize returns 0 if the file is missing.
func fileSize(path string) (int64, error) {
	f, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return f.Size(), nil
}

// sharedBuffers returns the bytes of a server's shared buffers.
func sharedBuffers(ctx context.Context, d *ladder.Postgres) (bytes int64, err error) {
	err = d.Control.QueryRow(context.WithoutCancel(ctx), "SELECT pg_size_bytes(current_setting('shared_buffers'))").Scan(&bytes)
	return bytes, err
}

// ratioOf returns how many times as high the rates of runs are as those of others that took turns with them.
func ratioOf(runs, others []ladder.Timing) report.Spread {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = runs[i].Rate / others[i].Rate
	}
	return report.SpreadOf(values)
}

// scratch is a folder on a disk for databases that nobody named.
func scratch() string {
	dir := os.TempDir()
	if _, err := os.Stat("/var/tmp"); err == nil && dir == "/tmp" { // /tmp may be in memory
		dir = "/var/tmp"
	}
	return dir
}
