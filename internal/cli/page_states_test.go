package cli_test

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
	statuspage "github.com/weirsync/weir/internal/status/web"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// pageStates are states of a run for the status page: the same busy run, with different last events.
var pageStates = []struct {
	name   string
	happen func(p *status.Progress, l *status.Lane)
	says   string
}{
	{"running", func(*status.Progress, *status.Lane) {}, "Running"},
	{"database", func(p *status.Progress, _ *status.Lane) { p.Retry(&sink.Error{Reason: "connection"}) },
		"Stalled for 37s: waiting for the database (connection)"},
	{"lock", func(p *status.Progress, _ *status.Lane) { p.Flushing(12_000) },
		"Stalled for 37s: waiting for a flush to end (another session's lock, or a slow database)"},
	{"feed", func(p *status.Progress, _ *status.Lane) { p.SetConnections("tcp://feed.example:7001", 0) },
		"Not ready: not connected to tcp://feed.example:7001"},
	{"spool", func(p *status.Progress, _ *status.Lane) {
		p.Pause(status.SpoolFull)
		time.Sleep(time.Second)
		p.Flushing(12_000)
		p.SetSpool(1 << 30)
	}, "Stalled for 37s: the spool is full"},
	{"capture", func(p *status.Progress, _ *status.Lane) {
		p.Pause(status.CaptureDiskFull)
		time.Sleep(time.Second)
	}, "Stalled for 37s: the capture's disk is full"},
	{"large", func(p *status.Progress, _ *status.Lane) {
		p.Flushing(2_000_000)
		p.Sent(812_000)
	}, "Writing 2,000,000 rows for 37s"},
	{"search", func(p *status.Progress, _ *status.Lane) {
		p.Flushing(12_000)
		time.Sleep(30 * time.Second)
		go func() { // it moves until shortly before the page is opened
			time.Sleep(30 * time.Second)
			p.Searching(sink.Searching{Messages: 12_000, Written: 1200, Rejected: 300})
		}()
	}, "Writing for 1m7s, searching for rejected rows: 1,200 of 12,000 messages written, 300 rejected"},
	{"bad", func(p *status.Progress, l *status.Lane) {
		for i, reason := range feed.Reasons {
			l.Reject(&fold.Reject{Table: i%3 - 1, Place: fold.Place{Line: 1_234_567}, Reason: reason})
		}
		p.Note(status.Ignored, "squawk", 1_204)
		p.Note(status.Ignored, "a_field_with_a_very_long_name_that_goes_on_and_on_and_on", 7)
		p.Note(status.NoTable, "type=keepalive", 48)
		p.Note(status.Mismatched, "flights.altitude", 12)
	}, "Ignored, without a column"},
}

// statePages renders the page in each state. Each run takes an hour of a fake clock.
func statePages(t *testing.T) map[string]string {
	pages := map[string]string{}
	for _, state := range pageStates {
		synctest.Test(t, func(t *testing.T) {
			p := status.New("flights", "positions")
			p.Describe(status.Run{Job: "flights", To: "postgres://db.example/flights", Host: "air1", Version: "v1.0.0", BufferLimit: 64 << 20, SpoolLimit: 1 << 30,
				RejectsAt: "weir rejects --to postgres://db.example/flights", NoTable: ", no table takes them"})
			site := &statuspage.Site{Progress: p, Metrics: http.NotFoundHandler()}
			defer p.Watch()()
			l := p.Open("tcp://feed.example:7001", status.Dialed)
			p.SetConnections("tcp://feed.example:7001", 1)
			var read int64
			for second := range 3600 {
				rows := int64(1800 + 600*math.Sin(float64(second)/400) + float64(second*7919%211))
				lag := time.Duration(1000+second*31%700) * time.Millisecond
				l.Read(rows*2, rows*240, true, time.Now().Add(-lag))
				read += rows * 2
				l.Committed(read - 1_200)
				p.Flushed(38*time.Millisecond, []status.TableCounts{
					{Messages: rows / 4, Rows: status.Rows{Inserted: rows / 90, Updated: rows / 8}},
					{Messages: rows, Coalesced: rows / 3, Rows: status.Rows{Updated: rows / 2, Unchanged: rows / 9}}}, 0)
				time.Sleep(time.Second)
			}
			state.happen(p, l)
			if wait := 37 * time.Second; state.name != "running" && state.name != "bad" {
				time.Sleep(wait)
			}
			listener, err := statuspage.Listen("127.0.0.1:0")
			testcheck.NoError(t, err)
			defer listener.Close()
			answer, request := httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost/", nil)
			site.Handler(listener).ServeHTTP(answer, request)
			pages["/"+state.name] = answer.Body.String()
		})
	}
	return pages
}

