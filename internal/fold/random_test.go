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
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestFold_DoesNotDependOnWhereABatchEnds folds random feeds in batches that end
// anywhere, and by several folders, into a database of a few maps, and demands what the
// plain fold of message after message has: its rows and its rejected lines. Where the
// table had rows before versions began, which that fold does not know, it demands what
// batches of one message have.
func TestFold_DoesNotDependOnWhereABatchEnds(t *testing.T) {
	feeds, versions, defaults, late, renewed := 0, 0, 0, 0, 0
	sinktest.Seeds(t, 200, func(t *testing.T, rnd *rand.Rand) {
		rules := foldtest.Rules{Key: []string{"id"}, KeepNull: rnd.IntN(4) == 0}
		switch rnd.IntN(4) {
		case 0:
			rules.FillOnly = true
		case 1:
			rules.Version = "v"
		case 2:
			rules.Version, rules.RowScope = "v", true
		}
		if !rules.FillOnly {
			rules.DeleteField, rules.DeleteValue = "op", "delete"
		}
		lines := randomLines(rnd, rules, 1+rnd.IntN(1+rnd.IntN(80)))
		var before []string
		if rules.Version != "" && rnd.IntN(2) == 0 {
			before = randomLines(rnd, foldtest.Rules{}, 1+rnd.IntN(6))
		}
		number := func(v foldtest.Value) bool { return v.Kind == foldtest.Number }
		columns := []foldtest.Column{{Name: "id"}, {Name: "v"}, {Name: "a"}, {Name: "n", Takes: number},
			{Name: "d", Default: foldtest.MustParse(`"dflt"`)}, {Name: "e", Takes: number, Default: foldtest.MustParse("5")}}
		model := foldtest.NewTable(rules, foldtest.Limits{}, columns...)
		var rejects []int
		for i, l := range lines {
			if model.Apply([]byte(l)) != nil {
				rejects = append(rejects, i)
			}
		}
		want := map[string]string{}
		for k, row := range model.Rows() {
			delete(row, "id") // its first spelling is in the key
			want[strings.Trim(k, `[]"`)] = show(row)
		}
		for _, cuts := range []int{1, len(lines), 1 + rnd.IntN(len(lines)), 0, 0} {
			db := &mapDB{rows: map[string]map[string]string{}, states: map[string][]byte{}}
			db.sync(t, foldtest.Rules{Key: rules.Key}, before, func() int { return 1 })
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
				t.Fatalf("%+v\n%s\n--\n%s\nin batches of %d (0: any) become\n%v, rejected %v\nand should be\n%v, rejected %v", rules,
					strings.Join(before, "\n"), strings.Join(lines, "\n"), cuts, db.show(), got, want, rejects)
			}
			late += db.resets
			renewed += db.renewed
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
	if feeds >= 200 && (versions < 50 || defaults < 50 || late < 50 || renewed < 50) {
		t.Errorf("did not exercise: %d feeds with versions, %d defaults, %d columns that a late delete took, %d states that were renewed", versions, defaults, late, renewed)
	}
}

// randomLines makes messages with equal names, values that do not fit, nulls, versions
// of all kinds, deletes, and columns that have a default.
func randomLines(rnd *rand.Rand, rules foldtest.Rules, n int) (lines []string) {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	for range n {
		fields := []string{`"id":` + pick("1", `"1"`, "2", `"2"`, "3")}
		if rnd.IntN(3) > 0 || rules.Version != "" {
			fields = append(fields, `"v":`+pick("1", "2", "3", `"2"`, "2.0", "10", `"9"`, `"1a"`, `"x"`, "3e0", `"4"`, "5", "6", "7"))
		}
		if rnd.IntN(4) == 0 {
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
		lines = append(lines, "{"+strings.Join(fields, ",")+"}")
	}
	return lines
}

// mapDB is a database of one table.
type mapDB struct {
	rows    map[string]map[string]string // raw values by key and column; none is NULL
	states  map[string][]byte
	names   []string
	resets  int
	renewed int        // rows that renew their states
	apart   *rand.Rand // where set, batches are written in pieces of their messages
}

var initials = map[string]string{"d": `"dflt"`, "e": "5"}

// sync folds lines in batches of as many as size says, and returns the rejected ones.
func (db *mapDB) sync(t *testing.T, rules foldtest.Rules, lines []string, size func() int) (rejects []int) {
	o := fold.Options{Key: rules.Key, DeleteField: rules.DeleteField, DeleteValue: rules.DeleteValue, FillOnly: rules.FillOnly,
		Version: rules.Version, Columns: fold.IgnoreColumns, Log: logtest.New(t)}
	if rules.KeepNull {
		o.Null = fold.KeepNull
	}
	if rules.Version != "" {
		o.Scope = fold.ColumnScope
	}
	if rules.RowScope {
		o.Scope = fold.RowScope
	}
	table := schema.Table{Name: "t", Exists: true, HasConstraints: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Text, Key: true}, {Name: "v", Type: schema.Text},
		{Name: "a", Type: schema.Text}, {Name: "n", Type: schema.Number}, {Name: "d", Type: schema.Text, Default: "'dflt'"}, {Name: "e", Type: schema.Number, Default: "5"}}}
	f, b := fold.NewFolder(&feed.Names{}, table, o), &fold.Batch{}
	for i, left := 0, size(); i < len(lines); i++ {
		var bad *feed.Error
		if err := f.Fold(b, []byte(lines[i]), fold.Place{Line: int64(i)}); errors.As(err, &bad) {
			rejects = append(rejects, i)
		} else if err != nil {
			t.Fatal(err)
		}
		if left--; left == 0 || i == len(lines)-1 {
			f.Seal(b)
			db.flush(t, b, &table)
			b.Reset()
			if left = size(); i%3 == 0 {
				f = fold.NewFolder(&feed.Names{}, table, o) // another run
			}
		}
	}
	return rejects
}

// flush writes a batch, or some of its messages after others.
func (db *mapDB) flush(t *testing.T, b *fold.Batch, table *schema.Table) {
	if db.apart == nil {
		db.piece(t, b, b.Sorted(), table)
		return
	}
	all := []*fold.Batch{b}
	for of := fold.Messages(all); len(of) > 0; {
		n := 1 + db.apart.IntN(len(of))
		db.piece(t, b, fold.Merge(all, of[:n])[0], table)
		of = of[n:]
	}
}

func (db *mapDB) piece(t *testing.T, b *fold.Batch, rows []*fold.Row, table *schema.Table) {
	if !b.Versioned() {
		for _, r := range rows {
			db.write(b, r)
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
		renews := b.Scope == fold.ColumnScope && was.Exists && b.Renews(r, was.State)
		res, err := resolver.Resolve(r, was)
		if err != nil {
			t.Fatal(err)
		}
		if renews {
			db.renewed++
			if res.State == nil || res.Row.Deleted || res.Row.Replaces {
				t.Fatalf("row %s, whose state is %q, is renewed, and becomes %+v", key, was.State, res)
			}
		}
		if !res.Unchanged {
			db.write(resolver.Batch(), &res.Row)
		}
		if res.State != nil {
			db.states[key] = res.State
		}
	}
	db.names = resolver.Names()
}

// write does what a driver does with a row.
func (db *mapDB) write(b *fold.Batch, r *fold.Row) {
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
		case raw == nil || b.FillOnly && exists && set:
		case raw[0] == 'n':
			delete(row, c.Name)
		default:
			row[c.Name] = string(raw)
		}
	}
}

// show returns the rows as show does.
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
