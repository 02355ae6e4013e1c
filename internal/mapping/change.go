package mapping

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A streamScratch is what a [Scratch] has of the message of a change stream at hand.
type streamScratch struct {
	name        []byte // of the table
	target      *target
	targets     map[string]*target  // by name
	claims      []*target           // by table: the first of which it took a row, where it takes rows of no others
	declared    map[string]Declared // by name
	deletes     bool                // the message removes its rows
	whole       bool                // what its rows lack is NULL
	inserts     bool                // nothing else has what its rows lack
	row         []byte              // the row at hand
	former      []byte              // the same with the values that it had before; nil: they are not known
	key, newKey []feed.Field        // of former, of row
	version     []uint64
	resume      []byte                // of the message; nil: it has none
	schemas     map[string]*rowSchema // by its text
	schemaBytes int                   // of these texts
	schema      *rowSchema            // of the message; nil: it has none
	typing      *typing               // of the row at hand; nil: nothing is known of its types
}

// At most this many names of tables, of at most this many bytes each, have their targets cached.
const maxTargets, maxTargetName = 10_000, 1000

// at is the value at a place that a path of the envelope leads to; nil where there is none.
func (s *Scratch) at(p place) *feed.Field {
	if p.tree < 0 {
		return nil
	}
	return s.get(p)
}

// isRow reports whether there is a value that is an object, or an array that may have its fields.
func isRow(v *feed.Field) bool { return v != nil && v.Kind == feed.JSON }

// TakesTombstones reports whether what has only the key of a row, and no table of the stream, removes the
// row. Where a table chooses among the messages, the row may be one of those that it leaves out.
func (m *Mapping) TakesTombstones() bool {
	takes := false
	for i := range m.Tables {
		switch t := &m.Tables[i]; {
		case t.Of != "":
		case takes || t.IsStar() || t.Each.Base != NoBase || t.When != nil || t.Version.Base != NoBase:
			return false
		default:
			takes = true
		}
	}
	return takes
}

// beginChange makes the message in a line the one at hand.
func (s *Scratch) beginChange(l *feed.Line, at fold.Place) {
	s.begin(l, at)
	e, st := s.plan.envelope, &s.stream
	st.name, st.deletes, st.former, st.schema, st.resume, st.whole = st.name[:0], l.Deletes, nil, nil, nil, false
	st.inserts = false
	if e.outer > 0 {
		s.fill(e.outer, l, e.slots)
		if v := s.get(e.unwrap); v != nil && v.Kind == feed.JSON && v.Value[0] == '{' && (e.connect.tree < 0 || e.wraps(l) || s.hasSchema()) {
			s.frames[0].begin(v.Value, feed.JSON)
			s.readSchema()
			return
		}
	}
	s.fill(0, l, s.plan.slots)
}

// changes adds the changes that the message makes. taken tells that a table takes it.
func (s *Scratch) changes() (taken bool, err error) {
	p, st := s.plan, &s.stream
	e := p.envelope
	if st.deletes { // a tombstone
		st.target = p.target("")
		s.beginRow(bytes.TrimSpace(s.line.Text), 0)
		if err := s.row(p.tops[0], nil); err != nil {
			return true, err
		}
		return true, nil
	}
	s.findTarget()
	x := st.target
	adds := len(x.tops)+len(x.loose) == 0
	if adds && (p.star == nil || !s.holds(p.star.when)) {
		return false, nil
	}
	if e.truncates != nil && s.holds(e.truncates) {
		if adds {
			return true, s.newTable(true)
		}
		return s.truncate(x)
	}
	if err := s.readVersion(); err != nil {
		return true, err
	}
	st.deletes = e.deletes != nil && s.holds(e.deletes)
	st.whole = e.replaces != nil && !st.deletes && s.holds(e.replaces)
	st.inserts = e.inserts != nil && !st.deletes && s.holds(e.inserts)
	if v := s.at(e.partial); !st.whole && !st.deletes && isRow(v) && hasElements(v.Value) {
		return true, feed.Errorf(feed.BadValue, "the message changes parts of values (%s), and weir sets whole columns: have the messages contain the whole row", e.spec.Partial)
	}
	if !st.deletes && e.writes != nil && !s.holds(e.writes) {
		return true, s.unknown()
	}
	if adds { // no message that is rejected, or has no row, says which key it has
		return true, s.newTable(false)
	}
	if e.each.tree >= 0 {
		return s.eachChange(x)
	}
	var row *feed.Field
	for _, at := range e.rows {
		if v := s.at(at); row == nil || row.Kind == feed.Null {
			row = v
		}
	}
	return s.change(x, row, s.at(e.old), 0)
}

