package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

var caps = sink.Caps{Columns: maxColumns, Children: true, Limits: schema.Limits{FoldCase: true, Untyped: true, TextTypes: true, NoSchemas: true}}

// Driver is the [sink.Driver] for SQLite files. It must come last: it treats anything as a path.
var Driver = sink.Driver{
	Name:  "SQLite",
	Usage: "an SQLite file, sqlite:PATH",
	Parse: parse,
	Files: files,
	Caps:  caps,
	Plan:  Plan,
	Open: func(ctx context.Context, path string, o sink.Options) (sink.Sink, error) {
		return Open(ctx, path, Options{Options: o})
	},
	OpenClaims: func(ctx context.Context, path, job string, o sink.Options) (sink.Claims, error) {
		return OpenClaims(ctx, path, job, o)
	},
	Inspect: func(ctx context.Context, path string, o sink.Options) (sink.Inspector, error) {
		return inspect(ctx, path, o)
	},
}

func inspect(ctx context.Context, path string, o sink.Options) (*DB, error) {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the database is missing: %w", err)
	case err != nil:
		return nil, fmt.Errorf("the database: %w", err)
	}
	o.Level = sink.Full
	return Open(ctx, path, Options{Options: o, ReadOnly: true})
}

// parse accepts a path, optionally with a scheme.
func parse(to string) (path string, ok bool, err error) {
	if strings.HasSuffix(to, "/") {
		return "", true, errors.New(to + " is a folder: name a file in it")
	}
	path, named := strings.CutPrefix(to, "sqlite:")
	if !named {
		return to, !strings.Contains(to, "://"), nil
	}
	path, isURL := strings.CutPrefix(path, "//")
	switch {
	case path == "":
		return "", true, errors.New(to + " names no file; such as sqlite:flights.db")
	case isURL && filepath.Dir(path) == "/": // some programs use three slashes for a relative path
		return "", true, fmt.Errorf("%s is a file in the root folder: sqlite:%s, or sqlite:%s in this one", to, path, path[1:])
	}
	return path, true, nil
}

// realPath returns the path of a file without symbolic links. The file need not exist, but a link to it does not help then.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// files returns the paths of the database, and of the files that SQLite and weir keep next to it.
func files(path string) []string {
	path = realPath(path)
	return []string{path, path + "-wal", path + "-shm", path + "-journal", path + "-weir"}
}
