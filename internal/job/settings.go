package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
)

// settings decide how lines are folded. Checkpoints keep them.
type settings struct {
	Flags map[string]string `json:"flags"`          // by name
	Keys  map[string]string `json:"keys,omitempty"` // of a mapping, for all tables
	// Tables are in the job's order, which is also the order of the identities in a checkpoint. nil if Flags describe
	// the only table.
	Tables []tableSettings `json:"tables,omitempty"`
	// Names map the names in the database of tables that messages added to the names in the stream, if several of those
	// are one name in the database. They are no settings, and may grow.
	Names map[string]string `json:"names,omitempty"`
	// Keyless are the tables without a key that messages added. They are no settings, either.
	Keyless map[string]bool `json:"keyless,omitempty"`
}

type tableSettings struct {
	Name string            `json:"name"`
	Keys map[string]string `json:"keys"`
}

// keyless names a table without a key. "": all have one, or it is not known.
func (s *settings) keyless() string {
	if s.Flags["key"] == noKey {
		return "the table"
	}
	for _, t := range s.Tables {
		if t.Keys["key"] == noKey {
			return fmt.Sprintf("table %q", t.Name)
		}
	}
	for name := range s.Keyless {
		return fmt.Sprintf("table %q", name)
	}
	return ""
}

func parseSettings(text string) (s settings, err error) {
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("reading the settings of the checkpoint: %w", err)
	}
	return s, nil
}

// keptSettings are the settings that the next checkpoints keep. The reader owns them during an attempt.
type keptSettings struct {
	settings        // including Names and Keyless, which may grow
	text     string // the same, as JSON
}

// keepSettings returns settings for the next checkpoints. names and keyless are what the run knows of tables that
// messages add; the result shares the maps and adds to them.
func keepSettings(s settings, names map[string]string, keyless map[string]bool) (*keptSettings, error) {
	s.Names, s.Keyless = names, keyless
	k := &keptSettings{settings: s}
	return k, k.write()
}

func (k *keptSettings) write() error {
	text, err := json.Marshal(&k.settings)
	k.text = string(text)
	return err
}

// refresh replaces the settings once the keys of tables are known.
func (k *keptSettings) refresh(s settings) error {
	s.Names, s.Keyless = k.Names, k.Keyless
	k.settings = s
	return k.write()
}

// rename records the name of a table in the stream.
func (k *keptSettings) rename(table, of string) error {
	k.Names[table] = of
	return k.write()
}

// addKeyless records that a table has no key.
func (k *keptSettings) addKeyless(table string) error {
	k.Keyless[table] = true
	return k.write()
}

// learn adds the names and keyless tables in the checkpoint that a source continues from.
func (k *keptSettings) learn(s *start) error {
	if s.from == (position{}) || len(s.was.Names)+len(s.was.Keyless) == 0 {
		return nil
	}
	maps.Copy(k.Keyless, s.was.Keyless)
	for name, of := range s.was.Names {
		if _, known := k.Names[name]; !known {
			k.Names[name] = of
		}
	}
	return k.write()
}

// table returns the settings of a table.
func (s *settings) table(name string) (tableSettings, bool) {
	i := slices.IndexFunc(s.Tables, func(t tableSettings) bool { return t.Name == name })
	if i < 0 {
		return tableSettings{}, false
	}
	return s.Tables[i], true
}

// settingsOf returns the settings of a run. tables are the configured tables as the database names them.
func settingsOf(c *Config, tables []Table) (s settings) {
	s.Flags, s.Keys = map[string]string{"max-line": strconv.Itoa(c.Source.MaxLine)}, c.Mapping.Fingerprint
	maps.Copy(s.Flags, c.Kind.Settings)
	if c.Mapping.Star != nil {
		tables = append(slices.Clone(tables), *c.Mapping.Star)
	}
	if len(tables) == 1 && c.Mapping.Fingerprint == nil { // flags describe the table
		maps.Copy(s.Flags, rulesOf(&tables[0]))
		for key, text := range tables[0].Mapping {
			if slices.Contains(narrowingKeys, key) {
				s.Flags[strings.ReplaceAll(key, "_", "-")] = text
			}
		}
		if c.Mapping.Star != nil {
			s.Flags["table"] = c.Mapping.Star.Name
		}
		return s
	}
	for i := range tables {
		t := tableSettings{tables[i].Name, map[string]string{}}
		for flag, value := range rulesOf(&tables[i]) {
			t.Keys[strings.ReplaceAll(flag, "-", "_")] = value
		}
		maps.Copy(t.Keys, tables[i].Mapping)
		s.Tables = append(s.Tables, t)
	}
	return s
}

