package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rotate gives a followed file's content other names, in order, and then begins a new one.
func (f *followed) rotate(content string, renames ...string) {
	f.Helper()
	for i := 0; i < len(renames); i += 2 {
		old, name := renames[i], renames[i+1]
		if err := os.Rename(f.path+old, f.path+name); err != nil {
			f.Fatal(err)
		}
	}
	f.append(content)
}

// A file that was rotated again before weir looked at it is read in its turn.
func TestFollow_RotatedTwiceBetweenTwoLooks(t *testing.T) {
	for name, rotations := range map[string][][]string{
		"numbers": {{"", ".1"}, {".1", ".2", "", ".1"}, {".2", ".3", ".1", ".2", "", ".1"}},
		"dates":   {{"", "-20241129"}, {"", "-20241130"}, {"", "-20241201"}},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, "a\n", func(f *followed) {
				write(f, f.path+"5.1", []byte("another feed\n"))
				f.want("a\n", 0)
				for i, renames := range rotations {
					f.rotate(string("bcd"[i])+"\n", renames...)
				}
				for _, line := range []string{"b\n", "c\n", "d\n"} {
					if l := f.want(line, 0); !l.restart {
						t.Errorf("%q is not the beginning of a file", line)
					}
				}
				f.append("e\n")
				f.want("e\n", 2)
			})
		})
	}
}

// A predecessor that still grows is not read again, nor is a file whose place is not known; both are named.
func TestFollow_NamesFilesThatItMayHaveMissed(t *testing.T) {
	for name, c := range map[string]struct {
		others  map[string]string
		removed bool // the file that was read before
		warning string
	}{
		"one rotation":           {others: map[string]string{"notes": "", "lock": ""}},
		"a growing predecessor":  {others: map[string]string{".2": "x\n"}, warning: "sync them too: feed.2"},
		"compressed meanwhile":   {others: map[string]string{".0.gz": "x"}, warning: "sync them too: feed.0.gz"},
		"the old one is removed": {others: map[string]string{".7": "x\n"}, removed: true, warning: "sync them too: feed.7"},
		"removed, nothing else":  {removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, "a\n", func(f *followed) {
				f.want("a\n", 0)
				later := time.Now().Add(100 * 365 * 24 * time.Hour) // synctest's clock is not the file system's
				for suffix, content := range c.others {
					write(f, f.path+suffix, []byte(content))
					if err := os.Chtimes(f.path+suffix, time.Time{}, later); err != nil {
						t.Fatal(err)
					}
				}
				f.rotate("b\n", "", ".1")
				if c.removed {
					if err := os.Remove(filepath.Clean(f.path + ".1")); err != nil {
						t.Fatal(err)
					}
				}
				f.want("b\n", 0)
				warning := ""
				if len(f.warnings) > 0 {
					warning = <-f.warnings
				}
				if (c.warning == "") != (warning == "") || !strings.HasSuffix(warning, c.warning) {
					t.Errorf("warned %q, want %q", warning, c.warning)
				}
			})
		})
	}
}
