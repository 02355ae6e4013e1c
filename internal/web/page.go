package web

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
)

//go:embed page.html rejects.html page.css page.js icon.svg
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"grouped": quantity.Grouped, "count": quantity.Count, "rate": quantity.Figure, "span": span, "words": words, "zero": zero, "seconds": seconds,
	"percent": percent, "number": number, "unit": unit, "sum": sum,
	"bytes":  func(n int64) string { return strings.ReplaceAll(quantity.Bytes(n), " ", noBreak) },
	"memory": func(n int64) string { return strings.ReplaceAll(quantity.BinaryBytes(n), " ", noBreak) },
}).ParseFS(files, "*.html"))

// seconds is a duration, or the longest that there is.
func seconds(s float64) string {
	const longest = 9e9 // of a time.Duration are 9.2e9
	return quantity.Duration(time.Duration(min(s, longest) * float64(time.Second)))
}

// span is a duration to the second, which does not change faster than people read.
func span(d time.Duration) string { return quantity.Duration(d.Truncate(time.Second)) }

// zero is the class of a zero in a table, which is dim.
func zero(n any) string {
	if fmt.Sprint(n) == "0" {
		return " zero"
	}
	return ""
}

var reasonWords = map[feed.Reason]string{
	feed.NotJSON: "is not JSON", feed.Truncated: "ends in the middle of a value", feed.TrailingData: "has data after the object",
	feed.NotObject: "is not an object", feed.InvalidUTF8: "is not valid UTF-8", feed.Surrogate: "has half a surrogate pair",
	feed.TooDeep: "is nested too deeply", feed.TooLong: "is too long", feed.BadKey: "has no usable key", feed.BadName: "has a field name that no column can have",
	feed.BadValue: "has a value that does not fit", feed.BadColumn: "has a field that no column takes", feed.BadVersion: "has no usable version",
	feed.Unmatched: "matches no table", feed.Database: "was rejected by the database",
}

// words says why a line was rejected.
func words(reason string) string { return cmp.Or(reasonWords[feed.Reason(reason)], reason) }

// noBreak is a space that keeps a unit on the line of its number.
const noBreak = "\u00a0"

func percent(part, whole int64) string {
	return fmt.Sprintf("%d"+noBreak+"%%", min(100, 100*part/max(1, whole)))
}

// unit is what comes after the number of a quantity; "" where it has several numbers.
func unit(quantity string) string {
	if unit := strings.TrimLeft(quantity, "0123456789.,"+noBreak); !strings.ContainsAny(unit, "0123456789") {
		return unit
	}
	return ""
}

// number is what comes before the unit, with the space between them where there is one.
func number(quantity string) string { return strings.TrimSuffix(quantity, unit(quantity)) }

// places says where lines are.
type places struct{ records func(source string) bool }

// Place is where in a source a line is.
func (p places) Place(name string, line, offset int64) string {
	if p.records != nil && p.records(name) {
		return "offset " + quantity.Grouped(offset)
	}
	return "line " + quantity.Grouped(line)
}

func sum(counts map[string]int64) (n int64) {
	for _, each := range counts {
		n += each
	}
	return n
}

// render answers with a page.
func render(w http.ResponseWriter, name string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = b.WriteTo(w) // else nobody waits for the answer
}

func (s *Site) servePage(w http.ResponseWriter, _ *http.Request) {
	did := s.Progress.Snapshot()
	render(w, "page.html", &page{s.status(), places{s.Records}, s.history.upTo(momentOf(&did, time.Now()), did.Start)})
}

// page is a status as people see it.
type page struct {
	*Status
	places
	moments []moment // for the charts
}

// State says in a sentence what the run does.
func (p *page) State() string {
	switch quiet := p.Since(p.LastMessage); {
	case len(p.Stalled) > 0:
		return p.StallText(p.Stalled[0])
	case p.NotReady != "":
		return "Not ready: " + p.NotReady
	case p.Writing() != nil:
		return fmt.Sprintf("Writing %s for %s", quantity.Count(p.Flushing.Rows, "row"), span(p.Since(p.Flushing.Since)))
	case p.LastMessage.IsZero():
		return "Running: no message so far"
	case quiet > longQuiet:
		return fmt.Sprintf("Running: no message for %s", span(quiet))
	}
	return "Running"
}

// longQuiet is after how long without a message the page says so.
const longQuiet = time.Minute

// StallText says in a sentence why the run is stalled.
func (p *page) StallText(s Stall) string {
	if lasts := p.Since(s.Since); lasts >= time.Second {
		return fmt.Sprintf("Stalled for %s: %s", span(lasts), s.Text)
	}
	return "Stalled: " + s.Text
}

// OtherStalls are the stalls that State does not name.
func (p *page) OtherStalls() []Stall { return p.Stalled[min(1, len(p.Stalled)):] }

// OnlyFiles tells that no source is live: messages of a file may be of any age.
func (p *page) OnlyFiles() bool {
	return len(p.Sources) > 0 && !slices.ContainsFunc(p.Sources, func(s Source) bool { return s.Kind != kinds[progress.File] })
}

