package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/mapping"
)

// settings decide how lines are folded. Checkpoints keep them.
type settings struct {
	Flags map[string]string `json:"flags"`          // by name
	Keys  map[string]string `json:"keys,omitempty"` // of the mapping, for all tables
	// Tables are in the job's order, which is also the order of the identities in a checkpoint.
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

func (t *tableSettings) isNamed(other tableSettings) bool { return t.Name == other.Name }

// keyless names a table without a key. "": all have one, or it is not known.
func (s *settings) keyless() string {
	for _, t := range s.Tables {
		if t.Keys["key"] == mapping.NoKey {
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

// text returns the settings as checkpoints keep them.
func (s *settings) text() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

// learn adds the names and keyless tables in the checkpoint that a source continues from.
func (s *settings) learn(from *start) {
	if from.from == (position{}) {
		return
	}
	maps.Copy(s.Keyless, from.was.Keyless)
	for name, of := range from.was.Names {
		if _, known := s.Names[name]; !known {
			s.Names[name] = of
		}
	}
}

// settingsOf returns the settings of a run. tables are the configured tables as the database names them.
func settingsOf(c *Config, tables []*mapping.TablePlan) (s settings) {
	s.Flags, s.Keys = map[string]string{"max-line": strconv.Itoa(c.Source.MaxLine)}, c.Plan.Mapping().Fingerprint()
	maps.Copy(s.Flags, c.Kind.Settings)
	if star := c.Plan.Star(); star != nil {
		tables = append(slices.Clip(tables), star)
	}
	for _, t := range tables {
		s.Tables = append(s.Tables, tableSettings{t.Name, t.Fingerprint()})
	}
	return s
}

// changes describes the settings that differ from a checkpoint's. rebuild is true if one of them is [mapping.RebuildOnly].
// fresh are the tables that are new. byFlags means that flags set the settings of now.
func changes(was, now *settings, byFlags bool) (words []string, rebuild bool, fresh []string) {
	compare := func(prefix string, old, new map[string]string) {
		called := func(name string) string {
			if byFlags {
				return "--" + strings.ReplaceAll(name, "_", "-")
			}
			return prefix + name
		}
		all := map[string]string{}
		maps.Copy(all, old)
		maps.Copy(all, new)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if hashed(old[name]) == hashed(new[name]) {
				continue
			}
			rebuild = rebuild || mapping.RebuildOnly(name)
			was, is := readable(old[name]), readable(new[name])
			if was == is || strings.HasPrefix(old[name]+new[name], mapping.HashPrefix) {
				words = append(words, called(name)+" has changed")
			} else {
				words = append(words, fmt.Sprintf("%s was %s and is %s", called(name), orNone(name, was), orNone(name, is)))
			}
		}
	}
	compare("--", was.Flags, now.Flags)
	compare("", was.Keys, now.Keys)
	old := was.Tables
	if len(old) == 1 && len(now.Tables) == 1 && (old[0].Name == mapping.Star) == (now.Tables[0].Name == mapping.Star) {
		old = []tableSettings{{now.Tables[0].Name, old[0].Keys}} // the only table may have several names
	}
	for _, t := range old {
		if i := slices.IndexFunc(now.Tables, t.isNamed); i >= 0 {
			compare("tables."+t.Name+".", t.Keys, now.Tables[i].Keys)
		} else {
			words = append(words, fmt.Sprintf("table %q is no longer one of the job", t.Name))
		}
	}
	for _, t := range now.Tables {
		if !slices.ContainsFunc(old, t.isNamed) {
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

// hashed returns a setting's value without what is there for the user only.
func hashed(value string) string {
	if at := strings.Index(value, mapping.HashPrefix); at >= 0 {
		return value[at:]
	}
	return value
}

func orNone(name, value string) string {
	if value = cmp.Or(value, mapping.ZeroText(name)); value == "" {
		return "not set"
	}
	return strconv.Quote(value)
}
