package mapping_test

import (
	"maps"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

func TestWhen_String(t *testing.T) {
	f := func(w mapping.When, want string) {
		t.Helper()
		if got := w.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(mapping.When{{{Path: path("type"), In: []mapping.Value{{Text: "a"}, {Text: "null", Null: true}}}}}, "type=a,null")
	f(mapping.When{{{Path: path("a.b"), In: []mapping.Value{{Text: "c"}}, Not: true, Present: mapping.MustBePresent}, {Path: path("$"), Present: mapping.MustBeAbsent}},
		{{Path: path("d"), In: []mapping.Value{{}}}}}, "a.b present, a.b!=c, $ absent or d=")
}

// TestExplainer_Sources are those that [mapping.Plan.Map] takes, one set for each row of the table.
func TestExplainer_Sources(t *testing.T) {
	e, err := mapping.NewExplainer(firestarter(t), schema.Limits{})
	testcheck.NoError(t, err)
	f := func(line string, want map[string]string) {
		t.Helper()
		rows := e.Sources(0, []byte(line))
		if want == nil && rows == nil {
			return
		}
		if len(rows) != 1 || !maps.Equal(rows[0], want) {
			t.Errorf("%s: %v, want %v", line, rows, want)
		}
	}
	f(`{"id":"a","type":"offblock","clock":"1","actual_out":"2"}`, map[string]string{"id": "id", "actual_out": "clock (type=offblock)"})
	f(`{"id":"a","type":"flifo","clock":"1","actual_out":"2","adt":"3"}`, map[string]string{"id": "id", "actual_out": "actual_out", "actual_off": "adt"})
	f(`{"id":"a","type":"flightplan","alt":"1"}`, map[string]string{"id": "id", "cruising_altitude": "alt (type=flightplan,cancellation, flightstatus!=F,S)"})
	f(`{"id":"a","type":"position","clock":"1"}`, nil)
	f(`{"id":"a","type":"fli`, nil)
}
