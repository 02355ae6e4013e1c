package web_test

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/status/web"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// site returns a site of a run that has done nothing yet.
func site(tables ...string) *web.Site { return described(status.Run{}, tables...) }

func described(run status.Run, tables ...string) *web.Site {
	p := status.New(tables...)
	run.Job, run.To, run.Version, run.BufferLimit = cmp.Or(run.Job, "j"), cmp.Or(run.To, "t.db"), "v1", 1<<20
	p.Describe(run)
	return &web.Site{Progress: p, Metrics: http.NotFoundHandler()}
}

// get sends a request to a site that listens at addr.
func get(t *testing.T, s *web.Site, addr, method, host, path string) *httptest.ResponseRecorder {
	t.Helper()
	l, err := web.Listen(addr)
	testcheck.NoError(t, err)
	defer l.Close()
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	r.Host = host
	s.Handler(l).ServeHTTP(w, r)
	return w
}

const loopback = "127.0.0.1:0"

// page returns a page of a site and checks that it contains texts.
func page(t *testing.T, s *web.Site, path string, texts ...string) string {
	t.Helper()
	page := get(t, s, loopback, "GET", "localhost", path).Body.String()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("%q is missing:\n%s", text, page)
		}
	}
	return page
}

// A request under a foreign host name is refused: otherwise a page elsewhere whose name resolves to this machine could
// read the site.
func TestHandler_NamesThatMayBeForeignAreRefused(t *testing.T) {
	s := site("t")
	f := func(addr, host string, code int) {
		t.Helper()
		for _, path := range []string{"/", "/api/status"} {
			if w := get(t, s, addr, "GET", host, path); w.Code != code {
				t.Errorf("%s by %q: %d, want %d", path, host, w.Code, code)
			}
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:9461", "127.0.0.1:9461", "[::1]:9461", "192.0.2.1", "[2001:db8::1]"} {
		f(loopback, host, 200)
	}
	for _, host := range []string{"evil.example", "evil.example:9461", "localhost.evil.example", "127.0.0.1.evil.example", "", "evil.example:80:80"} {
		f(loopback, host, 403)
	}
	f("localhost:0", "localhost:9461", 200)
}

func TestHandler_OnlyReads(t *testing.T) {
	s := site("t")
	for _, path := range []string{"/", "/api/status", "/metrics", "/page.js", "/readyz"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			if w := get(t, s, loopback, method, "localhost", path); w.Code != 405 {
				t.Errorf("%s %s: %d, want 405", method, path, w.Code)
			}
		}
	}
	if w := get(t, s, loopback, "HEAD", "localhost", "/"); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestHandler_BrowsersLoadNothingFromElsewhere(t *testing.T) {
	s := site("t")
	for _, path := range []string{"/", "/api/status", "/page.js", "/page.css", "/icon.svg", "/nothing"} {
		w := get(t, s, loopback, "GET", "localhost", path)
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; script-src 'self';", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if have := w.Header().Get(name); !strings.HasPrefix(have, want) {
				t.Errorf("%s: %s is %q", path, name, have)
			}
		}
		if strings.Contains(w.Header().Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: %q", path, w.Header().Get("Content-Security-Policy"))
		}
		if text := w.Body.String(); strings.Contains(text, "://") && !strings.Contains(text, `xmlns="http://www.w3.org/2000/svg"`) || strings.Contains(text, "style=") {
			t.Errorf("%s names something of elsewhere, or has styles of its own:\n%s", path, text)
		}
	}
	for path, want := range map[string]string{"/page.js": "text/javascript; charset=utf-8", "/page.css": "text/css; charset=utf-8", "/icon.svg": "image/svg+xml", "/": "text/html; charset=utf-8", "/api/status": "application/json"} {
		if have := get(t, s, loopback, "GET", "localhost", path).Header().Get("Content-Type"); have != want {
			t.Errorf("%s is %q, want %q", path, have, want)
		}
	}
}

const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

func TestHandler_NamesAndLinesAreText(t *testing.T) {
	s := described(status.Run{Job: hostile, To: hostile, Host: hostile, RejectsAt: hostile, IgnoredBy: hostile, NoTable: hostile}, hostile, "other")
	for _, kind := range []status.NoteKind{status.Ignored, status.Passed, status.NoTable} {
		s.Progress.Note(kind, hostile, 1)
	}
	l := s.Progress.Open(hostile, status.Waiting)
	l.Reject(&fold.Reject{Reason: feed.NotJSON})
	s.Progress.Open(hostile+"/f", status.File).Locate(1, func() (int64, int64) { return 1, 2 })
	s.Progress.Open("kafka://c/"+hostile+"/1", status.Partition).Partition(hostile, "1", func() int64 { return 1 }, func() bool { return true })
	s.Progress.Flushed(0, make([]status.TableCounts, 2), 0)
	w := get(t, s, loopback, "GET", "localhost", "/")
	if text := w.Body.String(); w.Code != 200 || strings.Contains(text, "<script>") || strings.Contains(text, "<img") || !strings.Contains(text, "&lt;script&gt;") {
		t.Errorf("%d\n%s", w.Code, text)
	}
}

