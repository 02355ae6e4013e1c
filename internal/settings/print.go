package settings

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Print writes the keys of the config file that are not settings, as written, with what tables take from the top of the
// file. A preset is written out. nil: there are none.
func (s *Spec) Print() ([]byte, error) {
	if s.draft == nil {
		return nil, nil
	}
	top := mapNode()
	for _, name := range names(fieldsOf(reflect.TypeFor[mappingDraft]())) {
		switch value := s.draft.given[name]; {
		case value == nil || name == "tests":
		case name == "envelope" && value.Kind == yaml.ScalarNode:
			names, nodes := presets()
			add(top, name, copied(nodes[slices.Index(names, value.Value)]))
		case name == "tables":
			tables := mapNode()
			for _, t := range s.draft.Drafts {
				add(tables, t.Name, copied(t.node))
			}
			add(top, name, tables)
		default:
			add(top, name, copied(value))
		}
	}
	if len(top.Content) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(top); err != nil {
		return nil, fmt.Errorf("printing the config file: %w", err)
	}
	return b.Bytes(), e.Close()
}

// copied returns a node without its comments. Aliases become what they stand for.
func copied(n *yaml.Node) *yaml.Node {
	n = resolved(n)
	to := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	if isNull(n) {
		to.Value = "null"
	}
	for _, item := range n.Content {
		to.Content = append(to.Content, copied(item))
	}
	return to
}

func mapNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// textNode returns a text, quoted if YAML would read it as something else.
func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

func add(n *yaml.Node, name string, value *yaml.Node) {
	key := textNode(name)
	if name == "null" { // read as text, and nicer without quotes
		key.Tag = ""
	}
	n.Content = append(n.Content, key, value)
}

// asNode returns the value of a setting as a node.
func (s *Setting) asNode() *yaml.Node {
	if s.node != nil {
		return s.node
	}
	list, isList := s.v.Interface().([]string)
	if !isList || len(list) == 0 {
		return textNode(s.String())
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, item := range list {
		n.Content = append(n.Content, textNode(item))
	}
	return n
}
