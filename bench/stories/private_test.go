//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestPrivate_IsForItsUser: who connects to it needs no password, and can run programs as the server's user.
func TestPrivate_IsForItsUser(t *testing.T) {
	testpg.New(t) // or the test is skipped
	dir, err := os.MkdirTemp("/tmp", "weir-private-")
	testcheck.NoError(t, err)
	defer os.RemoveAll(dir)
	db, err := private(dir, "fsync=off")
	testcheck.NoError(t, err)
	d := db.(*privateDB)
	if os.Geteuid() == 0 {
		// The server runs as another user, who cannot enter the folder.
		if err := d.Begin(t.Context(), discard); err == nil || !strings.Contains(err.Error(), "cannot enter "+dir+": set TMPDIR") {
			t.Errorf("in a folder that is closed: %v", err)
		}
		testcheck.NoError(t, os.Chmod(dir, 0o711))
	}
	testcheck.NoError(t, d.Begin(t.Context(), discard))
	var listens string
	err = d.Control.QueryRow(t.Context(), "SHOW listen_addresses").Scan(&listens)
	sockets, serr := os.Stat(filepath.Join(d.place.Dir, "s"))
	testcheck.NoError(t, errors.Join(err, serr, d.End(t.Context())))
	if listens != "" || sockets.Mode().Perm() != 0o700 {
		t.Errorf("it listens on %q, and its sockets are in a folder of %v", listens, sockets.Mode())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