// narrowingKeys are the mapping settings that flags can make.
var narrowingKeys = []string{"envelope", "when", "row", "columns", "delete_when"}

// rulesOf returns the fold's options for a table, by flag name.
func rulesOf(t *Table) map[string]string {
	f, deletes, scope := &t.Fold, "", ""
	if f.DeleteField != "" {
		deletes = f.DeleteField + "=" + f.DeleteValue
	}
	if f.Version != "" {
		scope = string(f.Scope)
	}
	key := strings.Join(slices.Sorted(slices.Values(t.StoredKey())), ",")
	if len(t.StoredKey()) == 0 {
		key = noKey
	}
	if t.KeyOpen {
		key = ""
	}
	functions := make([]string, 0, len(f.Merge))
	for _, column := range slices.Sorted(maps.Keys(f.Merge)) {
		functions = append(functions, column+"="+f.Merge[column].String())
	}
	return map[string]string{"merge": strings.Join(functions, ","), "key": key, "null": string(cmp.Or(f.Null, fold.ClearNull)),
		"delete-when": deletes, "fill-only": strconv.FormatBool(f.FillOnly), "version-field": f.Version, "version-scope": scope,
		"unknown-fields": string(f.UnknownFields), "max-columns": strconv.Itoa(f.MaxColumns), "bad-values": string(cmp.Or(f.BadValues, fold.RejectBad))}
}

// noKey stands for a missing key in settings. The parentheses tell it from a column named none.
const noKey = "(none)"

// rebuildOnly are the settings that can change only with an empty table, because rows or values of the old setting
// would remain.
var rebuildOnly = []string{"key", "fill-only", "fill_only", "merge", "row", "ignore", "envelope", "from", "when", "each", "of", "set", "parent", "id", "columns", "type", "on_delete"}

// untilKeyed are the settings of a table that are empty in a checkpoint while its key is open.
var untilKeyed = []string{"key", "version-field", "version_field", "version-scope", "version_scope"}

// changes describes the settings that differ from a checkpoint's. rebuild is true if one of them is in rebuildOnly.
// fresh are the tables that are new.
func changes(was, now *settings) (words []string, rebuild bool, fresh []string) {
	compare := func(prefix string, old, new map[string]string) {
		isOpen := old["key"] == "" || new["key"] == ""
		all := map[string]string{}
		maps.Copy(all, old)
		maps.Copy(all, new)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if old[name] == new[name] || isOpen && slices.Contains(untilKeyed, name) {
				continue
			}
			rebuild = rebuild || slices.Contains(rebuildOnly, name)
			was, is := readable(old[name]), readable(new[name])
			if was == is || strings.HasPrefix(old[name]+new[name], mapping.HashPrefix) {
				words = append(words, prefix+name+" has changed")
			} else {
				words = append(words, fmt.Sprintf("%s%s was %s and is %s", prefix, name, orNone(was), orNone(is)))
			}
		}
	}
	compare("--", was.Flags, now.Flags)
	compare("", was.Keys, now.Keys)
	for _, t := range was.Tables {
		if of, ok := now.table(t.Name); ok {
			compare("tables."+t.Name+".", t.Keys, of.Keys)
		} else {
			words = append(words, fmt.Sprintf("table %q is no longer one of the job", t.Name))
		}
	}
	for _, t := range now.Tables {
		if _, ok := was.table(t.Name); !ok {
			words = append(words, fmt.Sprintf("table %q is new", t.Name))
			fresh = append(fresh, t.Name)
		}
	}
	return words, rebuild, fresh
}

// readable returns a setting's value for the user, without what its name already says.
func readable(value string) string {
	name, _, _ := strings.Cut(value, " "+mapping.HashPrefix)
	return name
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return strconv.Quote(value)
}
