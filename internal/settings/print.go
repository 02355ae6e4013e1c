package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// Print writes a mapping, and SQL by period, as a config file. Settings that tables inherit from the top are written in
// each table, and defaults are omitted. m may be nil.
func Print(m *mapping.Mapping, every []mapping.PeriodicSQL) ([]byte, error) {
	d := mappingDraft{Every: every}
	if m != nil {
		d.Mapping = *m
	}
	if d.Unmatched == mapping.IgnoreUnmatched {
		d.Unmatched = ""
	}
	if d.MaxEach == mapping.DefaultMaxEach {
		d.MaxEach = 0
	}
	if d.MaxTables == mapping.DefaultMaxTables {
		d.MaxTables = 0
	}
	for i := range d.Tables {
		t := d.Tables[i]
		d.UseVersion = d.UseVersion || t.Version.IsEnvelopeVersion()
		d.Drafts = append(d.Drafts, &tableDraft{Table: withoutDefaults(t)})
	}
	return encode(fieldsNode(d))
}

// withoutDefaults returns a table whose defaults, and rules without effect, are zero.
func withoutDefaults(t mapping.Table) mapping.Table {
	if t.Of != "" && t.Set != mapping.MergeSet { // the rules are those of an update
		t.DeleteWhen, t.OnDelete, t.Version = nil, mapping.OnDelete{}, paths.Path{}
		t.Rules = fold.Rules{BadValues: t.BadValues, UnknownFields: t.UnknownFields, MaxColumns: t.MaxColumns}
	}
	if t.Of == "" {
		t.Set = ""
	}
	if t.Version.Base == paths.NoBase {
		t.Scope = ""
	}
	if t.Version.IsEnvelopeVersion() {
		t.Version = paths.Path{}
	}
	if t.Null == fold.ClearNull {
		t.Null = ""
	}
	if t.BadValues == fold.RejectBad {
		t.BadValues = ""
	}
	if t.Type.Kind == cast.Auto {
		t.Type = cast.Type{}
	}
	if t.Columns != nil && t.UnknownFields != fold.AddUnknown {
		t.MaxColumns = 0
	}
	return t
}

func encode(top *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(top); err != nil {
		return nil, fmt.Errorf("printing the config file: %w", err)
	}
	return b.Bytes(), e.Close()
}

func mapNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// flow puts a map or list on one line.
func flow(n *yaml.Node) *yaml.Node {
	n.Style = yaml.FlowStyle
	return n
}

// textNode returns a text, quoted if YAML would read it as something else.
func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// plainNode returns a number, true, false or null.
func plainNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

func add(n *yaml.Node, name string, value *yaml.Node) {
	key := textNode(name)
	if name == "null" { // read as text, and nicer without quotes
		key = plainNode(name)
	}
	n.Content = append(n.Content, key, value)
}

func listNode(texts []string) *yaml.Node {
	if len(texts) == 1 && !strings.Contains(texts[0], ",") {
		return textNode(texts[0])
	}
	return sequenceNode(texts)
}

func sequenceNode(texts []string) *yaml.Node {
	n := flow(&yaml.Node{Kind: yaml.SequenceNode})
	for _, t := range texts {
		n.Content = append(n.Content, textNode(t))
	}
	return n
}

// tablesNode writes tables.
func tablesNode(tables []*tableDraft) *yaml.Node {
	n := mapNode()
	for _, t := range tables {
		add(n, t.Name, fieldsNode(*t))
	}
	return n
}

func renamedNode(names map[string]string) *yaml.Node {
	n := flow(mapNode())
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add(n, name, textNode(names[name]))
	}
	return n
}

func onDeleteNode(o mapping.OnDelete) *yaml.Node {
	if o.Insert {
		return textNode(insertRow)
	}
	return flow(fieldsNode(o))
}

func everyNode(all []mapping.PeriodicSQL) *yaml.Node {
	n := mapNode()
	for _, e := range all {
		add(n, DurationText(e.Period), statementsNode(e.Statements))
	}
	return n
}

// statementsNode writes statements, for all databases or for one each.
func statementsNode(all []mapping.Statement) *yaml.Node {
	list := func(database string) *yaml.Node {
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, s := range all {
			if s.Database == database {
				n.Content = append(n.Content, textNode(s.SQL))
			}
		}
		return n
	}
	n := mapNode()
	for _, s := range all {
		if s.Database == "" {
			return list("")
		}
		if !slices.ContainsFunc(n.Content, func(k *yaml.Node) bool { return k.Value == s.Database }) {
			add(n, s.Database, list(s.Database))
		}
	}
	return n
}

// constantNode writes a JSON value. YAML can read most of them unchanged.
func constantNode(raw constant) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil || len(doc.Content) == 0 {
		var s string
		_ = json.Unmarshal(raw, &s) // YAML cannot read it: a string with characters that YAML lacks
		return textNode(s)
	}
	return doc.Content[0]
}

func whenNode(w paths.When) *yaml.Node {
	if len(w) == 1 {
		return allNode(w[0])
	}
	n := flow(&yaml.Node{Kind: yaml.SequenceNode})
	for _, all := range w {
		n.Content = append(n.Content, allNode(all))
	}
	return n
}

func allNode(all paths.All) *yaml.Node {
	n := flow(mapNode())
	for _, t := range all {
		value := valuesNode(t.In)
		if t.Not {
			value = flow(fieldsNode(testMap{t.Present, t.In}))
		} else if t.Present != paths.AnyPresence {
			value = flow(fieldsNode(testMap{t.Present, nil}))
		}
		add(n, t.Path.String(), value)
	}
	return n
}

func valuesNode(values []paths.Value) *yaml.Node {
	n := flow(&yaml.Node{Kind: yaml.SequenceNode})
	for _, v := range values {
		item := textNode(v.Text)
		if v.Null {
			item = plainNode("null")
		}
		n.Content = append(n.Content, item)
	}
	if len(values) == 1 {
		return n.Content[0]
	}
	return n
}
