package cli

import (
	"fmt"
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

// destination reads --to. If it is empty, WEIR_TO and then DATABASE_URL are used.
func (e *env) destination(to string) (destination, error) {
	for _, name := range []string{config.Env("to"), "DATABASE_URL"} {
		if to == "" {
			to, _ = e.lookupEnv(name)
		}
	}
	if to == "" {
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

// forms lists those of --to.
func forms() string {
	forms := make([]string, len(drivers))
	for i, d := range drivers {
		forms[i] = d.Usage
	}
	return strings.Join(forms, ", ")
}
