package example

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite: the kind passes the suite.
func TestSuite(t *testing.T) {
	sourcetest.Test(t, func(t *testing.T, lines ...string) sourcetest.Feed {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
		}))
		t.Cleanup(server.Close)
		t.Cleanup(http.DefaultClient.CloseIdleConnections)
		return sourcetest.Feed{Spec: server.URL + "/feed.jsonl", Kind: func() source.Kind { return Kind(Options{}) }}
	})
}
