package sinktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
)

// A feedTest is what the table has after a feed.
type feedTest struct {
	name string
	sql  []string // of a program that shares the database, before
	by   []func(*fold.Options)
	// batches are written as they are; or lines are, in batches of any size of at least that many, and in any order if
	// shuffled, each time into an empty table. First is a flush before them.
	batches  [][]string
	first    string
	lines    lines
	least    int
	shuffled bool
	query    string
	want     []string
	rejects  []string // the lines that are rejected, by their numbers
}

// everyColumn is a line that names all columns of a feed with versions; queries leave its row out.
const everyColumn = `{"id":0,"v":0,"a":"","b":"","c":""}`

func feedTests(tests ...feedTest) (all []test) {
	for _, c := range tests {
		all = append(all, test{c.name, func(t *testing.T, db Database) {
			switch rnd := rand.New(rand.NewPCG(1, 1)); {
			case c.batches != nil:
				c.run(t, db, c.batches)
			case c.shuffled:
				for range 8 {
					c.run(t, db, slices.Collect(slices.Chunk(c.lines, 1+rnd.IntN(len(c.lines)))))
					rnd.Shuffle(len(c.lines), func(i, j int) { c.lines[i], c.lines[j] = c.lines[j], c.lines[i] })
				}
			default:
				for size := max(1, c.least); size <= len(c.lines); size++ {
					c.run(t, db, slices.Collect(slices.Chunk(c.lines, size)))
				}
			}
		}})
	}
	return all
}

func (c *feedTest) run(t *testing.T, db Database, batches [][]string) {
	t.Helper()
	for _, s := range c.sql {
		theirs(t, db, s)
	}
	r := Begin(t, db, c.by...)
	if c.first != "" {
		r.Flush(c.first)
	}
	before := r.cp().Line
	for _, b := range batches {
		r.Flush(b...)
	}
	r.End()
	Expect(t, db, c.query, c.want...)
	Expect(t, db, fmt.Sprintf("SELECT line - %d FROM weir_rejects ORDER BY line", before), c.rejects...)
	if t.Failed() {
		var all []string
		for _, b := range batches {
			all = append(all, strings.Join(b, "\n"))
		}
		t.Fatalf("in these batches:\n%s", strings.Join(all, "\n\n"))
	}
	db.Exec(t, "DROP TABLE t")
	db.Exec(t, "DELETE FROM weir_rejects")
}
