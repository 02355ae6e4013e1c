package mapping

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A Row is what a message says to one row of a table of the plan.
type Row = fold.TableChange

// Fate is what becomes of a message.
type Fate uint8

// What becomes of it.
const (
	Taken     Fate = iota
	Ignored        // by the mapping's ignore, or that of its envelope
	Warned         // the same, and its user is to be told; see [Scratch.Warning]
	NoTable        // takes it; see [Scratch.Discriminator]
	Announced      // it says something of the stream, and not of a row; see [Scratch.Resume]
)

// A LostValue is one that is not kept: of a column of a row, or of a field of a message, by its name.
type LostValue struct {
	Table, Name string
	Why         Loss
}

// A Loss is why a value is not kept.
type Loss int

// Why a value is not kept.
const (
	KeyChanged Loss = iota // a message changed the key of a row, and has neither the column's value nor the former one
	NameTaken              // of a field that no path reads, for a column of its name has another source
)

// An UnmatchedError ends a run: no table takes a message, and the mapping demands that one does.
type UnmatchedError struct{ Detail string }

func (e *UnmatchedError) Error() string { return e.Detail }

// A Scratch is the memory in which lines are mapped. What it returns is good until the next line.
type Scratch struct {
	// Source is the name of the source of the lines, which the mapping may ask for.
	Source string
	// Now returns a table with the columns that the messages so far have brought. If it is nil, or ok is false, the
	// table is as [Plan.Fit] made it.
	Now func(table int) (_ schema.Table, ok bool)
	// Lost are the values of the last line that are not kept.
	Lost []LostValue
	// Names are, by the names in the database, those in the stream of tables that earlier runs have added, where
	// several of these are one there.
	Names map[string]string

	plan   *Plan
	frames []frame // by tree; 0 is that of the message
	line   *feed.Line
	place  fold.Place
	table  int    // whose row is at hand, -1 for none
	took   []bool // by table: it has had a row
	stream streamScratch

	rows      []Row
	named     []Row        // by the rows at hand, in other tables
	namedKeys []feed.Field // their keys
	fields    []feed.Field
	keys      [][]feed.Field // by table: the key of its row at hand
	bytes     []byte         // of values that no line has
	sets      []byte         // the same of sets, which are made while others are
	rest      restNames
	met       func(table int) // of an [Explainer]: called at each row

	known               feed.Field // of meta
	text, digits, zeros []byte
}

// NewScratch returns the memory to map lines in.
func (p *Plan) NewScratch() *Scratch {
	s := &Scratch{plan: p, keys: make([][]feed.Field, len(p.tables)), took: make([]bool, len(p.tables))}
	s.stream.claims = make([]*target, len(p.tables))
	for _, t := range p.trees {
		s.frames = append(s.frames, newFrame(t))
	}
	for i := range p.tables {
		s.keys[i] = make([]feed.Field, len(p.tables[i].key))
	}
	return s
}

func (s *Scratch) get(at place) *feed.Field { return s.frames[at.tree].get(at.node) }

// Discriminator is the value by which messages that no table takes are told apart, of the last
// line: its path, and the beginning of its text; "" where it is absent or the mapping has no conditions.
func (s *Scratch) Discriminator() (path, value string) {
	if e := s.plan.envelope; e != nil && len(e.table) > 0 {
		return "table", clip(s.stream.name)
	}
	if s.plan.by.tree < 0 {
		return "", ""
	}
	if v := s.get(s.plan.by); v != nil {
		value = clip(s.textOf(v))
	}
	return s.plan.trees[0].path(s.plan.by.node), value
}

// Table is the table that rejected the last line; -1 where it was no table.
func (s *Scratch) Table() int { return s.table }

// Mismatches returns how many values were no object, or no array, where a path steps into one, by
// their paths; nil where all were. What is below such a value is absent.
func (s *Scratch) Mismatches() (all map[string]int64) {
	for i := range s.frames {
		for at, n := range s.frames[i].mismatches {
			if n == 0 {
				continue
			}
			if all == nil {
				all = map[string]int64{}
			}
			all[s.plan.title(place{int32(i), int32(at)})] += n
		}
	}
	return all
}

