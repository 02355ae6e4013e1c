package mapping

import "github.com/weirsync/weir/internal/mapping/paths"

// A Conflict is two rules of a table that cannot be combined. The rules are keys of a config file; a rule that cannot be
// combined with the envelope is both.
type Conflict struct {
	Rule, Other string
	Why         string // names the rules by their keys
}

// Conflicts returns the rules of a table that cannot be combined with each other or with the envelope.
func (m *Mapping) Conflicts(t *Table) (all []Conflict) {
	add := func(both bool, rule, other, why string) {
		if both {
			all = append(all, Conflict{rule, other, why})
		}
	}
	versioned, keyless := t.Version.Base != paths.NoBase, t.Key != nil && len(t.Key) == 0
	add(t.FillOnly && t.DeleteWhen != nil, "fill_only", "delete_when", "fill_only never removes a row: leave delete_when out")
	add(t.FillOnly && versioned, "fill_only", "version_field", "fill_only needs no version: leave one of version_field and fill_only out")
	add(t.FillOnly && t.OnDelete.Mark != "", "fill_only", "on_delete", "fill_only never changes a value: leave one of on_delete and fill_only out")
	add(t.FillOnly && m.Envelope != nil && m.Envelope.Removes(), "fill_only", "fill_only", "fill_only never removes a row, and the envelope has messages that do: leave one out")
	add(t.OnDelete.Insert && !keyless, "on_delete", "key", "row is for a table in which each message is its own row: key: none")
	if !keyless {
		return all
	}
	const needsKey = " needs a key, and key: none makes each message its own row: leave one of them out"
	// In a table that has no key in the stream, only the deletes are rejected.
	add(t.OnDelete.Mark != "" && !t.KeyByDefault, "on_delete", "key", "no message can mark a row of a table without a key: on_delete: row inserts the deleted row")
	add(t.Of != "", "of", "key", "of"+needsKey)
	add(t.ID != "", "id", "key", "id"+needsKey)
	add(t.DeleteWhen != nil && !t.OnDelete.Insert, "delete_when", "key", "delete_when"+needsKey)
	add(versioned, "version_field", "key", "a version (version_field, or version: true)"+needsKey)
	add(t.FillOnly, "fill_only", "key", "fill_only"+needsKey)
	return all
}
