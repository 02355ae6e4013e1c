package fold_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func mergeFolder(t *testing.T, table schema.Table, change func(*fold.Options)) *sinktest.Folder {
	o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9}, Log: logtest.New(t)}
	change(&o)
	return sinktest.NewFolder(table, o, "op=d")
}

// TestFold_SumsNeedNoWiderColumn: the type that a sum needs depends on the row in the database, so a column that weir
// made gets that type with the first number.
func TestFold_SumsNeedNoWiderColumn(t *testing.T) {
	f := mergeFolder(t, schema.Table{Name: "t"}, func(o *fold.Options) { o.Merge = map[string]merge.Function{"n": merge.Sum} })
	testcheck.NoError(t, f.Fold(&fold.Batch{}, []byte(`{"id":1,"n":1,"m":1}`), fold.Place{}))
	for _, c := range f.Table().Columns {
		if want := map[string]schema.Type{"id": schema.Int, "n": schema.Number, "m": schema.Int}[c.Name]; c.Type != want {
			t.Errorf("%s is %s, want %s", c.Name, c.Type, want)
		}
	}
}

// TestFold_MergeRefused: a merge function that cannot work ends the run with a reason.
func TestFold_MergeRefused(t *testing.T) {
	user := schema.Table{Name: "t", Exists: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Text, Key: true}, {Name: "n", Type: schema.Int, Default: "5"},
		{Name: "z", Type: schema.Int, Default: "0"}, {Name: "net", Type: schema.External, Decl: "inet"}, {Name: "j", Type: schema.JSON, Decl: "jsonb"}, {Name: "local", Type: schema.External, ValueRules: schema.ValueRules{HoldsTime: true}, Decl: "timestamp"},
		{Name: "made", Type: schema.Int, Generated: true}}}
	for _, c := range []struct {
		column  string
		f       merge.Function
		version string
		want    string // in the error
	}{
		{"n", merge.Sum, "", "has the default 5"},
		{"n", merge.Max, "", "has the default 5"},
		{"z", merge.Max, "", "has the default 0"},
		{"z", merge.Sum, "", ""},
		{"z", merge.Sum, "v", ""},
		{"z", merge.First, "v", "messages have a version (v)"},
		{"j", merge.Patch, "v", "messages have a version (v)"},
		{"v", merge.Sum, "v", "the version of the messages"},
		{"j", merge.Patch, "", ""},
		{"j", merge.Max, "", "it is jsonb"},
		{"z", merge.Patch, "", "it is integer"},
		{"net", merge.Min, "", "it is inet"},
		{"local", merge.Min, "", ""},
		{"local", merge.Sum, "", "it is timestamp"},
		{"made", merge.Sum, "", "the database computes it"},
		{"id", merge.Sum, "", "part of the key"},
		{"missing", merge.Sum, "", "has no such column, and gets no new ones"},
		{"n", merge.Last, "", ""},
	} {
		o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{Merge: map[string]merge.Function{c.column: c.f}}, Version: c.version}
		if err := mergeFault(&user, o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v, want %q", c.f, c.column, err, c.want)
		}
	}
	two := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, Merge: map[string]merge.Function{"m": merge.Sum, "M": merge.Max}}}
	testcheck.NoError(t, mergeFault(&user, two))
	two.Limits.FoldCase = true
	if err := mergeFault(&user, two); err == nil || !strings.Contains(err.Error(), `the same column as "M"`) {
		t.Error(err)
	}
	f := mergeFolder(t, user, func(o *fold.Options) { o.Merge = map[string]merge.Function{"n": merge.Sum} })
	if err := f.Fold(&fold.Batch{}, []byte(`{"id":"1","n":1}`), fold.Place{}); err == nil || errors.As(err, new(*feed.Error)) || !strings.Contains(err.Error(), "default 5") {
		t.Error(err)
	}
	f = mergeFolder(t, schema.Table{Name: "t"}, func(o *fold.Options) {
		o.Merge, o.Version, o.Scope = map[string]merge.Function{"n": merge.Sum}, "v", fold.ColumnScope
	})
	if err := f.Fold(&fold.Batch{}, []byte(`{"id":"1","v":1,"op":"d"}`), fold.Place{}); err == nil || errors.As(err, new(*feed.Error)) {
		t.Error(err)
	}
}