// title is the path of a place for people: items[].price of an element.
func (p *Plan) title(at place) string {
	path := p.trees[at.tree].path(at.node)
	for i := range p.tables {
		if t := &p.tables[i]; t.each != nil && t.element == at.tree {
			if at.node == 0 {
				return p.title(*t.each) + "[]"
			}
			return p.title(*t.each) + "[]." + path
		}
	}
	return path
}

// Map returns what a line says, which must have been scanned without an error: a change for each
// row that it is about, those of parents first, and behind them one for each row that these name
// ([fold.Ensure]). An error of type [*feed.Error] rejects the line; any other one ends the run.
func (p *Plan) Map(l *feed.Line, at fold.Place, s *Scratch) ([]Row, Fate, error) {
	if p.envelope != nil {
		if l.Null || l.Deletes && !p.tombstones {
			s.line, s.table, s.stream.resume, s.Lost = l, -1, nil, s.Lost[:0]
			return nil, Ignored, nil
		}
		s.beginChange(l, at)
	} else {
		s.begin(l, at)
		s.fill(0, l, p.slots)
	}
	if p.ignore != nil && !l.Deletes && s.holds(p.ignore) {
		return nil, Ignored, nil
	}
	if p.envelope != nil && !l.Deletes {
		if p.envelope.warns != nil && s.holds(p.envelope.warns) {
			return nil, Warned, nil
		}
		if announces, err := s.announce(); announces {
			return nil, Announced, err
		}
	}
	var taken bool
	var err error
	if p.envelope != nil {
		taken, err = s.changes()
	} else {
		taken, err = s.tables(p.tops, p.loose)
	}
	switch {
	case err != nil:
		return nil, Taken, err
	case taken:
		s.rows = append(s.rows, s.named...)
		return s.rows, Taken, nil
	}
	return nil, NoTable, p.unmatchedError(s)
}

// tables adds the changes that the row at hand makes in tables: in those with a row per message,
// and those whose elements belong to no row. taken tells that one of them takes it.
func (s *Scratch) tables(tops, loose []int) (taken bool, err error) {
	for _, i := range tops {
		if !s.holds(s.plan.tables[i].when) {
			continue
		}
		taken = true
		if s.plan.envelope != nil {
			if err := s.claim(i); err != nil {
				return taken, err
			}
		}
		if err := s.row(i, nil); err != nil {
			return taken, err
		}
	}
	for _, i := range loose {
		some, err := s.elements(i, nil)
		if err != nil {
			return taken, err
		}
		if taken = taken || some; some && s.plan.envelope != nil {
			if err := s.claim(i); err != nil {
				return taken, err
			}
		}
	}
	return taken, nil
}

// unmatchedError is what the mapping makes of a line that no table takes, nil where it passes over it.
func (p *Plan) unmatchedError(s *Scratch) error {
	s.table = -1
	switch p.unmatched {
	case RejectUnmatched:
		return feed.Errorf(feed.Unmatched, "%s (unmatched: reject)", s.unmatched())
	case FailUnmatched:
		return &UnmatchedError{s.unmatched() + " (unmatched: fail)"}
	}
	return nil
}

// unmatched says that no table takes the line.
func (s *Scratch) unmatched() string {
	text := "no table takes this message"
	if path, value := s.Discriminator(); path != "" {
		text += fmt.Sprintf(", in which %s is %q", path, value)
	}
	return text
}

func (s *Scratch) begin(l *feed.Line, at fold.Place) {
	s.line, s.place, s.table = l, at, -1
	clear(s.rows)
	clear(s.named)
	s.named, s.namedKeys, s.rows, s.fields, s.bytes, s.sets = s.named[:0], s.namedKeys[:0], s.rows[:0], s.fields[:0], s.bytes[:0], s.sets[:0]
	s.Lost = s.Lost[:0]
}

// fill has a frame hold the fields of a line, whose places in its tree slots has.
func (s *Scratch) fill(tree int32, l *feed.Line, slots []int32) {
	f := &s.frames[tree]
	f.begin(bytes.TrimSpace(l.Text), feed.JSON)
	f.cells[0].opened = f.value
	for i := range l.Fields {
		if n := l.Fields[i].Name; uint(n) < uint(len(slots)) && slots[n] > 0 {
			f.set(slots[n], l.Fields[i].Value, l.Fields[i].Kind)
		}
	}
}

