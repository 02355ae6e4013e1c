package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestCases runs the cases in testdata, each in an empty database. Their lines are
//
//	> MESSAGE      of a feed; consecutive messages are one flush
//	rebuild        the next flush empties the table first
//	meanwhile SQL  another session runs it, and commits once the next flush waits for it
//	as ROLE        weir connects as this role from now on
//	run OPTION...  a new run opens the database, with a mapping in YAML, or with names of tables and options such as key=a,b
//	look TABLE     weir reads a table
//	status         weir reads its own tables, as weir status does
//	SQL            another program runs it; $DATABASE is the database's name
//	= RESULT       of the line above: a flush's counts, the messages that it rejected, rows, or an error
//
// A line that begins with blanks continues the line above. To rewrite the results, run it with -update, and review the
// difference.
func TestCases(t *testing.T) {
	for _, theme := range []string{"tables", "changes", "triggers", "rejects", "rights", "widening"} {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			url := testpg.New(t)
			testcheck.Golden(t, "testdata/"+theme+".txtar", func(t *testing.T, _, text string) string {
				if strings.Contains(text, "$DATABASE") { // the database's settings are dropped with it
					return (&story{t: t, db: connect(t, testpg.New(t))}).play(text)
				}
				return (&story{t: t, db: connectEmpty(t, url)}).play(text)
			})
		})
	}
}

// A story is a case that is run.
type story struct {
	t       *testing.T
	db      *database
	run     *sinktest.Run
	lines   []string // of the next flush
	rebuild bool
	others  []*database // sessions with a transaction that the next flush waits for
	rejects int64       // the last one reported
	text    strings.Builder
}

// play returns the text of a case with its actual results.
func (s *story) play(text string) string {
	for line := range strings.Lines(strings.ReplaceAll(text, "\n  ", "\x00")) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\x00", "\n  ")
		message, is := strings.CutPrefix(line, "> ")
		if !is {
			s.flush()
		}
		if strings.HasPrefix(line, "=") {
			continue
		}
		s.text.WriteString(line + "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch name := s.db.conn.Config().Database; {
		case is:
			s.lines = append(s.lines, message)
		case word == "rebuild":
			s.rebuild = true
		case word == "meanwhile":
			other := connect(s.t, s.db.url)
			other.Exec(s.t, "BEGIN; "+rest)
			s.others = append(s.others, other)
		case word == "as":
			s.db.as(s.t, rest)
		case word == "run":
			s.begin(rest)
		case word == "look":
			_, err := sink.Table(s.t.Context(), s.run.Sink.Tables, rest, []string{"id"})
			s.failed(err)
		case word == "status":
			s.failed(s.status())
		case word == "SELECT":
			s.says(sinktest.Rows(s.t, s.db, line)...)
		default:
			s.db.Exec(s.t, strings.ReplaceAll(line, "$DATABASE", name))
		}
	}
	s.flush()
	return s.text.String()
}

// says adds results.
func (s *story) says(results ...string) {
	c := s.db.conn.Config()
	hide := strings.NewReplacer(fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database), "SERVER", c.Database, "$DATABASE", "\n", "\n  ",
		`"temp_file_limit"`, "temp_file_limit") // so from Postgres 18 on
	for _, r := range results {
		s.text.WriteString("= " + hide.Replace(r) + "\n")
	}
}

func (s *story) failed(err error) {
	if err != nil {
		s.says("error: " + err.Error())
	}
}

// begin ends the run, and begins the next one.
func (s *story) begin(options string) {
	if s.run != nil {
		s.run.End()
		s.run = nil
	}
	if err := s.db.tryOpen(s.t); err != nil {
		s.failed(err)
		return
	}
	var setup sinktest.Setup
	var change []func(*fold.Options)
	if strings.HasPrefix(options, "{") {
		setup.Mapping, options = s.mapping(options), ""
	}
	for option := range strings.FieldsSeq(options) {
		switch name, value, is := strings.Cut(option, "="); {
		case name == "key":
			change = append(change, func(o *fold.Options) { o.Key = strings.Split(value, ",") })
		case name == "versions":
			change = append(change, versionedBy(fold.Scope(value)))
		case name == "level":
			s.db.opt.Level = sink.Level(value)
		case !is:
			setup.Tables = append(setup.Tables, option)
			setup.Job = "feed > " + option
		}
	}
	setup.Options = func(_ string, o *fold.Options) {
		for _, c := range change {
			c(o)
		}
	}
	s.run = setup.Begin(s.t, s.db)
}

