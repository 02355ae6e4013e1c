package mapping

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

func (c *compiler) options(t *Table, out *TablePlan, s scope) {
	o := fold.Options{Rules: t.Rules, Limits: c.limits, Deletes: c.losesRows(out)}
	o.Key = make([]string, 0, len(out.key)) // nil would mean that the key is unknown
	for _, k := range out.key {
		o.Key = append(o.Key, k.title)
	}
	if t.Columns != nil && o.UnknownFields == "" {
		o.UnknownFields = fold.IgnoreUnknown
	}
	if out.nest.set { // rows of a set are whole and have the version of the message
		o.Null, o.FillOnly, o.Merge = fold.ClearNull, false, nil
	} else if of := c.versioned(out); of != nil {
		o.Version, o.Scope = c.versionTitle(of.Version), cmp.Or(of.Scope, fold.ColumnScope)
		switch {
		case of != t: // the version of the parent row's message or element
			parent := &out.nest.parent.row
			out.row.version, out.row.envelopeVersion = parent.version, parent.envelopeVersion
		case t.Version.Base == paths.VersionBase:
			out.row.envelopeVersion = true
		default:
			out.row.version = c.find(t.Version, s, false, t.Place("version_field"), c.where(t, "version_field"))
		}
		if o.Scope == fold.RowScope {
			o.Version = c.versionColumn(of, out)
		}
	}
	out.Options = o
	c.faults = append(c.faults, c.mergeFaults(out, &schema.Table{})...)
}

// A ruleError is wrong usage: a rule that the table in the database cannot have.
type ruleError struct{ error }

// ExitCode returns the exit code of wrong usage.
func (ruleError) ExitCode() int { return 2 }

// mergeFaults returns a fault for each merge function that a table cannot have.
func (p *Plan) mergeFaults(x *TablePlan, t *schema.Table) (faults []error) {
	for column, err := range fold.CheckMerge(t, x.Options) {
		f := &Fault{File: p.mapping.File, Pos: x.spec.Pos, Where: p.mapping.where(x.spec, ""), Text: err.Error(), Err: ruleError{err}}
		if i := slices.Index(x.spec.columnNames(), column); i >= 0 {
			f.Pos = x.spec.Columns[i].Pos
		}
		if f.File == "" {
			f.Setting = "merge"
		}
		faults = append(faults, f)
	}
	return faults
}

// losesRows reports whether messages may delete rows of a table, directly or with a parent.
func (c *compiler) losesRows(t *TablePlan) bool {
	for ; t.spec.DeleteWhen == nil; t = t.nest.parent {
		if t.nest.parent == nil {
			return c.removes() && !t.spec.isHistory()
		}
	}
	return true
}

// versionTitle returns where messages have their version, for errors.
func (c *compiler) versionTitle(p paths.Path) string {
	if p.Base != paths.VersionBase {
		return p.Title()
	}
	var parts []string
	for _, v := range c.mapping.Envelope.Version {
		parts = append(parts, v.String())
	}
	return strings.Join(parts, ", ")
}

// versioned returns the table that sets the version of a table's messages: the table itself or an ancestor; nil for
// none.
func (c *compiler) versioned(t *TablePlan) *Table {
	for ; t.spec.Version.Base == paths.NoBase; t = t.nest.parent {
		if t.nest.parent == nil {
			return nil
		}
	}
	return t.spec
}

// versionColumn returns the column that stores the version of a whole row.
func (c *compiler) versionColumn(of *Table, out *TablePlan) string {
	for i := range out.columns {
		x := &out.columns[i]
		if len(x.sources) != 1 || out.row.version.IsNowhere() || x.sources[0].From.Place() != out.row.version || x.sources[0].When != nil {
			continue
		}
		switch x.sources[0].cast.Kind {
		case cast.Auto, cast.DefaultType, cast.Text, cast.Integer, cast.Numeric:
			return x.spec.Name
		}
	}
	if steps := of.Version.Steps; out.spec == of && out.fields.all && !out.row.nested && of.Version.Base == paths.DefaultBase && len(steps) == 1 && steps[0].Index < 0 {
		return steps[0].Name
	}
	path := of.Version.String()
	if out.spec != of {
		path = fmt.Sprintf("the version of the row of %q", out.spec.Of)
	}
	c.fault(out.spec.Pos, c.where(out.spec, ""), "version_scope: row keeps the version in a column: add one that takes %s as it is, as an integer, numeric or text", path)
	return ""
}
