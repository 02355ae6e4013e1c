package postgres

import (
	"context"
	"regexp"
	"strings"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// caps are what the driver can do.
var caps = sink.Caps{Columns: maxColumns, Limits: schema.Limits{NoNUL: true, MaxName: maxName, MaxKey: maxKey, Reserved: systemColumns}}

// Driver is the [sink.Driver] for Postgres.
var Driver = sink.Driver{
	Name:  "Postgres",
	Usage: "postgres://… or postgres: (all from PG* variables)",
	Parse: parseDest,
	Files: func(string) []string { return nil },
	Caps:  caps,
	Plan:  Plan,
	Open: func(ctx context.Context, dsn string, o sink.Options) (sink.Sink, error) {
		return Open(ctx, dsn, o)
	},
	OpenClaims: func(ctx context.Context, dsn, job string, o sink.Options) (sink.Claims, error) {
		return OpenClaims(ctx, dsn, job, o)
	},
	Inspect: func(ctx context.Context, dsn string, o sink.Options) (sink.Inspector, error) {
		return Inspect(ctx, dsn, o)
	},
}

// commitLevels are the values of synchronous_commit. At Normal, Close waits for the disk.
var commitLevels = map[sink.Level]string{sink.Off: "off", sink.Normal: "off", sink.Full: "on", sink.Extra: "remote_apply"}

// keywords matches the beginning of a connection string of keywords and values.
var keywords = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|target_session_attrs|application_name)\s*=`)

// parseDest takes a connection string; one that is not a URL may have the scheme too.
func parseDest(to string) (dsn string, ok bool, err error) {
	dsn, named := strings.CutPrefix(to, "postgres:")
	if !named && !strings.HasPrefix(to, "postgresql:") && !keywords.MatchString(to) {
		return "", false, nil
	}
	if !named || strings.HasPrefix(dsn, "//") {
		dsn = to
	}
	_, err = Parse(dsn)
	return dsn, true, err
}
