package file_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

func TestCompression_ToldByFirstBytes(t *testing.T) {
	data := feed(50)
	skippable := []byte("\x5a\x2a\x4d\x18\x03\x00\x00\x00abc")
	for name, in := range map[string][]byte{
		"plain":             data,
		"gzip":              gz(t, data),
		"gzip members":      slices.Concat(gz(t, data[:100]), gz(t, nil), gz(t, data[100:])),
		"gzip padded":       slices.Concat(gz(t, data), make([]byte, 700)),
		"zstd":              zst(t, data),
		"zstd frames":       slices.Concat(zst(t, data[:100]), zst(t, data[100:])),
		"zstd skips frames": slices.Concat(skippable, zst(t, data[:9]), skippable, zst(t, data[9:]), skippable),
	} {
		got, err := readAll(tempFile(t, in), source.Options{}, place{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkLines(t, got, reference(data, source.DefaultMaxLine))
		got, err = readStdin(&oneByOne{in}, source.Options{})
		if err != nil {
			t.Fatalf("%s on stdin: %v", name, err)
		}
		checkLines(t, got, reference(data, source.DefaultMaxLine))
	}
}

func TestCompression_CanBeSet(t *testing.T) {
	data := feed(3)
	path := tempFile(t, gz(t, data))
	got, err := readAll(path, source.Options{Compression: source.None}, place{})
	if err != nil || text(got) != string(gz(t, data)) {
		t.Errorf("none: %v, %v", got, err)
	}
	_, err = readAll(path, source.Options{Compression: source.Zstd}, place{})
	wantError(t, err, path, "zstd", "corrupt")
	_, err = readAll(tempFile(t, data), source.Options{Compression: source.Gzip}, place{})
	wantError(t, err, "gzip", "corrupt")
	_, err = readAll(path, source.Options{Compression: "lz4"}, place{})
	wantError(t, err, "lz4", "auto, none, gzip, zstd")
}

// A cut may fall where the stream is valid again: at its very start, and
// between members.
func TestCompression_CutAnywhereGivesWholeLinesThenAnError(t *testing.T) {
	data := feed(60)
	half := len(data) / 2
	for name, compress := range map[string]func(testing.TB, []byte) []byte{"gzip": gz, "zstd": zst} {
		first := compress(t, data[:half])
		in := slices.Concat(first, compress(t, data[half:]))
		for cut := 1; cut < len(in); cut++ {
			if name == "zstd" && cut == 1 {
				continue // "(": text, as far as one can tell
			}
			path := tempFile(t, in[:cut])
			got, err := readAll(path, source.Options{}, place{})
			if cut == len(first) {
				if err != nil || text(got) != string(data[:half]) {
					t.Fatalf("%s cut between members: %v", name, err)
				}
				continue
			}
			if err == nil {
				t.Fatalf("%s cut at %d of %d (%d): no error", name, cut, len(in), len(first))
			}
			wantError(t, err, path, name, "truncated", "decompressed bytes")
			if s := text(got); !bytes.HasPrefix(data, []byte(s)) || s != "" && !strings.HasSuffix(s, "\n") {
				t.Fatalf("%s cut at %d: %q", name, cut, s)
			}
		}
	}
}

// Streams of zlib and deflate may follow each other like members of gzip, and what follows the last
// one is never left out in silence.
func TestCompression_WhatFollowsAStreamIsRead(t *testing.T) {
	data := feed(60)
	pack := map[string]func(io.Writer) io.WriteCloser{
		source.Gzip: func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		source.Zlib: func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		source.Deflate: func(w io.Writer) io.WriteCloser {
			d, err := flate.NewWriter(w, flate.BestSpeed)
			testcheck.NoError(t, err)
			return d
		},
	}
	for format, open := range pack {
		packed := func(data []byte) []byte {
			var b bytes.Buffer
			w := open(&b)
			_, _ = w.Write(data) // to memory
			_ = w.Close()
			return b.Bytes()
		}
		two := slices.Concat(packed(data[:100]), packed(data[100:]))
		got, err := readAll(tempFile(t, two), source.Options{Compression: format}, place{})
		if err != nil || text(got) != string(data) {
			t.Errorf("%s: %d bytes of two streams, want %d, %v", format, len(text(got)), len(data), err)
		}
		what := "trailing garbage"
		if format == source.Deflate {
			what = format // no stream has a mark at its beginning: it is corrupt, or truncated
		}
		for _, behind := range []string{"garbage", "{\"id\":1}\n"} {
			path := tempFile(t, slices.Concat(two, []byte(behind)))
			got, err := readAll(path, source.Options{Compression: format}, place{})
			wantError(t, err, path, format, what)
			if !strings.HasPrefix(text(got), string(data)) {
				t.Errorf("%s and %q: %d bytes of lines, want all %d", format, behind, len(text(got)), len(data))
			}
		}
	}
}

func TestCompression_DamageIsNamed(t *testing.T) {
	data := feed(60)
	flip := func(in []byte, at int) []byte {
		in = slices.Clone(in)
		in[at] ^= 0x55
		return in
	}
	g, z := gz(t, data), zst(t, data)
	check := func(in []byte, whole bool, parts ...string) {
		t.Helper()
		path := tempFile(t, in)
		got, err := readAll(path, source.Options{}, place{})
		wantError(t, err, append(parts, path)...)
		if whole && text(got) != string(data) {
			t.Errorf("%q: %d bytes of lines, want all %d", parts, len(text(got)), len(data))
		}
	}
	check(flip(g, len(g)-6), true, "bad checksum")
	check(flip(g, len(g)/2), false, "gzip")
	check(slices.Concat(g, []byte("garbage")), true, "trailing garbage")
	check(slices.Concat(g, make([]byte, 10), []byte("{}\n")), true, "trailing garbage")
	check(flip(z, len(z)-1), false, "bad checksum")
	check(slices.Concat(z, []byte("garbage")), true, "corrupt")
	// A frame that asks for a window of 1 GiB.
	check([]byte("\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00"), false, "window of more than 128 MiB")
}

type oneByOne struct{ data []byte }

func (o *oneByOne) Read(p []byte) (int, error) {
	if len(o.data) == 0 {
		return 0, io.EOF
	}
	p[0], o.data = o.data[0], o.data[1:]
	return 1, nil
}
