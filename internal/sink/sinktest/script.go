package sinktest

import (
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/sink"
)

// Testdata has scripts of tests, in a file for each group; README.md there says what their commands do.
//
//go:embed testdata/*.txtar
var testdata embed.FS

// scripted returns the tests in a group's file.
func scripted(group string) (tests []test) {
	text, err := testdata.ReadFile("testdata/" + strings.ToLower(group) + ".txtar")
	if err != nil {
		return nil
	}
	for _, f := range txtar.Parse(text).Files {
		s := parseScript(string(f.Data))
		tests = append(tests, test{f.Name, s.run})
	}
	return tests
}

type script []step

// A step is a command with the name of its run, its arguments and the lines below it.
type step struct {
	run, command, args string
	lines              []string
}

var stepPattern = regexp.MustCompile(`^(?:(\w+): )?(\S+) ?(.*)$`)

func parseScript(text string) (s script) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if below, ok := strings.CutPrefix(line, "\t"); ok {
			s[len(s)-1].lines = append(s[len(s)-1].lines, below)
		} else if line != "" && line[0] != '#' {
			m := stepPattern.FindStringSubmatch(line)
			s = append(s, step{run: m[1], command: m[2], args: m[3]})
		}
	}
	return s
}

// run runs the steps, once for each combination of the options, and for each way to divide the lines of batches.
func (s script) run(t *testing.T, db Database) {
	variants, divided := []string{""}, [][][]string{nil}
	for _, c := range s {
		switch c.command {
		case "each":
			var more []string
			for _, v := range variants {
				for o := range strings.SplitSeq(c.args, "|") {
					more = append(more, v+" "+o)
				}
			}
			variants = more
		case "batches":
			divided = divide(c.args, c.lines)
		}
	}
	if len(divided) == 0 {
		t.Fatal("there is no way to divide the lines of batches")
	}
	var c step
	var p *play
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("at %s %s %q, with the options %q, in the batches %q", c.command, c.args, c.lines, p.options, p.batches)
		}
	})
	for _, options := range variants {
		for _, batches := range divided {
			if p != nil {
				p.clean()
			}
			p = &play{t: t, db: db, options: options, batches: batches, runs: map[string]*player{}}
			for _, c = range s {
				if p.do(c); t.Failed() {
					return
				}
			}
		}
	}
}

// divide returns the ways to divide lines into batches: by size, with sizes from a minimum up, or with random sizes and
// in random order.
func divide(how string, lines []string) (ways [][][]string) {
	if how == "in any order" {
		rnd := rand.New(rand.NewPCG(1, 1))
		for range 8 {
			ways = append(ways, slices.Collect(slices.Chunk(slices.Clone(lines), 1+rnd.IntN(len(lines)))))
			rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		}
		return ways
	}
	least := 1
	if n, ok := strings.CutPrefix(how, "of at least "); ok {
		least = must(strconv.Atoi(n))
	}
	for size := least; size <= len(lines); size++ {
		ways = append(ways, slices.Collect(slices.Chunk(lines, size)))
	}
	return ways
}

// A play is a script being run.
type play struct {
	t       *testing.T
	db      Database
	options string     // of all runs
	batches [][]string // for the command batches
	runs    map[string]*player
	order   []*player // in order of their beginnings
	// differences are the results of compare.
	differences []string
}

// A player is a run in a script.
type player struct {
	*Run
	options string
	result  sink.Result // of the last flush
	failed  *sink.Flush
}

// clean ends the runs, and drops what they created.
func (p *play) clean() {
	for _, r := range slices.Backward(p.order) {
		r.drop(p.db)
	}
	for _, table := range []string{"rejects", "checkpoints", "jobs"} {
		p.db.Exec(p.t, "DELETE FROM weir_"+table)
	}
}

