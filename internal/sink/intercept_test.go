package sink_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/example"
	"github.com/weirsync/weir/internal/testcheck"
)

// forgetful has one optional part.
type forgetful struct{ sink.Sink }

func (forgetful) Forget(context.Context, string) (sink.Forgotten, error) {
	return sink.Forgotten{Rejects: 5}, nil
}

// TestAs: a wrapped sink has exactly the optional parts of the inner one.
func TestAs(t *testing.T) {
	db, err := example.Driver.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sink.Options{})
	testcheck.NoError(t, err)
	defer db.Close()
	retried := func(s sink.Sink) sink.Sink { return sink.Retry(sink.Retry(s, time.Minute, nil), time.Minute, nil) }
	forgetter, err := sink.As[sink.Forgetter](retried(forgetful{db}), "forget a job")
	testcheck.NoError(t, err)
	if f, err := forgetter.Forget(t.Context(), "nobody"); err != nil || f.Rejects != 5 {
		t.Errorf("%+v, %v", f, err)
	}
	_, err = sink.As[sink.Housekeeper](retried(db), "run every:")
	if want := "weir cannot run every: in a database of this kind"; err == nil || err.Error() != want {
		t.Errorf("of a sink without Execute: %v; want %s", err, want)
	}
}
