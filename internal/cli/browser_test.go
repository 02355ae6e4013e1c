package cli_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

// A browser shows a page, and records its requests and console messages.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string // URLs
	dialogs  int
	messages []string // on the console: errors, policy violations, calls
}

// newBrowser starts a headless browser. If there is none, the test is skipped; in CI it fails.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	testcheck.Only(t)
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	found := slices.IndexFunc(names, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
	if found < 0 {
		testcheck.Missing(t, "a browser (Debian: apt install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(names[found]))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // as root it cannot run with a sandbox
	}
	b := &browser{t: t}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	b.ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	testcheck.NoError(t, chromedp.Listen(b.ctx, b.note))
	go func() {
		for m := range chromedp.Console(b.ctx) {
			b.mu.Lock()
			b.messages = append(b.messages, m.String())
			b.mu.Unlock()
		}
	}()
	_, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	testcheck.NoError(t, err)
	return b
}

func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *page.EventJavascriptDialogOpening:
		b.dialogs++
	}
}

// as sets the width and the color scheme for the next pages.
func (b *browser) as(width int64, scheme string) {
	b.t.Helper()
	testcheck.NoError(b.t, chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 800)))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	testcheck.NoError(b.t, err)
}

func (b *browser) open(url string) {
	b.t.Helper()
	testcheck.NoError(b.t, chromedp.Do(b.ctx, chromedp.Navigate(url)))
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func (b *browser) text() string { b.t.Helper(); return evaluate[string](b, "document.body.innerText") }

// until waits until the page contains a text.
func (b *browser) until(text string) {
	b.t.Helper()
	testcheck.Until(b.t, func() string { return b.lacks(text) })
}

// lacks returns an error text if the page does not contain a text, or "".
func (b *browser) lacks(text string) string {
	b.t.Helper()
	if all := b.text(); !strings.Contains(all, text) {
		return fmt.Sprintf("%q is missing:\n%s", text, all)
	}
	return ""
}

// fits opens pages of a site at several widths, from a phone's up, in light and dark mode. It checks that the pages fit
// and that the modes differ. look is called for each page.
func (b *browser) fits(site string, paths []string, look func(width int64)) {
	b.t.Helper()
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, path := range paths {
			for _, width := range []int64{360, 390, 800, 1400} {
				b.as(width, scheme)
				b.open(site + path)
				if over := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
					b.t.Errorf("%s is %d pixels wider than %d", path, over, width)
				}
				look(width)
			}
			grounds[evaluate[string](b, "getComputedStyle(document.body).backgroundColor")] = true
		}
	}
	if len(grounds) != 2 {
		b.t.Errorf("light and dark are %v", grounds)
	}
}

// says checks that the page contains texts.
func (b *browser) says(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if why := b.lacks(text); why != "" {
			b.t.Error(why)
		}
	}
}

// calm fails if the page has loaded anything from elsewhere, or run scripts that are not its own.
func (b *browser) calm(site string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, site+"/") {
			b.t.Errorf("it asks for %s", url)
		}
	}
	if len(b.requests) == 0 || len(b.messages) > 0 || b.dialogs > 0 {
		b.t.Errorf("%d requests, %d dialogs, and on the console: %q", len(b.requests), b.dialogs, b.messages)
	}
}

// sender returns a function that sends lines to a listening run.
func sender(l *testweir.Folder, run *testweir.Run) (send func(lines ...string)) {
	l.Helper()
	conn, err := net.Dial("tcp", run.Serves())
	l.Check(err)
	l.Cleanup(func() { conn.Close() })
	return func(lines ...string) {
		l.Helper()
		_, err := fmt.Fprintf(conn, "%s\n", strings.Join(lines, "\n"))
		l.Check(err)
	}
}

// TestPage_InABrowser opens the page of a listening run whose table and lines are hostile.
func TestPage_InABrowser(t *testing.T) {
	const hostile = `<script>alert(1)</script>`
	b := newBrowser(t)
	l := testweir.New(t, "t.db")
	run := l.Start("sync", "tcp-listen://127.0.0.1:0", "--table", hostile, "--to", l.To, "--time-field", "at", "--batch-period", "50ms", "--metrics-addr", "127.0.0.1:0")
	send, site := sender(l, run), run.Site()
	send(`{"id":1,"at":1}`, `{"id":2}`, hostile)

	// The numbers are updated without a reload.
	b.open(site + "/")
	b.until("3 lines,")
	b.until("2 rows")
	evaluate[bool](b, "window.kept = true")
	evaluate[bool](b, "getSelection().selectAllChildren(document.querySelector('h1')) || true")
	for i := 3; i < 203; i++ {
		send(fmt.Sprintf(`{"id":%d}`, i))
	}
	b.until("203 lines,")
	b.until("202 rows")
	b.until("1 sender")
	if !evaluate[bool](b, "window.kept === true") || evaluate[string](b, "getSelection().toString()") != hostile {
		t.Error("the page was loaded again, or has lost what was selected")
	}
	b.says("Running", "not_json", hostile, "Rows/s")
	if n := evaluate[int](b, "document.querySelectorAll('polyline').length"); n != 2 {
		t.Errorf("%d charts are shown", n)
	}

	// The page fits a phone, in light and dark mode.
	b.fits(site, []string{"/"}, func(int64) {})
	b.says(hostile, "weir rejects --to")

	// Without JavaScript the page is complete and reloads itself.
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	testcheck.NoError(t, err)
	b.open(site + "/")
	if b.says("203 lines,"); !evaluate[bool](b, `document.querySelector("meta[http-equiv=refresh]") !== null`) {
		t.Error("without JavaScript it does not load itself again")
	}
	_, err = chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	testcheck.NoError(t, err)
	b.open(site + "/")
	b.calm(site)

	// The page shows that the run has ended.
	run.Signal(syscall.SIGTERM)
	run.Wait()
	b.until("No answer since")
	b.says("203 lines,")
}
