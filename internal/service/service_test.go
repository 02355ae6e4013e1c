package service

import (
	"github.com/weirsync/weir/internal/test/testcheck"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A manager that does not read does not block the program.
func TestTell_NobodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testcheck.NoError(t, err)
	defer l.Close()
	m, err := Connect(func(name string) (string, bool) { return path, name == "NOTIFY_SOCKET" })
	testcheck.NoError(t, err)
	defer m.Close()
	told := make(chan error, 1)
	go func() {
		for range 100_000 { // more than the socket holds
			if err := m.Tell("STATUS=x"); err != nil {
				told <- err
				return
			}
		}
		told <- nil
	}()
	select {
	case err = <-told:
		if err == nil {
			t.Error("did not exercise: the socket takes everything")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the manager")
	}
}
