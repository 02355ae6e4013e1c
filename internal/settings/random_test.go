package settings

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A draw makes random settings.
type draw struct{ *rand.Rand }

func pick[T any](d draw, all ...T) T { return all[d.IntN(len(all))] }

// names returns up to n different names.
func (d draw) names(n int) []string {
	all := []string{"a", "b c", "null", "1", "true", "x,y", "none", "ü", "a: b", "'q'", "~", "0100", "*t"}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+d.IntN(n)]
}

func (d draw) path() (p paths.Path) {
	p, _ = paths.ParsePath(pick(d, "a", "a.b", `"x.y".z`, "a[0]", ".", "$", "$.a", "null"))
	return p
}

func (d draw) values() (all []paths.Value) {
	for _, name := range d.names(3) {
		all = append(all, paths.Value{Text: name, Null: name == "~"})
	}
	for i := range all {
		if all[i].Null {
			all[i].Text = ""
		}
	}
	return all
}

func (d draw) when() (w paths.When) {
	for range 1 + d.IntN(2) {
		var all paths.All
		for _, name := range d.names(3) {
			test := paths.Test{Path: paths.FieldPath(name), Present: pick(d, paths.AnyPresence, paths.MustBePresent, paths.MustBeAbsent), Not: pick(d, true, false)}
			if test.Not || test.Present == paths.AnyPresence {
				test.In = d.values()
			}
			if !test.Not && test.In != nil {
				test.Present = paths.AnyPresence
			}
			all = append(all, test)
		}
		w = append(w, all)
	}
	return w
}

func (d draw) statements() (all []mapping.Statement) {
	for _, database := range pick(d, []string{""}, []string{"sqlite"}, []string{"postgres", "sqlite"}) {
		for _, sql := range d.names(2) {
			all = append(all, mapping.Statement{Database: database, SQL: sql})
		}
	}
	return all
}

func (d draw) columns() (all []mapping.Column) {
	for _, name := range d.names(4) {
		c := mapping.Column{Name: name, Merge: merge.Function(d.IntN(len(merge.Names())))}
		for range 1 + d.IntN(3) {
			path := mapping.TypedPath{As: pick(d, cast.Type{}, cast.Type{Kind: cast.Numeric, Precision: 5, Scale: 2}, cast.Type{Kind: cast.Text})}
			if d.IntN(2) == 0 {
				path.Path = d.path()
			}
			s := path.Source(name)
			switch d.IntN(6) {
			case 0:
				s = mapping.Source{Value: pick(d, []byte("null"), []byte(`{"a":[1,"1"]}`), []byte(`"0100"`))}
			case 1:
				s = mapping.Source{Meta: mapping.LineMeta}
			}
			if d.IntN(3) == 0 {
				s.When = d.when()
			}
			c.From = append(c.From, s)
		}
		switch d.IntN(5) {
		case 0:
			c.From, c.Merge = []mapping.Source{{Stamp: pick(d, mapping.InsertStamp, mapping.UpdateStamp)}}, merge.Last
		case 1:
			c.From, c.Merge = []mapping.Source{{From: d.path(), References: "t"}}, merge.Last
		}
		all = append(all, c)
	}
	return all
}

// fill sets about half of the fields of a struct that have a key.
func (d draw) fill(of any) {
	v := reflect.ValueOf(of).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if f.name != "tests" && (d.IntN(2) == 0 || f.name == "tables") {
			into := v.FieldByIndex(f.index)
			into.Set(reflect.ValueOf(d.value(&f, into.Type())).Convert(into.Type()))
		}
	}
}

