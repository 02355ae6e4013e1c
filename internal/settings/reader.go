package settings

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A reader reads the nodes of a file and collects faults.
type reader struct {
	file      string
	databases []string // supported kinds
	faults    []error  // each is a [mapping.Fault]
}

func (r *reader) fault(at paths.Pos, where, format string, args ...any) {
	r.faults = append(r.faults, &mapping.Fault{File: r.file, Pos: at, Where: where, Text: fmt.Sprintf(format, args...)})
}

func pos(n *yaml.Node) paths.Pos { return paths.Pos{Line: n.Line, Column: n.Column} }

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

// pairs calls f for each key of a map and its value. A key that is not a text or appears twice is a fault, as is a node
// that is not a map.
func (r *reader) pairs(n *yaml.Node, where string, f func(at *yaml.Node, name string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fault(pos(n), where, "must be keys with values, not %s", kindOf(n))
		return
	}
	first := map[string]int{} // line by key
	for i := 0; i+1 < len(n.Content); i += 2 {
		at := resolved(n.Content[i])
		name, ok := text(at)
		switch {
		case !ok:
			r.fault(pos(n.Content[i]), where, "must be a name, not %s", kindOf(at))
		case first[name] > 0:
			r.fault(pos(n.Content[i]), where, "%s is already set in line %d", name, first[name])
		default:
			first[name] = max(n.Content[i].Line, 1)
			f(n.Content[i], name, resolved(n.Content[i+1]))
		}
	}
}

// kindOf describes a node in words.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a map"
	case isNull(n):
		return "nothing"
	}
	if v, ok := text(n); ok {
		return strconv.Quote(v)
	}
	return "a value with the tag " + n.Tag
}

// text reads a value that is not a list, map or null.
func (r *reader) text(n *yaml.Node, where string) (string, bool) {
	v, ok := text(n)
	if !ok || isNull(n) {
		r.fault(pos(n), where, "must be a single value, not %s", kindOf(n))
		return "", false
	}
	return v, true
}

// name reads a text that is not empty.
func (r *reader) name(n *yaml.Node, where string) string {
	v, ok := r.text(n, where)
	if ok && v == "" {
		r.fault(pos(n), where, "must not be empty")
	}
	return v
}

// items returns the nodes of a list with at least one item.
func (r *reader) items(n *yaml.Node, where, what string) []*yaml.Node {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.fault(pos(n), where, "must be a list of %s, not %s", what, kindOf(n))
		return nil
	case len(n.Content) == 0:
		r.fault(pos(n), where, "the list is empty")
	}
	items := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		items[i] = resolved(item)
	}
	return items
}

// Either lists words: a, b or c.
func Either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
