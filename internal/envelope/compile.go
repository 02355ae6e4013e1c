package envelope

import (
	"bytes"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/paths"
)

// Compiled is an envelope whose paths are in trees, ready to take lines. Most of its fields are one of the envelope each:
// where its path leads, or its condition.
type Compiled struct {
	spec      *Envelope
	trees     *paths.Trees
	outer     int32 // the tree of lines that are unwrapped; 0: none is
	rowTree   int32 // the tree of rows
	recordKey int32 // the number of the name [RecordKey]
	ignore    paths.Condition

	inner, connect                      paths.Place // in lines
	each, old, key, unset, partial      paths.Place
	schema, schemaKey, resume           paths.Place
	table, rows                         []paths.Place
	deletes, truncates, writes, inserts paths.Condition
	warns, fails, replaces              paths.Condition
	parts                               []versionPart
	versioned                           bool // some table needs the version
	omitted                             omitted
	absent                              absent
}

// Compile adds the paths of an envelope to trees, of which the first is that of messages, and a tree of their rows. find adds
// a path that begins at the message. ignore are messages that are ignored besides those of the envelope. versioned tells
// that the version is needed.
func Compile(spec *Envelope, trees *paths.Trees, names *feed.Names, ignore paths.When, versioned bool, find func(p paths.Path) paths.Place) *Compiled {
	c := &Compiled{spec: spec, trees: trees, inner: paths.Nowhere, connect: paths.Nowhere, versioned: versioned, recordKey: names.Number(RecordKey)}
	if spec.Unwrap.Base != paths.NoBase {
		c.outer = trees.Grow()
		c.inner = trees.Add(paths.Place{Tree: c.outer}, spec.Unwrap.Steps)
		if spec.ConnectSchema.Base != paths.NoBase {
			c.connect = trees.Add(paths.Place{Tree: c.outer}, spec.ConnectSchema.Steps)
		}
		trees.Number(c.outer, names)
	}
	c.rowTree = trees.Grow()
	at := func(p paths.Path) paths.Place {
		if p.Base == paths.NoBase {
			return paths.Nowhere
		}
		return find(p)
	}
	all := func(of []paths.Path) (places []paths.Place) {
		for _, p := range of {
			places = append(places, at(p))
		}
		return places
	}
	when := func(w paths.When) paths.Condition {
		return w.Compile(func(t *paths.Test) paths.Place { return at(t.Path) })
	}
	c.table, c.rows = all(spec.Table), all(spec.Row)
	c.each, c.old, c.key, c.unset, c.partial = at(spec.Each), at(spec.Old), at(spec.Key), at(spec.Unset), at(spec.Partial)
	c.schema, c.schemaKey, c.resume = at(spec.Schema), at(spec.SchemaKey), at(spec.Resume)
	c.ignore = append(when(spec.Ignore), when(ignore)...)
	c.deletes, c.truncates, c.writes, c.inserts = when(spec.DeleteWhen), when(spec.TruncateWhen), when(spec.WriteWhen), when(spec.InsertWhen)
	c.replaces, c.warns, c.fails = when(spec.ReplaceWhen), when(spec.WarnWhen), when(spec.FailWhen)
	for i := range spec.Version {
		c.parts = append(c.parts, versionPart{at(spec.Version[i].From), &spec.Version[i]})
	}
	omit := spec.Omit
	if slices.ContainsFunc(spec.Row, func(p paths.Path) bool { return len(p.Steps) == 0 }) { // the row may be the line
		omit = append(slices.Clone(omit), RecordKey)
	}
	c.omitted, c.absent = newOmitted(omit), newAbsent(spec.Absent, spec.ExtendedJSON)
	return c
}

// RowTree is the tree of the paths that begin at a row.
func (c *Compiled) RowTree() int32 { return c.rowTree }

// NamesTables reports whether messages name their table.
func (c *Compiled) NamesTables() bool { return len(c.table) > 0 }

// DescribesTables reports whether the stream describes tables before it has rows of them.
func (c *Compiled) DescribesTables() bool { return !c.schema.IsNowhere() }

// Removes reports whether messages may remove rows.
func (c *Compiled) Removes() bool { return c.spec.Removes() }

// Ignore is the condition of messages that are ignored.
func (c *Compiled) Ignore() paths.Condition { return c.ignore }

// omitted are names of fields that are no columns, and what such names begin with.
type omitted struct{ names, prefixes [][]byte }

func newOmitted(patterns []string) (o omitted) {
	for _, name := range patterns {
		if prefix, any := strings.CutSuffix(name, "*"); any {
			o.prefixes = append(o.prefixes, []byte(prefix))
		} else {
			o.names = append(o.names, []byte(name))
		}
	}
	return o
}

// Omits reports whether a field is no column.
func (c *Compiled) Omits(name []byte) bool {
	for _, n := range c.omitted.names {
		if string(n) == string(name) {
			return true
		}
	}
	for _, p := range c.omitted.prefixes {
		if bytes.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// absent are values, as raw JSON, that mean that there is none.
type absent struct {
	values [][]byte
	hints  [][]byte // one of them is in each row that may not be copied as it is
}

func newAbsent(texts []string, extendedJSON bool) (a absent) {
	for _, text := range texts {
		a.values = append(a.values, feed.AppendString(nil, text), []byte(text))
	}
	for i, v := range a.values {
		if !slices.ContainsFunc(a.values, func(b []byte) bool { return len(b) < len(v) && bytes.Contains(v, b) }) && !slices.ContainsFunc(a.values[:i], func(b []byte) bool { return bytes.Equal(v, b) }) {
			a.hints = append(a.hints, v)
		}
	}
	if extendedJSON {
		a.hints = append(a.hints, []byte(`"$`))
	}
	return a
}

func (a *absent) has(raw []byte) bool {
	for _, v := range a.values {
		if string(raw) == string(v) {
			return true
		}
	}
	return false
}

// mayBeIn reports whether some value in a row may not be copied as it is.
func (a *absent) mayBeIn(row []byte) bool {
	for _, h := range a.hints {
		if bytes.Contains(row, h) {
			return true
		}
	}
	return false
}
