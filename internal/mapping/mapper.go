package mapping

import (
	"fmt"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A Row is the change of one row.
type Row = fold.TableChange

// Fate is what happens to a message.
type Fate uint8

// What happens to a message.
const (
	Mapped    Fate = iota
	Ignored        // matches the mapping's or the envelope's ignore
	Warned         // ignored, and the user is warned
	NoTable        // no table matches
	Announced      // about the stream, without rows: a resume value or a table's schema
)

// A Result is what a line does. It is valid until the mapper's next line.
type Result struct {
	// Rows are the changes, parents before children. After them is a change for each row that these refer to
	// ([fold.Ensure]).
	Rows    []Row
	Fate    Fate
	Table   int    // index of the table that rejects the line; -1 if none does
	Warning string // why a line that is Warned is ignored
	Resume  []byte // value to resume from after the line, as JSON; nil for none
	// Discriminator groups messages that match no table.
	Discriminator Discriminator
}

// A Discriminator is a value, and its path, by which messages that match no table are grouped. Path is "" if the
// mapping has no conditions.
type Discriminator struct {
	Path  string
	value []byte
}

// Value returns the beginning of the value's text.
func (d *Discriminator) Value() string { return feed.Clip(d.value) }

// An UnmatchedEndsRunError ends a run: no table matches a message, and the mapping has `unmatched: fail`.
type UnmatchedEndsRunError struct{ Detail string }

func (e *UnmatchedEndsRunError) Error() string { return e.Detail }

// A refusal rejects a message because of one table.
type refusal struct {
	why   *feed.Error
	table int
}

func (r *refusal) Error() string { return r.why.Error() }

func (t *TablePlan) refuse(err *feed.Error) *refusal { return &refusal{err, t.index} }

// A Mapper maps lines: it decodes the envelope, chooses the tables that the message is for, and builds their rows.
type Mapper struct {
	// Names maps table names of the database to names in the stream, for tables that earlier runs added: two names in
	// the stream must not become one table. The caller sets it before the first Map.
	Names map[string]string

	plan    *Plan
	whole   *Mapper // of the whole mapping; nil if the plan is for all tables
	read    *paths.Reader
	decode  *envelope.Decoder // nil: the messages are the rows
	message message           // reused for each message
	out     Result            // of the last line
	route   router
	rows    rowBuilder
}

// NewMapper returns a mapper for the plan.
func (p *Plan) NewMapper() *Mapper {
	m := &Mapper{plan: p, read: p.trees.NewReader(), out: Result{Table: -1}}
	if p.stream != nil {
		m.decode = p.stream.NewDecoder(m.read)
	}
	m.route.plan = p
	if p.whole != nil {
		m.whole = p.whole.NewMapper()
	}
	m.rows = rowBuilder{plan: p, read: m.read, cast: &cast.Reader{}, decode: m.decode, scan: feed.NewScanner(p.names), adding: -1, changes: make([]Row, 1)}
	for i := range p.Tables {
		m.rows.tables = append(m.rows.tables, p.Tables[i].newMemory())
	}
	return m
}

// UseColumns sets a function that returns the current columns of a table, including those that messages added. Without
// it, the mapper uses the columns from [Plan.Fit].
func (m *Mapper) UseColumns(now func(table int) schema.Table) { m.rows.current = now }

// TakeMismatches returns, by path, how many values were not the object or array that a path expects since the last
// call; nil if there were none. Values below them are absent.
func (m *Mapper) TakeMismatches() (all map[string]int64) {
	m.read.TakeMismatches(func(at paths.Place, n int64) {
		if all == nil {
			all = map[string]int64{}
		}
		all[m.plan.title(at)] += n
	})
	return all
}

// Map maps a line of a source, which must have been scanned without an error. An error of type [*feed.Error] rejects
// the line; any other error except a [*NewTable] ends the run.
func (m *Mapper) Map(l *feed.Line, source string, at fold.Place) (*Result, error) {
	if m.whole == nil {
		return m.mapLine(l, source, at)
	}
	of, err := m.whole.mapLine(l, source, at)
	if err != nil || len(of.Rows) == 0 {
		of.Rows, of.Table = nil, -1 // it may not be part of the plan
		return of, err
	}
	r, err := m.mapLine(l, source, at)
	r.Fate = of.Fate
	return r, err
}

func (m *Mapper) mapLine(l *feed.Line, source string, at fold.Place) (*Result, error) {
	out := &m.out
	if m.plan.plain {
		out.Rows = m.rows.addLine(l)
		return out, nil
	}
	m.rows.begin()
	msg := &m.message
	if m.decode != nil { // without an envelope, these fields are never set
		*msg = message{}
	}
	msg.line, msg.place, msg.source = l, at, source
	fate, err := m.fate(msg)
	*out = Result{Fate: fate, Table: -1, Warning: msg.Warning, Resume: msg.Resume}
	if fate == NoTable && err == nil {
		out.Discriminator = m.discriminator(msg)
		err = m.plan.unmatchedError(&out.Discriminator)
	}
	if err != nil {
		if refused, ok := err.(*refusal); ok {
			out.Table, err = refused.table, refused.why
		}
		return out, err
	}
	if fate == Mapped {
		out.Rows = m.rows.result()
	}
	return out, nil
}

// fate builds the rows of a message, and returns what happens to it.
func (m *Mapper) fate(msg *message) (Fate, error) {
	if m.decode != nil {
		return m.mapStreamMessage(msg)
	}
	m.read.BeginLine(0, msg.line)
	if m.read.Matches(m.plan.ignore) {
		return Ignored, nil
	}
	matched, err := m.buildRows(msg, nil, m.plan.tops, m.plan.loose)
	return fateOf(matched), err
}

func fateOf(matched bool) Fate {
	if matched {
		return Mapped
	}
	return NoTable
}

// buildRows builds rows for the current message, or CDC row, in the tables that match it, and reports whether any
// matches. tops have one row per message; loose have one row per array element, and no parent. of is the stream's
// table; nil without an envelope.
func (m *Mapper) buildRows(msg *message, of *route, tops, loose []*TablePlan) (matched bool, err error) {
	for _, t := range tops {
		if !m.read.Holds(t.when) {
			continue
		}
		matched = true
		if of != nil {
			if err := m.claim(t, of); err != nil {
				return matched, err
			}
		}
		types, err := m.rows.typing(msg.Types, t)
		if err != nil {
			return matched, err
		}
		if refused := m.rows.addRow(msg, t, types, nil); refused != nil {
			return matched, refused
		}
	}
	for _, t := range loose {
		some, refused := m.rows.addElements(msg, t, nil)
		if refused != nil {
			return matched, refused
		}
		if matched = matched || some; some && of != nil {
			if err := m.claim(t, of); err != nil {
				return matched, err
			}
		}
	}
	return matched, nil
}

// discriminator returns the discriminator of a message that matches no table.
func (m *Mapper) discriminator(msg *message) (d Discriminator) {
	p := m.plan
	if p.stream != nil && p.stream.NamesTables() {
		return Discriminator{"table", msg.Table}
	}
	d.Path = p.discriminator.title
	if v := m.read.Get(p.discriminator.at); v != nil {
		d.value = m.read.Text(v)
	}
	return d
}

// unmatchedError returns the error for a line that matches no table; nil if such lines are skipped.
func (p *Plan) unmatchedError(d *Discriminator) error {
	if p.unmatched != RejectUnmatched && p.unmatched != FailUnmatched {
		return nil
	}
	text := "no table takes this message"
	if d.Path != "" {
		text += fmt.Sprintf(", in which %s is %q", d.Path, d.Value())
	}
	if text += fmt.Sprintf(" (unmatched: %s)", p.unmatched); p.unmatched == RejectUnmatched {
		return feed.Errorf(feed.Unmatched, "%s", text)
	}
	return &UnmatchedEndsRunError{text}
}