// TestPage_States opens the page in each state. -update takes the screenshots in docs/recording again. If
// WEIR_SCREENSHOTS names a folder, screenshots of all states are written there.
func TestPage_States(t *testing.T) {
	b := newBrowser(t)
	pages := statePages(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := pages[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(text))
			return
		}
		if r.URL.Path == "/page.js" {
			return // the states do not change
		}
		http.ServeFile(w, r, filepath.Join("../status/web", filepath.Base(r.URL.Path)))
	}))
	defer server.Close()
	for _, state := range pageStates {
		b.fits(server.URL, []string{"/" + state.name}, func(width int64) { b.says(state.says) })
	}
	// The tables share one grid, and a chart tells the value that is pointed at.
	b.as(1400, "light")
	b.open(server.URL + "/bad")
	if edges := evaluate[string](b, "[...new Set([...document.querySelectorAll('tbody tr:first-child')].map(r => [r.getBoundingClientRect().left, r.getBoundingClientRect().right, r.cells[1].getBoundingClientRect().left].map(Math.round).join()))].join(' ')"); strings.Contains(edges, " ") {
		t.Errorf("the tables and their first columns end at %s", edges)
	}
	if title := evaluate[string](b, "document.title"); title != "flights · air1 · weir" {
		t.Errorf("the title is %s", title)
	}
	const shown = "[...document.querySelectorAll('.values span')].filter(s => s.offsetWidth > 0).map(s => s.innerText).join()"
	if before := evaluate[string](b, shown); before != "" {
		t.Errorf("before a chart is pointed at it says %s", before)
	}
	at := evaluate[[]float64](b, "(r => [r.left + r.width / 2, r.top + r.height / 2])(document.querySelector('.plot svg').getBoundingClientRect())")
	_, err := chromedp.Call(b.ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: at[0], Y: at[1]})
	testcheck.NoError(t, err)
	if value := evaluate[string](b, shown); !regexp.MustCompile(`^\d(\.\d)?s, (29|30)m\d*s? ago$`).MatchString(value) {
		t.Errorf("where the chart is pointed at it says %q", value)
	}
	folder, all := os.Getenv("WEIR_SCREENSHOTS"), true
	if *testcheck.Update {
		folder, all = "../../docs/recording", false
	}
	if folder == "" {
		return
	}
	for _, state := range pageStates {
		for _, scheme := range []string{"light", "dark"} {
			for name, width := range map[string]int64{"phone": 390, "tablet": 800, "wide": 1400} {
				path := filepath.Join(folder, "page-"+state.name+"-"+scheme+"-"+name+".png")
				if _, err := os.Stat(path); err != nil && !all {
					continue
				}
				b.as(width, scheme)
				b.open(server.URL + "/" + state.name)
				shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true)})
				testcheck.NoError(t, err)
				testcheck.NoError(t, os.WriteFile(path, smaller(t, shot.Data), 0o666))
			}
		}
	}
}

// smaller encodes a picture with its 256 most frequent colors, in a third of the bytes.
func smaller(t *testing.T, shot []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(shot))
	testcheck.NoError(t, err)
	bounds, counts := picture.Bounds(), map[color.Color]int{}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			counts[picture.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	small := image.NewPaletted(bounds, colours[:min(len(colours), 256)])
	draw.Draw(small, bounds, picture, bounds.Min, draw.Src)
	var out bytes.Buffer
	testcheck.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small))
	return out.Bytes()
}
