package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// envelope reads an envelope: a preset's name, or keys.
func (r *reader) envelope(n *yaml.Node, where string) *envelope.Envelope {
	if n.Kind == yaml.MappingNode {
		return r.envelopeMap(n, where)
	}
	name, ok := r.text(n, where)
	if !ok {
		return nil
	}
	e, err := Preset(name)
	if err != nil {
		r.fault(pos(n), where, "%v", err)
	}
	return e
}

// envelopeMap reads the keys of an envelope.
func (r *reader) envelopeMap(n *yaml.Node, where string) *envelope.Envelope {
	e := &envelope.Envelope{}
	before := len(r.faults)
	given := r.readFields(n, where, e)
	if len(r.faults) > before {
		return e
	}
	switch {
	case given["row"] == nil && given["each"] == nil:
		e.Row = []paths.Path{{Base: paths.DefaultBase}}
	case given["connect_schema"] != nil && given["unwrap"] == nil:
		r.fault(pos(given["connect_schema"]), where, "connect_schema needs unwrap: the path of the message")
	case given["row"] != nil && given["each"] != nil:
		r.fault(pos(given["row"]), where, "with each, the elements are the rows: leave row out")
	}
	for name, n := range given {
		if name != "absent" && namesParent(n) {
			r.fault(pos(n), join(where, name), "^ is the parent of an element, and an envelope has none")
		}
	}
	if slices.ContainsFunc(e.Omit, func(name string) bool { return strings.Contains(strings.TrimSuffix(name, "*"), "*") }) {
		r.fault(pos(given["omit"]), join(where, "omit"), "* may only be at the end of a name")
	}
	return e
}

// namesParent reports whether a text in a node begins with ^.
func namesParent(n *yaml.Node) bool {
	return strings.HasPrefix(n.Value, "^") || slices.ContainsFunc(n.Content, namesParent)
}

// Preset returns the envelope preset with a name.
func Preset(name string) (*envelope.Envelope, error) {
	node := presetNode(name)
	if node == nil {
		names := PresetNames()
		return nil, fmt.Errorf("no envelope has the name %q; there are %s%s", name, strings.Join(names, ", "), feed.DidYouMean(name, names))
	}
	r := &reader{file: "presets.yaml"}
	e := r.envelopeMap(node, name)
	if r.faults != nil {
		return nil, errors.Join(r.faults...)
	}
	e.Preset = name
	return e, nil
}

// PresetNames returns the names of the presets.
func PresetNames() (names []string) {
	for i := 0; i < len(presets().Content); i += 2 {
		names = append(names, presets().Content[i].Value)
	}
	return names
}

// presetNode returns the keys of a preset, or nil.
func presetNode(name string) *yaml.Node {
	if i := slices.Index(PresetNames(), name); i >= 0 {
		return presets().Content[2*i+1]
	}
	return nil
}

// presets are the built-in envelopes. They must not be changed.
var presets = sync.OnceValue(func() *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal(envelope.Presets, &doc); err != nil {
		panic(err) // it is built in
	}
	return doc.Content[0]
})

// version returns the path of the version in an envelope's messages.
func (r *reader) version(e *envelope.Envelope, at paths.Pos) paths.Path {
	switch {
	case e == nil || e.Version == nil:
		r.fault(at, "version", "needs an envelope with a version: version_field names the field of one")
		return paths.Path{}
	case len(e.Version) != 1 || e.Version[0].As != envelope.NoCast:
		return paths.EnvelopeVersion
	}
	p := e.Version[0].From
	p.Base = paths.MessageBase
	return p
}
