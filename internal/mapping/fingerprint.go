package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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

// fingerprints returns, by key of the config file, short texts for the fields of a struct; none for what has no text, such as empty lists.
func fingerprints(of any) map[string]string {
	all, v := map[string]string{}, reflect.ValueOf(of).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		key := f.Tag.Get("key")
		if key == "" {
			continue
		}
		value, text := v.FieldByIndex(f.Index), ""
		if value.IsZero() { // a new rule leaves old checkpoints as they are
			continue
		}
		switch x := value.Interface().(type) {
		case paths.Path:
			text = x.Title()
		case RowPath, cast.Type:
			text = fmt.Sprint(x)
		default:
			if text = fmt.Sprint(x); !value.Comparable() || value.Kind() == reflect.Pointer {
				text = fingerprint(x)
			}
		}
		if text != "" {
			all[key] = text
		}
	}
	return all
}

// fieldOf returns the field of a setting, by its key.
func fieldOf(key string) (f reflect.StructField) {
	for _, f := range slices.Concat(reflect.VisibleFields(reflect.TypeFor[Mapping]()), reflect.VisibleFields(reflect.TypeFor[Table]())) {
		if f.Tag.Get("key") == key {
			return f
		}
	}
	return f
}

// RebuildOnly reports whether a setting can change only with an empty table, because rows or values of the old setting
// would remain.
func RebuildOnly(key string) bool { return key == "merge" || fieldOf(key).Tag.Get("rebuild") != "" }

// ZeroText returns the value of a setting that has no fingerprint, if a user has written it: 0.
func ZeroText(key string) string {
	if f := fieldOf(key); f.Type != nil && f.Tag.Get("min") == "" && f.Type.Kind() == reflect.Int {
		return "0"
	}
	return ""
}

// Fingerprint returns, by key of the config file, short texts for the settings that select messages for all tables.
func (m *Mapping) Fingerprint() map[string]string {
	f := fingerprints(m)
	if m.Envelope != nil {
		f["envelope"] = strings.TrimSpace(m.Envelope.Preset + " " + f["envelope"])
	}
	maps.DeleteFunc(f, func(key, text string) bool {
		return key == "max_tables" || key == "unmatched" && text == string(IgnoreUnmatched) || key == "max_each" && m.MaxEach == DefaultMaxEach
	})
	return f
}

// Fingerprint returns, by key of the config file, short texts for the settings that make rows of the table. It does
// not include the SQL that runs when the table is created.
func (t *TablePlan) Fingerprint() map[string]string {
	spec := t.spec
	of := *spec
	of.OnCreate, of.Key = nil, nil
	of.Columns = slices.SortedFunc(slices.Values(spec.Columns), func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	of.Columns = slices.DeleteFunc(of.Columns, func(c Column) bool { // a key has its columns, whether they are listed or not
		return slices.Contains(spec.Key, c.Name) && fingerprint(c.From) == fingerprint([]Source{{From: paths.FieldPath(c.Name)}})
	})
	if spec.Type.Kind == cast.Auto {
		of.Type = cast.Type{}
	}
	f := fingerprints(&of)
	if spec.DeleteWhen != nil {
		f["delete_when"] = spec.DeleteWhen.String() + " " + f["delete_when"]
	}
	var functions []string
	for _, column := range slices.Sorted(maps.Keys(spec.Merge)) {
		functions = append(functions, column+"="+spec.Merge[column].String())
	}
	if functions != nil {
		f["merge"] = strings.Join(functions, ",")
	}
	if f["key"] = NoKey; len(t.key) > 0 {
		f["key"] = strings.Join(slices.Sorted(slices.Values(t.StoredKey())), ",")
	}
	return f
}

// NoKey stands for a missing key in fingerprints. The parentheses tell it from a column named none.
const NoKey = "(none)"