// mergeFault returns the first fault of merge functions.
func mergeFault(t *schema.Table, o fold.Options) error {
	for _, err := range fold.CheckMerge(t, o) {
		return err
	}
	return nil
}

// TestFold_PatchesOfOneRow: each of many patches of one row uses memory for its own length, not for a version of the
// object.
func TestFold_PatchesOfOneRow(t *testing.T) {
	for _, members := range []int{1, 7, 2000} {
		for _, before := range []string{`{"id":1}`, `{"id":1,"p":[1]}`} { // the second starts an absolute value
			o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9, Merge: map[string]merge.Function{"p": merge.Patch}}}
			f, b := sinktest.NewFolder(schema.Table{Name: "t"}, o, ""), &fold.Batch{}
			testcheck.NoError(t, f.Fold(b, []byte(before), fold.Place{}))
			for i := range 2000 {
				line := fmt.Appendf(nil, `{"id":1,"p":{"in":{"m%d":%d}}}`, i%members, 10_000+i)
				testcheck.NoError(t, f.Fold(b, line, fold.Place{}))
			}
			var all []string
			for m := range members {
				all = append(all, fmt.Sprintf(`"m%d":%d`, m, 12_000-members+(m+members-2000%members)%members))
			}
			size := b.Bytes()
			f.Seal(b)
			want := `{"in":{` + strings.Join(all, ",") + `}}`
			if got := string(b.Value(b.Sorted()[0], 1)); got != want {
				t.Errorf("%d members: the value is %.200s, want %.200s", members, got, want)
			}
			if most := 2000 * 80; size > most {
				t.Errorf("%d members of %d bytes: the batch has %d bytes, more than %d", members, len(want), size, most)
			}
		}
	}
}

// nestedPair nests two tables: the second is a child of the first.
type nestedPair struct{ fold.Nesting }

func (nestedPair) Nested(table int) fold.Nested {
	if table == 1 {
		return fold.Nested{Key: []string{"id"}}
	}
	return fold.Nested{Parent: -1}
}

// TestFold_SumsOfChildRows: the sum of a child that is deleted with its parent starts again, in any order of the two.
func TestFold_SumsOfChildRows(t *testing.T) {
	parent := schema.Table{Name: "p", Exists: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}}}
	child := schema.Table{Name: "c", Exists: true, Key: []int{0, 1}, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}, {Name: "nr", Type: schema.Int, Key: true}, {Name: "n", Type: schema.Number}}}
	pair := func(names *feed.Names) (fold.Folders, fold.Options, fold.Options) {
		po := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.IgnoreUnknown}, Log: logtest.New(t)}
		co := po
		co.Key, co.Merge = []string{"id", "nr"}, map[string]merge.Function{"n": merge.Sum}
		return fold.Folders{fold.NewFolder(names, parent, po), fold.NewFolder(names, child, co)}, po, co
	}
	for _, c := range []struct {
		feed string // + adds 2 to the child, d deletes the parent, r replaces it
		want string // the sum if the database has 10
	}{{"+", "12"}, {"++", "14"}, {"+d+", "2"}, {"d+", "2"}, {"d++", "4"}, {"r+", "2"}, {"+r+", "2"}, {"+d", ""}} {
		names := &feed.Names{}
		folders, po, co := pair(names)
		folders.Nest(nestedPair{})
		set := fold.NewSet(2)
		for i, step := range c.feed {
			changes := []fold.TableChange{{Table: 0, Change: *change(t, names, po, `{"id":1}`, map[rune]fold.Op{'d': fold.Delete, 'r': fold.Replace, '+': fold.Upsert}[step])}}
			if step == '+' {
				changes = append(changes, fold.TableChange{Table: 1, Change: *change(t, names, co, `{"id":1,"nr":1,"n":2}`, fold.Upsert)})
			}
			_, err := folders.Add(set, changes, fold.Place{Line: int64(i)})
			testcheck.NoError(t, err)
		}
		folders.Seal(set)
		b, got := set.Batches[1], ""
		for _, r := range b.Sorted() {
			have := []byte("10")
			if r.Replaces {
				have = nil
			}
			if !r.Deleted {
				merged, _ := b.AppendMerged(nil, r, 2, have)
				got += string(merged)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.feed, got, c.want)
		}
	}
}
