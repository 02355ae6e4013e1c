package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// This file is about CDC messages: it finds the tables for the rows of a stream's table.

// mapStreamMessage builds the rows of a CDC message, and returns what happens to it.
func (m *Mapper) mapStreamMessage(msg *message) (Fate, error) {
	p := m.plan
	if msg.line.Null || msg.line.Deletes && !p.stream.tombstones {
		return Ignored, nil
	}
	var err error
	if msg.Message, err = m.decode.Decode(msg.line); err != nil {
		return Announced, err
	}
	switch msg.Kind {
	case envelope.Ignored:
		return Ignored, nil
	case envelope.Warned:
		return Warned, nil
	case envelope.Resumes:
		return Announced, nil
	case envelope.Describes:
		return Announced, m.describe(msg)
	case envelope.Tombstone:
		msg.change.Op, msg.row = envelope.Delete, m.decode.TombstoneRow(msg.line)
		_, err := m.buildRows(msg, nil, p.tops[:1], nil)
		return Mapped, err
	}
	of := m.route.of(msg.Table)
	if of.isNew() && (p.stream.star == nil || !m.read.Holds(p.stream.star.when)) {
		return NoTable, nil
	}
	if msg.Types == nil && p.stream.DescribesTables() {
		msg.Types = m.route.declared[string(msg.Table)].types
	}
	change, rejected := m.decode.Change()
	msg.change = change
	switch {
	case rejected != nil:
		return Mapped, rejected
	case of.isNew(): // only a valid message with a row tells the key
		return Mapped, m.newTable(msg)
	}
	if err := m.checkKeys(msg, of); err != nil {
		return Mapped, err
	}
	if change.Op == envelope.Truncate {
		matched, err := m.truncate(msg, of)
		return fateOf(matched), err
	}
	matched, err := m.eachRow(msg, of)
	return fateOf(matched), err
}

// checkKeys checks the key that a message names against the tables that take its rows. If the key has changed, the
// run ends: distinct rows could become one.
func (m *Mapper) checkKeys(msg *message, of *route) error {
	for _, t := range of.tops {
		if t.streamKey == nil || !m.read.Holds(t.when) {
			continue
		}
		if !m.decode.HasKey(&msg.Message, t.streamKey) {
			if err := t.checkStreamKey(m.decode.Key(&msg.Message)); err != nil {
				return err
			}
		}
		if len(t.streamKey) == 0 && m.decode.NeedsKey(&msg.change) {
			return t.refuse(feed.Errorf(feed.BadKey, "table %q has no key in the stream, so an update or delete does not say which row it means: give the table of the source a primary key, or name a key under tables in a config file", t.spec.Name))
		}
	}
	return nil
}

// checkStreamKey returns an error if the stream names another key than the table's, unless the mapping sets that.
func (t *TablePlan) checkStreamKey(key []string) error {
	if t.streamKey == nil || len(key) == 0 || slices.Equal(slices.Sorted(slices.Values(key)), slices.Sorted(slices.Values(t.streamKey))) {
		return nil
	}
	return &KeyChangedError{t.spec.Name, t.spec.Key, key}
}

// A KeyChangedError ends a run: a message names another key than its table's, which came from the stream or the
// database.
type KeyChangedError struct {
	Table    string
	Key, Now []string // empty: no key
}

func (e *KeyChangedError) Error() string {
	return fmt.Sprintf("table %q: its key is %s, and from this message on the key in the stream is %s: name the key with --key or in a config file, or give the table in the database that primary key and run weir again", e.Table, keyText(e.Key), keyText(e.Now))
}

// eachRow maps each row of a message. A message without rows counts as matched.
func (m *Mapper) eachRow(msg *message, of *route) (matched bool, err error) {
	rows, rejected := m.decode.Rows(&msg.change, m.plan.maxEach)
	if rejected != nil {
		return true, rejected
	}
	for n := 0; ; n++ {
		row, ok, rejected := rows.Next()
		if rejected != nil {
			return true, rejected
		}
		if !ok {
			return matched || n == 0, nil
		}
		msg.row = row
		some, err := m.buildRows(msg, of, of.tops, of.loose)
		if matched = matched || some; err != nil {
			return matched, err
		}
	}
}

// truncate adds the changes of a message that empties a table of the stream.
func (m *Mapper) truncate(msg *message, of *route) (matched bool, err error) {
	for _, t := range slices.Concat(of.tops, of.loose) {
		if !t.nest.isElement() && !m.read.Holds(t.when) {
			continue
		}
		matched = true
		if err := m.claim(t, of); err != nil {
			return matched, err
		}
		if (len(t.from) > 1 || t.from[0].any) && !m.plan.stream.oneTable {
			return matched, t.refuse(feed.Errorf(feed.BadValue, "table %q: it may have rows of several tables of the stream, and %q alone was truncated: which of them to remove is not known", t.spec.Name, feed.Clip(msg.Table)))
		}
		if t.spec.isHistory() { // the message has no row to insert
			continue
		}
		if t.Options.Version != "" {
			return matched, t.refuse(feed.Errorf(feed.BadVersion, "table %q: truncate cannot be ordered by version: leave the version out", t.spec.Name))
		}
		m.rows.addTruncate(msg, t)
	}
	return matched, nil
}

