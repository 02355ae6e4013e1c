package fold

import (
	"slices"
	"strings"
	"testing"
)

func TestOptions_ValidateNamesAllFaults(t *testing.T) {
	f := func(o Options, want ...string) {
		t.Helper()
		var got []string
		if err := o.Validate(); err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
	id := []string{"id"}
	f(Options{Key: id})
	f(Options{Key: []string{"carrier", "flight"}, DeleteField: "op", Version: "v", Scope: RowScope})
	f(Options{Key: id, Scope: ColumnScope, FillOnly: true})
	f(Options{}, "--key names no field")
	f(Options{Key: []string{"a", "A", "a"}}, "--key a,A,a: ")
	f(Options{Key: []string{""}}, "--key : ")
	f(Options{Key: id, MaxColumns: -1}, "--max-columns")
	f(Options{Key: id, Scope: RowScope}, "--version-scope row: name the field")
	f(Options{MaxColumns: -1, FillOnly: true, DeleteField: "op", Version: "v"}, "--key", "--max-columns", "--fill-only never removes", "--fill-only needs no version")
}
