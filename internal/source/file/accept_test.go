package file

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// What was read just before a truncation counts; what is read just after it is read again from the start.
func TestFollower_TruncatedAroundARead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed")
	for _, c := range []struct {
		read string
		n    int
	}{{"b\n", 2}, {"B\n", 0}} {
		testcheck.NoError(t, os.WriteFile(path, []byte("a\n"), 0o600))
		file, err := os.Open(path)
		testcheck.NoError(t, err)
		defer file.Close()
		f := follower{ctx: t.Context(), path: path, file: file, log: logtest.New(t)}
		testcheck.NoError(t, f.from(2))
		testcheck.NoError(t, os.WriteFile(path, []byte("A\nB\n"), 0o600))
		if n, err := f.accept([]byte(c.read)); n != c.n || err != nil || !f.truncated || f.at != int64(2+n) {
			t.Errorf("%q: %d, %v, truncated %v, at %d", c.read, n, err, f.truncated, f.at)
		}
	}
}
