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

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

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

// document returns the top of a file; nil if it is empty, or cannot be read.
func (r *reader) document(data []byte) *yaml.Node {
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
	return top
}

// An entry is a top-level key and its value.
type entry struct {
	name      string
	at, value *yaml.Node
}

// readFile reads the config file: settings that nothing else has set, and the mapping.
func (s *Spec) readFile() error {
	data, err := os.ReadFile(s.File)
	if err != nil {
		return fmt.Errorf("the config file: %w", err)
	}
	r := &reader{file: s.File, databases: s.env.databases()}
	top := r.document(data)
	if top == nil {
		return errors.Join(r.faults...)
	}
	m := &mappingDraft{given: map[string]*yaml.Node{}, Mapping: mapping.Mapping{File: s.File}}
	var entries []entry
	r.pairs(top, "", func(at *yaml.Node, name string, value *yaml.Node) {
		if one := s.key(name); one != nil {
			value = asWord(one.words, value)
		}
		if !isNull(value) {
			m.given[name] = value
			entries = append(entries, entry{name, at, value})
		}
	})
	fields, settings := fieldsOf(reflect.TypeFor[mappingDraft]()), make([]string, len(s.settings))
	for i, one := range s.settings {
		settings[i] = one.name
	}
	for _, e := range entries {
		one, i := s.key(e.name), slices.IndexFunc(fields, func(f field) bool { return f.name == e.name })
		switch {
		case i >= 0 && (m.given["tables"] != nil || one == nil):
			m.entries = append(m.entries, e)
			if fields[i].read(r, e.value, e.name, reflect.ValueOf(m).Elem().FieldByIndex(fields[i].index)); m.given["tables"] == nil && e.name != "every" {
				r.fault(pos(e.at), "", "%s needs tables: it is about a mapping", e.name)
			}
		case one == nil: // a mistyped name may also mean a key of the mapping
			r.fault(pos(e.at), "", "unknown key %q%s", e.name, feed.DidYouMean(e.name, slices.Concat(names(fields), settings)))
		case one.elsewhere != "":
			r.fault(pos(e.at), "", "%s %s", e.name, one.elsewhere)
		case !one.IsSet():
			one.readNode(s.File, e.value)
		}
	}
	s.draft = m
	if s.Every = m.Every; m.given["tables"] == nil {
		return errors.Join(r.faults...)
	}
	if at := m.given["table"]; at != nil {
		r.fault(pos(at), "table", "is for a file without tables")
	}
	s.finish(r, m)
	if r.faults != nil {
		return errors.Join(r.faults...)
	}
	s.Mapping, s.Cases = &m.Mapping, m.Cases
	return nil
}

// finish adds to tables what they take from the top of the file, and checks the mapping.
func (s *Spec) finish(r *reader, m *mappingDraft) {
	var version paths.Path
	if at := m.given["version"]; m.UseVersion {
		if version = r.version(m.Envelope, pos(at)); s.Fold.Version.Base != paths.NoBase {
			r.fault(pos(at), "version", "version_field and the envelope's version cannot be combined: leave one out")
		}
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		s.inherit(t, version)
		if t.Of == "" && t.Each.Base == paths.DefaultBase && len(t.Each.Steps) == 0 { // the elements of an array are messages
			t.Each = paths.Path{}
			delete(t.At, "each")
		}
	}
	m.Mapping.Tables = m.Tables
	_, err := mapping.Compile(&m.Mapping, mapping.AnyLimits)
	for _, err := range unjoined(err) {
		if of := s.ofSetting(err); of == nil {
			r.faults = append(r.faults, err)
		} else if !slices.ContainsFunc(s.faults, func(other error) bool { return other.Error() == of.Error() }) {
			s.faults = append(s.faults, of)
		}
	}
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
