package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/status"
)

// through returns the connection string of a schema through a proxy.
func through(d *ladder.Postgres, p *proxy) string {
	c := d.Control.Config()
	host, port, _ := net.SplitHostPort(p.listener.Addr().String())
	settings := maps.Clone(c.RuntimeParams)
	maps.Copy(settings, map[string]string{"host": host, "port": port, "user": c.User, "password": c.Password, "dbname": c.Database,
		"sslmode": "disable", "search_path": d.Schema, "synchronous_commit": "on"})
	dsn := ""
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		dsn += fmt.Sprintf("%s='%s' ", name, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(settings[name]))
	}
	return dsn
}

// writeFeed writes the file of messages. Each has an object for each table.
func (w *chain) writeFeed() (err error) {
	f, err := os.Create(w.feed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriter(f)
	for n := range 2 * w.rows {
		for t := range w.tables {
			fmt.Fprintf(b, `%c"%s":{"key":%q,"a":%q,"b":%[4]q}`, "{,"[min(t, 1)], tableName(t), key(t, n), text(t, n))
		}
		fmt.Fprintln(b, "}")
	}
	return b.Flush()
}

// mapping is what makes rows of the messages, as a config file would say it.
func (w *chain) mapping() (*mapping.Mapping, error) {
	m := &mapping.Mapping{Unmatched: mapping.FailUnmatched, MaxEach: 1, MaxTables: w.tables}
	for n := range w.tables {
		t := mapping.Table{Name: tableName(n), Row: mapping.RowPath{Path: paths.FieldPath(tableName(n))}, Key: []string{"key"}, ID: "id"}
		for _, name := range []string{"key", "a", "b"} {
			t.Columns = append(t.Columns, mapping.Column{Name: name, From: []mapping.Source{{From: paths.FieldPath(name)}}})
		}
		if n > 0 {
			from, err := paths.ParsePath("$." + tableName(n-1) + ".key")
			if err != nil {
				return nil, err
			}
			t.Columns = append(t.Columns, mapping.Column{Name: "parent", From: []mapping.Source{{From: from, References: tableName(n - 1)}}})
		}
		m.Tables = append(m.Tables, t)
	}
	return m, nil
}

// A timedSink notes what each flush takes, and the first one with what came before it in the run.
type timedSink struct {
	sink.Sink
	p        *proxy
	messages int
	trips    int64     // before the run
	begun    time.Time // the run
	flushes  []written
}

func (s *timedSink) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if len(s.flushes) > 0 {
		s.trips, s.begun = s.p.trips.Load(), time.Now()
	}
	r, err := s.Sink.Flush(ctx, f)
	s.flushes = append(s.flushes, written{s.messages, s.p.trips.Load() - s.trips, time.Since(s.begun)})
	return r, err
}

// weir writes the rows in a batch, and as many more in another one, on a connection that is open. The first takes all
// that a run begins with: it looks at the tables, and makes weir's own. The second is a flush alone.
func (w *chain) weir(ctx context.Context, p *proxy, log *slog.Logger) (first, later written, err error) {
	quiet := slog.New(slog.DiscardHandler)
	db, err := postgres.Open(ctx, through(w.db, p), sink.Options{Level: sink.Full, Log: quiet})
	if err != nil {
		return first, later, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	m, err := w.mapping()
	if err != nil {
		return first, later, err
	}
	c := pipeline.Config{Kind: file.Kind(file.Options{}), Sources: []string{w.feed}, Job: "bench", Limits: pipeline.Limits{BatchRows: w.rows * w.tables, Buffer: 256 << 20}, Rejects: pipeline.RejectRules{To: pipeline.FailRejects}, Log: log}
	if c.Plan, err = mapping.Compile(m, db.Caps().Limits); err != nil {
		return first, later, err
	}
	to := &timedSink{Sink: db, p: p, messages: w.rows, trips: p.trips.Load(), begun: time.Now()}
	err = pipeline.Run(ctx, c, to, nil, status.New(c.Plan.TableNames()...))
	if err = cmp.Or(err, ctx.Err()); err != nil { // a run that is stopped has no error
		return first, later, err
	}
	if n := len(to.flushes); n != 2 {
		return first, later, fmt.Errorf("weir wrote two batches of %d messages in %d flushes", w.rows, n)
	}
	return to.flushes[0], to.flushes[1], w.check(ctx, 2*w.rows)
}
