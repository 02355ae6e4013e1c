package mapping_test

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/weirsync/weir/internal/cli"
	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

func TestMain(m *testing.M) {
	testscript.Main(testpg.Tests{M: m}, map[string]func(){"weir": func() { os.Exit(cli.Main()) }})
}

// TestMapping_Program runs the program with config files of random mappings on random feeds, in
// batches of random sizes, killed or not, while the feed grows: its tables and its rejected lines are
// those of the plain model.
func TestMapping_Program(t *testing.T) {
	testcheck.Only(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, url := t.TempDir(), ""
			self, err := os.Executable()
			if err == nil {
				err = os.Symlink(self, filepath.Join(dir, "weir"))
			}
			if err != nil {
				t.Fatal(err)
			}
			if kind == "postgres" {
				url = testpg.New(t)
			}
			rows, rejects := 0, 0
			sinktest.Seeds(t, 100, func(t *testing.T, rnd *rand.Rand) {
				p := newProgram(t, dir, url, rnd)
				p.run()
				p.compare()
				rows, rejects = rows+p.rows, rejects+len(p.bad)
			})
			if (rows < 100 || rejects < 10) && os.Getenv(sinktest.SeedVariable) == "" {
				t.Errorf("did not exercise: %d rows, %d rejected lines", rows, rejects)
			}
		})
	}
}

// program is a config file, a feed and a database.
type program struct {
	*draw
	t        *testing.T
	dir      string // of the case; weir is beside it
	to       string
	postgres bool
	mapping  mapping.Mapping
	model    *foldtest.Model
	lines    []string
	offset   int64
	bad      []string // line numbers
	rows     int
	keys     map[string]map[string][]string // by table and what the database knows a row by
	born     map[string]map[string]string   // what it knows a row by, by table and row
	faults   []string
}

func newProgram(t *testing.T, dir, url string, rnd *rand.Rand) *program {
	p := &program{draw: &draw{Rand: rnd}, t: t, dir: filepath.Join(dir, strings.ReplaceAll(filepath.Base(t.Name()), "=", "")), to: "t.db", postgres: url != ""}
	p.check(os.Mkdir(p.dir, 0o700))
	if p.postgres {
		schema := strings.ToLower(filepath.Base(p.dir))
		db, err := sql.Open("pgx", url)
		p.check(err)
		defer db.Close()
		_, err = db.Exec("CREATE SCHEMA " + schema)
		p.check(err)
		p.to = url + "&search_path=" + schema
	}
	for right := false; !right; { // some have conditions that no message meets
		p.mapping = p.draw.mapping()
		if p.one(2) {
			p.references(&p.mapping)
		}
		p.writable()
		text, err := config.Print(&p.mapping)
		p.check(err)
		p.check(os.WriteFile(filepath.Join(p.dir, "weir.yaml"), text, 0o600))
		right = p.weir("config", "check", "weir.yaml").Run() == nil
	}
	p.model = foldtest.NewModel(&p.mapping, !p.postgres)
	return p
}

// weir is a command line in the folder of the case.
func (p *program) weir(args ...string) *exec.Cmd {
	c := exec.Command("../weir", args...)
	c.Dir = p.dir
	return c
}

func (p *program) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// writable leaves out what runs do not write, and what depends on more than the messages: how
// numbers in a key are equal depends on the type of its column, and sources have the paths of files.
func (p *program) writable() {
	m := &p.mapping
	if m.MaxEach == 0 {
		m.MaxEach = mapping.DefaultMaxEach
	}
	m.MaxTables, m.Unmatched = 100, mapping.IgnoreUnmatched
	once(m.Ignore)
	for i := range m.Tables {
		t := &m.Tables[i]
		t.MaxColumns = 1000
		once(t.When)
		if t.Type.Kind == mapping.DefaultType {
			t.Type.Kind = mapping.Auto
		}
		for j := range t.Columns {
			from := &t.Columns[j].From
			if always := slices.IndexFunc(*from, func(s mapping.Source) bool { return s.When == nil && (s.Value != nil || s.Meta != mapping.NoMeta) }); always >= 0 {
				*from = (*from)[:always+1]
			}
			if len(*from) == 2 && (*from)[0].When == nil && (*from)[0].From.String() == (*from)[1].From.String() {
				*from = (*from)[:1]
			}
			for k := range t.Columns[j].From {
				s := &t.Columns[j].From[k]
				once(s.When)
				if s.Meta == mapping.SourceMeta {
					s.Meta = mapping.LineMeta
				}
				if slices.Contains(t.Key, t.Columns[j].Name) && s.Value == nil {
					s.As = mapping.Type{Kind: mapping.Text}
				}
			}
		}
	}
}