// row adds the change of a table's row that the message, or the element at hand, is about, and
// those of its elements. above is the key of the row that it belongs to.
func (s *Scratch) row(table int, above []feed.Field) *feed.Error {
	t := &s.plan.tables[table]
	s.table, s.stream.typing = table, s.typing(table)
	keyChanged := false
	if s.stream.former != nil && t.each == nil {
		var err *feed.Error
		if keyChanged, err = s.keyChanges(table); err != nil {
			return err
		}
		if keyChanged {
			defer s.beginRow(s.stream.row, s.frames[s.plan.envelope.row].index)
		}
	}
	object, none, err := s.object(t)
	if err != nil || none {
		return err
	}
	s.took[table] = true
	if s.met != nil {
		s.met(table)
	}
	c := fold.Change{Text: s.line.Text}
	if s.stream.typing != nil {
		c.Declared = s.stream.typing.declared
	}
	if s.line.Deletes || s.stream.deletes || t.deletes != nil && s.holds(t.deletes) {
		c.Op = fold.Delete
	} else if s.stream.whole && t.each == nil {
		c.Op = fold.Replace
	}
	if t.version != nil {
		if v := s.get(*t.version); v != nil {
			c.Version = *v
		}
	}
	if t.plain() {
		c.Fields, c.Unnumbered = s.line.Fields, s.line.Unnumbered
		s.rows = append(s.rows, Row{Table: table, Change: c})
		return nil
	}
	key := s.keys[table]
	copy(key, above)
	clear(key[len(above):])
	for i := range above {
		key[i].Name = t.key[i].name
	}
	from := len(s.fields)
	if err := s.values(t, object, key, c.Op == fold.Delete); err != nil {
		return err
	}
	c.Fields, c.Unnumbered = s.fields[from:len(s.fields):len(s.fields)], s.rest.unnumbered
	if keyChanged {
		s.deleteFormer(table, &c)
		if c.Op != fold.Delete {
			s.leftOut(table, &c)
		}
	}
	s.rows = append(s.rows, Row{Table: table, Change: c})
	if c.Op == fold.Delete {
		return nil
	}
	for _, i := range t.children {
		if !s.plan.tables[i].set {
			if _, err := s.elements(i, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// values adds the fields of a row, of which the key has those of the row above. A delete needs
// no others than its key.
func (s *Scratch) values(t *planned, object *feed.Field, key []feed.Field, deletes bool) *feed.Error {
	s.rest.unnumbered = nil
	for i := 0; i < len(key) && t.key[i].above; i++ {
		s.fields = append(s.fields, key[i])
	}
	for i := range t.columns {
		col := &t.columns[i]
		if deletes && col.key < 0 {
			continue
		}
		f, ok, err := s.value(t, col)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if col.refers != nil && !deletes {
			s.refer(col, f)
		}
		if col.key >= 0 {
			key[col.key] = f
		}
		s.fields = append(s.fields, f)
	}
	if object != nil && (t.everything || t.named() && !deletes) {
		if err := s.others(t, object, key); err != nil {
			return err
		}
	}
	if err := t.checkKey(key); err != nil || deletes {
		return err
	}
	if err := s.checkHidden(t, key); err != nil {
		return err
	}
	for _, i := range t.children {
		if s.plan.tables[i].set {
			if err := s.setCell(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain tells that the messages are the rows, and nothing is added or left out.
func (t *planned) plain() bool {
	return t.everything && t.inLine && len(t.children) == 0
}

// object is the object that is the row. none tells that there is no row.
func (s *Scratch) object(t *planned) (_ *feed.Field, none bool, err *feed.Error) {
	v := s.get(t.row)
	switch {
	case t.inLine:
		return v, false, nil
	case t.hasAt && (v == nil || v.Kind == feed.Null):
		if t.spec.DeletesNeedAt && t.deletes != nil && s.holds(t.deletes) {
			is := "absent"
			if v != nil {
				is = "null"
			}
			return nil, false, feed.Errorf(feed.BadKey, "table %q: %s is %s in a message that deletes its row, so the key is unknown; --envelope knows where change streams have it, and a config file can name another place, as in %[4]s: [%[2]s.%[4]s, before.%[4]s]",
				t.spec.Name, t.spec.At, is, t.spec.Key[0])
		}
		return nil, true, nil
	case v.Kind == feed.JSON && v.Value[0] == '{':
		return v, false, nil
	case t.hasAt:
		return nil, false, feed.Errorf(feed.BadValue, "table %q: %s is no object but %s", t.spec.Name, t.spec.At, brief(v))
	}
	return nil, false, nil // an element that is a scalar
}

// brief is a value for people.
func brief(v *feed.Field) string { return clip(v.Value) }

// clip is a text for people, or its beginning.
func clip(text []byte) string {
	const most = 100
	if len(text) <= most {
		return string(text)
	}
	n := most - 3
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n]) + "..."
}

// value is what a column gets. ok is false where nothing of what it comes from is present.
func (s *Scratch) value(t *planned, c *column) (f feed.Field, ok bool, err *feed.Error) {
	for i := range c.sources {
		src := &c.sources[i]
		if src.when != nil && !s.holds(src.when) {
			continue
		}
		var v *feed.Field
		switch src.kind {
		case aConstant:
			f = src.value
			f.Name = c.name
			return f, true, nil
		case aMeta:
			s.known = s.meta(src.spec.Meta, t)
			v = &s.known
		default:
			if v = s.get(src.at); v == nil {
				continue
			}
		}
		as := &src.cast
		if s.stream.typing != nil && s.stream.typing.sources[src] != nil {
			as = s.stream.typing.sources[src]
		}
		if as.asItIs&(1<<v.Kind) != 0 { // as read would find
			f.Name, f.Kind, f.Value = c.name, v.Kind, v.Value
			return f, true, nil
		}
		why := ""
		if f, why = s.read(v, as); why != "" {
			return f, false, feed.Errorf(feed.BadValue, "table %q, column %q: %s is %s: %s", t.spec.Name, c.spec.Name, src.title(), brief(v), why)
		}
		f.Name = c.name
		return f, true, nil
	}
	return f, false, nil
}

// refer adds the change of the row that a value names.
func (s *Scratch) refer(c *column, v feed.Field) {
	if v.Kind == feed.Null {
		return
	}
	v.Name = s.plan.tables[c.refers.table].key[0].name
	n := len(s.namedKeys)
	s.namedKeys = append(s.namedKeys, v)
	s.named = append(s.named, Row{Table: c.refers.table, Change: fold.Change{Op: fold.Ensure, Text: s.line.Text, Fields: s.namedKeys[n : n+1 : n+1]}})
}

// title is what a source is called in the mapping.
func (s *source) title() string {
	if s.kind == aMeta {
		return "its " + string(s.spec.Meta)
	}
	return s.spec.From.String()
}

// meta is what is known of the message or element at hand beside its value.
func (s *Scratch) meta(m Meta, t *planned) feed.Field {
	from, k := len(s.bytes), feed.Int
	switch m {
	case IndexMeta:
		s.bytes = strconv.AppendInt(s.bytes, int64(s.frames[t.element].index), 10)
	case KeyMeta:
		name := s.frames[t.element].key
		if name == nil {
			return feed.Field{Value: []byte("null"), Kind: feed.Null}
		}
		s.bytes, k = append(append(append(s.bytes, '"'), name...), '"'), feed.String
	case LineMeta:
		s.bytes = strconv.AppendInt(s.bytes, s.place.Line, 10)
	case OffsetMeta:
		s.bytes = strconv.AppendInt(s.bytes, s.place.Offset, 10)
	default:
		s.bytes, k = append(s.bytes, quoted(s.Source)...), feed.String
	}
	return s.made(from, k)
}

// checkKey reports what is wrong with the key of a row.
func (t *planned) checkKey(key []feed.Field) *feed.Error {
	for part := range key {
		f, k := &key[part], &t.key[part]
		switch {
		case k.above:
		case f.Value == nil:
			return feed.Errorf(feed.BadKey, "table %q: the key column %q has no value in this message", t.spec.Name, k.title)
		case f.Kind == feed.Null || f.Kind == feed.JSON:
			return feed.Errorf(feed.BadKey, "table %q: the key column %q is %s", t.spec.Name, k.title, f.Kind)
		case string(f.Value) == `""`:
			return feed.Errorf(feed.BadKey, "table %q: the key column %q is empty", t.spec.Name, k.title)
		}
	}
	return nil
}
