package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirsync/weir/internal/web"
)

func TestHandler(t *testing.T) {
	why := ""
	site := web.Site{Metrics: http.NotFoundHandler(), NotReady: func() string { return why }}
	f := func(path string, code int, text string) {
		t.Helper()
		w := httptest.NewRecorder()
		site.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != code || text != "" && w.Body.String() != text {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, code, text)
		}
	}
	f("/healthz", 200, "ok\n")
	f("/readyz", 200, "ok\n")
	f("/debug/pprof/", 404, "")
	why = "waiting for the database (connection)"
	f("/readyz", 503, why+"\n")
	f("/healthz", 200, "ok\n")
}
