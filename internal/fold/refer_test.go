package fold_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// keptRow is what a database has of the one row of a table.
type keptRow struct {
	exists bool
	cells  map[string]string
	state  []byte
	names  []string
}

// write writes the one row of a batch.
func (k *keptRow) write(t *testing.T, b *fold.Batch) {
	rows := b.Sorted()
	if len(rows) == 0 {
		return
	}
	r := rows[0]
	if b.Versioned() {
		was := fold.Stored{Exists: k.exists && (k.state != nil || b.Scope == fold.RowScope), State: k.state}
		if v, ok := k.cells["v"]; ok && b.Scope == fold.RowScope {
			was.Version = []byte(v)
		}
		resolver := fold.NewResolver(b, k.names, &b.Table)
		res, err := resolver.Resolve(r, was)
		if err != nil {
			t.Fatal(err)
		}
		if k.names = resolver.Names(); res.State != nil {
			k.state = res.State
		}
		if res.Unchanged {
			return
		}
		r, b = &res.Row, resolver.Batch()
	}
	if k.exists = !r.Deleted; r.Deleted || r.Replaces || k.cells == nil {
		k.cells = map[string]string{}
	}
	for i := range b.Table.Columns {
		switch v := b.Value(r, i); {
		case v != nil:
			k.cells[b.Table.Columns[i].Name] = string(v)
		case b.Initial(r, i):
			delete(k.cells, b.Table.Columns[i].Name)
		}
	}
}

// TestEnsure: wherever batches end, and also when messages are tried one by one, a row that another
// needs is as in the plain model: made where it is missing, older than all messages.
func TestEnsure(t *testing.T) {
	sinktest.Seeds(t, 3000, func(t *testing.T, rnd *rand.Rand) {
		o := fold.Options{Key: []string{"id"}, Columns: fold.IgnoreColumns, Log: logtest.New(t)}
		rules := foldtest.Rules{Key: o.Key, Columns: "ignore", DeleteField: "op", DeleteValue: "delete"}
		if scope := []fold.Scope{"", fold.ColumnScope, fold.RowScope}[rnd.IntN(3)]; scope != "" {
			o.Version, o.Scope = "v", scope
			rules.Version, rules.RowScope = "v", scope == fold.RowScope
		}
		table := schema.Table{Name: "t", Exists: true, HasConstraints: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Key: true}, {Name: "a"}, {Name: "b"}, {Name: "v"}}}
		model := foldtest.NewTable(rules, foldtest.Limits{}, foldtest.Column{Name: "id"}, foldtest.Column{Name: "a"}, foldtest.Column{Name: "b"}, foldtest.Column{Name: "v"})
		names := &feed.Names{}
		folder := fold.NewFolder(names, table, o)
		var lines []string
		var b fold.Batch
		var k keptRow
		for range 1 + rnd.IntN(8) {
			op := []fold.Op{fold.Upsert, fold.Delete, fold.Ensure}[rnd.IntN(3)]
			line := `{"id":1`
			if op != fold.Ensure {
				line += fmt.Sprintf(`,"v":%d,%q:%d`, rnd.IntN(4), []string{"a", "b"}[rnd.IntN(2)], rnd.IntN(9))
			}
			line += []string{"}", `,"op":"delete"}`, "}"}[op%fold.Replace]
			if op == fold.Ensure && !model.Has("1") {
				model.Stub(foldtest.MustParse("1"))
			} else if op != fold.Ensure {
				if err := model.Apply([]byte(line)); err != nil {
					t.Fatal(err)
				}
			}
			lines = append(lines, fmt.Sprint(op, " ", line))
			if err := folder.Add(&b, change(t, names, o, line, op), fold.Place{}); err != nil {
				t.Fatal(err)
			}
			if rnd.IntN(3) > 0 {
				continue
			}
			folder.Seal(&b)
			k.write(t, &b)
			b.Reset()
		}
		folder.Seal(&b)
		k.write(t, &b)
		want := maps.Collect(func(yield func(string, string) bool) {
			for c, v := range model.Rows()[foldtest.Key("1")] {
				yield(c, v.Text)
			}
		})
		if k.exists != model.Has("1") || k.exists && !maps.Equal(k.cells, want) {
			t.Errorf("%s\nexists %v: %v\nwant %v: %v", strings.Join(lines, "\n"), k.exists, k.cells, model.Has("1"), want)
		}
	})
}

// TestAdd_Splits: a set is written before a message that makes or deletes a row which an earlier message
// of it names, and before one that names a row which it deletes.
func TestAdd_Splits(t *testing.T) {
	names := &feed.Names{}
	for _, c := range []struct {
		versioned, splits bool
		ops               []fold.Op
	}{
		{false, true, []fold.Op{fold.Expect, fold.Upsert}},
		{false, true, []fold.Op{fold.Expect, fold.Ensure}},
		{false, true, []fold.Op{fold.Expect, fold.Delete}},
		{false, true, []fold.Op{fold.Upsert, fold.Expect, fold.Delete}},
		{false, true, []fold.Op{fold.Upsert, fold.Delete, fold.Expect}},
		{false, false, []fold.Op{fold.Upsert, fold.Delete, fold.Ensure, fold.Expect}},
		{false, false, []fold.Op{fold.Upsert, fold.Expect, fold.Upsert}},
		{false, false, []fold.Op{fold.Expect, fold.Expect}},
		{true, true, []fold.Op{fold.Upsert, fold.Expect, fold.Upsert}}, // it may be too old
		{true, true, []fold.Op{fold.Upsert, fold.Delete, fold.Expect}},
		{true, false, []fold.Op{fold.Ensure, fold.Expect, fold.Upsert}},
		{true, false, []fold.Op{fold.Upsert, fold.Expect}},
	} {
		o := fold.Options{Key: []string{"id"}, Columns: fold.IgnoreColumns, Log: logtest.New(t)}
		if c.versioned {
			o.Version, o.Scope = "v", fold.ColumnScope
		}
		folders := fold.Folders{fold.NewFolder(names, schema.Table{Name: "t"}, o)}
		for n := range 4 {
			unsplit, rows := n%2 == 1, 1+n/2
			set := fold.NewSet(1)
			set.Unsplit = unsplit
			for i, op := range c.ops {
				_, err := folders.Add(set, []fold.TableChange{{Change: *change(t, names, o, `{"id":1,"v":1}`, op)}, {Change: *change(t, names, o, `{"id":2,"v":1}`, op)}}[:rows], fold.Place{})
				if last := i == len(c.ops)-1; (err == fold.ErrSplit) != (last && c.splits && !unsplit) || err != nil && err != fold.ErrSplit {
					t.Errorf("%v, versioned %v: change %d: %v", c.ops, c.versioned, i, err)
				}
			}
		}
	}
}
