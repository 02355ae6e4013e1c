package sink

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPieces_WriteFewMessagesTwice: the good messages of a large batch are written about once, and a rejected message
// costs few tries, whichever messages are rejected. Every rejected one is found, and no other.
func TestPieces_WriteFewMessagesTwice(t *testing.T) {
	const n = 1_000_000
	rnd := rand.New(rand.NewPCG(1, 2))
	scattered := map[int]bool{}
	for len(scattered) < 100 {
		scattered[rnd.IntN(n)] = true
	}
	for _, test := range []struct {
		name   string
		of     int
		bad    func(i int) bool
		most   int     // messages accepted at a time; 0: any number
		writes float64 // limit, in batches
		tries  int     // limit
	}{
		{name: "one", of: n, bad: func(i int) bool { return i == n/3 }, writes: 1.3, tries: 80},
		{name: "100, scattered", of: n, bad: func(i int) bool { return scattered[i] }, writes: 1.6, tries: 2500},
		{name: "1,000 side by side", of: n, bad: func(i int) bool { return i/1000 == 300 }, writes: 1.3, tries: 1200},
		{name: "all", of: 12_000, bad: func(int) bool { return true }, writes: 1.1, tries: 12_020},
		{name: "each tenth", of: 12_000, bad: func(i int) bool { return i%10 == 0 }, writes: 2.2, tries: 8500},
		{name: "none, but at most 1,000 at a time", of: n, bad: func(int) bool { return false }, most: 1000, writes: 1.6, tries: 2000},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := pieces{of: test.of, size: firstPiece}
			writes, tries, found := 0, 0, []int(nil)
			for p.at < p.of {
				n := p.next()
				writes, tries = writes+n, tries+1
				bad := slices.ContainsFunc(upTo(p.at, n), test.bad)
				switch slow := test.most > 0 && n > test.most; {
				case !bad && !slow:
					p.written(n)
				case n > 1:
					p.failed(n, slow)
				default:
					found = append(found, p.at)
					p.rejected(1)
				}
			}
			want := slices.DeleteFunc(upTo(0, test.of), func(i int) bool { return !test.bad(i) })
			if !slices.Equal(found, want) {
				t.Errorf("%d messages are rejected, want %d", len(found), len(want))
			}
			times := float64(writes) / float64(test.of)
			t.Logf("%.2f batches in %d tries", times, tries)
			if times > test.writes || tries > test.tries {
				t.Errorf("it takes %.2f batches in %d tries, want at most %.2f in %d", times, tries, test.writes, test.tries)
			}
		})
	}
}

// upTo returns n numbers from the first.
func upTo(first, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
	}
	return all
}
