package schema

import "testing"

func TestRespelled_IsTheSameValue(t *testing.T) {
	f := func(typ Type, raw, text string, want bool) {
		t.Helper()
		c := Column{Type: typ}
		if got := c.Respelled([]byte(raw), []byte(text)); got != want {
			t.Errorf("%s: %s and %s: %v", typ, raw, text, got)
		}
	}
	f(Text, `1e3`, `1000`, true)
	f(Text, `1.50`, `1.5`, true)
	f(Text, `-0.0`, `0`, true)
	f(Text, `1e23`, `100000000000000000000000`, true)
	f(Text, `1e3`, `1001`, false)
	f(Text, `1e3`, `1000 `, false)
	f(Text, `"1e3"`, `1000`, false) // a string was never anything else
	f(Text, `true`, `1`, false)
	f(Text, `{"b":1,"a":[1,2]}`, `{"a": [1, 2], "b": 1}`, true)
	f(Text, `{"a":1,"a":2}`, `{"a": 2}`, true)
	f(Text, `["\u00e9",1e2,null,true]`, `["é", 100, null, true]`, true)
	f(Text, `{"a":1}`, `{"a": 2}`, false)
	f(Text, `{"a":1}`, `{"a": "1"}`, false)
	f(Text, `{"a":[1,2]}`, `{"a": [2, 1]}`, false)
	f(Text, `[1]`, `[1, 2]`, false)
	f(Text, `{"a":1}`, `{"a": 1} `, true)
	f(Text, `{"a":1}`, `{"a": 1} x`, false)
	f(Text, `{}`, `null`, false)
	f(Text, `[]`, `nothing`, false)
	f(JSON, `[1]`, `[1.0]`, false)
	f(Number, `1.50`, `1.5`, true)
	f(Number, `1.50`, `1.51`, false)
	f(Any, `9007199254740992`, `9.007199254740992e+15`, true)
	f(Int, `1e3`, `1000`, false) // these types keep one spelling
	f(Real, `1e3`, `1000`, false)
}
