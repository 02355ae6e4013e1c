package config

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever a config file holds, it is taken or refused.
func FuzzResolve(f *testing.F) {
	f.Add([]byte("batch_rows: 1000\nto: flights.db\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("key: [carrier, flight]\nsources: {a: 1}\n"))
	f.Add([]byte("? !!binary x\n: 1e999\n"))
	path := filepath.Join(f.TempDir(), "weir.yml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		set := map[string]string{}
		var settings []*Setting
		for _, name := range []string{"to", "batch-rows", "key", "sources"} {
			settings = append(settings, &Setting{Name: name, Value: func() string { return set[name] }, Set: func(v string) error { set[name] = v; return nil }})
		}
		_ = Resolve(settings, func(string) (string, bool) { return "", false }, path)
	})
}
