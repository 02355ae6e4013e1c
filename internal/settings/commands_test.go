package settings

import "testing"

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{"": "''", "a.db": "a.db", "a b": "'a b'", "it's": `'it'\''s'`} {
		if got := Quoted(word); got != want {
			t.Errorf("%q is %s, want %s", word, got, want)
		}
	}
}
