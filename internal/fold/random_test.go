package fold_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A message is a line, or a change that replaces a row or ensures that it exists.
type message struct {
	line string
	op   fold.Op // Upsert: the line decides
}

// apply applies a message to the plain fold, and reports whether it was accepted.
func (m message) apply(model *foldtest.Table, rules foldtest.Rules) bool {
	switch m.op {
	case fold.Ensure:
		if !model.Has("1") {
			model.Stub(foldtest.MustParse("1"))
		}
		return true
	case fold.Replace: // a delete and the line's values with one version; or neither
		if randomTable(rules).Apply([]byte(m.line)) != nil || model.Apply([]byte(m.line[:len(m.line)-1]+`,"op":"delete"}`)) != nil {
			return false
		}
	}
	return model.Apply([]byte(m.line)) == nil
}

// randomTable returns the plain fold's table.
func randomTable(rules foldtest.Rules) *foldtest.Table {
	number := func(v foldtest.Value) bool { return v.Kind == foldtest.Number }
	return foldtest.NewTable(rules, foldtest.Limits{}, foldtest.Column{Name: "id"}, foldtest.Column{Name: "v"}, foldtest.Column{Name: "a"}, foldtest.Column{Name: "n", Takes: number},
		foldtest.Column{Name: "d", Default: foldtest.MustParse(`"dflt"`)}, foldtest.Column{Name: "e", Takes: number, Default: foldtest.MustParse("5")})
}

// TestFold_DoesNotDependOnWhereABatchEnds folds random feeds in batches of random sizes, with several folders, with
// or without prefetching, into a database of a few maps. The result must equal the plain fold's after each message:
// rows and rejected lines. The plain fold does not know tables that had rows before versions were used; there the
// result must equal the result of batches with one message.
func TestFold_DoesNotDependOnWhereABatchEnds(t *testing.T) {
	feeds, versions, defaults, late := 0, 0, 0, 0
	var ops [fold.Truncate]int
	sinktest.Seeds(t, 400, func(t *testing.T, rnd *rand.Rand) {
		rules := foldtest.Rules{Key: []string{"id"}, KeepNull: rnd.IntN(4) == 0, NullBad: rnd.IntN(3) == 0}
		switch rnd.IntN(5) {
		case 0:
			rules.FillOnly = true
		case 1, 2:
			rules.Version = "v"
		case 3:
			rules.Version, rules.RowScope = "v", true
		}
		if !rules.FillOnly {
			rules.DeleteField, rules.DeleteValue = "op", "delete"
		}
		lines := randomLines(rnd, rules, 1+rnd.IntN(1+rnd.IntN(80)))
		if rnd.IntN(12) == 0 { // a smaller batch is not prefetched
			lines = append(lines, message{line: `{"id":"1","v":3,"a":"` + strings.Repeat("x", 1<<20) + `"}`})
			for range 70 {
				lines = append(lines, message{line: fmt.Sprintf(`{"id":"%d",%s"v":%d,"a":"%d"}`, rnd.IntN(9), []string{"", "", "", `"none":1,`, `"id":7,`}[rnd.IntN(5)], rnd.IntN(9), rnd.IntN(9))})
			}
		}
		var before []message
		if rules.Version != "" && rnd.IntN(4) == 0 {
			before = randomLines(rnd, foldtest.Rules{}, 1+rnd.IntN(6))
		}
		model := randomTable(rules)
		var rejects []int
		for i, m := range lines {
			if !m.apply(model, rules) {
				rejects = append(rejects, i)
			}
			ops[m.op]++
		}
		want := map[string]string{}
		for k, row := range model.Rows() {
			delete(row, "id") // the key has its first spelling
			want[strings.Trim(k, `[]"`)] = show(row)
		}
		for _, cuts := range []int{1, len(lines), 1 + rnd.IntN(len(lines)), 0, 0} {
			db := &lineDB{mapDB: newMapDB()}
			db.sync(t, foldtest.Rules{Key: rules.Key}, before, func() int { return 1 })
			db.ahead = rnd.IntN(2) == 0
			if rnd.IntN(2) == 0 {
				db.apart = rnd
			}
			got := db.sync(t, rules, lines, func() int {
				if cuts > 0 {
					return cuts
				}
				return 1 + rnd.IntN(1+rnd.IntN(9))
			})
			if before != nil && cuts == 1 {
				want = db.show()
			}
			if !maps.Equal(db.show(), want) || !slices.Equal(got, rejects) {
				t.Fatalf("%+v\n%.300s\n--\n%.3000s\nin batches of %d (0: any) become\n%.300s, rejected %v\nand should be\n%.300s, rejected %v", rules,
					fmt.Sprint(before), fmt.Sprint(lines), cuts, fmt.Sprint(db.show()), got, fmt.Sprint(want), rejects)
			}
			late += db.resets
		}
		if feeds++; rules.Version != "" {
			versions++
		}
		for _, row := range want {
			if strings.Contains(row, "dflt") {
				defaults++
			}
		}
	})
	if feeds >= 400 && min(versions, defaults, late, ops[fold.Replace], ops[fold.Ensure]) < 50 {
		t.Errorf("did not exercise: %d feeds with versions, %d defaults, %d columns cleared by a late delete, %d rows replaced, %d ensured", versions, defaults, late, ops[fold.Replace], ops[fold.Ensure])
	}
}