// unknown rejects a message of which it is not known what it does to its row.
func (s *Scratch) unknown() *feed.Error {
	of, is := s.tested(s.plan.envelope.writes)
	where := "write_when"
	if name := s.plan.envelope.spec.Preset; name != "" {
		where += " of the envelope " + name
	}
	return feed.Errorf(feed.BadValue, "what the message does to its row is not known: %s is %s (%s)", of, is, where)
}

// findTarget finds what takes the rows of the message, by the name of its table.
func (s *Scratch) findTarget() {
	st := &s.stream
	for _, part := range s.plan.envelope.table {
		v := s.at(part)
		if v == nil || v.Kind == feed.Null {
			continue
		}
		if len(st.name) > 0 {
			st.name = append(st.name, '.')
		}
		st.name = append(st.name, s.textOf(v)...)
	}
	if x, known := st.targets[string(st.name)]; known {
		st.target = x
		return
	}
	st.target = s.plan.target(string(st.name))
	if st.targets == nil {
		st.targets = map[string]*target{}
	}
	if len(st.targets) < maxTargets && len(st.name) <= maxTargetName {
		st.targets[st.target.name] = st.target
	}
}

// claim demands that a table which takes rows of one schema, or of one table of the stream, does so.
func (s *Scratch) claim(table int) error {
	x := s.stream.target
	only, one := x.only[table]
	was := s.stream.claims[table]
	switch {
	case !one || was == x:
	case was == nil:
		s.stream.claims[table] = x
	case was.only[table] != only && s.plan.envelope.spec.OneTable:
		return fmt.Errorf("the stream has rows of two tables, %q and %q: choose one with --when, or name both in a config file", was.name, x.name)
	case was.only[table] != only:
		return fmt.Errorf("table %q: the stream has rows of %q and of %q: from says which it takes, such as from: %[2]s", s.plan.tables[table].spec.Name, was.name, x.name)
	}
	return nil
}