func (p *play) do(c step) {
	t, r := p.t, p.runs[c.run]
	switch c.command {
	case "each":
	case "needs":
		need(t, p.db, map[string]Trait{"nestable": Nestable, "shared": Shared}[c.args])
	case "sql":
		theirs(t, p.db, c.args)
	case "exec":
		p.db.Exec(t, c.args)
	case "begin":
		if r != nil {
			r.End()
		}
		p.begin(c.run, c.args)
	case "mapped":
		if r != nil {
			r.End()
		}
		p.add(c.run, "", mapped(t, p.db, c.args))
	case "sibling":
		s := p.setup(c.args)
		p.add(c.run, c.args, p.runs[""].sibling(s.Tables[0], func(o *fold.Options) { s.Options("", o) }))
	case "restart":
		r.End()
		p.begin(c.run, r.options)
	case "end":
		r.End()
	case "at":
		r.At(at(must(strconv.Atoi(c.args))))
	case "in":
		r.In(c.args)
	case "fold":
		r.Fold(c.lines...)
	case "flush":
		r.result = r.Flush(c.lines...)
	case "rebuild":
		r.result = r.FlushAs(rebuild, c.lines...)
	case "reread":
		for name := range strings.FieldsSeq(c.args) {
			at := r.In(name).cp()
			at.Line, at.Offset = 0, 0
		}
		r.result = r.FlushAs(func(f *sink.Flush) {
			for i, l := range f.Lanes {
				f.Lanes[i].Restart = slices.Contains(strings.Fields(c.args), l.Source)
			}
		}, c.lines...)
	case "feed":
		if c.args == "" {
			c.args, _ = p.option("most")
		}
		r.Feed(must(strconv.Atoi(c.args)), c.lines...)
	case "batches":
		for _, lines := range p.batches {
			r.Flush(lines...)
		}
	case "fault":
		r.failed = r.failing(map[string]Moment{"before": Before, "within": Within, "after": After}[c.args], c.lines...)
	case "rival":
		p.add(c.run, "", p.runs[""].rival(p.db))
	case "lanes":
		var lanes []sink.Lane
		for name := range strings.FieldsSeq(c.args) {
			lanes = append(lanes, r.In(name).lanes[r.lane])
		}
		r.lanes, r.lane = lanes, 0
	case "again":
		r.result = r.again(r.failed)
	case "fails":
		r.fails(c.args, c.lines)
	default:
		p.expect(c, r)
	}
}

// fails writes lines in a flush that must fail: with a kind of error or any ("to"), with rebuild, with a text.
func (r *player) fails(how string, lines []string) {
	before := slices.Clone(r.lanes)
	r.Fold(lines...)
	f := r.Seal()
	kind, text, _ := strings.Cut(how, " ")
	if text, f.Rebuild = strings.CutPrefix(text, "rebuild"); f.Rebuild {
		text = strings.TrimSpace(text)
	}
	_, err := r.Send(f)
	r.lanes = before
	if isKind, have := failure(err, kind); !isKind || !strings.Contains(have, text) {
		r.t.Errorf("the flush ended with %v", err)
	}
}

// failure reports whether an error is of a kind, and returns its text.
func failure(err error, kind string) (is bool, text string) {
	var fenced sink.FencedError
	var behind sink.BehindError
	var shared sink.SharedError
	switch {
	case err == nil:
		return false, ""
	case errors.As(err, new(sink.UnloggedError)):
		is = kind == "unlogged"
	case errors.As(err, new(sink.DroppedError)):
		is = kind == "dropped"
	case errors.As(err, new(sink.ChangedError)):
		is = kind == "changed"
	case errors.As(err, &fenced):
		return kind == "fenced", strings.Join(fenced.Lanes, " ")
	case errors.As(err, &behind):
		return kind == "behind", fmt.Sprint(behind.Lane, " ", behind.Found, " ", behind.Want)
	case errors.As(err, &shared):
		return kind == "shared", strings.Join(shared.Jobs, ", ")
	}
	return is || kind == "to", err.Error()
}

