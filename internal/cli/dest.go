package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/sink"
)

// destination is the database that --to names.
type destination struct {
	sink.Driver
	dest string
}

// destination reads --to. If it is empty, WEIR_TO and then DATABASE_URL are used. One of the other
// arguments may be meant for it.
func (e *env) destination(to string, args ...string) (destination, error) {
	for _, name := range []string{config.Env("to"), "DATABASE_URL"} {
		if to == "" {
			to, _ = e.lookupEnv(name)
		}
	}
	if to == "" {
		if meant := meantForTo(args); meant != "" {
			return destination{}, usagef("no database is named%s", meant)
		}
		return destination{}, usagef("no database is named: --to flights.db, or --to postgres://…")
	}
	for _, d := range slices.Backward(drivers) {
		dest, ok, err := d.Parse(to)
		if err != nil {
			return destination{}, usageError{fmt.Errorf("--to: %w", err)}
		}
		if ok {
			return destination{d, dest}, nil
		}
	}
	scheme, _, _ := strings.Cut(to, "://")
	return destination{}, usagef("--to: weir does not write to %s, only to %s", redacted(scheme), forms())
}

// meantForTo suggests --to for the argument that is called as a database, "" where none is.
func meantForTo(args []string) string {
	i := slices.IndexFunc(args, databaseName.MatchString)
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean --to %s?", quoted(redacted(args[i])))
}

// databaseName matches what is called as databases are, and as no source is.
var databaseName = regexp.MustCompile(`^(sqlite|postgres|postgresql):|\.(db|sqlite|sqlite3)$|^(host|hostaddr|port|dbname|user|password|service) *=.* \w+ *=`)

// forms lists those of --to.
func forms() string {
	forms := make([]string, len(drivers))
	for i, d := range drivers {
		forms[i] = d.Usage
	}
	return strings.Join(forms, ", ")
}
