package sinktest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/weirsync/weir/internal/feed"
)

// wideningTests: a column that becomes wider keeps its values.
var wideningTests = []test{
	{"DoublesKeepTheirShortestText", func(t *testing.T, db Database) {
		doubles := awkwardDoubles(t)
		r := Begin(t, db)
		var lines []string
		for i, f := range doubles {
			lines = append(lines, fmt.Sprintf(`{"id":%d,"text":%s,"number":%[2]s}`, i, strconv.FormatFloat(f, 'e', -1, 64)))
		}
		r.Flush(lines...)
		r.Flush(`{"id":-1,"text":"x","number":0.12345678901234567890123}`)
		wrong := 0
		for _, row := range db.Query(t, "SELECT id, text, number FROM t WHERE id >= 0 ORDER BY id") {
			f := doubles[row[0].(int64)]
			want, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
			for _, cell := range row[1:] {
				got, ok := new(big.Rat).SetString(show(cell))
				if !ok || got.Cmp(want) != 0 {
					if wrong++; wrong < 10 {
						t.Errorf("%v became %v", f, cell)
					}
				}
			}
			if text := string(feed.AppendReal(nil, f)); row[1] != text {
				if wrong++; wrong < 10 {
					t.Errorf("%s became the text %v", text, row[1])
				}
			}
		}
		Expect(t, db, "SELECT count(*) FROM t", show(len(doubles)+1))
		if wrong > 0 {
			t.Errorf("%d of %d doubles became other numbers", wrong, len(doubles))
		}
	}},
}

// awkwardDoubles are doubles of all sizes, many of which have their shortest decimal on
// the border to the next double, where readers and printers differ.
func awkwardDoubles(t *testing.T) []float64 {
	doubles := []float64{1e23, 9e22, 2.003485544858745e16, 32.815236600469404, 5e-324, math.MaxFloat64, 0.1, 1e15, 999999999999999, 123456789012345680, 1e-4, 0.00001, 0.30000000000000004, 1e39, 1e38}
	for e := -1074; e < 1024; e++ {
		doubles = append(doubles, math.Ldexp(1, e))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		if f := math.Float64frombits(random.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			doubles = append(doubles, f)
		}
		doubles = append(doubles, random.Float64()*math.Pow10(random.IntN(20)), float64(random.Int64N(1e15))/1e6)
	}
	bordering := 0
	for bordering < 10_000 {
		// An odd number of 54 bits is half way between two mantissas; five times five … make
		// its decimal short.
		fives := int64(1)
		for range 1 + random.IntN(23) {
			fives *= 5
		}
		odd := fives * (((1<<53)/fives + random.Int64N((1<<53)/fives+1)) | 1)
		if odd>>53 != 1 {
			continue
		}
		even := odd / 2
		even += even & 1
		shift := 1 + random.IntN(77)
		f := math.Ldexp(float64(even), shift)
		border := new(big.Int).Lsh(big.NewInt(odd), uint(shift-1))
		if shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64)); shortest.Cmp(new(big.Rat).SetInt(border)) != 0 {
			continue
		}
		bordering++
		doubles = append(doubles, math.Copysign(f, float64(random.IntN(2))-0.5))
	}
	return doubles
}