// The page works for a run that has done nothing yet.
func TestPage_OfAFreshRun(t *testing.T) {
	page(t, site("t"), "/", "not reading yet", "None is being read.", "</html>")
}

// The place of a rejected line names its source if the page has several.
func TestPage_PlacesOfFilesThatHaveEnded(t *testing.T) {
	s := site("t")
	first := s.Progress.Open("first.jsonl", status.File)
	first.Reject(&fold.Reject{Place: fold.Place{Line: 3}, Reason: feed.NotJSON})
	page(t, s, "/", ">line 3<")
	first.Close()
	s.Progress.Open("second.jsonl", status.File)
	page(t, s, "/", `<span class="dim">first.jsonl, </span>line 3<`)
	s.Progress.Open("kafka://c/t/0", status.Partition).Reject(&fold.Reject{Place: fold.Place{Line: 3, Offset: 1234}, Reason: feed.BadKey})
	page(t, s, "/", `<span class="dim">kafka://c/t/0, </span>offset 1,234<`)
}

// The age of a message from before 1734 exceeds a [time.Duration].
func TestPage_OldMessages(t *testing.T) {
	s := site("t")
	s.Progress.Open("tcp://a:1", status.Dialed).Read(1, 1, true, time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC))
	if text := page(t, s, "/", "104166d16h"); strings.Contains(text, ">-") {
		t.Error(text)
	}
}

// A long flush replaces the last commit on the page.
func TestPage_HowFarAFlushIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := site("t")
		s.Progress.Flushing(1_000_000)
		s.Progress.Sent(412_000)
		for _, under := range []bool{false, true, false} {
			page := get(t, s, loopback, "GET", "localhost", "/").Body.String()
			for text, want := range map[string]bool{"412,000 of&nbsp;1,000,000 rows sent": under, "Last commit": !under} {
				if strings.Contains(page, text) != want {
					t.Errorf("%q is there: %v\n%s", text, !want, page)
				}
			}
			if time.Sleep(time.Second); under {
				s.Progress.FlushEnded()
			}
		}
	})
}

// The charts cover the run, or its last hour. A change of the rate is shown where it happened, and each value says what
// it is. Rows that a batch leaves unchanged are not written.
func TestPage_Charts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := site("t")
		page(t, s, "/", "from 0 to 1, over 1s")
		defer s.Progress.Watch()()
		run := func(d time.Duration, rows int64) {
			for range d / time.Second {
				s.Progress.Flushed(0, []status.TableCounts{{Messages: 1000, Rows: status.Rows{Inserted: rows, Unchanged: 1000 - rows}}}, 0)
				time.Sleep(time.Second)
				synctest.Wait()
			}
		}
		run(100*time.Second, 300)
		page(t, s, "/", "Rows written a second, from 0 to 400, over 1m", "Pending lines, from 0 to 1,", ` 600.0,25.0"/>`, "<li><span>300, 50s ago</span>", "30,000 rows<")
		run(50*time.Minute, 0)
		page(t, s, "/", "Rows written a second, from 0 to 400, over 52m")
		run(3*time.Hour, 20)
		page(t, s, "/", "Rows written a second, from 0 to 20, over 1h")
	})
}

// A lag that is not known yet is not 0: its chart begins with the first one.
func TestPage_LagChartBeginsWithTheFirstLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := site("t")
		l := s.Progress.Open("f", status.Listening)
		defer s.Progress.Watch()()
		time.Sleep(100*time.Second + time.Millisecond)
		at := time.Now().Add(-30 * time.Second)
		l.Read(1, 1, true, at)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if text := page(t, s, "/", "Lag, from 0 to 40s, over 9s", "<li><span>31s, 9s ago</span>"); strings.Contains(text, "<li><span>0s") {
			t.Errorf("the chart invents a lag:\n%s", text)
		}
	})
}

func TestPage_StateIsASentence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := site("t")
		page(t, s, "/", ">Not ready: not reading yet<")
		l := s.Progress.Open("f", status.Listening)
		page(t, s, "/", ">Running: no message so far<")
		l.Read(1, 1, true, time.Time{})
		page(t, s, "/", ">Running<")
		time.Sleep(5 * time.Minute)
		page(t, s, "/", ">Running: no message for 5m<")
		s.Progress.Pause(status.SpoolFull)
		time.Sleep(time.Second)
		s.Progress.Flushing(10)
		time.Sleep(37 * time.Second)
		page(t, s, "/", ">Stalled for 37s: waiting for a flush to end (another session&#39;s lock, or a slow database)<", `class="alert">Stalled for 37s: the spool is full`)
	})
}