// Since is the time from t to that of the page.
func (p *page) Since(t time.Time) time.Duration { return max(0, p.Time.Sub(t)) }

// Running is how long the run has lasted.
func (p *page) Running() time.Duration { return p.Since(p.Started) }

// RatesOver is what rates are over.
func (p *page) RatesOver() time.Duration { return time.Duration(p.RateSeconds * float64(time.Second)) }

// RowsPerSecond is the rate of all tables.
func (p *page) RowsPerSecond() (n float64) {
	for i := range p.Tables {
		n += p.Tables[i].RowsPerSecond
	}
	return n
}

// Rows is the number of rows of all batches.
func (p *page) Rows() (n int64) {
	for i := range p.Tables {
		t := &p.Tables[i]
		n += t.Inserted + t.Updated + t.Unchanged + t.Deleted
	}
	return n
}

// Folded is the share of the messages that were folded into the row of another, "" for none.
func (p *page) Folded() string {
	var folded, all int64
	for i := range p.Tables {
		folded, all = folded+p.Tables[i].Coalesced, all+p.Tables[i].Messages
	}
	if folded == 0 {
		return ""
	}
	return percent(folded, all)
}

// LastFlush is nil where there was none.
func (p *page) LastFlush() *Flush {
	if n := len(p.RecentFlushes); n > 0 {
		return &p.RecentFlushes[n-1]
	}
	return nil
}

// Writing is the flush that is under way, nil where there is none, or it began just now.
func (p *page) Writing() *Flushing {
	if p.Flushing == nil || p.Since(p.Flushing.Since) < progress.LongFlush {
		return nil
	}
	return p.Flushing
}

// AllRetries is how often calls of the database were retried.
func (p *page) AllRetries() int64 { return sum(p.Retries) }

// RetryReasons says why they were.
func (p *page) RetryReasons() string {
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(p.Retries)) {
		if n := p.Retries[reason]; n > 0 {
			why = append(why, reason+" "+quantity.Grouped(n))
		}
	}
	return strings.Join(why, ", ")
}

// AnyExpired reports whether a table had rows that are too old.
func (p *page) AnyExpired() bool {
	return slices.ContainsFunc(p.Tables, func(t Table) bool { return t.Expired > 0 })
}

// AnyLag reports whether a source says how far behind it is.
func (p *page) AnyLag() bool {
	return slices.ContainsFunc(p.Sources, func(s Source) bool { return s.LagSeconds != nil || s.LagRecords != nil })
}

// Only reports whether a source is the only one of the page: a file that was read to its end is not.
func (p *page) Only(source string) bool {
	return len(p.Sources) == 1 && p.Sources[0].Source == source
}

// Name is what tells a source from its neighbours, and Folder what stands before it.
func (s *Source) Name() string {
	if s.Topic != "" {
		return s.Topic + "/" + s.Partition
	}
	return s.Source[strings.LastIndexByte(s.Source, '/')+1:]
}

// Folder is for Name.
func (s *Source) Folder() string { return strings.TrimSuffix(s.Source, s.Name()) }

const (
	rejectsShown = 50
	rejectShown  = 2000 // bytes of each
	// rejectsPatience is how long the database may take to answer.
	rejectsPatience = 5 * time.Second
)

// rejects is the page of rejected lines.
type rejects struct {
	places
	Job, RejectsAt string
	Why            string // there are no lines
	Lines          []reject
	Most           int
	Longest        int64
}

type reject struct {
	sink.Kept
	Text string
	More int64 // bytes
}

// serveRejects answers with the lines that were rejected last. They are data of the feed, and nobody
// has logged in: whoever is not on this machine is given the command alone.
func (s *Site) serveRejects(local bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := &rejects{places: places{s.Records}, Job: s.Job, RejectsAt: s.RejectsAt, Most: rejectsShown, Longest: rejectShown}
		switch {
		case s.LastRejects == nil:
			p.Why = "The database does not keep them:"
		case !local:
			p.Why = "They may hold anything that the feed does, so that they are shown only where weir listens on the loopback interface, as with --metrics-addr 127.0.0.1:PORT."
		default:
			p.Why = s.readRejects(r.Context(), p)
		}
		render(w, "rejects.html", p)
	}
}

// readRejects adds lines to a page, or says why it cannot.
func (s *Site) readRejects(ctx context.Context, p *rejects) (why string) {
	if !s.rejecting.TryLock() {
		return "They are being read for somebody else: try again."
	}
	defer s.rejecting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, rejectsPatience)
	defer cancel()
	last, err := s.LastRejects(ctx, rejectsShown)
	if err != nil {
		return "The database cannot be read now."
	}
	for _, k := range last {
		text := k.Text[:min(len(k.Text), rejectShown)]
		p.Lines = append(p.Lines, reject{k, strings.ToValidUTF8(string(text), "�"), int64(len(k.Text) - len(text))})
	}
	return ""
}
