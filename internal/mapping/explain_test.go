package mapping_test

import (
	"maps"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestWhen_String is a condition for people.
func TestWhen_String(t *testing.T) {
	for text, want := range map[string]string{
		"{type: [a, null]}": "type=a,null",
		"[{a.b: {not: c, present: true}, $: {present: false}}, {d: ''}]": "a.b present, a.b!=c, $ absent or d=",
	} {
		if got := parse(t, "tables: {t: {when: "+text+"}}").Tables[0].When.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
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
