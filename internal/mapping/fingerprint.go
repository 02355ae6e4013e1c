package mapping

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// HashPrefix is the prefix of fingerprints that are hashes of longer texts.
const HashPrefix = "sha256:"

// fingerprint returns a short text that changes if a part of a mapping does; "" if the part is empty.
func fingerprint(of any) string {
	text, _ := json.Marshal(of) // plain structs cannot fail
	switch string(text) {
	case "null", "[]", "{}":
		return ""
	}
	sum := sha256.Sum256(text)
	return HashPrefix + hex.EncodeToString(sum[:6])
}

// Fingerprint returns, by key of the config file, short texts for the settings that select messages for all tables.
func (m *Mapping) Fingerprint() map[string]string {
	f := map[string]string{"ignore": fingerprint(m.Ignore), "envelope": fingerprint(m.Envelope)}
	if m.Envelope != nil {
		f["envelope"] = strings.TrimSpace(m.Envelope.Preset + " " + f["envelope"])
	}
	if m.Unmatched != IgnoreUnmatched {
		f["unmatched"] = string(m.Unmatched)
	}
	if m.MaxEach != DefaultMaxEach && m.MaxEach != 0 {
		f["max_each"] = strconv.Itoa(m.MaxEach)
	}
	return present(f)
}

// Fingerprint returns, by key of the config file, short texts for the settings that make rows of the table. It does
// not include the SQL that runs when the table is created. key are the key's columns in the database; nil while
// messages may name the key, on which other settings depend.
func (t *Table) Fingerprint(key []string) map[string]string {
	columns := slices.SortedFunc(slices.Values(t.Columns), func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	columns = slices.DeleteFunc(columns, func(c Column) bool { // a key has its columns, whether they are listed or not
		return slices.Contains(t.Key, c.Name) && fingerprint(c.From) == fingerprint([]Source{{From: paths.FieldPath(c.Name)}})
	})
	var functions []string
	for _, column := range slices.Sorted(maps.Keys(t.Merge)) {
		functions = append(functions, column+"="+t.Merge[column].String())
	}
	f := map[string]string{"from": fingerprint(t.From), "when": fingerprint(t.When), "row": t.Row.String(), "each": t.Each.String(), "of": t.Of, "set": string(t.Set),
		"parent": fingerprint(t.Parent), "id": t.ID, "columns": fingerprint(columns), "delete_when": strings.TrimSpace(t.DeleteWhen.String() + " " + fingerprint(t.DeleteWhen)), "on_delete": t.OnDelete.String(),
		"version_field": t.Version.Title(), "version_scope": string(t.Scope), "null": string(cmp.Or(t.Null, fold.ClearNull)), "bad_values": string(cmp.Or(t.BadValues, fold.RejectBad)),
		"fill_only": strconv.FormatBool(t.FillOnly), "merge": strings.Join(functions, ","), "unknown_fields": string(t.UnknownFields), "max_columns": strconv.Itoa(t.MaxColumns)}
	switch {
	case len(key) > 0:
		f["key"] = strings.Join(slices.Sorted(slices.Values(key)), ",")
	case key != nil:
		f["key"] = NoKey
	}
	if t.Type.Kind != cast.Auto && t.Type.Kind != cast.DefaultType {
		f["type"] = t.Type.String()
	}
	return present(f)
}

// NoKey stands for a missing key in fingerprints. The parentheses tell it from a column named none.
const NoKey = "(none)"

// present leaves out the keys that a file does not have.
func present(f map[string]string) map[string]string {
	maps.DeleteFunc(f, func(_, text string) bool { return text == "" })
	return f
}
