package settings

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/mapping"
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

// written are values of keys in a config file.
var written = map[string][]string{
	"key": {"k", "[k]", "[k, 'x,y']", "none", "k,\"b c\""}, "null": {"keep", "clear"}, "version_field": {"v", "m.v", "$.v", `'"a b"'`}, "version_scope": {"row", "column"},
	"fill_only": {"true", "false"}, "delete_when": {"op=d", "{op: d}", "[{op: d}, {$.op: {present: true, not: [~, 'x']}}]", "'a.b=null'"}, "unknown_fields": {"add", "ignore", "reject"}, "max_columns": {"7", "0"},
	"ignore": {"t=x", "{t: [1, '1', ~]}"}, "unmatched": {"fail", "reject"}, "max_each": {"7"}, "max_tables": {"9"}, "every": {"{90s: x, 2d: {sqlite: [a, 'b c']}}"}, "envelope": {"debezium", "singer", "{row: [after, x], table: [s, t], version: [a as lsn, b]}"}, "version": {"true", "false"},
	"when": {"a=1", "{a: [1, x], 'b.c': {present: false}}"}, "row": {"r", "a.b as json_text"}, "type": {"text", "numeric(5,2)"}, "each": {"xs", "."}, "id": {"gen"}, "from": {"[x, 'y*']", "z"}, "on_create": {"x", "{postgres: [a, b]}"},
	"columns":    {"{k: , n: {merge: sum}, c: [x, {from: y as integer, when: {z: 1}}, {value: {a: [on, 1.50, ~]}}]}", "{k: {meta: line}, t: {stamp: update}, r: {value: 0100}}"},
	"batch_rows": {"7"}, "source": {"[a, b]", "c"}, "to": {"'null'"}, "max_line": {"1 MiB"}, "retry_for": {"forever"},
}

// keys returns some of a struct's keys, with values.
func (d draw) keys(of reflect.Type) (text string) {
	for _, f := range fieldsOf(of) {
		if values := written[f.name]; values != nil && d.IntN(6) == 0 {
			text += f.name + ": " + pick(d, values...) + "\n"
		}
	}
	return text
}

// TestPrint_RandomSettings: what is printed of a config file is read as the same, and printed again as the same.
func TestPrint_RandomSettings(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	d, right := draw{rand.New(rand.NewPCG(seed, 0))}, 0
	for range 2000 {
		file := d.keys(reflect.TypeFor[Fold]()) + d.keys(reflect.TypeFor[Batch]()) + d.keys(reflect.TypeFor[mappingDraft]()) + "tables:\n"
		if strings.Contains(file, "\nwhen:") || strings.Contains(file, "\ncolumns:") || strings.HasPrefix(file, "when:") || strings.Count(file, "envelope:") > 1 || strings.Contains(file, "row:") {
			continue // settings without tables
		}
		for _, name := range []string{"a", "null"} {
			file += "  " + name + ":\n    " + strings.ReplaceAll(d.keys(reflect.TypeFor[mapping.Table]()), "\n", "\n    ") + "\n"
		}
		k, drawn := newTaken(t), New(around())
		for _, one := range drawn.Settings() {
			if _, tables := written[one.name]; tables || one.name == "merge" || one.name == "table" || !one.InFile() || isList(one.v.Type()) || d.IntN(6) > 0 {
				continue
			}
			if d.set(one); d.IntN(2) == 0 {
				k.flags = append(k.flags, one)
			} else {
				file += one.name + ": " + strconv.Quote(one.text(one.v)) + "\n"
			}
		}
		s, err := k.resolve(file)
		if err != nil || len(s.builder().faults) > 0 {
			continue
		}
		right++
		if printed(t, s); t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, file)
		}
	}
	if right < 100 {
		t.Errorf("seed %d: only %d files are right", seed, right)
	}
}

// TestSettings_RandomTexts: the text of each setting is parsed as the same value.
func TestSettings_RandomTexts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	d := draw{rand.New(rand.NewPCG(seed, 0))}
	for range 50 {
		s, again := New(around()), New(around())
		for i, one := range s.Settings() {
			switch v := one.v; v.Interface().(type) {
			case paths.Path, mapping.RowPath:
				testcheck.NoError(t, one.Value.Set(pick(d, "a", `"x.y".z`, "a[0]")))
			case paths.When, []oneOf:
				testcheck.NoError(t, one.Value.Set(pick(d, "a=1", "a.b=null", "z=")))
			case []merging:
				testcheck.NoError(t, one.Value.Set(pick(d, "a=sum", "a=b=min,c=max")))
			case []string:
				v.Set(reflect.ValueOf(d.names(3)))
			default:
				d.set(one)
			}
			one.given = true
			text := one.String()
			if isList(one.v.Type()) {
				text = strings.Trim(text, "[]")
			}
			other := again.Settings()[i]
			if err := other.Value.Set(text); isList(one.v.Type()) && (!one.commas || text == one.none) {
				continue // its text is for people
			} else if err != nil || other.String() != one.String() {
				t.Errorf("seed %d: %s: %q is %q, %v", seed, one.Name, one, other, err)
			}
		}
	}
}

// set sets a setting that is no list to a random value.
func (d draw) set(one *Setting) {
	switch v := one.v; {
	case len(one.words) > 0:
		v.SetString(pick(d, one.words...))
	case v.Kind() == reflect.String:
		v.SetString(d.names(1)[0])
	case v.Kind() == reflect.Bool:
		v.SetBool(pick(d, true, false))
	case v.Kind() == reflect.Float64:
		v.SetFloat(float64(1+d.IntN(1e6)) / 8)
	default:
		v.SetInt(pick(d, 1, 1000, 1<<20, 3600*1e9, 36*3600*1e9, int64(d.Uint32())))
	}
}

// TestWords: the words of each tag are the constants of its type.
func TestWords(t *testing.T) {
	for _, one := range New(around()).Settings() {
		for _, word := range one.words {
			if err := one.Value.Set(word); err != nil || fmt.Sprint(one.v.Interface()) != word {
				t.Errorf("%s %s: %v, %v", one.Name, word, one.v, err)
			}
		}
	}
}
