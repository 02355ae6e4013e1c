package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/internal/test/pgserver"
)

// A privateDB is a schema in a Postgres server that the story starts.
type privateDB struct {
	ladder.Postgres
	parent   string
	settings []string
	place    *ladder.Place
	server   *pgserver.Server
}

// private returns a place in a server of the story's own, with its data below a folder.
func private(parent string, settings ...string) (ladder.Database, error) {
	if pgserver.Find() == "" {
		return nil, errNoPostgres
	}
	return &privateDB{parent: parent, settings: settings}, nil
}

func (d *privateDB) Name() string { return d.Postgres.Name() + " of a private server, in " + d.parent }

func (d *privateDB) Begin(ctx context.Context, log *slog.Logger) (err error) {
	if d.place, err = ladder.NewPlace(d.parent, ladder.PlacePrefix, log); err != nil {
		return err
	}
	if err = d.start(); err == nil {
		d.Postgres = ladder.NewPostgres(d.server.URL("postgres"))
		err = d.Postgres.Begin(ctx, log)
	}
	if err != nil {
		return errors.Join(err, d.stop())
	}
	return nil
}

func (d *privateDB) start() (err error) {
	if d.server, err = pgserver.New(d.place.Dir, filepath.Join(d.place.Dir, "data"), d.settings...); err != nil {
		return err
	}
	d.server.Private = true
	if err := d.server.Init(); err != nil {
		return err
	}
	return d.server.Start()
}

func (d *privateDB) End(ctx context.Context) error {
	return errors.Join(d.Postgres.End(ctx), d.stop())
}

func (d *privateDB) Folder() string { return d.place.Dir }

func (d *privateDB) stop() error {
	if d.server != nil {
		d.server.Stop()
	}
	return d.place.Remove()
}

func (d *privateDB) Usage(ctx context.Context) (ladder.Usage, error) {
	u, err := d.Postgres.Usage(ctx)
	server := fmt.Sprint(d.server.PID())
	children, _ := os.ReadFile(filepath.Join("/proc", server, "task", server, "children"))
	u.Read = ladder.DiskRead(append(strings.Fields(string(children)), server)...)
	return u, err
}