// expect runs the commands that compare.
func (p *play) expect(c step, r *player) {
	t := p.t
	same := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	switch c.command {
	case "counts":
		got := CountsText(r.result.Total())
		if strings.Contains(c.args, ";") {
			var all []string
			for _, table := range r.result.Tables {
				all = append(all, CountsText(table))
			}
			got = strings.Join(all, "; ")
		}
		same(got, c.args)
	case "refused":
		same(strconv.Itoa(len(r.result.Refused)), c.args)
	case "rows":
		Expect(t, p.db, c.args, c.lines...)
	case "rejected":
		Expect(t, p.db, "SELECT line FROM weir_rejects ORDER BY job, line", strings.Fields(c.args)...)
	case "shop":
		tables := strings.Split(c.args, ", ")
		for i, rows := range tables {
			tables[i] = strings.TrimSuffix(rows, "-")
		}
		shopIs(t, p.db, strings.Fields(tables[0]), strings.Fields(tables[1]), strings.Fields(tables[2]))
	case "forget":
		job, want, _ := strings.Cut(c.args, ": ")
		got, err := part[sink.Forgetter](r.Run).Forget(t.Context(), job)
		text := "nothing"
		if got.Found {
			text = fmt.Sprintf("%d sources, %d rejects", got.Sources, got.Rejects)
		}
		if got.Versions {
			text += ", versions"
		}
		if same(text, want); err != nil {
			t.Error(err)
		}
	case "writers":
		same(strings.Join(r.known(0).Writers, ", "), c.args)
	case "columns":
		r.hasColumns(c.args, c.lines)
	case "orphans":
		refusesOrphans(t, p.db)
	case "referred":
		Expect(t, p.db, referred(r.Mapping, r.Mapping.Tables[1].ID), c.lines...)
	case "stamps":
		stampsAre(t, p.db, strings.Fields(c.args)...)
	case "compare":
		most := 100
		if c.args != "" {
			most = must(strconv.Atoi(c.args))
		}
		o := fold.Options{}
		if r != nil && r.Options != nil {
			r.Options(table, &o)
		}
		p.differences = differences(t, inspect(t, p.db), most, o.Merge, c.lines...)
	case "differences":
		same(strings.Join(p.differences, "\n"), strings.Join(c.lines, "\n"))
	default:
		t.Fatalf("the command %s is unknown", c.command)
	}
}

// hasColumns compares the first columns of a table in the database. Without lines the table must be missing.
func (r *player) hasColumns(name string, want []string) {
	name, withKey := strings.CutSuffix(name, ", with a foreign key")
	i := slices.IndexFunc(r.folders, func(f *fold.Folder) bool { return f.Table().Name == name })
	t := r.known(i)
	var have []string
	for _, c := range t.Columns[:min(len(want), len(t.Columns))] {
		text := fmt.Sprint(c.Name, " ", c.Type)
		if c.Own {
			text += " own"
		}
		have = append(have, text)
	}
	if !slices.Equal(have, want) || t.Exists != (len(want) > 0) || withKey && len(t.ForeignKeys) != 1 {
		r.t.Errorf("the table %s has the columns %q, want %q: %+v", name, have, want, t)
	}
}

