package settings

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes the settings and tables as a config file, each with its origin. Read again, it has the same effect: what
// is not set is a comment. So are settings with a secret, which is hidden.
func (s *Spec) Print(w io.Writer) error {
	var b bytes.Buffer
	for _, one := range s.settings {
		if one.InFile() && (s.draft == nil || !s.draft.has(one.name)) {
			b.WriteString(s.Line(one) + "\n")
		}
	}
	if s.draft != nil {
		for _, e := range s.draft.entries {
			value := copied(e.value)
			if e.name == "envelope" && value.Kind == yaml.ScalarNode { // a preset is written out
				value = copied(presetNode(value.Value))
			}
			fmt.Fprintf(&b, "\n# file %s\n%s", s.File, encoded(e.name, value))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Line returns the line of a setting in the printed file.
func (s *Spec) Line(one *Setting) string {
	secret := false
	shown := func(text string) *yaml.Node {
		public := one.shown(text)
		secret = secret || public != text
		return textNode(public)
	}
	var value *yaml.Node
	switch {
	case isList(one.v.Type()) && one.v.Len() > 0:
		value = &yaml.Node{Kind: yaml.SequenceNode}
		for i := range one.v.Len() {
			value.Content = append(value.Content, shown(one.text(one.v.Index(i))))
		}
	case isList(one.v.Type()) && !one.IsSet():
		value = textNode("")
	case one.node != nil && one.node.Kind != yaml.ScalarNode:
		value = copied(one.node)
	default:
		value = shown(one.String())
	}
	value.Style |= yaml.FlowStyle
	line := strings.TrimSuffix(encoded(one.name, value), "\n")
	if secret || !one.IsSet() {
		line = "# " + line
	}
	return fmt.Sprintf("%-35s # %s", line, s.origin(one))
}

// encoded returns a key and its value as YAML.
func encoded(name string, value *yaml.Node) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	_ = e.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: name}, value}}) // to memory
	return b.String()
}

// copied returns a node without its comments. Aliases become what they stand for.
func copied(n *yaml.Node) *yaml.Node {
	n = resolved(n)
	to := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	if isNull(n) && n.Value == "" {
		to.Value = "null"
	}
	for _, item := range n.Content {
		to.Content = append(to.Content, copied(item))
	}
	return to
}

// textNode returns a text on one line, in quotes if YAML would read it as nothing.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if isNull(n) || strings.ContainsAny(text, "\n\r") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