// randomLines makes messages with repeated names, bad values, nulls, versions of all kinds, deletes, columns with a
// default, and a few lines that are not messages.
func randomLines(rnd *rand.Rand, rules foldtest.Rules, n int) (lines []message) {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	if rules.Key != nil && rnd.IntN(2) == 0 { // few, all for one row
		for range 2 + n%9 {
			m := message{fmt.Sprintf(`{"id":1,"v":%d,%q:%d}`, rnd.IntN(4), pick("a", "d", "e"), rnd.IntN(9)), fold.Upsert}
			switch rnd.IntN(8) {
			case 0, 1:
				m = message{`{"id":1}`, fold.Ensure}
			case 2, 3, 4:
				m.line = m.line[:len(m.line)-1] + `,"op":"delete"}`
			case 5:
				if rules.DeleteField != "" {
					m.op = fold.Replace
				}
			}
			lines = append(lines, m)
		}
		return lines
	}
	for range n {
		op, special := fold.Upsert, rnd.IntN(20)
		switch {
		case special == 0:
			lines = append(lines, message{line: "{"})
			continue
		case special < 4 && rules.Key != nil:
			lines = append(lines, message{`{"id":1}`, fold.Ensure})
			continue
		case special < 6 && rules.DeleteField != "":
			op = fold.Replace
		}
		fields := []string{`"id":` + pick("1", `"1"`, "2", `"2"`, "3", pick("3", `""`))}
		if rnd.IntN(3) > 0 || rules.Version != "" {
			fields = append(fields, `"v":`+pick("1", "2", "3", `"2"`, "2.0", "10", `"9"`, `"1a"`, `"x"`, "3e0", `"4"`, "5", "6", "7"))
		}
		if rnd.IntN(4) == 0 && op == fold.Upsert {
			fields = append(fields, `"op":`+pick(`"delete"`, `"delete"`, `"delete"`, `"put"`, "null"))
		}
		for range rnd.IntN(5) {
			fields = append(fields, pick(`"a"`, `"\u0061"`)+":"+pick("null", `"x"`, `"y"`, "7", "{}"), pick(`"n"`, `"e"`, `"e"`)+":"+pick("null", "1", "2", "3", `"bad"`), `"d":`+pick("null", `"x"`, `"y"`))
		}
		rnd.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		if rnd.IntN(3) > 0 {
			fields = fields[:1+rnd.IntN(len(fields))]
		}
		if rnd.IntN(12) > 0 && !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, `"id"`) }) {
			fields = append(fields, `"id":`+pick("1", "2"))
		}
		lines = append(lines, message{"{" + strings.Join(fields, ",") + "}", op})
	}
	return lines
}

// A mapDB is a database with one table.
type mapDB struct {
	rows   map[string]map[string]string // raw values by key and column; a missing one is NULL
	states map[string][]byte
	names  []string
	apart  *rand.Rand // if set, batches are written in parts of their messages
}

func newMapDB() mapDB {
	return mapDB{rows: map[string]map[string]string{}, states: map[string][]byte{}}
}

// A lineDB is a database of the table of random lines.
type lineDB struct {
	mapDB
	resets int
	ahead  bool // rows are prefetched
}

var initials = map[string]string{"d": `"dflt"`, "e": "5"}

