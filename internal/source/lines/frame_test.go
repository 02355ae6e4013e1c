package lines_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// excerpt is how much is kept of an oversized line.
const excerpt = 64 << 10

var formats = []string{source.None, source.Gzip, source.Zstd, source.Zlib, source.Deflate}

// compressed returns data as one stream of a format, or as a member for each half if the format has members.
func compressed(t testing.TB, format string, data []byte, halves bool) []byte {
	t.Helper()
	var out bytes.Buffer
	parts := [][]byte{data}
	if halves && format != source.Zlib && format != source.Deflate {
		parts = [][]byte{data[:len(data)/2], data[len(data)/2:]}
	}
	for _, part := range parts {
		var w io.WriteCloser
		var err error
		switch format {
		case source.Gzip:
			w = gzip.NewWriter(&out)
		case source.Zstd:
			w, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		case source.Zlib:
			w = zlib.NewWriter(&out)
		case source.Deflate:
			w, err = flate.NewWriter(&out, flate.BestSpeed)
		default:
			return data
		}
		testcheck.NoError(t, err)
		_, _ = w.Write(part) // writing to memory
		testcheck.NoError(t, w.Close())
	}
	return out.Bytes()
}

// pieces returns data in reads of limited size.
type pieces struct {
	data []byte
	most int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.data[:min(len(p.data), p.most)])
	p.data = p.data[n:]
	return n, nil
}

// A cut is a line as a consumer sees it.
type cut struct {
	text     string // with its newline, or its first 64 KiB
	offset   int64
	oversize int64
}

func (c cut) String() string {
	return fmt.Sprintf("%.20q… (%d bytes) at %d, oversize %d", c.text, len(c.text), c.offset, c.oversize)
}

// split cuts text into lines in the simplest way. Without tail, it drops a last line without a newline.
func split(text []byte, limit int, tail bool) (cuts []cut) {
	for offset := int64(0); len(text) > 0; {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole && !tail {
			break
		}
		c := cut{text: string(text[:len(text)-len(rest)]), offset: offset}
		if size := int64(len(c.text)); len(line) > limit {
			c.text, c.oversize = c.text[:min(len(c.text), excerpt)], size
		}
		cuts = append(cuts, c)
		offset += int64(len(text) - len(rest))
		text = rest
	}
	return cuts
}

// FuzzFramer compares the framer with a plain splitter, over line lengths, limits, block and read sizes, and
// compressions. Each line's cursor leads to the lines after it.
func FuzzFramer(f *testing.F) {
	for i := range 200 {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		f.Add(uint64(i), uint32(1+rng.IntN(200_000)), uint8(rng.Uint32()), uint8(rng.Uint32()), uint8(rng.Uint32()))
	}
	for _, limit := range []uint32{1, 1000, 16 << 10, 16<<10 + 1, 20_000, 64<<10 - 1, 64 << 10, 64<<10 + 1, 256 << 10} {
		for flags := range uint8(8) {
			f.Add(uint64(limit), limit, uint8(0), uint8(2), flags)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, limit uint32, format, read, flags uint8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		maxLine := 1 + int(limit)%(1<<20)
		live, tail, small, halves, ends := flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, flags&16 == 0
		var text []byte
		near := []int{0, 1, 10, maxLine - 1, maxLine, maxLine + 1, 2 * maxLine, 16 << 10, 20_000, excerpt, excerpt + 1}
		for range rng.IntN(12) {
			n := min(near[rng.IntN(len(near))]+rng.IntN(3), 300_000)
			text = append(append(text, bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, n)...), '\n')
		}
		if !ends {
			text = text[:max(0, len(text)-1)]
		}
		compression := formats[int(format)%len(formats)]
		most := []int{1 + int(seed%7), 100, 4 << 10, 1 << 20}[read%4]
		if most < 10 && len(text) > 100_000 {
			most = 1000
		}
		want := split(text, maxLine, tail)
		raw := compressed(t, compression, text, halves)
		for from := range min(len(want)+1, 4) {
			pool := source.NewPool()
			if small {
				pool = source.NewPoolOf(16<<10, 16<<10)
			}
			o, err := source.Options{MaxLine: maxLine, Compression: compression, Pool: pool}.WithDefaults()
			testcheck.NoError(t, err)
			var r lines.Reader
			r.Init(context.Background(), "it", &pieces{raw, most}, &o)
			r.Live, r.Tail, r.Rewinds = live, tail, true
			if err := r.Begin(); err != nil {
				if len(text) > 0 {
					t.Fatal(err)
				}
				return
			}
			if from > 0 {
				at, err := lines.ReadCursor(cursors(t, raw, most, o, tail)[from-1], "it")
				testcheck.NoError(t, err)
				testcheck.NoError(t, r.Skip(at))
			}
			checkCuts(t, &r, want[from:])
			r.Forget()
		}
	})
}

// checkCuts reads to the end and compares.
func checkCuts(t *testing.T, r *lines.Reader, want []cut) {
	t.Helper()
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got := []cut{{string(b.Data), b.Offset, b.Oversize}}
		if b.Oversize == 0 {
			got = split(b.Data, len(b.Data), true)
			for i := range got {
				got[i].offset += b.Offset
			}
		}
		for _, c := range got {
			if len(want) == 0 {
				t.Fatalf("one line more: %v", c)
			}
			if c != want[0] {
				t.Fatalf("line %v, want %v", c, want[0])
			}
			want = want[1:]
		}
		b.Release()
	}
	if len(want) > 0 {
		t.Fatalf("%d lines are missing: %v", len(want), want[0])
	}
}

// cursors returns the cursor after each line.
func cursors(t *testing.T, raw []byte, most int, o source.Options, tail bool) (all []source.Cursor) {
	var r lines.Reader
	r.Init(context.Background(), "it", &pieces{raw, most}, &o)
	r.Tail, r.Rewinds = tail, true
	testcheck.NoError(t, r.Begin())
	for {
		b, err := r.Next()
		if err != nil {
			return all
		}
		for end := 0; end < len(b.Data); {
			_, rest, _ := bytes.Cut(b.Data[end:], []byte("\n"))
			if end = len(b.Data) - len(rest); b.Oversize > 0 {
				end = len(b.Data)
			}
			all = append(all, b.CursorAfter(end))
		}
		b.Release()
	}
}