// addTruncate adds changes that empty a table and its child tables.
func (b *rowBuilder) addTruncate(msg *message, t *TablePlan) {
	b.changes = append(b.changes, Row{Table: t.index, Change: fold.Change{Op: fold.Truncate, Text: msg.line.Text}})
	for _, child := range t.nest.children {
		b.addTruncate(msg, child)
	}
}

// AppliesTombstones reports whether a key without a row and without a table name deletes the row. If a table takes
// only some messages, the row may be one that it never had.
func (m *Mapping) AppliesTombstones() bool {
	takes := false
	for i := range m.Tables {
		switch t := &m.Tables[i]; {
		case t.Of != "":
		case takes || t.isHistory() || t.IsStar() || t.Each.Base != paths.NoBase || t.When != nil || t.Version.Base != paths.NoBase:
			return false
		default:
			takes = true
		}
	}
	return takes
}

// A pattern matches names of tables in the stream.
type pattern struct {
	*regexp.Regexp
	bare bool // it matches the last part of a name, in only one schema
	any  bool // it may match several names
}

// patterns returns the patterns for a table's names in the stream; nil if there is no stream.
func (c *compiler) patterns(t *Table) (all []pattern) {
	if c.stream == nil {
		return nil
	}
	from := t.From
	if from == nil {
		from = []string{t.Name}
	}
	for _, name := range from {
		any := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(name))
		all = append(all, pattern{regexp.MustCompile("(?s)^" + any + "$"), !strings.Contains(name, ".") && name != "*", strings.ContainsAny(name, "*?")})
	}
	return all
}

// matchesStreamName reports whether a table takes the rows of a table in the stream. bare: only the last part of the
// name matches.
func (t *TablePlan) matchesStreamName(name string) (takes, bare bool) {
	last := name[strings.LastIndex(name, ".")+1:]
	for _, p := range t.from {
		if p.MatchString(name) {
			return true, false
		}
		if p.bare && p.MatchString(last) {
			takes, bare = true, true
		}
	}
	return takes, bare
}

// A route is the list of tables that take the rows of a table in the stream.
type route struct {
	name        string
	tops, loose []*TablePlan
	only        map[int]string // by table: prefix that all names of the table's rows must have
}

// isNew reports whether no table takes the rows.
func (r *route) isNew() bool { return len(r.tops)+len(r.loose) == 0 }

// A router finds routes.
type router struct {
	plan     *Plan
	routes   map[string]*route
	declared map[string]declared // by name
}

// maxRoutes and maxRouteName limit the cache of routes: the number of names, and the bytes of a name.
const maxRoutes, maxRouteName = 10_000, 1000

// of returns the route of a name.
func (r *router) of(name []byte) *route {
	if x, known := r.routes[string(name)]; known {
		return x
	}
	x := r.plan.route(string(name))
	if r.routes == nil {
		r.routes = map[string]*route{}
	}
	if len(r.routes) < maxRoutes && len(name) <= maxRouteName {
		r.routes[x.name] = x
	}
	return x
}

// route finds the tables that take the rows of a name.
func (p *Plan) route(name string) *route {
	x := &route{name: name, only: map[int]string{}}
	some := func(tables []*TablePlan) (some []*TablePlan) {
		for _, t := range tables {
			takes, bare := true, false
			if p.stream.NamesTables() {
				takes, bare = t.matchesStreamName(name)
			}
			if takes {
				some = append(some, t)
			}
			if p.stream.oneTable {
				x.only[t.index] = name
			} else if bare {
				x.only[t.index] = name[:strings.LastIndex(name, ".")+1]
			}
		}
		return some
	}
	x.tops, x.loose = some(p.tops), some(p.loose)
	return x
}

// claim returns an error if a table that may hold rows of only one schema, or one stream table, gets rows of a second.
func (m *Mapper) claim(t *TablePlan, x *route) error {
	only, one := x.only[t.index]
	if !one {
		return nil
	}
	claimed := &m.rows.tables[t.index].claimed
	was := *claimed
	switch {
	case was == x:
	case was == nil:
		*claimed = x
	case was.only[t.index] != only && m.plan.stream.oneTable:
		return fmt.Errorf("the stream has rows of two tables, %q and %q: choose one with --when, or name both in a config file", was.name, x.name)
	case was.only[t.index] != only:
		return fmt.Errorf("table %q: rows of both %q and %q match: choose one with from, such as from: %[2]s", t.spec.Name, was.name, x.name)
	}
	return nil
}
