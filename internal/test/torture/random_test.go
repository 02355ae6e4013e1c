package torture

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// TestRandom runs the program on random feeds, into a table that it makes, or a user's table, or the tables of a
// random config file, with random settings, killed or not, with one run or two at once. The tables must equal the
// fold of package foldtest, and each bad line must be kept once.
func TestRandom(t *testing.T) {
	n := testcheck.Rounds(15, 60*tortured())
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kind)
			sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
				c := drawCase(rnd, kind == "postgres", t.TempDir())
				err := b.run(t, c)
				if err == nil {
					return
				}
				whole := c.String()
				if short, shortErr := b.shrink(t, c, err); short != nil {
					t.Fatalf("%v\n%s\nas few lines as do the same:\n%v\n%s", err, whole, shortErr, short)
				}
				t.Fatalf("%v\n%s", err, whole)
			})
		})
	}
}

// A bench runs cases, one at a time.
type bench struct {
	*testweir.Folder
	url string // of a Postgres database; "" for SQLite
	n   int
}

func newBench(t *testing.T, kind string) *bench {
	if kind != "postgres" {
		return &bench{}
	}
	url := testpg.New(t)
	return &bench{Folder: testweir.New(t, url), url: url}
}

// A randomCase is one or two feeds, a table, and how runs sync them.
type randomCase struct {
	postgres bool
	rules    foldtest.Rules
	keys     []string         // how each part of the key is spelled
	table    *userTable       // nil if weir makes the table
	mapping  *mapping.Mapping // of a config file, instead of rules, keys and a table
	config   string           // the config file
	messages *mappingDraw     // its feed
	writers  int
	files    [][][]string // lines, by writer and file
	appended []string     // later, to the last file of the first writer
	pack     string       // "", gz, zst
	noEnd    bool         // the last line of a file has no newline
	arrays   bool         // lines are arrays of messages where they can be
	stdin    bool
	glob     bool
	flags    []string
	inTurn   bool // the writers run one after the other
	merges   bool // the columns have merge functions
	counters bool // they are sums, and the writers add to them concurrently
	late     bool // the first writer reads stdin: it starts first, and gets its lines last
	kills    int
	killIn   time.Duration
	between  []string // SQL to run before the appended lines are read
	life     life
}

func drawCase(rnd *rand.Rand, postgres bool, dir string) *randomCase {
	c := &randomCase{postgres: postgres, writers: 1}
	c.rules.Key, c.rules.MaxColumns = []string{"id"}, 500
	if rnd.IntN(3) == 0 {
		c.drawMapping(rnd, filepath.Join(dir, configFile))
	} else {
		c.drawRules(rnd)
	}
	c.drawRuns(rnd)
	return c
}

// drawRules makes a case use one table.
func (c *randomCase) drawRules(rnd *rand.Rand) {
	r := &c.rules
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
	if c.merges = !user && !r.FillOnly && rnd.IntN(4) == 0; c.merges && r.Version != "" {
		r.DeleteField, r.DeleteValue = "", ""
	}
	if c.merges && c.writers == 2 && !c.inTurn && !r.RowScope {
		// A null, or a delete without a version, starts a sum again, so what it takes away depends on who writes first.
		r.KeepNull, r.DeleteField, r.DeleteValue = true, "", ""
		c.counters = r.Version == ""
	}
	for range r.Key {
		kind := pick(rnd, []string{"int", "int", "text", "mixed"})
		if user {
			kind = drawUserKey(rnd, c.postgres)
		} else if c.writers == 2 {
			kind = "int"
		}
		c.keys = append(c.keys, kind)
	}
	if user {
		c.table = drawTable(rnd, c)
		if rnd.IntN(3) == 0 {
			r.Columns = pick(rnd, []string{"add", "add", "reject"})
		}
	} else if !r.RowScope && rnd.IntN(10) == 0 {
		r.Columns = pick(rnd, []string{"ignore", "reject", "add"})
	} else if rnd.IntN(10) == 0 && c.writers == 1 && !r.RowScope {
		r.MaxColumns = rnd.IntN(8)
	}
}

