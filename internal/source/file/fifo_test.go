//go:build unix

package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func newFIFO(t *testing.T) (path string) {
	path = filepath.Join(t.TempDir(), "fifo")
	testcheck.NoError(t, syscall.Mkfifo(path, 0o600))
	return path
}

func TestFIFO_IsAStream(t *testing.T) {
	path := newFIFO(t)
	go os.WriteFile(path, []byte("a\nb"), 0o600)
	s := open(t, path, source.Options{}, `{"Offset":7}`)
	got, err := drain(s)
	testcheck.NoError(t, err)
	if text(got) != "a\nb" || got[0].off != 0 || !got[1].tail || !s.Begun().Waits || s.Begun().At != "" || s.Name != path || s.Size() != 0 {
		t.Errorf("%+v, waits %v, name %s, size %d", got, s.Begun().Waits, s.Name, s.Size())
	}
}

func TestFIFO_WaitForAWriterEndsWithContext(t *testing.T) {
	path := newFIFO(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := file.Open(ctx, path, source.Options{}, file.Options{}, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	os.WriteFile(path, nil, 0o600) // unblocks the abandoned open
}

func TestFIFO_CloseEndsAReadThatWaits(t *testing.T) {
	path := newFIFO(t)
	writer := make(chan *os.File)
	go func() {
		w, _ := os.OpenFile(path, os.O_WRONLY, 0)
		writer <- w
	}()
	s := open(t, path, source.Options{}, "")
	w := <-writer
	defer w.Close()
	w.WriteString("a\n")
	wantNext(t, s, "a\n")
	testcheck.NoError(t, s.Close())
}
