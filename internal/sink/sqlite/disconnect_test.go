package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// TestDB_ReconnectsAfterAFailedCommit: whatever is asked first after it opens the file again.
func TestDB_ReconnectsAfterAFailedCommit(t *testing.T) {
	for name, ask := range map[string]func(*sqlite.DB) error{
		"Tables": func(d *sqlite.DB) error {
			_, err := d.Tables(t.Context(), sink.TableKey{Name: "t"})
			return err
		},
		"Forget": func(d *sqlite.DB) error {
			_, err := d.Forget(t.Context(), "job")
			return err
		},
	} {
		d, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlite.Options{Synchronous: sink.Full, Log: logtest.New(t)})
		if err != nil {
			t.Fatal(err)
		}
		d.Disconnect()
		if err := ask(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
