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

// TestAdd_Splits: a set is written before a message by which the database would decide otherwise, whether
// a row may be deleted, than when the delete came.
func TestAdd_Splits(t *testing.T) {
	names := &feed.Names{}
	type about struct {
		op    fold.Op
		table int
		key   int
	}
	const planes, flights, crews = 0, 1, 2 // flights name planes, and so do the members of crews
	for _, c := range []struct {
		name   string
		splits bool // before the last message
		feed   [][]about
	}{
		{"the row is written after its delete", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Upsert, planes, 1}}}},
		{"another row is written", false, [][]about{{{fold.Delete, planes, 1}}, {{fold.Upsert, planes, 2}}}},
		{"a row is named after a delete", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Upsert, flights, 1}, {fold.Ensure, planes, 2}}}},
		{"a row that may name the deleted one is deleted", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Delete, flights, 1}}}},
		{"a row is deleted whose members may name the deleted one", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Delete, crews, 1}}}},
		{"a row is deleted that was named", true, [][]about{{{fold.Upsert, flights, 1}, {fold.Ensure, planes, 1}}, {{fold.Delete, planes, 1}}}},
		{"another row is deleted", false, [][]about{{{fold.Upsert, flights, 1}, {fold.Ensure, planes, 1}}, {{fold.Delete, planes, 2}}}},
		{"flights are deleted before a plane", false, [][]about{{{fold.Delete, flights, 1}}, {{fold.Delete, planes, 1}}}},
		{"one message deletes and makes a row", false, [][]about{{{fold.Upsert, flights, 1}}, {{fold.Delete, planes, 1}, {fold.Upsert, flights, 1}, {fold.Ensure, planes, 1}}}},
	} {
		for _, unsplit := range []bool{false, true} {
			var folders fold.Folders
			o := fold.Options{Key: []string{"id"}, Columns: fold.IgnoreColumns, Log: logtest.New(t)}
			for i, refs := range [][]schema.Ref{nil, {{Column: 1, From: []int{1}, Table: planes}}, nil, {{Column: 1, From: []int{1}, Table: planes}}} {
				table := schema.Table{Name: fmt.Sprint("t", i), Exists: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Key: true}, {Name: "plane"}}, Refs: refs}
				folders = append(folders, fold.NewFolder(names, table, o))
			}
			if err := folders.Nest(crewed{}); err != nil {
				t.Fatal(err)
			}
			set := fold.NewSet(len(folders))
			set.Unsplit = unsplit
			for i, message := range c.feed {
				var changes []fold.TableChange
				for _, x := range message {
					changes = append(changes, fold.TableChange{Table: x.table, Change: *change(t, names, o, fmt.Sprintf(`{"id":%d}`, x.key), x.op)})
				}
				_, err := folders.Add(set, changes, fold.Place{})
				if last := i == len(c.feed)-1; (err == fold.ErrSplit) != (last && c.splits && !unsplit) || err != nil && err != fold.ErrSplit {
					t.Errorf("%s, unsplit %v: message %d: %v", c.name, unsplit, i, err)
				}
			}
		}
	}
}

// crewed is the nesting of four tables: rows of the last belong to rows of the one before it.
type crewed struct{ fold.Nesting }

func (crewed) Parent(table int) (int, []string) {
	if table == 3 {
		return 2, []string{"id"}
	}
	return -1, nil
}

func (crewed) Set(int) bool { return false }

func (crewed) SetColumn(int) string { return "" }
