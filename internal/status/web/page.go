package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/status"
)

//go:embed page.html page.css page.js icon.svg
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"grouped": quantity.Grouped, "count": quantity.Count, "rate": quantity.Figure, "span": span, "zero": zero, "seconds": quantity.Seconds,
	"percent": percent, "number": number, "unit": unit, "name": name, "place": place, "folder": folder,
	"bytes": func(n int64) string { return strings.ReplaceAll(quantity.Bytes(n), " ", noBreak) },
}).ParseFS(files, "page.html"))

// place returns where a line is in its source.
func place(r status.Reason) string {
	if r.Record {
		return "offset " + quantity.Grouped(r.Offset) + fold.ElementText(r.Element)
	}
	return "line " + quantity.Grouped(r.Line) + fold.ElementText(r.Element)
}

// span formats a duration in whole seconds, which does not change too fast to read.
func span(d time.Duration) string { return quantity.Duration(d.Truncate(time.Second)) }

// zero returns the CSS class that dims a zero in a table.
func zero(n any) string {
	if fmt.Sprint(n) == "0" {
		return " zero"
	}
	return ""
}

// noBreak is a non-breaking space. It keeps a unit on the line of its number.
const noBreak = "\u00a0"

func percent(part, whole int64) string {
	return fmt.Sprintf("%d"+noBreak+"%%", min(100, 100*part/max(1, whole)))
}

// unit returns the part of a quantity after its number, or "" if it has several numbers.
func unit(quantity string) string {
	if unit := strings.TrimLeft(quantity, "0123456789.,"+noBreak); !strings.ContainsAny(unit, "0123456789") {
		return unit
	}
	return ""
}

// number returns the part of a quantity before the unit, including a space between them.
func number(quantity string) string { return strings.TrimSuffix(quantity, unit(quantity)) }

func (s *Site) servePage(w http.ResponseWriter, _ *http.Request) {
	did := s.Progress.Snapshot()
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "page.html", &page{&did, s.Progress.History(&did)}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = b.WriteTo(w) // an error means that the browser has left
}

// page has the data and methods for the page's template.
type page struct {
	*status.Snapshot
	moments []status.Moment // of the charts
}

// State describes in a sentence what the run does.
func (p *page) State() string {
	switch quiet := p.Since(p.LastMessage); {
	case len(p.Stalled) > 0:
		return p.StallText(p.Stalled[0])
	case p.NotReady != "":
		return "Not ready: " + p.NotReady
	case p.LongWriting() != nil && p.Writing.Search != "":
		return fmt.Sprintf("Writing for %s, %s", span(p.Since(p.Writing.Began)), p.Writing.Search)
	case p.LongWriting() != nil:
		return fmt.Sprintf("Writing %s for %s", quantity.Count(p.Writing.Rows, "row"), span(p.Since(p.Writing.Began)))
	case p.LastMessage.IsZero():
		return "Running: no message so far"
	case quiet > longQuiet:
		return fmt.Sprintf("Running: no message for %s", span(quiet))
	}
	return "Running"
}

// longQuiet is the time without a message from which the page mentions it.
const longQuiet = time.Minute

// StallText says in a sentence why the run is stalled.
func (p *page) StallText(s status.Stall) string {
	if lasts := p.Since(s.Since); lasts >= time.Second {
		return fmt.Sprintf("Stalled for %s: %s", span(lasts), s.Text)
	}
	return "Stalled: " + s.Text
}

// OtherStalls are the stalls that State does not name.
func (p *page) OtherStalls() []status.Stall { return p.Stalled[min(1, len(p.Stalled)):] }

// OnlyFiles reports that no source is live. Messages of a file may have any age.
func (p *page) OnlyFiles() bool {
	return len(p.Lanes) > 0 && !slices.ContainsFunc(p.Lanes, func(s status.Source) bool { return s.Kind != status.File })
}

// Since returns the time from t to the time of the page.
func (p *page) Since(t status.Time) time.Duration { return max(0, p.Time.Sub(t)) }

// RatesOver returns the period that rates cover.
func (p *page) RatesOver() time.Duration { return time.Duration(p.RateSeconds * float64(time.Second)) }

// Folded returns the share of messages that were folded into the row of an earlier message, or "".
func (p *page) Folded() string {
	if p.Coalesced == 0 {
		return ""
	}
	return percent(p.Coalesced, p.Messages)
}

// AllRetries returns how often database calls were retried.
func (p *page) AllRetries() (n int64) {
	for _, each := range p.Retries {
		n += each
	}
	return n
}

// RetryReasons lists why.
func (p *page) RetryReasons() string {
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(p.Retries)) {
		if n := p.Retries[reason]; n > 0 {
			why = append(why, reason+" "+quantity.Grouped(n))
		}
	}
	return strings.Join(why, ", ")
}

// AnyLag reports whether the lag of any source is known.
func (p *page) AnyLag() bool {
	return slices.ContainsFunc(p.Lanes, func(s status.Source) bool { return s.LagSeconds != nil || s.LagRecords != nil })
}

// maxSources is the maximum number of sources on the page.
const maxSources = 200

// SourcesShown returns the sources that are on the page.
func (p *page) SourcesShown() []status.Source { return p.Lanes[:min(maxSources, len(p.Lanes))] }

// SourcesLeftOut returns how many are not.
func (p *page) SourcesLeftOut() int64 { return int64(len(p.Lanes) - len(p.SourcesShown())) }

// Only reports whether a source is the only one on the page. Files that were read to their ends are not on it.
func (p *page) Only(source string) bool {
	return len(p.Lanes) == 1 && p.Lanes[0].Source == source
}

// name returns the part of a source's name that distinguishes it from others in its folder.
func name(s status.Source) string {
	if s.Topic != "" {
		return s.Topic + "/" + s.Number
	}
	return s.Source[strings.LastIndexByte(s.Source, '/')+1:]
}

// folder returns the part before name.
func folder(s status.Source) string { return strings.TrimSuffix(s.Source, name(s)) }
