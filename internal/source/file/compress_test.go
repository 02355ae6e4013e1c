package file_test

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func TestCompression_DetectedByFirstBytes(t *testing.T) {
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
		got, err := readAll(tempFile(t, in), source.Options{}, "")
		stdin, err2 := readStdin(iotest.OneByteReader(bytes.NewReader(in)), source.Options{})
		if err != nil || err2 != nil || text(got) != string(data) || text(stdin) != string(data) {
			t.Errorf("%s: %v, on stdin %v, %d and %d bytes of %d", name, err, err2, len(text(got)), len(text(stdin)), len(data))
		}
	}
}

func TestCompression_CanBeSet(t *testing.T) {
	data := feed(3)
	path := tempFile(t, gz(t, data))
	got, err := readAll(path, source.Options{Compression: source.None}, "")
	if err != nil || text(got) != string(gz(t, data)) {
		t.Errorf("none: %v, %v", got, err)
	}
	_, err = readAll(path, source.Options{Compression: source.Zstd}, "")
	wantError(t, err, path, "zstd", "corrupt")
	_, err = readAll(tempFile(t, data), source.Options{Compression: source.Gzip}, "")
	wantError(t, err, "gzip", "corrupt")
	_, err = readAll(path, source.Options{Compression: "lz4"}, "")
	wantError(t, err, "lz4", "auto, none, gzip, zstd")
}

// A cut may leave a valid stream: at its very start, and between members.
func TestCompression_CutAnywhereGivesWholeLinesThenAnError(t *testing.T) {
	data := feed(60)
	half := len(data) / 2
	for _, name := range []string{"gzip", "zstd"} {
		first := forms[name](t, data[:half])
		in := slices.Concat(first, forms[name](t, data[half:]))
		for cut := 1; cut < len(in); cut++ {
			if name == "zstd" && cut == 1 {
				continue // "(": may be text
			}
			path := tempFile(t, in[:cut])
			got, err := readAll(path, source.Options{}, "")
			if cut == len(first) {
				if err != nil || text(got) != string(data[:half]) {
					t.Fatalf("%s cut between members: %v", name, err)
				}
				continue
			}
			wantError(t, err, path, name, "truncated", "decompressed bytes")
			if s := text(got); !bytes.HasPrefix(data, []byte(s)) || s != "" && !strings.HasSuffix(s, "\n") {
				t.Fatalf("%s cut at %d: %q", name, cut, s)
			}
		}
	}
}

// Members of gzip may follow each other. What else follows a stream is never ignored silently.
func TestCompression_DataAfterAStream(t *testing.T) {
	data := feed(60)
	for format, pack := range map[string]func(data []byte) []byte{
		source.Gzip: func(data []byte) []byte { return slices.Concat(gz(t, data[:100]), gz(t, data[100:])) },
		source.Zlib: func(data []byte) []byte {
			var b bytes.Buffer
			return packed(t, &b, zlib.NewWriter(&b), data)
		},
		source.Deflate: func(data []byte) []byte {
			var b bytes.Buffer
			w, err := flate.NewWriter(&b, flate.BestSpeed)
			testcheck.NoError(t, err)
			return packed(t, &b, w, data)
		},
	} {
		for _, behind := range []string{"", "garbage", "{\"id\":1}\n"} {
			path := tempFile(t, slices.Concat(pack(data), []byte(behind)))
			got, err := readAll(path, source.Options{Compression: format}, "")
			if behind != "" {
				wantError(t, err, path, format, "trailing garbage")
			} else if err != nil {
				t.Errorf("%s: %v", format, err)
			}
			if text(got) != string(data) {
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
		got, err := readAll(path, source.Options{}, "")
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
	// A frame that needs a window of 1 GiB.
	check([]byte("\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00"), false, "window of more than 128 MiB")
}
