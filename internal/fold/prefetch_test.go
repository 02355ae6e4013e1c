package fold_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestPrefetch_ChangesNothing of what lines become, wherever a block and a batch end: what was looked up for one batch
// may be of no row of the next.
func TestPrefetch_ChangesNothing(t *testing.T) {
	large := `{"id":"a0","v":7,"a":"` + strings.Repeat("x", 1<<20) + `"}` // less is not prefetched
	sinktest.Seeds(t, 30, func(t *testing.T, rnd *rand.Rand) {
		pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
		line := func() string {
			fields := []string{`"op":` + pick(`"put"`, `"put"`, `"put"`, `"delete"`), fmt.Sprintf(`"v":%d`, rnd.IntN(50))}
			for _, c := range []string{"a", "b", "c"} {
				fields = append(fields, fmt.Sprintf("%q:%s", c, pick("null", "1", `""`, `"short"`, `"`+strings.Repeat("y", rnd.IntN(40))+`"`)))
			}
			fields = fields[:1+rnd.IntN(len(fields))]
			fields = append(fields, `"id":`+pick(`"a%d"`, `"a%d"`, `"\u0061%d"`, "%d", `""`, "null"))
			if rnd.IntN(4) == 0 {
				rnd.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
			}
			l := "{" + strings.ReplaceAll(strings.Join(fields, ","), "%d", fmt.Sprint(rnd.IntN(60))) + "}"
			return pick(l, l, l, l, l, l, l, l, l, l, l, l, "", "{", l[:rnd.IntN(len(l))])
		}
		o := options(t, func(o *fold.Options) {
			if rnd.IntN(2) == 0 {
				o.Version, o.Scope = "v", fold.ColumnScope
			}
		})
		var got [2]strings.Builder // with and without
		var names [2]feed.Names
		var folders [2]*fold.Folder
		var batches [2][2]fold.Batch // those of a folder are filled in turn
		for i := range folders {
			folders[i] = fold.NewFolder(&names[i], schema.Table{Name: "t", HasConstraints: true}, o)
		}
		full := 0
		for range 12 {
			block := make([]string, rnd.IntN(1+rnd.IntN(60)))
			for i := range block {
				block[i] = line()
			}
			if len(block) > 0 && rnd.IntN(3) == 0 {
				block[rnd.IntN(len(block))] = large
			}
			ends := rnd.IntN(100)
			for i, f := range folders {
				at, mapper, scan := full, fold.NewMapper(&names[i], o), feed.NewScanner(&names[i])
				lines := make([]feed.Line, len(block))
				for n := range lines {
					lines[n].Scan(scan, nil, []byte(block[n]))
				}
				for n := range lines {
					b := &batches[i][at%2]
					if i == 0 {
						f.Prefetch(b, lines, n)
					}
					if err := lines[n].Err; err == nil {
						c := mapper.Map(&lines[n])
						if err := f.Add(b, &c, fold.Place{}); err != nil {
							fmt.Fprintln(&got[i], err)
						}
					}
					if n == ends || n == ends/2 {
						f.Seal(b)
						got[i].WriteString(dump(b))
						b.Reset()
						at++
					}
				}
				if i == 1 {
					full = at
				}
			}
		}
		if got[0].String() != got[1].String() {
			t.Errorf("with\n%.2000s\nwithout\n%.2000s", got[0].String(), got[1].String())
		}
	})
}