// CountsText formats counts as in scripts, such as "1 inserted, 2 updated" or "nothing".
func CountsText(of sink.Counts) string {
	var all []string
	for i, n := range []int64{of.Inserted, of.Updated, of.Unchanged, of.Deleted} {
		if n > 0 {
			all = append(all, fmt.Sprint(n, []string{" inserted", " updated", " unchanged", " deleted"}[i]))
		}
	}
	if all == nil {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

func (p *play) begin(name, options string) {
	s := p.setup(options)
	if strings.Contains(options, "unclaimed") {
		p.add(name, options, s.unclaimed(p.t, p.db))
		return
	}
	p.add(name, options, s.Begin(p.t, p.db))
}

func (p *play) add(name, options string, r *Run) {
	p.runs[name] = &player{Run: r, options: options}
	p.order = append(p.order, p.runs[name])
}

// option returns the value of an option of all runs, and whether it is set.
func (p *play) option(name string) (value string, has bool) {
	for o := range strings.FieldsSeq(p.options) {
		if key, value, _ := strings.Cut(o, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// setup returns a run's Setup for options.
func (p *play) setup(options string) (s Setup) {
	var change []func(*fold.Options)
	plain := "" // the table without versions
	words := strings.Fields(options + " " + p.options)
	m := p.mapping(words)
	for _, o := range words {
		name, value, _ := strings.Cut(o, "=")
		list := strings.Split(value, ",")
		switch name {
		case "job":
			s.Job = value
		case "tables":
			s.Tables = list
		case "sources":
			s.Sources = list
		case "unnamed":
			s.Unnamed = true
		case "stamps":
			s.Fit = stamps
		case "key":
			if value == "none" {
				list = lines{}
			}
			change = append(change, key(list...))
		case "null":
			change = append(change, keepNull)
		case "fill-only":
			change = append(change, fillOnly)
		case "merge":
			change = append(change, func(o *fold.Options) { o.Merge = functions(value) })
		case "columns":
			change = append(change, func(o *fold.Options) { o.UnknownFields = fold.UnknownFields(value) })
		case "versions":
			if scope := fold.Scope(value); m != nil {
				inVersions(m, scope)
			} else {
				change = append(change, func(o *fold.Options) { o.Version, o.Scope = "v", scope })
			}
		case "plain":
			plain = value
		case "unclaimed", "most", "shop", "merged", "referring", "stream":
		case "streamed":
			m = streaming(p.t, m.Tables...)
		default:
			p.change(m, name, value)
		}
	}
	s.Mapping, s.Options = m, func(table string, o *fold.Options) {
		if all(change...)(table, o); table == plain {
			o.Version = ""
		}
	}
	return s
}

// mapping returns the mapping that an option names.
func (p *play) mapping(options []string) *mapping.Mapping {
	for _, o := range options {
		switch name, value, _ := strings.Cut(o, "="); name {
		case "shop":
			return Shop(p.t)
		case "merged":
			return MergedShop(p.t)
		case "referring":
			return Referring(p.t, "x", value)
		case "stream":
			var tables []mapping.Table
			for table := range strings.SplitSeq(value, ",") {
				tables = append(tables, mapping.Table{Name: table, Key: []string{"id"}})
			}
			return streaming(p.t, tables...)
		}
	}
	return nil
}

// change changes a mapping by an option.
func (p *play) change(m *mapping.Mapping, name, value string) {
	switch name {
	case "untyped":
		untyped(m)
	case "oid":
		generateOrders(m, name)
	case "iid":
		m.Tables[1].ID = name
	case "sets":
		for i, set := range strings.Split(value, ",") {
			m.Tables[1+i].Set = map[string]mapping.Set{"replace": mapping.ReplaceSet, "merge": mapping.MergeSet}[set]
		}
	case "rest":
		for i := range m.Tables[1:] {
			m.Tables[1+i].UnknownFields = fold.AddUnknown
		}
	case "deletes":
		m.Tables[0].DeleteWhen, m.Tables[1].DeleteWhen = when("off"), when("gone")
	case "own-versions":
		versioned(m)
	case "all-versions":
		for i := range m.Tables {
			m.Tables[i].Version, m.Tables[i].Scope = path("$.v"), fold.Scope(value)
			m.Tables[i].Columns = append(m.Tables[i].Columns, columns("v: $.v as integer")...)
		}
	case "no-types":
		for _, t := range m.Tables {
			for i := range t.Columns {
				t.Columns[i].From[0].As = cast.Type{}
			}
		}
	case "parent-versions":
		m.Tables[0].Version, m.Tables[0].Scope = path("$.v"), fold.Scope(value)
	default:
		p.t.Fatalf("the option %s is unknown", name)
	}
}
