package envelope

import (
	"bytes"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// Compiled is an envelope whose paths have been added to trees. Most of its fields are the place of a path of the
// envelope, or one of its conditions.
type Compiled struct {
	spec      *Envelope
	trees     *paths.Trees
	outer     int32 // the tree of wrapped lines; 0 if lines are not unwrapped
	rowTree   int32 // the tree of rows
	recordKey int32 // number of the name [RecordKey]
	ignore    paths.Condition

	inner, connect                      paths.Place // in the outer tree
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

// Compile adds an envelope's paths to trees, whose first tree is for messages, and a tree for their rows. find adds a
// path that starts at the message. ignore matches more messages to ignore. versioned reports whether versions are
// needed.
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

// RowTree returns the tree of paths that start at a row.
func (c *Compiled) RowTree() int32 { return c.rowTree }

// NamesTables reports whether messages name their table.
func (c *Compiled) NamesTables() bool { return len(c.table) > 0 }

// DescribesTables reports whether the stream describes tables before it has rows of them.
func (c *Compiled) DescribesTables() bool { return !c.schema.IsNowhere() }

// Removes reports whether messages may remove rows.
func (c *Compiled) Removes() bool { return c.spec.Removes() }

// Ignore returns the condition for messages to ignore.
func (c *Compiled) Ignore() paths.Condition { return c.ignore }

// omitted are the names, and prefixes of names, of fields that are not columns.
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

// Omits reports whether a field is not a column.
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

// absent are raw JSON values that mean that the field is absent.
type absent struct {
	values [][]byte
	hints  [][]byte // each row that may not be copied unchanged contains one of these
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

// mayBeIn reports whether a row may not be copied unchanged.
func (a *absent) mayBeIn(row []byte) bool {
	for _, h := range a.hints {
		if bytes.Contains(row, h) {
			return true
		}
	}
	return false
}