// drawRuns draws the feed, and how runs read it.
func (c *randomCase) drawRuns(rnd *rand.Rand) {
	c.flags = append(c.flags, "--batch-rows", pick(rnd, []string{"1", "2", "7", "100", "100000"}))
	if rnd.IntN(8) == 0 {
		c.flags = append(c.flags, "--buffer", "1MiB")
	}
	if rnd.IntN(8) == 0 {
		c.flags = append(c.flags, "--batch-period", "1ms")
	}
	c.flags = append(c.flags, "--synchronous", pick(rnd, []string{"off", "off", "normal", "full"}))
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
	if c.late = c.writers == 2 && !c.inTurn && c.kills == 0 && rnd.IntN(2) == 0; c.late {
		c.flags = append(c.flags, "--batch-period", "5ms")
	}
	c.drawFiles(rnd, n)
}

func (c *randomCase) drawFiles(rnd *rand.Rand, n int) {
	parts := 1
	switch k := rnd.IntN(10); {
	case k < 2 && c.writers == 1:
		parts = 2 + rnd.IntN(3)
		c.glob = k == 0
	case k == 2 && c.kills == 0 && c.writers == 1:
		c.stdin = true
	case k == 3 && !c.late:
		c.pack = pick(rnd, []string{"gz", "zst"})
	}
	c.noEnd = rnd.IntN(10) == 0
	appends := c.pack == "" && !c.stdin && !c.noEnd && c.writers == 1
	if c.mapping != nil {
		c.files = [][][]string{split(c.messages.lines(n), min(parts, n))}
		if appends && rnd.IntN(2) == 0 {
			c.appended = c.messages.lines(1 + rnd.IntN(20))
		}
		if !c.stdin && rnd.IntN(4) == 0 {
			c.life.kind = "from the start"
		}
		return
	}
	columns, kind := drawColumns(rnd, c)
	c.drawFunctions(rnd, columns)
	versions := c.versions(rnd, c.writers*n)
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
				if line := c.table.wrongs(rnd, c, 10_000+1000*w+s.single); line != "" {
					lines = slices.Insert(lines, rnd.IntN(len(lines)+1), line)
				}
			}
		}
		files := split(lines, parts)
		for i, f := range files {
			if bad := len(f) > 0 && foldtest.NewTable(c.rules, foldtest.Limits{}).Apply([]byte(f[0])) != nil; bad || len(f) == 0 {
				files[i] = append([]string{s.line(0, 5)}, f...) // with the version of the first line
			}
		}
		c.files = append(c.files, files)
	}
	later := &feedSource{rnd: rnd, c: c, columns: columns, kind: kind, version: c.versions(rnd, 20)}
	c.drawLife(rnd, later)
	if appends && rnd.IntN(5) == 0 {
		c.appended = later.lines(1 + rnd.IntN(20))
		if c.rules.Columns != "" {
		} else if c.table == nil && rnd.IntN(3) == 0 {
			c.between = append(c.between, "CREATE VIEW seen AS SELECT * FROM t")
		} else if c.table == nil && rnd.IntN(3) == 0 {
			c.between = append(c.between, "CREATE INDEX theirs ON t (id)")
		}
	}
	c.arrays = c.mapping == nil && !c.stdin && !c.late && len(c.appended) == 0 && c.life.kind == "" && rnd.IntN(2) == 0
}

// drawFunctions draws the merge functions of some columns.
func (c *randomCase) drawFunctions(rnd *rand.Rand, columns []string) {
	if !c.merges {
		return
	}
	functions := []string{"sum", "min", "max", "patch", "first"}
	switch {
	case c.counters:
		functions = functions[:1]
	case c.rules.Version != "":
		functions = functions[:3]
	}
	c.rules.Merge = map[string]string{}
	for _, name := range columns {
		if c.counters || rnd.IntN(3) > 0 {
			c.rules.Merge[name] = pick(rnd, functions)
		}
	}
}

