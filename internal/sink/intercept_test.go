package sink_test

import (
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/memory"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestAs: a wrapped sink has exactly the optional parts of the inner one.
func TestAs(t *testing.T) {
	db, err := memory.NewDriver().Open(t.Context(), "as", sink.Options{})
	testcheck.NoError(t, err)
	retried := func(s sink.Sink) sink.Sink { return sink.Retry(sink.Retry(s, time.Minute, nil), time.Minute, nil) }
	forgetter, err := sink.As[sink.Forgetter](retried(db), "forget a job")
	testcheck.NoError(t, err)
	if f, err := forgetter.Forget(t.Context(), "nobody"); err != nil || f.Found {
		t.Errorf("%+v, %v", f, err)
	}
	_, err = sink.As[sink.Forgetter](retried(struct{ sink.Sink }{db}), "forget a job")
	if want := "weir cannot forget a job in a database of this kind"; err == nil || err.Error() != want {
		t.Errorf("of a sink without Forget: %v; want %s", err, want)
	}
}