// mapping reads the tables of a config file.
func (s *story) mapping(text string) *mapping.Mapping {
	file := filepath.Join(s.t.TempDir(), "weir.yaml")
	testcheck.NoError(s.t, os.WriteFile(file, []byte("tables: "+text), 0o600))
	return readMapping(s.t, file)
}

// readMapping reads the mapping of a config file.
func readMapping(t testing.TB, file string) *mapping.Mapping {
	t.Helper()
	s := settings.New(&settings.Env{Drivers: []sink.Driver{postgres.Driver}, FileOnly: true})
	s.File = file
	_, err := s.Load()
	testcheck.NoError(t, err)
	return s.Mapping
}

// flush sends what was folded, and rereads it if the tables have changed.
func (s *story) flush() {
	if s.lines == nil {
		return
	}
	if s.run == nil {
		s.begin("")
	}
	if s.run == nil {
		s.lines = nil
		return
	}
	send := func() (sink.Result, error) {
		s.run.Fold(s.lines...)
		f := s.run.Seal()
		f.Rebuild = s.rebuild
		return s.run.Send(f)
	}
	for _, other := range s.others {
		done := when(s.t, s.db, "wait_event_type = 'Lock' AND "+other.one(s.t, "SELECT pg_backend_pid()")+" = ANY (pg_blocking_pids(pid))", func() { other.Exec(s.t, "COMMIT") })
		defer func() { <-done }()
	}
	before := s.run.Checkpoint()
	res, err := send()
	if unlogged := errors.As(err, new(sink.UnloggedError)); unlogged || errors.As(err, new(sink.ChangedError)) {
		s.says("read again: " + err.Error())
		s.run.Constrained = unlogged
		s.run.Reread(before)
		res, err = send()
	}
	s.lines, s.rebuild, s.others = nil, false, nil
	if s.failed(err); err == nil {
		s.says(sinktest.CountsText(res.Total()))
	}
	if s.db.one(s.t, "SELECT to_regclass('weir_rejects') IS NOT NULL") == "true" {
		for _, row := range s.db.Query(s.t, fmt.Sprintf("SELECT id, line, reason FROM weir_rejects WHERE id > %d ORDER BY id", s.rejects)) {
			s.rejects = row[0].(int64)
			s.says(fmt.Sprintf("line %d: %s", row[1], row[2]))
		}
	}
}

// status makes the queries of weir status.
func (s *story) status() error {
	d, err := postgres.Inspect(s.t.Context(), s.db.weir, s.db.options(s.t))
	if err == nil {
		_, err = d.Status(s.t.Context())
		err = errors.Join(err, d.Close())
	}
	return err
}

// TestTypes writes the values in testdata/types.txtar to columns of other programs' types. Writing a value again
// changes nothing, and a value that no message has is unchanged.
func TestTypes(t *testing.T) {
	t.Parallel()
	url := testpg.New(t)
	testcheck.Golden(t, "testdata/types.txtar", func(t *testing.T, decl, text string) string {
		db := connectEmpty(t, url)
		db.Exec(t, `CREATE TYPE mood AS ENUM ('it''s', 'so\so')`)
		db.Exec(t, "CREATE DOMAIN temper AS mood")
		db.Exec(t, "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
		db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, v "+decl+", w text)")
		db.Exec(t, "SET timezone = UTC")
		r, out := sinktest.Begin(t, db), ""
		var values, good []string
		for line := range strings.Lines(text) {
			value, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " → ")
			values = append(values, value)
			r.Fold(fmt.Sprintf(`{"id":%d,"v":%s}`, len(values), value))
		}
		r.Flush()
		stands := sinktest.Rows(t, db, fmt.Sprintf("SELECT coalesce(v::text, (SELECT reason FROM weir_rejects WHERE line = n)) FROM generate_series(1, %d) n LEFT JOIN t ON id = n ORDER BY n", len(values)))
		for i, value := range values {
			out += value + " → " + strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(stands[i]) + "\n"
			if db.one(t, fmt.Sprintf("SELECT count(*) FROM t WHERE id = %d", i+1)) == "1" {
				good = append(good, fmt.Sprintf(`{"id":%d,"v":%s}`, i+1, value))
			}
		}
		sinktest.Counts(t, r.Flush(good...), 0, 0, int64(len(good)), 0)
		r.Flush(`{"id":1,"w":"sparse"}`, `{"id":2,"v":null}`)
		sinktest.Expect(t, db, "SELECT v::text, w FROM t WHERE id = 1", stands[0]+"|sparse")
		return out
	})
}
