package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
)

// RoundtripsConfig is what is measured.
type RoundtripsConfig struct {
	Rows   int             // of each table
	Tables []int           // how many tables
	Delays []time.Duration // that are added to each round trip
	// For is how long a run that writes row by row takes at most; what is left then is reckoned at its rate.
	For  time.Duration
	Runs int // how often everything is measured
	Log  *slog.Logger
}

// A RoundtripsResult is what was measured.
type RoundtripsResult struct {
	Database string      `json:"database"`
	Rows     int         `json:"rows_of_each_table"`
	Runs     int         `json:"runs"`
	Trips    []Roundtrip `json:"measured"`
}

// A Roundtrip is one way to write messages of several tables over a network.
type Roundtrip struct {
	Tables   int           `json:"tables"`
	Delay    time.Duration `json:"added_to_each_round_trip_ns"`
	Way      string        `json:"way"`
	Messages int           `json:"messages"`    // that were written, each a row in each table; in the last run
	Trips    int64         `json:"round_trips"` // of these
	Rate     report.Spread `json:"messages_per_second"`
}

// What writes the messages.
const (
	rowByRow   = "row by row"
	statements = "a statement for each table"
	prepared   = "the same, prepared before"
	firstBatch = "weir, first batch of a run"
	laterBatch = "weir, later batches"
)

// written is what a run wrote.
type written struct {
	messages int
	trips    int64
	took     time.Duration // for all messages
}

// Roundtrips writes rows of several tables into Postgres over connections that are delayed.
func Roundtrips(ctx context.Context, c RoundtripsConfig, db ladder.Database) (r *RoundtripsResult, err error) {
	schema := server(db)
	if schema == nil {
		return nil, errors.New("SQLite has no round trips: name a Postgres database with -to")
	}
	r = &RoundtripsResult{Rows: c.Rows, Runs: c.Runs}
	err = ladder.Within(ctx, db, c.Log, func(dir string) error {
		r.Database = db.Name()
		for _, tables := range c.Tables {
			w := chain{tables: tables, rows: c.Rows, db: schema, feed: filepath.Join(dir, "feed.jsonl")}
			if err := w.writeFeed(); err != nil {
				return err
			}
			for _, delay := range c.Delays {
				measured, err := c.turns(ctx, &w, delay)
				if err != nil {
					return err
				}
				r.Trips = append(r.Trips, measured...)
			}
		}
		return nil
	})
	return r, err
}

// turns measures all ways with some tables and a delay, in turns.
func (c *RoundtripsConfig) turns(ctx context.Context, w *chain, delay time.Duration) ([]Roundtrip, error) {
	ways := []string{rowByRow, statements, prepared, firstBatch, laterBatch}
	runs := map[string][]written{}
	for turn := range c.Runs {
		c.Log.Info(fmt.Sprintf("%s, %v added to each round trip (%d of %d)", quantity.Count(int64(w.tables), "table"), delay, turn+1, c.Runs))
		for _, way := range ways[:4] {
			err := w.db.Wipe(ctx)
			if err == nil {
				err = w.create(ctx)
			}
			if err == nil {
				err = throughProxy(ctx, w.db.Control, delay, func(p *proxy) error {
					if way == firstBatch {
						first, later, err := w.weir(ctx, p, c.Log)
						runs[firstBatch], runs[laterBatch] = append(runs[firstBatch], first), append(runs[laterBatch], later)
						return err
					}
					one, err := w.program(ctx, p, way, c.For)
					runs[way] = append(runs[way], one)
					return err
				})
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %v added: %w", way, delay, cmp.Or(ctx.Err(), err))
			}
		}
	}
	var all []Roundtrip
	for _, way := range ways {
		var rates []float64
		for _, one := range runs[way] {
			rates = append(rates, ladder.RateOf(c.Rows, one.took))
		}
		last := runs[way][c.Runs-1]
		all = append(all, Roundtrip{Tables: w.tables, Delay: delay, Way: way, Messages: last.messages, Trips: last.trips, Rate: report.SpreadOf(rates)})
	}
	return all, nil
}

// A chain is tables of which each but the first has a foreign key to the one before it, by a key that the
// database generates.
type chain struct {
	tables, rows int
	db           *ladder.Postgres
	feed         string // a file of a message for each row
}

func tableName(n int) string { return fmt.Sprint("t", n+1) }

// create makes the tables.
func (w *chain) create(ctx context.Context) error {
	sql := ""
	for n := range w.tables {
		parent := ""
		if n > 0 {
			parent = ", parent bigint REFERENCES " + w.name(n-1) + " (id)"
		}
		sql += "CREATE TABLE " + w.name(n) + " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE" + parent + ", a text, b text);\n"
	}
	_, err := w.db.Control.Exec(context.WithoutCancel(ctx), sql)
	return err
}

