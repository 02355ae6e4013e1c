package sinktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/testcheck"
)

// wholeTests: elements of sets are whole, whoever adds columns to their tables.
var wholeTests = []test{
	{"RandomWriters", func(t *testing.T, db Database) {
		count := uint64(testcheck.Rounds(3, 20))
		Seeds(t, count, func(t *testing.T, rnd *rand.Rand) { randomWriters(t, db, rnd) })
	}},
}

// randomWriters has two jobs write a random feed in turn. Each adds columns that the other one does not know when it
// writes the same rows without them.
func randomWriters(t *testing.T, db Database, rnd *rand.Rand) {
	m := randomShop(t, rnd, func() bool { return true })
	d, _ := db.Driver()
	model := foldtest.NewModel(m, d.Caps.TextTypes)
	writers := []*Nested{BeginNested(t, db, m, false), BeginNestedJob(t, db, "another job", m, rnd.IntN(2) == 0)}
	var lines []string
	for range 20 {
		line := `{"id":1,"items":[` + elements(rnd, "sku", func() string { return `,"taxes":[` + elements(rnd, "code", func() string { return "" }) + `]` }) + `]}`
		lines = append(lines, line)
		_, _ = model.Apply(line, 0, 0)
		writers[rnd.IntN(2)].Flush(line)
	}
	writers[0].model = model
	for i := range m.Tables {
		if want, got := model.Rows(m.Tables[i].Name), writers[0].rows(db, i); !slices.Equal(got, want) {
			t.Fatalf("table %s has\n%s\nwant\n%s\nfrom\n%s", m.Tables[i].Name, strings.Join(got, "\n"), strings.Join(want, "\n"), strings.Join(lines, "\n"))
		}
	}
	for _, n := range writers {
		n.End()
	}
}

// elements are some, each with a field of its own perhaps.
func elements(rnd *rand.Rand, key string, more func() string) string {
	var all []string
	for i := range 3 {
		if rnd.IntN(3) == 0 {
			continue
		}
		e := fmt.Sprintf(`{"%s":"%d"`, key, i)
		if rnd.IntN(2) == 0 {
			e += fmt.Sprintf(`,"new%d":%d`, rnd.IntN(50), rnd.IntN(5))
		}
		all = append(all, e+more()+"}")
	}
	return strings.Join(all, ",")
}
