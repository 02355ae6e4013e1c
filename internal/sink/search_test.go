package sink_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A rowChecker is a table whose rows are numbers. It counts what is written to it.
type rowChecker struct {
	bad    func(row int) bool
	parent func(row int) int // the row that a row refers to; negative: none; nil: none has one
	most   int               // rows in time; 0: any number

	has           map[int]bool
	writes, tries int
}

// Write implements [sink.RowWriter].
func (c *rowChecker) Write(rows [][]*fold.Row, _ bool) error {
	c.tries++
	c.writes += len(rows[0])
	if c.most > 0 && len(rows[0]) > c.most {
		return &sink.Refusal{Err: errors.New("slow"), Slow: true}
	}
	batch := map[int]bool{}
	for _, r := range rows[0] {
		batch[number(r)] = true
	}
	for row := range batch {
		if c.bad != nil && c.bad(row) {
			return &sink.Refusal{Err: errors.New("bad")}
		}
	}
	for row := range batch {
		if c.parent == nil {
			break
		}
		if p := c.parent(row); p >= 0 && !batch[p] && !c.has[p] {
			return &sink.Refusal{Err: errors.New("no parent"), Waits: true}
		}
	}
	for row := range batch {
		c.has[row] = true
	}
	return nil
}

// number returns the key of a row.
func number(r *fold.Row) (n int) {
	_, _ = fmt.Sscanf(string(r.Key), "%d", &n)
	return n
}

// TestSearch_Effort: the good messages of a large batch are written about once, and a rejected message costs few tries,
// whichever messages are rejected or wait. Every rejected one is found, and no other.
func TestSearch_Effort(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	scattered := map[int]bool{}
	for len(scattered) < 20 {
		scattered[rnd.IntN(100_000)] = true
	}
	const length = 3000
	chain := func(row int) int { return (row+2)%(length+1) - 1 } // newest first: each row but the last refers to the one after it
	for _, test := range []struct {
		name    string
		of      int
		rows    rowChecker
		rejects func(row int) bool // those that refer to a missing row; nil: the bad ones
		writes  float64            // limit, in batches
		tries   int                // limit
	}{
		{name: "one", of: 100_000, rows: rowChecker{bad: func(row int) bool { return row == 33_333 }}, writes: 1.7, tries: 80},
		{name: "20, scattered", of: 100_000, rows: rowChecker{bad: func(row int) bool { return scattered[row] }}, writes: 1.8, tries: 900},
		{name: "1,000 side by side", of: 100_000, rows: rowChecker{bad: func(row int) bool { return row/1000 == 30 }}, writes: 1.5, tries: 2200},
		{name: "all", of: 12_000, rows: rowChecker{bad: func(int) bool { return true }}, writes: 1.1, tries: 12_100},
		{name: "each tenth", of: 12_000, rows: rowChecker{bad: func(row int) bool { return row%10 == 0 }}, writes: 2.5, tries: 10_500},
		{name: "none, but at most 1,000 at a time", of: 100_000, rows: rowChecker{most: 1000}, writes: 1.6, tries: 300},
		{name: "a chain", of: length, rows: rowChecker{parent: chain}, writes: 2.5, tries: 3200},
		{name: "a chain that ends nowhere", of: length, rows: rowChecker{parent: func(row int) int { return row + 1 }}, rejects: func(int) bool { return true }, writes: 8, tries: 9_500},
		{name: "a chain and an orphan", of: length, rows: rowChecker{parent: func(row int) int {
			switch row {
			case 1000:
				return length
			case 999:
				return 1001
			}
			return chain(row)
		}}, rejects: func(row int) bool { return row == 1000 }, writes: 8, tries: 6_500},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, batches := batchOf(t, test.of)
			c := test.rows
			c.has = map[int]bool{}
			rejects, err := sink.Search(f, batches, nil, &c)
			testcheck.NoError(t, err)
			if test.rejects == nil {
				test.rejects = func(row int) bool { return c.bad != nil && c.bad(row) }
			}
			var got, want []int
			for _, r := range rejects {
				got = append(got, int(r.Line))
			}
			for row := range test.of {
				if test.rejects(row) {
					want = append(want, row)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d messages are rejected, want %d", len(got), len(want))
			}
			times := float64(c.writes) / float64(test.of)
			t.Logf("%.2f batches in %d tries", times, c.tries)
			if times > test.writes || c.tries > test.tries {
				t.Errorf("it takes %.2f batches in %d tries, want at most %.2f in %d", times, c.tries, test.writes, test.tries)
			}
		})
	}
}

// batchOf returns a flush of messages for as many rows, numbered as its lines.
func batchOf(t *testing.T, n int) (*sink.Flush, []*fold.Batch) {
	names, o := &feed.Names{}, fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9}, Log: logtest.New(t)}
	folder, set := fold.NewFolder(names, schema.Table{Name: "t", HasConstraints: true}, o), fold.NewSet(1)
	mapper, scan := sinktest.NewMapper(names, o, ""), feed.NewScanner(names)
	for i := range n {
		var l feed.Line
		l.Scan(scan, nil, fmt.Appendf(nil, `{"id":%d}`, i))
		_, err := fold.Folders{folder}.Add(set, []fold.TableChange{{Change: mapper.Map(&l)}}, fold.Place{Line: int64(i)})
		testcheck.NoError(t, err)
	}
	fold.Folders{folder}.Seal(set)
	return &sink.Flush{}, set.Batches
}