// once leaves one test of each path, as a file has it.
func once(w mapping.When) {
	for i, all := range w {
		tested := map[string]bool{}
		w[i] = slices.DeleteFunc(all, func(t mapping.Test) bool {
			again := tested[t.Path.String()]
			tested[t.Path.String()] = true
			return again
		})
	}
}

// run has the feed grow and be read until all of it is.
func (p *program) run() {
	feed, err := os.Create(filepath.Join(p.dir, "feed.jsonl"))
	p.check(err)
	defer feed.Close()
	for part := range 1 + p.IntN(3) {
		for range p.IntN(40) {
			line := p.message()
			_, err := feed.WriteString(line + "\n")
			p.check(err)
			p.lines = append(p.lines, line)
			if _, err := p.model.Apply(line, int64(len(p.lines)), p.offset); err != nil {
				p.bad = append(p.bad, strconv.Itoa(len(p.lines)))
			}
			p.offset += int64(len(line)) + 1
		}
		for kill := p.one(2); ; kill = false {
			c := p.weir("sync", "feed.jsonl", "--config", "weir.yaml", "--to", p.to, "--batch-rows", fmt.Sprint(1+p.IntN(1+p.IntN(30))), "-q")
			var out bytes.Buffer
			c.Stderr = &out
			p.check(c.Start())
			if kill {
				time.AfterFunc(time.Duration(p.IntN(150))*time.Millisecond, func() { _ = c.Process.Kill() })
			}
			err := c.Wait()
			if code := c.ProcessState.ExitCode(); err == nil || code == 3 {
				break
			} else if !kill {
				p.t.Fatalf("part %d: %v\n%s\n%s", part, err, out.String(), describe(&p.mapping))
			}
		}
		db := p.open()
		p.faults = append(p.faults, p.identified(db)...)
		p.check(db.Close())
	}
}

// open opens the database.
func (p *program) open() *sql.DB {
	driver, dsn := "sqlite", "file:"+filepath.Join(p.dir, p.to)
	if p.postgres {
		driver, dsn = "pgx", p.to+"&timezone=UTC"
	}
	db, err := sql.Open(driver, dsn)
	p.check(err)
	return db
}

// compare compares the tables and the rejected lines with the model's.
func (p *program) compare() {
	db := p.open()
	defer db.Close()
	faults := p.faults
	if len(p.lines) > 0 {
		for i := range p.mapping.Tables {
			faults = append(faults, p.differences(db, &p.mapping.Tables[i])...)
		}
		var bad []string
		for _, r := range p.read(db, "SELECT line FROM weir_rejects ORDER BY line") {
			bad = append(bad, r["line"].text)
		}
		if !slices.Equal(bad, p.bad) {
			faults = append(faults, fmt.Sprintf("rejected lines %v, want %v", bad, p.bad))
		}
	}
	if len(faults) > 0 {
		config, err := os.ReadFile(filepath.Join(p.dir, "weir.yaml"))
		p.check(err)
		p.t.Errorf("%s\n%s\n%s", strings.Join(faults, "\n"), config, strings.Join(p.lines, "\n"))
	}
}

func (p *program) differences(db *sql.DB, t *mapping.Table) (faults []string) {
	want, keys := p.model.Cells(t.Name), p.model.Key(t.Name)
	_, owner := p.model.Owner(t.Name)
	p.rows += len(want)
	have := map[string]map[string]cell{}
	if len(want) == 0 && !p.exists(db, t.Name) {
		return nil
	}
	for _, row := range p.read(db, "SELECT * FROM "+t.Name) {
		have[foldtest.Key(p.key(db, t.Name, row)...)] = row
	}
	for key, row := range have {
		if want[key] == nil {
			faults = append(faults, fmt.Sprintf("%s has the row %s", t.Name, key))
			continue
		}
		for name, c := range row {
			c = p.named(t, name, c)
			if w := want[key][name]; name != t.ID && name != owner && !slices.Contains(keys, name) && !same(w, c) {
				faults = append(faults, fmt.Sprintf("%s %s: %s is %q (null: %v), want %s", t.Name, key, name, c.text, c.null, w.JSON()))
			}
		}
	}
	for key, row := range want {
		if have[key] == nil {
			faults = append(faults, fmt.Sprintf("%s lacks the row %s", t.Name, key))
		}
		for name, w := range row {
			if _, exists := have[key][name]; have[key] != nil && !exists && w.Kind != foldtest.Null && !strings.HasPrefix(name, "\x01") {
				faults = append(faults, fmt.Sprintf("%s %s lacks %s=%s", t.Name, key, name, w.JSON()))
			}
		}
	}
	return faults
}

