package settings

import (
	"cmp"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

// A Destination is the database that --to names.
type Destination struct {
	sink.Driver
	Dest string
}

// Shown names the database in messages, without its password.
func (d Destination) Shown() string { return cmp.Or(Redacted(d.Dest), d.Name) }

// SinkOptions returns the options of a run that writes. cache is in bytes.
func (s *Spec) SinkOptions(cache int, log *slog.Logger) sink.Options {
	return sink.Options{Level: s.Batch.Synchronous, IgnoreForeignKeys: s.Table.ForeignKeys == IgnoreForeignKeys, Cache: cache, Log: log}
}

// databaseURL is the variable with the database if --to, WEIR_TO and the file do not set it.
const databaseURL = "DATABASE_URL"

// useDatabaseURL sets --to from that variable if nothing else has.
func (s *Spec) useDatabaseURL() {
	if s.Table.To != "" || s.env.FileOnly {
		return
	}
	if url, _ := s.env.Lookup(databaseURL); url != "" {
		s.Table.To, s.Setting("to").from = url, byDatabaseURL
	}
}

// Destination parses --to, or DATABASE_URL.
func (s *Spec) Destination() (Destination, error) {
	s.useDatabaseURL() // only a config file sets it earlier
	to := s.Table.To
	if to == "" {
		return Destination{}, Usagef("no database is named: --to flights.db, or --to postgres://…")
	}
	if m := wrongURL.FindStringSubmatch(to); m != nil && !strings.HasPrefix(to, m[1]+"://") {
		meant := m[1] + "://" + strings.TrimLeft(to[len(m[1]):], ":/")
		return Destination{}, Usage(s.fault("to", "--to: %s is no URL; did you mean %s?", Redacted(to), Quoted(Redacted(meant))))
	}
	for _, d := range slices.Backward(s.env.Drivers) {
		dest, ok, err := d.Parse(to)
		if err != nil {
			return Destination{}, Usage(s.fault("to", "--to: %v", err))
		}
		if ok {
			return Destination{d, dest}, nil
		}
	}
	scheme, _, _ := strings.Cut(to, "://")
	return Destination{}, Usage(s.fault("to", "--to: weir does not write to %s, only to %s", Redacted(scheme), s.env.forms()))
}

// wrongURL matches a URL of Postgres whose :// is misspelt.
var wrongURL = regexp.MustCompile(`^(postgres(?:ql)?)(?::/|//|:[^=]+$)`)

// forms lists the forms of --to.
func (e *Env) forms() string {
	forms := make([]string, len(e.Drivers))
	for i, d := range e.Drivers {
		forms[i] = d.Usage
	}
	return strings.Join(forms, ", ")
}
