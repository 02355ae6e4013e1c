package torture

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestRandom runs the program on random feeds, into tables that it makes and into those
// of a user, with random settings, killed or not, by one run or by two at once, and
// demands that the table be the fold that package foldtest makes of the feed, and that
// each bad line be kept once.
func TestRandom(t *testing.T) {
	n := times(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kind)
			sinktest.Seeds(t, uint64(100*n), func(t *testing.T, rnd *rand.Rand) {
				c := drawCase(rnd, kind == "postgres")
				err := b.run(c)
				if err == nil {
					return
				}
				whole := c.String()
				if short, shortErr := b.shrink(c, err); short != nil {
					t.Fatalf("%v\n%s\nas few lines as do the same:\n%v\n%s", err, whole, shortErr, short)
				}
				t.Fatalf("%v\n%s", err, whole)
			})
		})
	}
}

// A bench is where trials run, one at a time.
type bench struct {
	t   *testing.T
	dir string
	url string  // of a Postgres database, "" for SQLite
	db  *sql.DB // that database
	n   int
}

func newBench(t *testing.T, kind string) *bench {
	b := &bench{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(b.dir, "weir"))
	}
	if err == nil && kind == "postgres" {
		b.url = testpg.New(t)
		if b.db, err = sql.Open("pgx", b.url); err == nil {
			t.Cleanup(func() { b.db.Close() })
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A randomCase is a feed or two, a table, and how runs bring the one into the other.
type randomCase struct {
	postgres bool
	rules    foldtest.Rules
	keys     []string   // how the parts of the key are spelled
	table    *userTable // nil where weir makes it
	writers  int
	files    [][][]string // of each writer, their lines
	appended []string     // to the last file of the first writer, later
	pack     string       // "", gz, zst
	noEnd    bool         // the last line of a file has no newline
	stdin    bool
	glob     bool
	rejects  string // table, file
	flags    []string
	inTurn   bool // the writers come one after the other
	kills    int
	killIn   time.Duration
	between  []string // SQL that comes before what is appended is read
}

func drawCase(rnd *rand.Rand, postgres bool) *randomCase {
	c := &randomCase{postgres: postgres, writers: 1, rejects: "table"}
	r := &c.rules
	r.Key, r.MaxColumns = []string{"id"}, 500
	if rnd.IntN(5) == 0 {
		r.Key = []string{"id", "k"}
	}
	r.KeepNull = rnd.IntN(5) == 0
	switch rnd.IntN(6) {
	case 0:
		r.FillOnly = true
	case 1:
		r.Version, r.RowScope = "v", rnd.IntN(3) == 0
	}
	if !r.FillOnly && rnd.IntN(2) == 0 {
		r.DeleteField, r.DeleteValue = "op", "delete"
	}
	if rnd.IntN(8) == 0 {
		c.writers, c.inTurn = 2, rnd.IntN(3) == 0
	}
	user := rnd.IntN(3) == 0
	for range r.Key {
		kind := pick(rnd, []string{"int", "int", "text", "mixed"})
		if user {
			kind = pick(rnd, []string{"number", "text"})
		} else if c.writers == 2 {
			kind = "int"
		}
		c.keys = append(c.keys, kind)
	}
	if user {
		c.table = drawTable(rnd, c)
	} else if !r.RowScope && rnd.IntN(10) == 0 {
		r.Columns = pick(rnd, []string{"ignore", "reject", "add"})
	} else if rnd.IntN(10) == 0 && c.writers == 1 && !r.RowScope {
		r.MaxColumns = 5 + rnd.IntN(3)
		if !notYet["more new fields than may be added"] {
			r.MaxColumns = rnd.IntN(6)
		}
	}
	c.flags = append(c.flags, "--batch-rows", pick(rnd, []string{"1", "2", "7", "100", "100000"}))
	if rnd.IntN(4) == 0 {
		c.flags = append(c.flags, "--read-ahead", "on")
	}
	if rnd.IntN(8) == 0 {
		c.flags = append(c.flags, "--buffer", "1MiB")
	}
	if rnd.IntN(8) == 0 {
		c.flags = append(c.flags, "--batch-period", "1ms")
	}
	c.flags = append(c.flags, "--synchronous", pick(rnd, []string{"off", "off", "normal", "full"}))
	if rnd.IntN(4) == 0 {
		c.rejects = "file"
	}
	n := 1 + rnd.IntN(60)
	if rnd.IntN(12) == 0 {
		n = 100 + rnd.IntN(400)
	}
	if rnd.IntN(6) == 0 {
		c.kills = 1 + rnd.IntN(3)
		c.killIn = time.Duration(5+rnd.IntN(60)) * time.Millisecond
		n = 30 + rnd.IntN(200)
		c.flags[1] = pick(rnd, []string{"1", "2", "7"})
	}
	c.drawFiles(rnd, n)
	return c
}

func (c *randomCase) drawFiles(rnd *rand.Rand, n int) {
	columns, kind := drawColumns(rnd, c)
	versions := c.versions(rnd, c.writers*n)
	parts := 1
	switch k := rnd.IntN(10); {
	case k < 2 && c.writers == 1:
		parts = 2 + rnd.IntN(3)
		c.glob = k == 0
	case k == 2 && c.kills == 0 && c.writers == 1:
		c.stdin = true
	case k == 3:
		c.pack = pick(rnd, []string{"gz", "zst"})
	}
	for w := range c.writers {
		s := &feedSource{rnd: rnd, c: c, columns: columns, kind: kind, version: versions[w*n : (w+1)*n], writer: w}
		lines := s.lines(n)
		if c.table != nil {
			if c.table.linked && c.writers == 1 {
				at := 0
				for _, line := range c.table.links(rnd, c, 2_000_000) {
					at += rnd.IntN(len(lines) + 1 - at)
					lines = slices.Insert(lines, at, line)
					at++
				}
			}
			for range rnd.IntN(3) {
				s.single++
				if line := c.table.wrongs(rnd, c, 1_000_000+1000*w+s.single); line != "" {
					lines = slices.Insert(lines, rnd.IntN(len(lines)+1), line)
				}
			}
		}
		var files [][]string
		for p := range parts {
			files = append(files, lines[p*len(lines)/parts:(p+1)*len(lines)/parts])
		}
		for i, f := range files {
			if bad := len(f) > 0 && foldtest.NewTable(c.rules, foldtest.Limits{}).Apply([]byte(f[0])) != nil; bad || len(f) == 0 {
				files[i] = append([]string{s.line(0, 5)}, f...) // with the version of the first line
			}
		}
		c.files = append(c.files, files)
	}
	c.noEnd = rnd.IntN(10) == 0
	if c.pack == "" && !c.stdin && !c.noEnd && c.writers == 1 && rnd.IntN(5) == 0 {
		s := &feedSource{rnd: rnd, c: c, columns: columns, kind: kind, version: c.versions(rnd, 20)}
		c.appended = s.lines(1 + rnd.IntN(20))
		if c.rules.Columns != "" {
		} else if c.table == nil && (!c.postgres || !notYet["views on a table that weir widens"]) && rnd.IntN(3) == 0 {
			c.between = append(c.between, "CREATE VIEW seen AS SELECT * FROM t")
		} else if c.table == nil && rnd.IntN(3) == 0 {
			c.between = append(c.between, "CREATE INDEX theirs ON t (id)")
		}
	}
}

// String is the case as somebody would write it down who wants to see it again.
func (c *randomCase) String() string {
	var b strings.Builder
	if c.table != nil {
		for _, s := range c.table.make(c) {
			fmt.Fprintf(&b, "%s;\n", s)
		}
	}
	for w, files := range c.files {
		fmt.Fprintf(&b, "weir %s\n", strings.Join(c.args(w, "TO"), " "))
		for p, f := range files {
			fmt.Fprintf(&b, "--- %s\n%s\n", c.file(w, p), strings.Join(f, "\n"))
		}
	}
	if c.writers == 2 {
		fmt.Fprintf(&b, "two runs, in turn: %v\n", c.inTurn)
	}
	if c.kills > 0 {
		fmt.Fprintf(&b, "killed %d times within %v\n", c.kills, c.killIn)
	}
	if len(c.appended) > 0 {
		fmt.Fprintf(&b, "--- then %s, and appended to the last file:\n%s\n", strings.Join(c.between, "; "), strings.Join(c.appended, "\n"))
	}
	return b.String()
}

func (c *randomCase) file(writer, part int) string {
	name := fmt.Sprintf("w%d-%d.jsonl", writer, part)
	if c.pack != "" {
		name += "." + c.pack
	}
	return name
}

// foldArgs are the flags of the fold, which verify takes too.
func (c *randomCase) foldArgs(to string) []string {
	r := &c.rules
	args := []string{"--table", "t", "--to", to, "--key", strings.Join(r.Key, ",")}
	if r.KeepNull {
		args = append(args, "--null", "keep")
	}
	if r.FillOnly {
		args = append(args, "--fill-only")
	}
	if r.DeleteField != "" {
		args = append(args, "--delete-when", r.DeleteField+"="+r.DeleteValue)
	}
	if r.Version != "" {
		args = append(args, "--version", r.Version)
	}
	if r.RowScope {
		args = append(args, "--version-scope", "row")
	}
	if r.Columns != "" {
		args = append(args, "--columns", r.Columns)
	}
	if r.MaxColumns != 500 {
		args = append(args, "--max-columns", fmt.Sprint(r.MaxColumns))
	}
	return args
}

func (c *randomCase) args(writer int, to string) []string {
	args := append([]string{"sync"}, c.sources(writer)...)
	args = append(args, c.foldArgs(to)...)
	args = append(args, c.flags...)
	if c.rejects == "file" {
		args = append(args, "--rejects", fmt.Sprintf("file:rejects%d", writer))
	}
	return append(args, "--max-rejects", "1000000", "--summary", "json", "-q")
}

func (c *randomCase) sources(writer int) (names []string) {
	switch {
	case c.stdin:
		return []string{"-"}
	case c.glob:
		return []string{fmt.Sprintf("w%d-*", writer)}
	}
	for p := range c.files[writer] {
		names = append(names, c.file(writer, p))
	}
	return names
}

func (c *randomCase) limits() foldtest.Limits {
	if c.postgres {
		return foldtest.Limits{NoNUL: true, MaxName: 63, Reserved: []string{"tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"}}
	}
	return foldtest.Limits{}
}

// model folds all that the files hold now.
func (c *randomCase) model() (t *foldtest.Table, rejects []string) {
	if c.table == nil {
		t = foldtest.NewTable(c.rules, c.limits())
	} else {
		t = foldtest.NewTable(c.rules, c.limits(), c.table.columnsOf(c)...)
		t.Violates = c.table.violates
	}
	for w, files := range c.files {
		for p, lines := range files {
			for i, line := range lines {
				if err := t.Apply([]byte(line)); err != nil {
					rejects = append(rejects, fmt.Sprintf("%s:%d", c.file(w, p), i+1))
				}
			}
		}
	}
	slices.Sort(rejects)
	return t, rejects
}

// run runs a case in a place of its own, and tells what is wrong.
func (b *bench) run(c *randomCase) (err error) {
	b.n++
	dir := filepath.Join(b.dir, fmt.Sprint("n", b.n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &running{bench: b, randomCase: c, dir: dir, to: "t.db", counts: make([]counts, c.writers)}
	if c.postgres {
		schema := fmt.Sprint("s", b.n)
		r.to = b.url + "&search_path=" + schema
		if _, err := b.db.Exec("CREATE SCHEMA " + schema); err != nil {
			return err
		}
		defer func() {
			_, derr := b.db.Exec("DROP SCHEMA " + schema + " CASCADE")
			err = errors.Join(err, derr)
		}()
	}
	if err := r.all(); err != nil {
		return err
	}
	return r.spoil()
}

// running is a case that runs.
type running struct {
	*bench
	*randomCase
	dir, to string
	counts  []counts // of each writer's last run
}

// counts are what a run says that it did.
type counts struct{ Lines, Inserted, Updated, Deleted, Rejected int }

func (r *running) all() error {
	if r.table != nil {
		if err := r.exec(r.table.make(r.randomCase)...); err != nil {
			return err
		}
	}
	if err := r.write(); err != nil {
		return err
	}
	var writers sync.WaitGroup
	errs := make([]error, r.writers)
	for w := range r.writers {
		writers.Go(func() { errs[w] = r.sync(w, r.kills) })
		if r.inTurn {
			writers.Wait()
		}
	}
	writers.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if err := r.count(); err != nil {
		return err
	}
	if r.stdin {
		return nil
	}
	for w := range r.writers { // again: there is nothing to do
		if err := r.sync(w, 0); err != nil {
			return fmt.Errorf("a second run: %w", err)
		}
		if r.counts[w] != (counts{}) {
			return fmt.Errorf("a second run did something: %+v", r.counts[w])
		}
	}
	if len(r.appended) > 0 {
		if err := r.exec(r.between...); err != nil {
			return err
		}
		files := slices.Clone(r.files)
		files[0] = slices.Clone(files[0])
		last := len(files[0]) - 1
		files[0][last] = slices.Concat(files[0][last], r.appended)
		again := *r.randomCase
		again.files = files
		before := r.randomCase
		r.randomCase = &again
		defer func() { r.randomCase = before }()
		if err := r.write(); err != nil {
			return err
		}
		if err := r.sync(0, 0); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("after what was appended: %w", err)
		}
	}
	return nil
}

// count compares what the runs say that they did with the fold.
func (r *running) count() error {
	if r.kills > 0 {
		return nil
	}
	model, rejects := r.model()
	sum := counts{}
	for _, n := range r.counts {
		sum.Inserted += n.Inserted
		sum.Deleted += n.Deleted
		sum.Rejected += n.Rejected
	}
	if rows := len(model.Rows()); sum.Inserted-sum.Deleted != rows || sum.Rejected != len(rejects) {
		return fmt.Errorf("the summary is wrong: %+v, and should be of %d rows and %d rejected lines", r.counts, rows, len(rejects))
	}
	return nil
}

func (r *running) exec(statements ...string) error {
	if len(statements) == 0 {
		return nil
	}
	db, err := r.open()
	if err != nil {
		return err
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (r *running) open() (*sql.DB, error) {
	if r.postgres {
		return sql.Open("pgx", r.to)
	}
	return sql.Open("sqlite", "file:"+filepath.Join(r.dir, r.to)+"?_pragma=busy_timeout(20000)")
}

// text is a file's.
func (c *randomCase) text(lines []string) []byte {
	text := strings.Join(lines, "\n")
	if last := lines[len(lines)-1]; !c.noEnd || foldtest.NewTable(c.rules, foldtest.Limits{}).Apply([]byte(last)) != nil {
		text += "\n"
	}
	return []byte(text)
}

func (r *running) write() error {
	for w, files := range r.files {
		for p, lines := range files {
			data := r.text(lines)
			var packed bytes.Buffer
			switch r.pack {
			case "gz":
				z := gzip.NewWriter(&packed)
				_, _ = z.Write(data)
				z.Close()
				data = packed.Bytes()
			case "zst":
				z, err := zstd.NewWriter(&packed)
				if err != nil {
					return err
				}
				_, _ = z.Write(data)
				z.Close()
				data = packed.Bytes()
			}
			if err := os.WriteFile(filepath.Join(r.dir, r.file(w, p)), data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// sync runs the program until it has ended by itself; so many runs are killed before.
func (r *running) sync(writer, kills int) error {
	rnd := rand.New(rand.NewPCG(uint64(r.killIn), uint64(writer)))
	for ; ; kills-- {
		var stdin []byte
		if r.stdin {
			stdin = r.text(slices.Concat(r.files[writer]...))
		}
		after := time.Duration(0)
		if kills > 0 {
			after = 1 + time.Duration(rnd.Int64N(int64(r.killIn)))
		}
		args := r.args(writer, r.to)
		if kills < r.kills { // the last one counts
			args = append(args, "--batch-rows", fmt.Sprint(1+rnd.IntN(20)))
		}
		code, out := r.weir(stdin, after, args...)
		switch {
		case code == -1 && kills > 0:
		case code == 0 || code == 3:
			n := counts{}
			if err := json.Unmarshal([]byte(out[strings.LastIndexByte("\n"+out[:len(out)-1], '\n'):]), &n); err != nil {
				return fmt.Errorf("the summary: %w\n%s", err, out)
			}
			if n.Rejected > 0 != (code == 3) {
				return fmt.Errorf("exit %d, and yet\n%s", code, out)
			}
			r.counts[writer] = n
			return nil
		default:
			return fmt.Errorf("the run ended with %d\n%s", code, out)
		}
	}
}

// weir runs the program, and kills it after a time, 0 for never; then the exit code is -1.
func (r *running) weir(stdin []byte, after time.Duration, args ...string) (code int, out string) {
	c := exec.Command(filepath.Join(r.bench.dir, "weir"), args...)
	c.Dir = r.dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "WEIR_") {
			c.Env = append(c.Env, e)
		}
	}
	c.Stdin = bytes.NewReader(stdin)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Start(); err != nil {
		return 99, err.Error()
	}
	patience := 5 * time.Minute
	if after > 0 {
		patience = after
	}
	kill := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
	defer kill.Stop()
	_ = c.Wait()
	return c.ProcessState.ExitCode(), text.String()
}

// A cell is a column of a row as the database holds it.
type cell struct {
	kind string // null, int, real, num, text, bool, json
	text string
}

// check compares the table and the rejected lines with the model's.
func (r *running) check() error {
	model, rejects := r.model()
	db, err := r.open()
	if err != nil {
		return err
	}
	defer db.Close()
	rows := model.Rows()
	have, columns, err := r.read(db)
	if err != nil {
		return err
	}
	var faults []string
	fault := func(format string, args ...any) {
		if len(faults) < 8 {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	for key, row := range have {
		want, known := rows[key]
		if !known {
			fault("the table has the row %s", key)
			continue
		}
		for name := range want {
			if !slices.Contains(columns, name) {
				fault("the table has no column %q", name)
			}
		}
		for name, h := range row {
			if w := want[name]; !r.same(name, w, h) {
				fault("%s: %q is %s %q, and should be %s", key, name, h.kind, h.text, w.JSON())
			}
		}
	}
	for key := range rows {
		if _, known := have[key]; !known {
			fault("the table lacks the row %s", key)
		}
	}
	kept, err := r.rejected(db)
	if err != nil {
		return err
	}
	if !slices.Equal(kept, rejects) {
		fault("rejected lines: %v, and should be: %v", kept, rejects)
	}
	if len(faults) == 0 && columns != nil && r.verifies() {
		if code, out := r.verify(); code != 0 {
			fault("verify ended with %d\n%s", code, out)
		}
	}
	if len(faults) > 0 {
		slices.Sort(faults)
		return errors.New(strings.Join(faults, "\n"))
	}
	return nil
}

// same reports whether a cell holds what the fold has.
func (r *running) same(column string, want foldtest.Value, have cell) bool {
	if r.table != nil {
		for _, w := range r.table.columns {
			switch {
			case w.Name != column:
			case w.Generated:
				return true
			case want.Kind == foldtest.Null || have.kind == "null":
				return want.Kind == foldtest.Null && have.kind == "null"
			default:
				return w.same(want, have)
			}
		}
	}
	if slices.Contains(r.rules.Key, column) {
		return have.kind != "null" // by it the row was found
	}
	switch want.Kind {
	case foldtest.Null:
		return have.kind == "null"
	case foldtest.Bool:
		return have.text == want.Text && (have.kind == "bool" || have.kind == "text")
	case foldtest.Number:
		w, _ := foldtest.Decimal(want.Text)
		h, ok := foldtest.Decimal(have.text)
		return ok && w == h
	case foldtest.JSON:
		w, _ := foldtest.Canonical(want.Text)
		h, ok := foldtest.Canonical(have.text)
		return ok && w == h
	}
	return have.kind == "text" && have.text == want.Text
}

// read reads the table, its rows by their keys.
func (r *running) read(db *sql.DB) (rows map[string]map[string]cell, columns []string, err error) {
	rows = map[string]map[string]cell{}
	kinds := map[string]string{}
	describe := "SELECT name, type FROM pragma_table_xinfo('t')"
	if r.postgres {
		describe = "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = to_regclass('t') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
	}
	described, err := db.Query(describe)
	if err != nil {
		return nil, nil, err
	}
	defer described.Close()
	var list []string
	for described.Next() {
		var name, kind string
		if err := described.Scan(&name, &kind); err != nil {
			return nil, nil, err
		}
		columns, kinds[name] = append(columns, name), kind
		if r.postgres {
			list = append(list, quote(name)+"::text", "''")
		} else {
			list = append(list, "+"+quote(name), "typeof("+quote(name)+")")
		}
	}
	if len(columns) == 0 {
		return rows, nil, described.Err()
	}
	found, err := db.Query("SELECT " + strings.Join(list, ", ") + " FROM t")
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	for found.Next() {
		values, into := make([]any, len(list)), make([]any, len(list))
		for i := range into {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, nil, err
		}
		row := map[string]cell{}
		for i, name := range columns {
			row[name] = newCell(values[2*i], fmt.Sprint(values[2*i+1]), kinds[name])
		}
		key := r.keyOf(row)
		if rows[key] != nil {
			return nil, nil, fmt.Errorf("the row %s is there twice", key)
		}
		rows[key] = row
	}
	return rows, columns, found.Err()
}

// newCell makes a cell of what a driver returns.
func newCell(v any, storage, kind string) cell {
	switch v := v.(type) {
	case nil:
		return cell{kind: "null"}
	case int64:
		if kind == "BOOLEAN" && (v == 0 || v == 1) {
			return cell{"bool", fmt.Sprint(v == 1)}
		}
		return cell{"int", fmt.Sprint(v)}
	case float64:
		return cell{"real", strconv.FormatFloat(v, 'g', -1, 64)}
	case []byte:
		return cell{storage, string(v)}
	}
	text := fmt.Sprint(v)
	switch kind {
	case "boolean":
		return cell{"bool", text}
	case "bigint", "integer":
		return cell{"int", text}
	case "double precision": // which Postgres prints with another last digit, here and there
		f, _ := strconv.ParseFloat(text, 64)
		return cell{"real", strconv.FormatFloat(f, 'g', -1, 64)}
	case "real", "numeric":
		return cell{"real", text}
	case "json", "jsonb":
		return cell{"json", text}
	}
	return cell{"text", text}
}

func (r *running) keyOf(row map[string]cell) string {
	var parts []string
	for i, k := range r.rules.Key {
		text := row[k].text
		if r.table != nil && r.keys[i] == "number" {
			text, _ = foldtest.Decimal(text)
		}
		parts = append(parts, text)
	}
	return foldtest.Key(parts...)
}

// rejected returns which lines were kept as rejects.
func (r *running) rejected(db *sql.DB) (kept []string, err error) {
	if r.randomCase.rejects == "file" {
		for w := range r.writers {
			text, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("rejects%d", w)))
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(text)) {
				var l struct {
					Source string
					Line   int
					Raw    string
				}
				if strings.TrimSpace(line) == "" {
					continue
				}
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					return nil, fmt.Errorf("the file of rejects: %w: %q", err, line)
				}
				kept = append(kept, r.place(l.Source, l.Line, l.Raw))
			}
		}
		slices.Sort(kept)
		return kept, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	there := "SELECT count(*) FROM sqlite_schema WHERE name = 'weir_rejects'"
	if r.postgres {
		there = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('weir_rejects')"
	}
	var n int
	if err := db.QueryRowContext(ctx, there).Scan(&n); err != nil || n == 0 {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT source, line, coalesce(raw, '') FROM weir_rejects")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var source, raw string
		var line int
		if err := rows.Scan(&source, &line, &raw); err != nil {
			return nil, err
		}
		kept = append(kept, r.place(source, line, raw))
	}
	slices.Sort(kept)
	return kept, rows.Err()
}

// place is a line as the model names it, if it was kept as it came.
func (r *running) place(source string, line int, raw string) string {
	name := filepath.Base(source)
	for w, files := range r.files {
		for p, lines := range files {
			switch {
			case r.stdin && line > len(lines):
				line -= len(lines)
			case r.stdin || name == r.file(w, p):
				name := fmt.Sprintf("%s:%d", r.file(w, p), line)
				if want := lines[line-1]; want != raw && utf8.ValidString(want) {
					name += fmt.Sprintf(" as %q", raw)
				}
				return name
			}
		}
	}
	return fmt.Sprintf("%s:%d of no file", source, line)
}

// shrink leaves out lines as long as the case goes wrong.
func (b *bench) shrink(c *randomCase, was error) (short *randomCase, err error) {
	end := time.Now().Add(40 * time.Second)
	try := func(d *randomCase) bool {
		if time.Now().After(end) {
			return false
		}
		derr := b.run(d)
		if derr != nil {
			short, err = d, derr
		}
		return derr != nil
	}
	d := *c
	if d.kills > 0 {
		if d.kills = 0; !try(&d) {
			return nil, nil
		}
	} else if !try(&d) {
		return nil, fmt.Errorf("not every time: %w", was)
	}
	for size := 64; size > 0; size /= 2 {
		for w := range d.files {
			for p := range d.files[w] {
				for at := 1; at+size <= len(short.files[w][p]); {
					e := *short
					e.files = slices.Clone(e.files)
					e.files[w] = slices.Clone(e.files[w])
					e.files[w][p] = slices.Delete(slices.Clone(e.files[w][p]), at, at+size)
					if !try(&e) {
						at += size
					}
				}
			}
		}
		for at := 0; at+size <= len(short.appended); {
			e := *short
			e.appended = slices.Delete(slices.Clone(e.appended), at, at+size)
			if !try(&e) {
				at += size
			}
		}
	}
	return short, err
}