func (d draw) value(f *field, t reflect.Type) any {
	switch {
	case len(f.words) > 0:
		return pick(d, f.words...)
	case f.name == "parent":
		return map[string]string{"a": pick(d, d.names(1)...), "null": "b"}
	}
	switch reflect.New(t).Elem().Interface().(type) {
	case bool:
		return true
	case int:
		return 1 + d.IntN(1000)
	case string:
		return d.names(1)[0]
	case []string:
		if f.none != "" && d.IntN(4) == 0 {
			return []string{}
		}
		return d.names(3)
	case paths.Path:
		return d.path()
	case []paths.Path:
		return []paths.Path{d.path(), d.path()}[d.IntN(2):]
	case mapping.RowPath:
		return mapping.RowPath{Path: d.path(), InText: pick(d, true, false)}
	case cast.Type:
		return pick(d, cast.Type{Kind: cast.Integer}, cast.Type{Kind: cast.Numeric, Precision: 3})
	case []envelope.VersionPart:
		return []envelope.VersionPart{{From: d.path()}, {From: d.path(), As: envelope.LSNCast}}[d.IntN(2):]
	case paths.When:
		return d.when()
	case []mapping.Statement:
		return d.statements()
	case []mapping.PeriodicSQL:
		return []mapping.PeriodicSQL{{Period: 90 * time.Second, Statements: d.statements()}, {Period: 48 * time.Hour, Statements: d.statements()}}[d.IntN(2):]
	case mapping.OnDelete:
		return pick(d, mapping.OnDelete{Insert: true}, mapping.OnDelete{Mark: d.names(1)[0]})
	case []mapping.Column:
		return d.columns()
	case *envelope.Envelope:
		e := &envelope.Envelope{}
		d.fill(e)
		e.Unwrap, e.Row, e.Each, e.Omit = d.path(), []paths.Path{d.path()}, paths.Path{}, nil
		return e
	case []*tableDraft:
		var all []*tableDraft
		for _, name := range d.names(3) {
			t := &tableDraft{}
			d.fill(t)
			t.Name = name
			all = append(all, t)
		}
		return all
	}
	panic(t.String())
}

// TestPrint_RandomSettings: what is printed is read as the same.
func TestPrint_RandomSettings(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	d := draw{rand.New(rand.NewPCG(seed, 0))}
	for range 300 {
		var m, again mappingDraft
		d.fill(&m)
		printed, err := encode(fieldsNode(m))
		testcheck.NoError(t, err)
		r := &reader{file: "weir.yaml", databases: databases}
		fields, v := fieldsOf(reflect.TypeFor[mappingDraft]()), reflect.ValueOf(&again).Elem()
		for _, e := range r.entries(printed) {
			f := fields[slices.Index(names(fields), e.Name)]
			f.read(r, e.node, e.Name, v.FieldByIndex(f.index))
		}
		if err := r.err(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, printed)
		}
		second, err := encode(fieldsNode(again))
		testcheck.NoError(t, err)
		if string(second) != string(printed) {
			t.Fatalf("seed %d:\n%s\nis printed again as\n%s", seed, printed, second)
		}
	}
}

// TestSettings_RandomTexts: the text of each setting is parsed as the same value.
func TestSettings_RandomTexts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	d := draw{rand.New(rand.NewPCG(seed, 0))}
	for range 50 {
		s, again := New(around()), New(around())
		for i, one := range s.Settings() {
			switch v := one.v; {
			case len(one.words) > 0:
				v.SetString(pick(d, one.words...))
			case v.Kind() == reflect.String:
				v.SetString(d.names(1)[0])
			case v.Kind() == reflect.Bool:
				v.SetBool(pick(d, true, false))
			case v.Kind() == reflect.Slice:
				v.Set(reflect.ValueOf(d.names(3)))
			case v.Kind() == reflect.Float64:
				v.SetFloat(float64(1+d.IntN(1e6)) / 8)
			default:
				v.SetInt(pick(d, 1, 1000, 1<<20, 3600*1e9, 36*3600*1e9, int64(d.Uint32())) * 1)
			}
			one.given = true
			text := one.String()
			if one.v.Kind() == reflect.Slice {
				text = strings.Trim(text, "[]")
			}
			other := again.Settings()[i]
			if err := other.Value.Set(text); one.v.Kind() == reflect.Slice && (!one.commas || text == one.none) {
				continue // its text is for people
			} else if err != nil || other.String() != one.String() {
				t.Errorf("seed %d: %s: %q is %q, %v", seed, one.Name, one, other, err)
			}
		}
	}
}