// split splits lines into parts.
func split(lines []string, parts int) (files [][]string) {
	for p := range parts {
		files = append(files, lines[p*len(lines)/parts:(p+1)*len(lines)/parts])
	}
	return files
}

// String describes the case so it can be reproduced.
func (c *randomCase) String() string {
	var b strings.Builder
	b.WriteString(c.config)
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
		fmt.Fprintf(&b, "two runs, in turn: %v, the first on stdin: %v\n", c.inTurn, c.late)
	}
	if c.arrays {
		b.WriteString("in arrays\n")
	}
	if c.kills > 0 {
		fmt.Fprintf(&b, "killed %d times within %v\n", c.kills, c.killIn)
	}
	if len(c.appended) > 0 {
		fmt.Fprintf(&b, "--- then %s, and appended to the last file:\n%s\n", strings.Join(c.between, "; "), strings.Join(c.appended, "\n"))
	}
	if c.life.kind != "" {
		fmt.Fprintf(&b, "--- then %s, %s %+v\n%s\n", c.life.kind, c.life.way, c.life.rules, strings.Join(c.life.lines, "\n"))
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

const configFile = "weir.yaml"

// foldArgs returns the flags of the fold, which verify has too.
func (c *randomCase) foldArgs(to string) []string {
	if c.mapping != nil {
		return []string{"--config", configFile, "--to", to}
	}
	r := &c.rules
	args := []string{"--table", "t", "--to", to, "--key", strings.Join(r.Key, ",")}
	if r.KeepNull {
		args = append(args, "--null", "keep")
	}
	if r.FillOnly {
		args = append(args, "--fill-only")
	}
	for _, column := range slices.Sorted(maps.Keys(r.Merge)) {
		args = append(args, "--merge", `"`+strings.ReplaceAll(column, `"`, `""`)+"="+r.Merge[column]+`"`)
	}
	if r.DeleteField != "" {
		args = append(args, "--delete-when", r.DeleteField+"="+r.DeleteValue)
	}
	if r.Version != "" {
		args = append(args, "--version-field", r.Version)
	}
	if r.RowScope {
		args = append(args, "--version-scope", "row")
	}
	if r.Columns != "" {
		args = append(args, "--unknown-fields", r.Columns)
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
	return append(args, "--max-rejects", "1000000", "--summary", "json", "-q")
}

func (c *randomCase) sources(writer int) (names []string) {
	switch {
	case c.stdin, c.late && writer == 0:
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
	return foldtest.Limits{FoldCase: true}
}

// without returns the case without some of its n lines, which are numbered: first the files' lines, then the
// appended ones. The first line of a file is never removed.
func (c *randomCase) without(at, size int) (d *randomCase, n int) {
	d = new(*c)
	drop := func(lines []string, from int) []string {
		first, last := max(0, min(at-n, len(lines)-from)), max(0, min(at+size-n, len(lines)-from))
		n += len(lines) - from
		return slices.Delete(slices.Clone(lines), from+first, from+last)
	}
	d.files = nil
	for _, files := range c.files {
		var less [][]string
		for _, lines := range files {
			less = append(less, drop(lines, 1))
		}
		d.files = append(d.files, less)
	}
	d.appended = drop(c.appended, 0)
	return d, n
}

// shrink removes lines as long as the case still fails.
func (b *bench) shrink(t testing.TB, c *randomCase, was error) (short *randomCase, err error) {
	end := time.Now().Add(40 * time.Second)
	short = new(*c)
	short.kills = 0
	if err = b.run(t, short); err == nil && c.kills == 0 {
		return nil, fmt.Errorf("not every time: %w", was)
	} else if err == nil {
		return nil, nil
	}
	for size := 64; size > 0; size /= 2 {
		for at := 0; time.Now().Before(end); {
			d, n := short.without(at, size)
			if at >= n {
				break
			}
			if derr := b.run(t, d); derr != nil {
				short, err = d, derr
			} else {
				at += size
			}
		}
	}
	return short, err
}
