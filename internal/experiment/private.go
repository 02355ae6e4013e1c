package experiment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/internal/pgserver"
)

// A privateDB is a schema in a Postgres server that the experiment starts.
type privateDB struct {
	postgresDB
	parent   string
	settings []string
	place    *place
	server   *pgserver.Server
}

// Private returns a place in a server of the experiment's own, with its data below a folder;
// false where Postgres is not installed.
func Private(parent string, settings ...string) (Database, bool) {
	return &privateDB{parent: parent, settings: settings}, pgserver.Find() != ""
}

func (d *privateDB) name() string { return d.words + " of a private server, in " + d.parent }

func (d *privateDB) begin(ctx context.Context, log *slog.Logger) (err error) {
	if d.place, err = newPlace(d.parent, placePrefix, log); err != nil {
		return err
	}
	if err = d.start(); err == nil {
		d.postgresDB = newPostgresDB(d.server.URL("postgres"))
		err = d.postgresDB.begin(ctx, log)
	}
	if err != nil {
		return errors.Join(err, d.stop())
	}
	return nil
}

func (d *privateDB) start() (err error) {
	if d.server, err = pgserver.New(d.place.dir, filepath.Join(d.place.dir, "data"), d.settings...); err != nil {
		return err
	}
	d.server.Private = true
	if err := d.server.Init(); err != nil {
		return err
	}
	return d.server.Start()
}

func (d *privateDB) end(ctx context.Context) error {
	return errors.Join(d.postgresDB.end(ctx), d.stop())
}

func (d *privateDB) folder() string { return d.place.dir }

func (d *privateDB) stop() error {
	if d.server != nil {
		d.server.Stop()
	}
	return d.place.remove()
}

func (d *privateDB) usage(ctx context.Context) (usage, error) {
	u, err := d.postgresDB.usage(ctx)
	server := fmt.Sprint(d.server.PID())
	children, _ := os.ReadFile(filepath.Join("/proc", server, "task", server, "children"))
	u.read = diskRead(append(strings.Fields(string(children)), server)...)
	return u, err
}

func (d *privateDB) held() bool { return true }
