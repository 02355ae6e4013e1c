package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/paths"
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
	if m.Unmatched != IgnoreUnmatched {
		f["unmatched"] = string(m.Unmatched)
	}
	if m.MaxEach != DefaultMaxEach && m.MaxEach != 0 {
		f["max_each"] = strconv.Itoa(m.MaxEach)
	}
	return present(f)
}

// EnvelopeFingerprint returns a short text that changes if the envelope's content does, regardless of its name.
func (m *Mapping) EnvelopeFingerprint() string { return fingerprint(m.Envelope) }

// Fingerprint returns, by key of the config file, short texts for the settings that make rows of the table. It does
// not include the options of the fold, and the SQL that runs when the table is created.
func (t *Table) Fingerprint() map[string]string {
	columns := slices.SortedFunc(slices.Values(t.Columns), func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	columns = slices.DeleteFunc(columns, func(c Column) bool { // a key has its columns, whether they are listed or not
		return slices.Contains(t.Key, c.Name) && fingerprint(c.From) == fingerprint([]Source{{From: paths.FieldPath(c.Name)}})
	})
	f := map[string]string{"from": fingerprint(t.From), "when": fingerprint(t.When), "row": t.Row.String(), "each": t.Each.String(), "of": t.Of, "set": string(t.Set),
		"parent": fingerprint(t.Parent), "id": t.ID, "columns": fingerprint(columns), "delete_when": fingerprint(t.DeleteWhen), "on_delete": t.OnDelete.String(),
		"version_field": t.Version.String()}
	if t.Type.Kind != cast.Auto && t.Type.Kind != cast.DefaultType {
		f["type"] = t.Type.String()
	}
	return present(f)
}

// present leaves out the keys that a file does not have.
func present(f map[string]string) map[string]string {
	maps.DeleteFunc(f, func(_, text string) bool { return text == "" })
	return f
}