// key is that of a row as messages have it: what the database knows the row above by stands for its
// key.
func (p *program) key(db *sql.DB, table string, row map[string]cell) (key []string) {
	owner, column := p.model.Owner(table)
	if owner != "" {
		key = p.keys[owner][row[column].text]
	}
	for _, k := range p.model.Key(table)[len(key):] {
		key = append(key, row[k].text)
	}
	return key
}

// named is the value of a column as messages have it, which name rows of other tables by their keys.
func (p *program) named(t *mapping.Table, column string, c cell) cell {
	i := slices.IndexFunc(t.Columns, func(c mapping.Column) bool { return c.Name == column })
	if i < 0 || t.Columns[i].From[0].References == "" || c.null {
		return c
	}
	if keys := p.keys[t.Columns[i].From[0].References]; keys != nil {
		return cell{text: strings.Join(keys[c.text], " ")}
	}
	return c
}

// identified notes the keys of rows by what the database knows them by, and finds those that it knows
// by something else than before.
func (p *program) identified(db *sql.DB) (faults []string) {
	before := p.born
	p.keys, p.born = map[string]map[string][]string{}, map[string]map[string]string{}
	for _, t := range p.model.ParentsFirst() {
		if t.ID == "" || !p.exists(db, t.Name) {
			continue
		}
		keys, ids := map[string][]string{}, map[string]string{}
		p.keys[t.Name], p.born[t.Name] = keys, ids
		born := p.model.Born(t.Name)
		for _, row := range p.read(db, "SELECT * FROM "+t.Name) {
			id, key := row[t.ID], p.key(db, t.Name, row)
			if id.null || keys[id.text] != nil {
				faults = append(faults, fmt.Sprintf("%s %q has the %s %q of %q", t.Name, key, t.ID, id.text, keys[id.text]))
			}
			keys[id.text] = key
			if n, ok := born[foldtest.Key(key...)]; ok {
				one := fmt.Sprint(foldtest.Key(key...), " ", n)
				if was, known := before[t.Name][one]; known && was != id.text {
					faults = append(faults, fmt.Sprintf("%s %q: its %s was %s and is %s", t.Name, key, t.ID, was, id.text))
				}
				ids[one] = id.text
			}
		}
	}
	return faults
}

// exists reports whether weir made a table, which it does with the first message of it.
func (p *program) exists(db *sql.DB, table string) bool {
	_, err := db.Exec("SELECT 1 FROM " + table)
	return err == nil
}

// A cell is a value in a database.
type cell struct {
	null bool
	text string
}

func (p *program) read(db *sql.DB, query string) (all []map[string]cell) {
	rows, err := db.Query(query)
	p.check(err)
	defer rows.Close()
	names, err := rows.Columns()
	p.check(err)
	types, err := rows.ColumnTypes()
	p.check(err)
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		p.check(rows.Scan(into...))
		row := map[string]cell{}
		for i, v := range values {
			c := cell{text: fmt.Sprint(v), null: v == nil}
			switch v := v.(type) {
			case []byte:
				if types[i].DatabaseTypeName() != "JSONB" {
					c.text = `\x` + hex.EncodeToString(v)
				} else if c.text = string(v); v[0] == '"' {
					c.text = foldtest.MustParse(c.text).Text
				}
			case float64:
				c.text = strconv.FormatFloat(v, 'g', -1, 64)
			case time.Time:
				c.text = v.UTC().Format(time.RFC3339Nano)
			}
			row[names[i]] = c
		}
		all = append(all, row)
	}
	p.check(errors.Join(rows.Err(), rows.Close()))
	return all
}

// same reports whether a database holds a value, in whatever type its column has.
func same(want foldtest.Value, have cell) bool {
	if want.Kind == foldtest.Null || have.null {
		return want.Kind == foldtest.Null && have.null
	}
	switch want.Kind {
	case foldtest.Bool:
		return have.text == want.Text || have.text == map[string]string{"true": "1", "false": "0"}[want.Text]
	case foldtest.Number:
		w, _ := foldtest.Decimal(want.Text)
		h, ok := foldtest.Decimal(have.text)
		return ok && w == h
	case foldtest.JSON:
		w, _ := foldtest.Canonical(want.Text)
		h, ok := foldtest.Canonical(have.text)
		return ok && w == h
	}
	if have.text == want.Text {
		return true
	}
	w, isTime := instant(want.Text)
	h, isToo := instant(have.text)
	return isTime && isToo && w.Equal(h)
}

// instant reads the time of a column that is of such a type.
func instant(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999+00", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