// truncate adds the changes of a message that empties a table of the stream.
func (s *Scratch) truncate(x *target) (taken bool, err error) {
	for _, i := range x.tops {
		if !s.holds(s.plan.tables[i].when) {
			continue
		}
		taken = true
		if err := s.truncateTable(i); err != nil {
			return taken, err
		}
	}
	for _, i := range x.loose {
		taken = true
		if err := s.truncateTable(i); err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// truncateTable adds what empties a table, and those whose rows belong to its rows.
func (s *Scratch) truncateTable(table int) error {
	t := &s.plan.tables[table]
	if t.parent < 0 {
		if err := s.claim(table); err != nil {
			return err
		}
		s.table = table
		if t.severalNames() && !s.plan.envelope.spec.OneTable {
			return feed.Errorf(feed.BadValue, "table %q: it may have rows of several tables of the stream, and %q alone was truncated: which of them to remove is not known", t.spec.Name, clip(s.stream.name))
		}
		if t.options.Version != "" {
			return feed.Errorf(feed.BadVersion, "table %q: a truncation has no place among versions: without them it counts where it is in the stream", t.spec.Name)
		}
	}
	s.rows = append(s.rows, Row{Table: table, Change: fold.Change{Op: fold.Truncate, Text: s.line.Text}})
	for _, i := range t.children {
		if err := s.truncateTable(i); err != nil {
			return err
		}
	}
	return nil
}

// eachChange adds the changes of a message with several rows.
func (s *Scratch) eachChange(x *target) (taken bool, err error) {
	e := s.plan.envelope
	v, former := s.at(e.each), s.at(e.old)
	if !isRow(v) || v.Value[0] != '[' {
		return true, feed.Errorf(feed.BadValue, "%s is no array, which has the rows", e.spec.Each)
	}
	rows, olds := feed.Walk(v.Value), feed.Walker{}
	rows.Next()
	if isRow(former) && former.Value[0] == '[' {
		olds = feed.Walk(former.Value)
		olds.Next()
	}
	i := 0
	for ; rows.Next(); i++ {
		if i == s.plan.maxEach {
			return true, feed.Errorf(feed.BadValue, "%s has more than %d elements (max_each)", e.spec.Each, s.plan.maxEach)
		}
		row := feed.Field{Kind: rows.Kind}
		row.Value = rows.Raw()
		var old *feed.Field
		if olds.Next() {
			old = &feed.Field{Kind: olds.Kind}
			old.Value = olds.Raw()
		}
		some, err := s.change(x, &row, old, i)
		if taken = taken || some; err != nil {
			return taken, err
		}
	}
	return taken || i == 0, nil
}

// change adds the changes of one row of the message, which is number index among its rows.
func (s *Scratch) change(x *target, row, old *feed.Field, index int) (taken bool, err error) {
	e, st := s.plan.envelope, &s.stream
	key := s.at(e.key)
	if !isRow(key) || key.Value[0] == '[' {
		key = nil
	}
	if !isRow(old) {
		old = nil
	}
	if st.deletes && old != nil {
		row, old = old, nil
	}
	switch {
	case isRow(row):
	case row != nil && row.Kind != feed.Null:
		return true, feed.Errorf(feed.BadValue, "the row is no object but %s", brief(row))
	case key == nil:
		return true, feed.Errorf(feed.BadValue, "the message has no row (%s)", s.placesOfRow())
	default:
		row = nil
	}
	unset := s.at(e.unset)
	if st.whole {
		unset = nil
	}
	now, bad := s.compose(unset, key, row)
	if bad != nil {
		return true, bad
	}
	st.former = nil
	if old != nil && !st.deletes {
		if st.former, bad = s.compose(key, row, old); bad != nil {
			return true, bad
		}
	}
	st.row = now
	s.beginRow(now, index)
	return s.tables(x.tops, x.loose)
}

// placesOfRow are where a row may be, for people.
func (s *Scratch) placesOfRow() string {
	spec := s.plan.envelope.spec
	var paths []string
	for _, p := range spec.Row {
		paths = append(paths, p.String())
	}
	if s.stream.deletes && spec.Old.Base != NoBase {
		paths = append(paths, spec.Old.String())
	}
	return strings.Join(paths, ", ")
}

// hasElements reports whether an array, or object, is not empty.
func hasElements(value []byte) bool {
	w := feed.Walk(value)
	w.Next() // into it
	return w.Next()
}

// beginRow makes a row the one at hand.
func (s *Scratch) beginRow(row []byte, index int) {
	f := &s.frames[s.plan.envelope.row]
	f.begin(row, feed.JSON)
	f.index, f.key = index, nil
}

// compose returns the object with the fields of several parts, of which those behind count before
// those in front; nil parts have none. An array names fields that are null, or has fields as pairs.
func (s *Scratch) compose(parts ...*feed.Field) ([]byte, *feed.Error) {
	e := s.plan.envelope
	var only *feed.Field
	n := 0
	for _, p := range parts {
		if isRow(p) && string(p.Value) != "[]" {
			only = p
			n++
		}
	}
	if n == 1 && only.Value[0] == '{' && len(e.names)+len(e.prefixes) == 0 && e.spec.Unset.Base == NoBase && !e.mayBeAbsent(only.Value) {
		return only.Value, nil
	}
	from := len(s.bytes)
	s.bytes = append(s.bytes, '{')
	for _, p := range parts {
		if !isRow(p) {
			continue
		}
		if err := s.appendFields(p); err != nil {
			return nil, err
		}
	}
	s.bytes = append(s.bytes, '}')
	return s.bytes[from:len(s.bytes):len(s.bytes)], nil
}

// mayBeAbsent reports whether some value in a row may mean that there is none.
func (e *envelope) mayBeAbsent(row []byte) bool {
	for _, a := range e.hints {
		if bytes.Contains(row, a) {
			return true
		}
	}
	return false
}

// appendFields adds the fields of an object, or of an array.
func (s *Scratch) appendFields(v *feed.Field) *feed.Error {
	w := feed.Walk(v.Value)
	w.Next()
	array := w.Array()
	for w.Next() {
		if !array {
			name := w.Name
			if err := s.appendField(name, w.Raw()); err != nil {
				return err
			}
			continue
		}
		name, value, ok := pair(w.Kind, w.Raw())
		if !ok {
			return feed.Errorf(feed.BadValue, "an array of fields has objects with name and value, or names of fields that are NULL, and not %s", brief(&feed.Field{Value: w.Raw()}))
		}
		if value == nil {
			continue
		}
		if err := s.appendField(name, value); err != nil {
			return err
		}
	}
	return nil
}

// pair reads an element of an array of fields: an object with name and value, or the name of a field
// that is null.
func pair(k feed.Kind, raw []byte) (name, value []byte, ok bool) {
	if k == feed.String {
		return raw[1 : len(raw)-1], null, true
	}
	if k != feed.JSON || raw[0] != '{' {
		return nil, nil, false
	}
	w := feed.Walk(raw)
	for w.Next(); w.Next(); {
		switch member, v := string(w.Name), w.Raw(); {
		case member == "name" && w.Kind == feed.String:
			name = v[1 : len(v)-1]
		case member == "value":
			value = v
		}
	}
	return name, value, name != nil
}

// appendField adds a field to the object that is being made, unless it is none. raw is what stands
// between the quotes of its name.
func (s *Scratch) appendField(raw, value []byte) *feed.Error {
	e, name := s.plan.envelope, raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		name = feed.AppendUnquoted(nil, raw)
	}
	if e.omits(name) {
		return nil
	}
	if e.isAbsent(value) {
		if s.stream.inserts {
			return feed.Errorf(feed.BadValue, "the source left out the value of %q of a row whose key it changed, for the value did not change: have it set REPLICA IDENTITY FULL on the table", clip(name))
		}
		return nil
	}
	if e.spec.Unset.Base != NoBase && !s.stream.whole && bytes.IndexByte(name, '.') >= 0 && !s.plan.trees[e.row].has(0, name) {
		return feed.Errorf(feed.BadValue, "the field %q is part of a column's value, and weir sets whole columns: have the messages contain the whole row, or name a column for the field", name)
	}
	if s.bytes[len(s.bytes)-1] != '{' {
		s.bytes = append(s.bytes, ',')
	}
	s.bytes = append(append(append(s.bytes, '"'), raw...), '"', ':')
	if e.spec.ExtendedJSON {
		s.bytes = appendPlain(s.bytes, value)
	} else {
		s.bytes = append(s.bytes, value...)
	}
	return nil
}

// has reports whether a path leads from a node to a member of that name.
func (t *tree) has(from int32, name []byte) bool {
	for _, k := range t.nodes[from].kids {
		if step := &t.nodes[k].step; step.Index < 0 && step.Name == string(name) {
			return true
		}
	}
	return false
}

// keyChanges reports whether the row at hand had another key in a table before, which is st.key then. If so,
// what the message leaves out of the row comes from the former one.
func (s *Scratch) keyChanges(table int) (bool, *feed.Error) {
	st := &s.stream
	var bad *feed.Error
	if st.key, bad = s.readKey(table, st.former, st.key[:0]); bad != nil || len(st.key) == 0 {
		s.beginRow(st.row, s.frames[s.plan.envelope.row].index)
		return false, bad
	}
	if st.newKey, bad = s.readKey(table, st.row, st.newKey[:0]); bad != nil {
		return false, bad
	}
	same := true
	for i := range st.newKey {
		now := &st.newKey[i]
		same = same && string(s.textOf(&st.key[i])) == string(feed.Text(nil, now.Value, now.Kind))
	}
	if same {
		return false, nil
	}
	row, bad := s.complete()
	if bad == nil {
		s.beginRow(row, s.frames[s.plan.envelope.row].index)
	}
	return true, bad
}

// complete is the row of the message with the fields that only the former row has.
func (s *Scratch) complete() ([]byte, *feed.Error) {
	row, from := s.stream.row, len(s.bytes)
	s.bytes = append(s.bytes, bytes.TrimSpace(row[:len(row)-1])...)
	w := feed.Walk(s.stream.former)
	for w.Next(); w.Next(); {
		name, value := w.Name, w.Raw()
		if hasMember(row, name) {
			continue
		}
		if err := s.appendField(name, value); err != nil {
			return nil, err
		}
	}
	s.bytes = append(s.bytes, '}')
	return s.bytes[from:len(s.bytes):len(s.bytes)], nil
}

// hasMember reports whether an object has a member whose name is spelled like that.
func hasMember(object, name []byte) bool {
	w := feed.Walk(object)
	for w.Next(); w.Next(); w.Raw() {
		if bytes.Equal(w.Name, name) {
			return true
		}
	}
	return false
}

// readKey makes a row the one at hand, and appends the key that it has in a table, if it has a row there.
func (s *Scratch) readKey(table int, row []byte, to []feed.Field) ([]feed.Field, *feed.Error) {
	t := &s.plan.tables[table]
	s.beginRow(row, s.frames[s.plan.envelope.row].index)
	object, none, err := s.object(t)
	if err != nil || none {
		return to, err
	}
	key, from := s.keys[table], len(s.fields)
	clear(key)
	err = s.values(t, object, key, true)
	s.fields = s.fields[:from]
	for i, f := range key {
		f.Name = t.key[i].name
		to = append(to, f)
	}
	return to, err
}

// deleteFormer adds the change that removes the row of the former key, of a row whose change is c.
func (s *Scratch) deleteFormer(table int, c *fold.Change) {
	if s.met != nil {
		s.met(table)
	}
	from := len(s.fields)
	s.fields = append(s.fields, s.stream.key...)
	s.rows = append(s.rows, Row{Table: table, Change: fold.Change{Op: fold.Delete, Fields: s.fields[from:len(s.fields):len(s.fields)], Version: c.Version, Text: c.Text}})
}

// leftOut adds to Lost the columns of a table that the change of a row with a new key has no value for.
func (s *Scratch) leftOut(table int, c *fold.Change) {
	p, t := s.plan, s.now(table)
	has := make([]bool, len(t.Columns))
	for _, f := range c.Fields {
		name := ""
		if f.Name >= 0 {
			name = p.names.Name(f.Name)
		} else {
			name = string(c.Unnumbered[^f.Name])
		}
		if at := p.limits.Find(t, name, len(t.Columns)); at >= 0 {
			has[at] = true
		}
	}
	for i := range t.Columns {
		if col := &t.Columns[i]; !has[i] && !col.Key && !col.Generated && !col.Serial && !col.Hidden && col.Stamp == schema.NoStamp {
			s.Lost = append(s.Lost, LostValue{p.tables[table].spec.Name, col.Name, KeyChanged})
		}
	}
}

// readVersion has the message have the version that its parts make.
func (s *Scratch) readVersion() *feed.Error {
	e, st := s.plan.envelope, &s.stream
	if e.versionAt.tree < 0 {
		return nil
	}
	st.version = st.version[:0]
	for i := range e.version {
		part := &e.version[i]
		v := s.at(part.at)
		switch {
		case v != nil && v.Kind != feed.Null:
			var ok bool
			if st.version, ok = part.spec.As.append(st.version, v.Value, s.textOf(v)); !ok {
				return feed.Errorf(feed.BadVersion, "%s is no part of a version: %s", part.spec, brief(v))
			}
		case i == 0:
			return nil // the fold says that it is missing
		default:
			st.version = append(st.version, 0)
		}
	}
	from, k := len(s.bytes), feed.Int
	if len(st.version) == 1 {
		s.bytes = strconv.AppendUint(s.bytes, st.version[0], 10)
	} else { // texts have the order of the numbers, of which each has as many digits
		k = feed.String
		for i, n := range st.version {
			s.bytes = append(s.bytes, `"/`[min(i, 1)])
			s.bytes = fmt.Appendf(s.bytes, "%020d", n)
		}
		s.bytes = append(s.bytes, '"')
	}
	f := s.made(from, k)
	s.frames[0].set(e.versionAt.node, f.Value, f.Kind)
	return nil
}

// append adds the numbers of a part of a version.
func (c VersionCast) append(numbers []uint64, raw, text []byte) (_ []uint64, ok bool) {
	switch c {
	case LSNCast:
		high, low, two := strings.Cut(string(text), "/")
		h, err := strconv.ParseUint(high, 16, 32)
		l, err2 := strconv.ParseUint(low, 16, 32)
		return append(numbers, h<<32|l), two && err == nil && err2 == nil
	case BinlogCast:
		file, at, positioned := strings.Cut(string(text), ":")
		n, err := strconv.ParseUint(file[strings.LastIndex(file, ".")+1:], 10, 64)
		if numbers = append(numbers, n); !positioned {
			return numbers, err == nil
		}
		p, err2 := strconv.ParseUint(at, 10, 64)
		return append(numbers, p), err == nil && err2 == nil
	case MongoCast:
		var t, i uint64
		found := 0
		w := feed.Walk(raw)
		for w.Next() {
			into := map[string]*uint64{"t": &t, "i": &i}[string(w.Name)]
			if into == nil || w.Kind != feed.Int {
				continue
			}
			n, err := strconv.ParseUint(string(w.Raw()), 10, 32)
			if *into = n; err == nil {
				found++
			}
		}
		return append(numbers, t<<32|i), found == 2
	case RFC3339Cast:
		m, _, why := readRFC3339(text, false)
		n := uint64(m.seconds)
		for i := range 9 {
			n *= 10
			if i < len(m.fraction) {
				n += uint64(m.fraction[i] - '0')
			}
		}
		return append(numbers, n), why == "" && len(m.fraction) <= 9 && m.seconds >= 0 && m.seconds < math.MaxInt64/1_000_000_000
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	return append(numbers, n), err == nil
}
