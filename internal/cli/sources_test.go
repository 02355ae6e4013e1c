package cli

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/example"
)

// TestSources_OneMore: a new kind of source is a folder and an entry in one list. All commands then support it.
func TestSources_OneMore(t *testing.T) {
	with, without := settings.Kinds, settings.Sources
	t.Cleanup(func() { settings.Kinds, settings.Sources = with, without })
	settings.Kinds = func(o *settings.KindOptions) source.Kinds { return append(with(o), example.Kind(example.Options{})) }
	settings.Sources = settings.Kinds(&settings.KindOptions{})
	feed := `{"id":"BA1","gate":"A1"}` + "\n" + `{"id":"BA2","gate":"A2"}` + "\nbad\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/flights.jsonl" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(feed))
	}))
	defer server.Close()
	weir := runsInProcess(t)
	url, to := server.URL+"/flights.jsonl", " --to "+filepath.Join(t.TempDir(), "t.db")
	weir(2, "sync nosuch://x"+to, "http://host/path")
	weir(2, "sync http://"+to+" --table t", "http://: not of the form http://host/path")
	weir(1, "sync "+server.URL+"/other"+to+" --table t", "the server answers 404 Not Found")
	weir(3, "sync "+url+to+" --table flights", "2 inserted, 0 updated, 0 unchanged, 0 deleted; 1 rejected")
	feed += `{"id":"BA2","gate":"B7"}` + "\n"
	weir(0, "sync "+url+to+" --table flights", "resuming after line 3")
	weir(0, "status"+to, "flights")
	feed = "{}\n" + feed
	weir(1, "sync "+url+to+" --table flights", "is not the file that was read before")
	weir(0, "explain BA2 "+server.URL+"/flights.jsonl", "B7")
}
