package cli

import (
	"strings"
)

// destination reads --to. The answer is the path of an SQLite file.
func (w *world) destination(to string) (string, error) {
	if to == "" {
		to, _ = w.env("DATABASE_URL")
	}
	switch path, isSQLite := strings.CutPrefix(to, "sqlite:"); {
	case to == "":
		return "", usagef("where to? Name the database: --to flights.db")
	case isSQLite:
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return "", usagef("--to %s names no file: --to sqlite:flights.db", to)
		}
		return path, nil
	case strings.Contains(to, "://"):
		scheme, _, _ := strings.Cut(to, "://")
		return "", usagef("--to: weir does not write to %s; it takes the path of an SQLite file, or sqlite:PATH", scheme)
	}
	return to, nil
}
