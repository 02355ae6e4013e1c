package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A File is the content of a config file, except for its settings.
type File struct {
	Mapping *mapping.Mapping // nil without tables
	Every   []mapping.PeriodicSQL
	Cases   []Case // tests
}

// An Entry is a top-level key and its value. The value keeps its text: only the setting parses numbers, dates or
// booleans.
type Entry struct {
	Name string
	At   paths.Pos // of the key
	Pos  paths.Pos // of the value
	When bool      // the value is a condition, which is part of the tables
	node *yaml.Node
}

// Texts returns the texts of the value. isList is true for a list.
func (e *Entry) Texts() (texts []string, isList bool, err error) {
	if v, ok := text(e.node); ok {
		return []string{v}, false, nil
	}
	if e.node.Kind != yaml.SequenceNode {
		return nil, false, errors.New("must be a value or a list of values")
	}
	texts = make([]string, len(e.node.Content))
	for i, item := range e.node.Content {
		item = resolved(item)
		var ok bool
		if texts[i], ok = text(item); !ok || isNull(item) {
			return nil, true, fmt.Errorf("item %d is not a value", i+1)
		}
	}
	return texts, true, nil
}

var (
	syntaxError  = regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]+): )?(.*)$`)
	unknownAlias = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxFault returns the line and text of an error from the YAML library. The library's parser counts lines from 0
// (its scanner from 1), omits line 0, and gives no line for an alias.
func syntaxFault(data []byte, err error) (line int, words string) {
	m := syntaxError.FindStringSubmatch(err.Error())
	line, _ = strconv.Atoi(m[1]) // digits, or nothing
	words = m[2]
	if strings.HasPrefix(words, "did not find expected") {
		line++
	}
	if alias := unknownAlias.FindStringSubmatch(words); alias != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+alias[1]))
		line = 1 + bytes.Count(before, []byte("\n"))
	}
	return max(line, 1), words
}

// entries returns the top-level keys, except null ones.
func (r *reader) entries(data []byte) (entries []Entry) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&doc)
	if err == io.EOF {
		return nil
	}
	if err == nil {
		if err = d.Decode(&more); err == nil {
			r.fault(pos(&more), "", "a second document begins; a config file has one")
			return nil
		}
	}
	if err != io.EOF {
		line, words := syntaxFault(data, err)
		r.fault(paths.Pos{Line: line, Column: 1}, "", "yaml: %s", words)
		return nil
	}
	top := doc.Content[0]
	if isNull(top) {
		return nil
	}
	if top.Kind != yaml.MappingNode {
		r.fault(pos(top), "", "must be settings, such as batch_rows: 1000")
		return nil
	}
	r.pairs(top, "", Key, func(at *yaml.Node, name string, value *yaml.Node) {
		if name == "bad_values" {
			value = asWord([]string{string(fold.NullBad)}, value)
		}
		if !isNull(value) {
			entries = append(entries, Entry{Name: name, At: pos(at), Pos: pos(value), node: value})
		}
	})
	return entries
}

// Read reads a file. settings and databases are the known names. fill receives the entries that are settings, and
// returns what the tables inherit.
func Read(path string, settings, databases []string, fill func([]Entry) mapping.Table) (File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("the config file: %w", err)
	}
	r := &reader{file: path, databases: databases}
	m := &mappingDraft{Mapping: mapping.Mapping{File: path, Unmatched: mapping.IgnoreUnmatched, MaxEach: mapping.DefaultMaxEach, MaxTables: mapping.DefaultMaxTables}}
	entries, fields, v := r.entries(data), fieldsOf(reflect.TypeFor[mappingDraft]()), reflect.ValueOf(m).Elem()
	given := map[string]*yaml.Node{}
	for _, e := range entries {
		given[e.Name] = e.node
	}
	var deleteWhen paths.When
	var set []Entry
	for _, e := range entries {
		isSetting := slices.Contains(settings, e.Name)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.Name })
		switch {
		case i >= 0 && (given["tables"] != nil || !isSetting):
			if fields[i].read(r, e.node, e.Name, v.FieldByIndex(fields[i].index)); given["tables"] == nil && e.Name != "every" {
				r.fault(e.At, "", "%s needs tables: it is about a mapping", e.Name)
			}
		case !isSetting: // a mistyped name may also mean a key of the mapping
			r.fault(e.At, "", "unknown key %q%s", e.Name, DidYouMean(e.Name, slices.Concat(names(fields), settings)))
		default:
			if e.When = e.Name == "delete_when" && given["tables"] != nil && e.node.Kind != yaml.ScalarNode; e.When {
				deleteWhen = r.when(e.node, e.Name)
			}
			set = append(set, e)
		}
	}
	rules := fill(set)
	if given["tables"] == nil {
		return File{Every: m.Every}, r.err()
	}
	if at := given["table"]; at != nil {
		r.fault(pos(at), "table", "is for a file without tables")
	}
	if m.defaults = rules; deleteWhen != nil {
		m.defaults.DeleteWhen = deleteWhen
	}
	return r.finish(m, given)
}

// finish adds the defaults of the tables and checks the mapping.
func (r *reader) finish(m *mappingDraft, given map[string]*yaml.Node) (File, error) {
	place := func(name string) (at paths.Pos) {
		if n := given[name]; n != nil {
			at = pos(n)
		}
		return at
	}
	version := &m.defaults.Version
	if version.Base == paths.DefaultBase {
		version.Base = paths.MessageBase
	}
	if m.UseVersion {
		if version.Base != paths.NoBase {
			r.fault(place("version"), "version", "version_field and the envelope's version cannot be combined: leave one out")
		}
		*version = r.version(m.Envelope, place("version"))
	}
	r.inherit(m)
	for _, t := range m.Drafts {
		if !t.child() && t.Each.Base == paths.DefaultBase && len(t.Each.Steps) == 0 { // the elements of an array are messages
			t.Each = paths.Path{}
			delete(t.given, "each")
		}
		m.Tables = append(m.Tables, t.Table)
	}
	r.check(m)
	if err := r.err(); err != nil {
		return File{}, err
	}
	return File{&m.Mapping, m.Every, m.Cases}, nil
}

// resolved returns the node that an alias stands for, or the node itself.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// text returns a scalar as written, without quotes. ok is false if it has another tag.
func text(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		return "", false
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!null", "!!merge":
		return n.Value, true
	}
	return "", false
}
