package mapping

import (
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// conflicts reports the rules of a table that cannot be combined with each other or with the envelope.
func (c *compiler) conflicts(t *Table) {
	report := func(wrong bool, rule, other, why string) {
		if wrong {
			c.conflict(t, rule, other, why)
		}
	}
	versioned, keyless := t.Version.Base != paths.NoBase, t.Key != nil && len(t.Key) == 0
	report(t.Of == "" && t.Scope == fold.RowScope && !versioned, "version_scope", "version_scope", "row needs a version: name the field with version_field")
	report(t.FillOnly && t.DeleteWhen != nil, "fill_only", "delete_when", "fill_only never removes a row: leave delete_when out")
	report(t.FillOnly && versioned, "fill_only", "version_field", "fill_only needs no version: leave one of version_field and fill_only out")
	report(t.FillOnly && c.removes(), "fill_only", "fill_only", "fill_only never removes a row, and the envelope has messages that do: leave one out")
	if !keyless {
		return
	}
	const needsKey = " needs a key, and key: none makes each message its own row: leave one of them out"
	report(t.Of != "", "of", "key", "of"+needsKey)
	report(t.ID != "", "id", "key", "id"+needsKey)
	report(t.DeleteWhen != nil, "delete_when", "key", "delete_when"+needsKey)
	report(versioned, "version_field", "key", "a version (version_field, or version: true)"+needsKey)
	report(t.FillOnly, "fill_only", "key", "fill_only"+needsKey)
}

// conflict reports two rules at the first that the file gives the table, or else as a fault of the settings.
func (c *compiler) conflict(t *Table, rule, other, why string) {
	f := &Fault{File: c.mapping.File, Pos: t.Pos, Where: c.where(t, ""), Text: why, Setting: rule}
	for _, key := range []string{other, rule} {
		if t.Has(key) {
			f.Pos, f.Where, f.Setting = t.Place(key), c.where(t, key), ""
		}
	}
	c.faults = append(c.faults, f)
}

// removes reports whether messages of the envelope may remove rows.
func (c *compiler) removes() bool { return c.mapping.Envelope != nil && c.mapping.Envelope.Removes() }

// childRules reports rules that do not suit rows that come from the row of a parent.
func (c *compiler) childRules(out *TablePlan) {
	if t := out.spec; t.Of != "" && t.Set != MergeSet {
		c.setRules(t)
	} else if t.Of != "" {
		c.inheritedVersion(out)
	}
}

// setRules reports rules without effect in a table whose rows are a set, which each message replaces.
func (c *compiler) setRules(t *Table) {
	if parent := c.mapping.Table(t.Of); parent != nil && parent.FillOnly {
		c.keyFault(parent, "fill_only", "the rows of %s are a set that each message replaces: leave fill_only out, or give %[1]s set: merge", t.Name)
	}
	const noEffect = "the array replaces all rows, so %s has no effect: with set: merge, elements are updates"
	for _, col := range t.Columns {
		if t.Merge[col.Name] != merge.Last {
			c.fault(col.Pos, c.where(t, "columns."+col.Name), noEffect, "merge")
		}
	}
	for _, key := range []string{"delete_when", "null", "fill_only", "version_field", "version_scope"} {
		if t.Has(key) {
			c.keyFault(t, key, noEffect, key)
		}
	}
}

// inheritedVersion reports rules that do not suit rows of a child that have versions of their own. A delete of the parent
// deletes them too, so it cannot come late.
func (c *compiler) inheritedVersion(out *TablePlan) {
	t := out.spec
	own := t.Version.Base != paths.NoBase
	if c.versioned(out) != nil && c.losesRows(out.nest.parent) {
		c.keyFault(t, "set", "the rows have versions, and weir cannot tell what a late delete of a row of %s leaves of them: leave set: merge, the version or the deletes out", t.Of)
	}
	if t.Has("version_scope") && !own {
		c.keyFault(t, "version_scope", "the version and its scope come from %s: leave version_scope out", t.Of)
	}
	for above := out.nest.parent; above != nil; above = above.nest.parent {
		parent := above.spec
		if t.FillOnly && !own && parent.Version.Base != paths.NoBase {
			c.keyFault(t, "fill_only", "fill_only needs no version, and the rows use the version of %s: leave one of version_field and fill_only out", parent.Name)
			return
		}
	}
}