// sync folds lines in batches of the sizes that size returns, and returns the rejected ones.
func (db *lineDB) sync(t *testing.T, rules foldtest.Rules, messages []message, size func() int) (rejects []int) {
	o := fold.Options{Key: rules.Key, Rules: fold.Rules{FillOnly: rules.FillOnly, UnknownFields: fold.IgnoreUnknown}, Version: rules.Version, Log: logtest.New(t)}
	if rules.KeepNull {
		o.Null = fold.KeepNull
	}
	if rules.NullBad {
		o.BadValues = fold.NullBad
	}
	if rules.Version != "" {
		o.Scope = fold.ColumnScope
	}
	if rules.RowScope {
		o.Scope = fold.RowScope
	}
	table := schema.Table{Name: "t", Exists: true, HasConstraints: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Text, Key: true}, {Name: "v", Type: schema.Text},
		{Name: "a", Type: schema.Text}, {Name: "n", Type: schema.Number}, {Name: "d", Type: schema.Text, Default: "'dflt'"}, {Name: "e", Type: schema.Number, Default: "5"}}}
	names := &feed.Names{}
	scan, mapper, lines := feed.NewScanner(names), sinktest.NewMapper(names, o, rules.DeleteWhen()), make([]feed.Line, len(messages))
	for i := range lines {
		lines[i].Scan(scan, nil, []byte(messages[i].line))
	}
	f, b := fold.NewFolder(names, table, o), &fold.Batch{}
	for i, left := 0, size(); i < len(lines); i++ {
		if block := i / 30 * 30; db.ahead {
			f.CPUPrefetch(b, lines[block:min(block+30, len(lines))], i-block)
		}
		err := error(nil)
		if lines[i].Err != nil {
			err = lines[i].Err
		} else {
			c := mapper.Map(&lines[i])
			if messages[i].op != fold.Upsert {
				c.Op = messages[i].op
			}
			err = f.Add(b, &c, fold.Place{Line: int64(i)})
		}
		var bad *feed.Error
		if errors.As(err, &bad) {
			rejects = append(rejects, i)
		} else if err != nil {
			t.Fatal(err)
		}
		if left--; left == 0 || i == len(lines)-1 {
			f.Seal(b)
			db.flush(t, b, &table, db.write)
			b.Reset()
			if left = size(); i%3 == 0 {
				f = fold.NewFolder(names, table, o) // another run
			}
		}
	}
	return rejects
}

// flush writes the rows of a batch, or its messages in parts.
func (db *mapDB) flush(t *testing.T, b *fold.Batch, table *schema.Table, write func(*fold.Batch, *fold.Row)) {
	if db.apart == nil {
		db.piece(t, b, b.Sorted(), table, write)
		return
	}
	all := []*fold.Batch{b}
	for of := fold.Messages(all); len(of) > 0; {
		n := 1 + db.apart.IntN(len(of))
		db.piece(t, b, fold.Merge(all, of[:n])[0], table, write)
		of = of[n:]
	}
}

func (db *mapDB) piece(t *testing.T, b *fold.Batch, rows []*fold.Row, table *schema.Table, write func(*fold.Batch, *fold.Row)) {
	if !b.Versioned() {
		for _, r := range rows {
			write(b, r)
		}
		return
	}
	resolver := fold.NewResolver(b, db.names, table)
	for _, r := range rows {
		key := string(r.Key)
		row, exists := db.rows[key]
		was := fold.Stored{Exists: exists && (db.states[key] != nil || b.Scope == fold.RowScope), State: db.states[key]}
		if v, set := row["v"]; set && b.Scope == fold.RowScope {
			was.Version = feed.AppendText(nil, []byte(v), feed.KindOf([]byte(v)))
		}
		res, err := resolver.Resolve(r, was)
		testcheck.NoError(t, err)
		if !res.Unchanged {
			write(resolver.Batch(), &res.Row)
		}
		if res.State != nil {
			db.states[key] = res.State
		}
	}
	db.names = resolver.Names()
}

// write does what a driver does for a row.
func (db *lineDB) write(b *fold.Batch, r *fold.Row) {
	key := string(r.Key)
	row, exists := db.rows[key]
	if r.Deleted {
		delete(db.rows, key)
		return
	}
	if inserts := !exists || r.Replaces; inserts {
		exists, row = false, maps.Clone(initials)
		db.rows[key] = row
	}
	for i, c := range b.Table.Columns {
		raw := b.Value(r, i)
		_, set := row[c.Name]
		switch {
		case c.Key:
		case b.Initial(r, i) && (!exists || raw == nil):
			delete(row, c.Name)
			if v, has := initials[c.Name]; has {
				row[c.Name] = v
			}
			if exists {
				db.resets++
			}
		case raw == nil || c.Merge == merge.First && exists && set:
		case raw[0] == 'n':
			delete(row, c.Name)
		default:
			row[c.Name] = string(raw)
		}
	}
}

// show returns the rows as text, as foldtest shows them.
func (db *mapDB) show() map[string]string {
	out := map[string]string{}
	for k, row := range db.rows {
		values := map[string]foldtest.Value{}
		for c, raw := range row {
			values[c] = foldtest.MustParse(raw)
		}
		out[k] = show(values)
	}
	return out
}

func show(row map[string]foldtest.Value) string {
	var out []string
	for _, c := range slices.Sorted(maps.Keys(row)) {
		out = append(out, fmt.Sprintf("%s=%s", c, row[c].Text))
	}
	return strings.Join(out, " ")
}