// name is that of a table with its schema.
func (w *chain) name(n int) string { return w.db.Schema + "." + tableName(n) }

// key and text are the values of a row.
func key(n, row int) string  { return fmt.Sprintf("%s-%06d", tableName(n), row) }
func text(n, row int) string { return fmt.Sprintf("the text of row %d in %s", row, tableName(n)) }

// check is an error where the tables have other rows than the first messages make.
func (w *chain) check(ctx context.Context, messages int) error {
	sql := "SELECT count(*) FROM " + w.name(0)
	for n := 1; n < w.tables; n++ {
		sql += fmt.Sprintf(" JOIN %s ON %[1]s.parent = %s.id AND right(%[1]s.key, 6) = right(%[2]s.key, 6)", w.name(n), w.name(n-1))
	}
	var have int
	if err := w.db.Control.QueryRow(context.WithoutCancel(ctx), sql).Scan(&have); err != nil {
		return err
	}
	if have != messages {
		return fmt.Errorf("%d rows of each of %s belong together, and %d should", have, quantity.Count(int64(w.tables), "table"), messages)
	}
	return nil
}

// program writes the rows as an ordinary program does, in one transaction on a connection that is open.
func (w *chain) program(ctx context.Context, p *proxy, way string, limit time.Duration) (one written, err error) {
	config, err := pgx.ParseConfig(through(w.db, p))
	if err != nil {
		return one, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if way == prepared { // pgx finds a statement by its text
		for t := range w.tables {
			if _, err := conn.Prepare(ctx, w.statement(t), w.statement(t)); err != nil {
				return one, err
			}
		}
	}
	before, start := p.trips.Load(), time.Now()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return one, err
	}
	var left time.Duration
	if way == rowByRow {
		one.messages, left, err = w.rowByRow(ctx, tx, limit)
	} else {
		one.messages, err = w.rows, w.statements(ctx, tx)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	one.trips, one.took = p.trips.Load()-before, time.Since(start)+left
	if err != nil {
		return one, err
	}
	return one, w.check(ctx, one.messages)
}

// rowByRow inserts each row by itself, because the next one needs the key that the database generates. It
// returns how many messages it wrote until its time was up, and how long those that are left would take.
func (w *chain) rowByRow(ctx context.Context, tx pgx.Tx, limit time.Duration) (n int, left time.Duration, err error) {
	for t := range w.tables {
		columns, values := "key, a, b", "$1, $2, $3"
		if t > 0 {
			columns, values = columns+", parent", values+", $4"
		}
		if _, err := tx.Prepare(ctx, tableName(t), "INSERT INTO "+w.name(t)+" ("+columns+") VALUES ("+values+") RETURNING id"); err != nil {
			return 0, 0, err
		}
	}
	start := time.Now()
	for ; n < w.rows && (n == 0 || time.Since(start) < limit); n++ {
		var id int64
		for t := range w.tables {
			args := []any{key(t, n), text(t, n), text(t, n)}
			if t > 0 {
				args = append(args, id)
			}
			if err := tx.QueryRow(ctx, tableName(t), args...).Scan(&id); err != nil {
				return n, 0, err
			}
		}
	}
	return n, time.Since(start) / time.Duration(n) * time.Duration(w.rows-n), nil
}

// statement inserts rows of a table, and returns their generated keys.
func (w *chain) statement(t int) string {
	columns, types := "key, a, b", "$1::text[], $2::text[], $3::text[]"
	if t > 0 {
		columns, types = columns+", parent", types+", $4::bigint[]"
	}
	return "INSERT INTO " + w.name(t) + " (" + columns + ") SELECT * FROM unnest(" + types + ") RETURNING key, id"
}

// statements inserts all rows of a table by one statement, which returns the generated keys for the next table.
func (w *chain) statements(ctx context.Context, tx pgx.Tx) error {
	ids := map[string]int64{}
	for t := range w.tables {
		var values [3][]string
		var parents []int64
		for n := range w.rows {
			for i, v := range []string{key(t, n), text(t, n), text(t, n)} {
				values[i] = append(values[i], v)
			}
			if t > 0 {
				parents = append(parents, ids[key(t-1, n)])
			}
		}
		args := []any{values[0], values[1], values[2]}
		if t > 0 {
			args = append(args, parents)
		}
		rows, err := tx.Query(ctx, w.statement(t), args...)
		if err != nil {
			return err
		}
		var name string
		var id int64
		if _, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error { ids[name] = id; return nil }); err != nil {
			return err
		}
	}
	return nil
}
