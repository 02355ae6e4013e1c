package sink

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSearch_WritesFewRowsTwice: the good rows of a large batch are written about once, whichever rows are rejected and
// whatever the database says about a rejected row. Every rejected row is found, and no other.
func TestSearch_WritesFewRowsTwice(t *testing.T) {
	const n = 1_000_000
	rnd := rand.New(rand.NewPCG(1, 2))
	scattered := map[int]bool{}
	for len(scattered) < 100 {
		scattered[rnd.IntN(n)] = true
	}
	const first, last, right, wrong = "the first", "the last", "-1", "one that is right"
	for _, test := range []struct {
		name   string
		bad    func(i int) bool
		blames string
		most   int     // rows accepted at a time; 0: any number
		rows   float64 // limit, in batches
		tries  int     // limit
	}{
		{name: "one", bad: func(i int) bool { return i == n/3 }, blames: first, rows: 1.3, tries: 60},
		{name: "one, and which is not said", bad: func(i int) bool { return i == n/3 }, blames: right, rows: 1.5, tries: 90},
		{name: "100, scattered", bad: func(i int) bool { return scattered[i] }, blames: first, rows: 1.4, tries: 1000},
		{name: "100, the last of a piece is named", bad: func(i int) bool { return scattered[i] }, blames: last, rows: 1.4, tries: 1000},
		{name: "100, and which is not said", bad: func(i int) bool { return scattered[i] }, blames: right, rows: 1.7, tries: 3000},
		{name: "100, and a wrong one is named", bad: func(i int) bool { return scattered[i] }, blames: wrong, rows: 1.8, tries: 4000},
		{name: "1,000 side by side", bad: func(i int) bool { return i/1000 == 300 }, blames: first, rows: 1.3, tries: 3500},
		{name: "1,000 side by side, the last is named", bad: func(i int) bool { return i/1000 == 300 }, blames: last, rows: 1.3, tries: 3500},
		{name: "20,000 side by side, the last is named", bad: func(i int) bool { return i/20_000 == 15 }, blames: last, rows: 2, tries: 60_000},
		{name: "none, but at most 1,000 at a time", bad: func(int) bool { return false }, most: 1000, rows: 1.4, tries: 6000},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := make([]int, n)
			for i := range all {
				all[i] = i
			}
			rows, tries := 0, 0
			var found, written []int
			s := search[int]{
				try: func(of []int) error {
					rows, tries = rows+len(of), tries+1
					at := slices.IndexFunc(of, test.bad)
					if test.most > 0 && len(of) > test.most {
						return &Refusal{Err: errors.New("too many"), At: -1}
					}
					if at < 0 {
						written = append(written, of...)
						return nil
					}
					switch test.blames {
					case last:
						for i, row := range of {
							if test.bad(row) {
								at = i
							}
						}
					case right:
						at = -1
					case wrong:
						at = (at + 1) % len(of)
					}
					return &Refusal{Err: errors.New("no"), At: at}
				},
				single: func(row int, _ *Refusal) error {
					found = append(found, row)
					return nil
				},
			}
			if err := s.writeAll(all, true); err != nil {
				t.Fatal(err)
			}
			slices.Sort(written)
			slices.Sort(found)
			if i := slices.IndexFunc(found, func(row int) bool { return !test.bad(row) }); i >= 0 || len(found)+len(written) != n || len(slices.Compact(append(written, found...))) != n {
				t.Errorf("%d rows are written, %d rejected", len(written), len(found))
			}
			times := float64(rows) / n
			t.Logf("%.2f batches in %d tries", times, tries)
			if times > test.rows || tries > test.tries {
				t.Errorf("it takes %.2f batches in %d tries, want at most %.2f in %d", times, tries, test.rows, test.tries)
			}
		})
	}
}
