package fold_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// change is what a line says, with another op.
func change(t *testing.T, names *feed.Names, o fold.Options, line string, op fold.Op) *fold.Change {
	var l feed.Line
	if l.Scan(feed.NewScanner(names), nil, []byte(line)); l.Err != nil {
		t.Fatal(l.Err)
	}
	c := fold.NewMapper(names, o).Map(&l)
	c.Op = op
	return &c
}

// TestAdd_TablesShareAScan: one line's fields go to several tables, which find their own among
// them, though each drops what is repeated.
func TestAdd_TablesShareAScan(t *testing.T) {
	names, o := &feed.Names{}, options(t, nil)
	var l feed.Line
	scan, scanned := feed.NewScanner(names), []feed.Field(nil)
	var folders []*fold.Folder
	var batches []*fold.Batch
	mappers := []*fold.Mapper{}
	for _, key := range []string{"id", "name", "id"} {
		o := o
		o.Key = []string{key}
		folders, mappers, batches = append(folders, fold.NewFolder(names, table, o)), append(mappers, fold.NewMapper(names, o)), append(batches, &fold.Batch{})
	}
	for _, line := range []string{`{"name":"x","id":1,"a":1}`, `{"a":2,"id":2,"a":3,"name":"y","b":4,"a":5}`, `{"id":1,"op":"x","name":"x","b":6,"op":"delete"}`} {
		scanned = l.Scan(scan, scanned[:0], []byte(line))
		for i, f := range folders {
			c := mappers[i].Map(&l)
			testcheck.NoError(t, f.Add(batches[i], &c, fold.Place{}))
		}
	}
	byID, byName := "\"1\" replaces deleted\n\"2\" name=\"y\" a=5 b=4\n", "\"x\" replaces deleted\n\"y\" id=2 a=5 b=4\n"
	for i, want := range []string{byID, byName, byID} {
		folders[i].Seal(batches[i])
		if got := dump(batches[i]); got != want {
			t.Errorf("table %d has\n%swant\n%s", i, got, want)
		}
	}
}

// TestAdd_ValuesThatNoLineHas: a value may be a renamed one of the line, or a constant.
func TestAdd_ValuesThatNoLineHas(t *testing.T) {
	names := &feed.Names{}
	f, b := fold.NewFolder(names, table, options(t, nil)), &fold.Batch{}
	c := change(t, names, options(t, nil), `{"id":"x","alt":7,"op":"delete"}`, fold.Upsert)
	c.Fields[1].Name = names.Number("altitude")
	c.Fields[2] = feed.Field{Name: names.Number("kind"), Kind: feed.String, Value: []byte(`"constant"`)}
	testcheck.NoError(t, f.Add(b, c, fold.Place{}))
	f.Seal(b)
	if got := dump(b); got != "\"x\" altitude=7 kind=\"constant\"\n" {
		t.Error(got)
	}
}

// TestFold_NamesWithoutANumber: a feed whose names are too many to be numbered, or too long,
// is folded as any other.
func TestFold_NamesWithoutANumber(t *testing.T) {
	long := strings.Repeat("n", 2000)
	table := schema.Table{Name: "t", Exists: true, Key: []int{0, 2}, Columns: []schema.Column{{Name: "id", Key: true}, {Name: "a"}, {Name: "i2", Key: true}, {Name: "é"}, {Name: long}}}
	o := fold.Options{Key: []string{"id", "i2"}, DeleteField: "op", DeleteValue: "delete", Version: "v", Scope: fold.ColumnScope, Columns: fold.IgnoreColumns, Log: logtest.New(t)}
	f, b := fold.NewFolder(&feed.Names{}, table, o), &fold.Batch{}
	var junk strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&junk, `"junk%d":0,`, i)
	}
	key := `"id":1,"i2":2`
	got := rows(t, f, b, `{`+junk.String()+key+`,"v":1,"a":1,"\u00e9":2,"`+long+`":3}`, `{"junk12001":0,"\u00e9":1,"\u0069\u0064":1,"v":2,"i2":2,"é":4,"op":"x","junk12001":0}`,
		`{"`+long+`":5,"`+long+`":6,`+key+`,"v":3}`, `{"id":2,"i2":2,"junk12002":0,"\u006fp":"delete","v":1}`)
	want := "\"1\\x00\\x00\\x00\\x012\\x00\\x00\\x00\\x01\" a=1 é=4 " + long + "=6\n\"2\\x00\\x00\\x00\\x012\\x00\\x00\\x00\\x01\" replaces deleted\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	n := int64(0)
	for name, ignored := range f.Ignored() {
		if n += ignored; !strings.HasPrefix(name, "junk") && name != "other names" && name != "v" && name != "op" {
			t.Errorf("%q is ignored", name)
		}
	}
	if want := int64(12_000 + 3 + 1 + 1 + 1); n != want {
		t.Errorf("%d values are ignored, want %d", n, want)
	}
}

// TestFolders_ADeleteMakesNoColumn: not beside other changes of the same message either.
func TestFolders_ADeleteMakesNoColumn(t *testing.T) {
	remove, set := `{"id":1,"gone":1}`, `{"id":2,"set":1}`
	for _, ops := range [][]fold.Op{{fold.Delete}, {fold.Delete, fold.Upsert}, {fold.Upsert, fold.Delete}, {fold.Upsert, fold.Delete, fold.Upsert}} {
		o, names := fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 9, Log: logtest.New(t)}, &feed.Names{}
		folder := fold.NewFolder(names, schema.Table{Name: "t"}, o)
		var changes []fold.TableChange
		for _, op := range ops {
			line := set
			if op == fold.Delete {
				line = remove
			}
			changes = append(changes, fold.TableChange{Change: *change(t, names, o, line, op)})
		}
		if _, err := (fold.Folders{folder}).Add(fold.NewSet(1), changes, fold.Place{}); err != nil {
			t.Fatal(err)
		}
		table := folder.Table()
		if n := len(table.Columns); n != min(2, len(ops)) || table.Columns[n-1].Name == "gone" {
			t.Errorf("%v make the columns %+v", ops, table.Columns)
		}
	}
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
			testcheck.NoError(t, folders.Nest(crewed{}))
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
