package envelope

import (
	"bytes"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// Compiled is an envelope whose paths have been added to trees.
type Compiled struct {
	spec      Envelope // its paths and conditions have their places
	trees     *paths.Trees
	outer     int32 // the tree of wrapped lines; 0 if lines are not unwrapped
	rowTree   int32 // the tree of rows
	recordKey int32 // number of the name [RecordKey]
	versioned bool  // some table needs the version
	omitted   omitted
	absent    absent
}

// Compile adds an envelope's paths to trees, whose first tree is for messages, and a tree for their rows. ignore matches
// more messages to ignore. versioned reports whether versions are needed.
func Compile(spec *Envelope, trees *paths.Trees, names *feed.Names, ignore paths.When, versioned bool) *Compiled {
	c := &Compiled{spec: *spec, trees: trees, versioned: versioned, recordKey: names.Number(RecordKey)}
	e, tree := &c.spec, int32(0)
	place := func(all ...*paths.Path) {
		for _, p := range all {
			*p = p.Placed(trees.Add(paths.Place{Tree: tree}, p.Steps))
		}
	}
	if e.Unwrap.Base == paths.NoBase {
		e.ConnectSchema = paths.Path{}
	} else {
		c.outer = trees.Grow()
		tree = c.outer
		place(&e.Unwrap, &e.ConnectSchema)
		trees.Number(tree, names)
		tree = 0
	}
	c.rowTree = trees.Grow()
	place(&e.Each, &e.Old, &e.Key, &e.Unset, &e.Partial, &e.Schema, &e.SchemaKey, &e.Resume)
	e.Table, e.Row, e.Version = slices.Clone(e.Table), slices.Clone(e.Row), slices.Clone(e.Version)
	for i := range e.Table {
		place(&e.Table[i])
	}
	for i := range e.Row {
		place(&e.Row[i])
	}
	for i := range e.Version {
		place(&e.Version[i].From)
	}
	for _, w := range []*paths.When{&e.Ignore, &e.DeleteWhen, &e.TruncateWhen, &e.WriteWhen, &e.InsertWhen, &e.WarnWhen, &e.FailWhen, &e.ReplaceWhen} {
		*w = w.Placed(func(t *paths.Test) paths.Place { return trees.Add(paths.Place{}, t.Path.Steps) })
	}
	e.Ignore = append(e.Ignore, ignore...)
	omit := e.Omit
	if slices.ContainsFunc(e.Row, func(p paths.Path) bool { return len(p.Steps) == 0 }) { // the row may be the line
		omit = append(slices.Clone(omit), RecordKey)
	}
	c.omitted, c.absent = newOmitted(omit), newAbsent(e.Absent, e.ExtendedJSON)
	return c
}

// RowTree returns the tree of paths that start at a row.
func (c *Compiled) RowTree() int32 { return c.rowTree }

// NamesTables reports whether messages name their table.
func (c *Compiled) NamesTables() bool { return len(c.spec.Table) > 0 }

// DescribesTables reports whether the stream describes tables before it has rows of them.
func (c *Compiled) DescribesTables() bool { return c.spec.Schema.Base != paths.NoBase }

// Removes reports whether messages may remove rows.
func (c *Compiled) Removes() bool { return c.spec.Removes() }

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
