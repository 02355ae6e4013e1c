package mapping_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// fuzzed uses most parts of a message.
const fuzzed = `
ignore: op=skip
max_each: 5
tables:
  t:
    when: {type: {not: [x, null]}}
    columns: {id: as text, n: [a as integer, b.c as integer], at: a as timestamp, num: "b.c as numeric(5,2)", f: "list[1] as boolean", u: a as uuid, d: b.d as date, y: b.d as bytes, whole: $ as json}
  sets: {of: t, each: items, key: k, columns: {k: [sku, {meta: key}], x, up: ^.a}, unknown_fields: add, parent: {id: t_id}}
  deeper: {of: sets, each: x, key: k2, columns: {k2: .}}
  all: {row: b, key: c, when: {b.c: {present: true}}}
`

// FuzzMap: any message is accepted, ignored or rejected as by the plain model.
func FuzzMap(f *testing.F) {
	for _, line := range []string{`{"id":1,"a":"2020-05-15T13:30:00Z","b":{"c":1.50,"d":"2024-02-29"},"items":[{"sku":"x","x":[1,2]},{"sku":1}]}`, `{"id":"\u0041","b":{"\u0063":"07","c":null},"items":{"a":{"x":[]},"\u0061":7},"list":[0,"1"]}`,
		`{"op":"skip"}`, `{"type":null}`, `{"id":1,"a":1589549400123,"items":null,"b":[1]}`, ` { "id" : 1 , "items" : [ { "sku" : true , "x" : [ "]" , "\"" ] , "z" : { } } ] } `} {
		f.Add(line)
	}
	m := parse(f, fuzzed)
	f.Fuzz(func(t *testing.T, line string) {
		if _, err := foldtest.Parse([]byte(line)); err != nil {
			t.Skip(err)
		}
		fates, err := folded(t, m, line)
		if errors.Is(err, errScan) {
			t.Skip(err) // the model has other reasons
		}
		outcome, modelErr := foldtest.NewModel(m, false).Apply(line, 1, 0)
		if (err != nil) != (modelErr != nil) || err == nil && outcomes[fates] != outcome {
			t.Fatalf("%s is %v, %v; want %s, %v", line, fates, err, outcome, modelErr)
		}
	})
}

var outcomes = map[mapping.Fate]foldtest.Outcome{mapping.Mapped: foldtest.Accepted, mapping.Ignored: foldtest.Ignored, mapping.NoTable: foldtest.NoTable}

var errScan = errors.New("the line is no message")

// folded folds lines into one set, and returns the result of the last one.
func folded(t *testing.T, spec *mapping.Mapping, lines ...string) (fate mapping.Fate, err error) {
	t.Helper()
	m, folders := newMapper(t, spec, schema.Limits{Untyped: true}), fold.Folders{}
	for i, of := range m.Tables {
		table := schema.Table{Name: of.Name}
		o, err := m.Fit(i, &table)
		testcheck.NoError(t, err)
		o.Log, o.MaxColumns = logtest.New(t), 1000
		folders = append(folders, fold.NewFolder(m.Plan.Names(), table, o))
	}
	folders.Link()
	folders.Nest(m.Plan)
	set := fold.NewSet(len(m.Tables))
	for _, line := range lines {
		var l feed.Line
		if l.Scan(m.scan, nil, []byte(line)); l.Err != nil {
			return fate, errors.Join(errScan, l.Err)
		}
		l.Deletes = strings.Contains(line, `"op":"delete"`)
		var r *mapping.Result
		if r, err = m.Map(&l, "", fold.Place{}); err == nil {
			_, err = folders.Add(set, r.Rows, fold.Place{})
		}
		fate = r.Fate
		if bad := (*feed.Error)(nil); err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
	}
	return fate, err
}

// TestMap_DeleteAboveVersions: a delete that would also delete rows with versions of their own is rejected. No config
// file makes one, but a Kafka record can be a delete.
func TestMap_DeleteAboveVersions(t *testing.T) {
	m := parse(t, "tables: {orders: {columns: {id}}, items: {of: orders, each: items, set: merge, key: sku, columns: {sku}}, taxes: {of: items, each: taxes, set: merge, key: code, columns: {code}, version_field: v}}")
	_, err := folded(t, m, `{"id":1,"items":[{"sku":"x","taxes":[{"code":"a","v":1}]}]}`, `{"id":1,"op":"delete"}`)
	if want := `table "orders": the delete would also delete rows of "taxes", which have versions: leave the version or set: merge out`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
