package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/paths"
)

// Print writes a mapping as a config file. Settings that tables inherit from the top are written in each table, and
// defaults are omitted.
func Print(m *mapping.Mapping) ([]byte, error) {
	top := mapNode()
	if m.Envelope != nil {
		add(top, "envelope", envelopeNode(m.Envelope))
	}
	if slices.ContainsFunc(m.Tables, func(t mapping.Table) bool { return t.Version.IsEnvelopeVersion() }) {
		add(top, "version", plainNode("true"))
	}
	if m.Ignore != nil {
		add(top, "ignore", whenNode(m.Ignore))
	}
	if m.Unmatched != mapping.IgnoreUnmatched {
		add(top, "unmatched", textNode(string(m.Unmatched)))
	}
	if m.MaxEach != mapping.DefaultMaxEach {
		add(top, "max_each", plainNode(strconv.Itoa(m.MaxEach)))
	}
	if m.MaxTables != mapping.DefaultMaxTables {
		add(top, "max_tables", plainNode(strconv.Itoa(m.MaxTables)))
	}
	tables := mapNode()
	for i := range m.Tables {
		add(tables, m.Tables[i].Name, tableNode(&m.Tables[i]))
	}
	add(top, "tables", tables)
	return encode(top)
}

// PrintEvery writes SQL by period as a part of a config file.
func PrintEvery(all []mapping.PeriodicSQL) ([]byte, error) {
	every, top := mapNode(), mapNode()
	for _, e := range all {
		add(every, DurationText(e.Period), statementsNode(e.Statements))
	}
	add(top, "every", every)
	return encode(top)
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

func addText(n *yaml.Node, name, text string) {
	if text != "" {
		add(n, name, textNode(text))
	}
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

func tableNode(t *mapping.Table) *yaml.Node {
	n := mapNode()
	addPath := func(name string, p paths.Path) {
		if p.Base != paths.NoBase {
			add(n, name, textNode(p.String()))
		}
	}
	addText(n, "of", t.Of)
	addPath("each", t.Each)
	if t.Of != "" {
		addText(n, "set", string(t.Set))
	}
	if t.Parent != nil {
		parent := flow(mapNode())
		for _, name := range slices.Sorted(maps.Keys(t.Parent)) {
			add(parent, name, textNode(t.Parent[name]))
		}
		add(n, "parent", parent)
	}
	if t.From != nil {
		add(n, "from", listNode(t.From))
	}
	if t.When != nil {
		add(n, "when", whenNode(t.When))
	}
	addText(n, "row", t.RowText())
	switch {
	case t.Key == nil:
	case len(t.Key) == 0:
		add(n, "key", textNode(NoKey))
	case slices.Equal(t.Key, []string{NoKey}):
		add(n, "key", sequenceNode(t.Key))
	default:
		add(n, "key", listNode(t.Key))
	}
	addText(n, "id", t.ID)
	if t.Of == "" || t.Set == mapping.MergeSet {
		ruleNodes(n, t)
	}
	if t.Type.Kind != cast.Auto {
		add(n, "type", textNode(t.Type.String()))
	}
	addText(n, "unknown_fields", string(t.UnknownFields))
	if t.BadValues == fold.NullBad {
		addText(n, "bad_values", string(t.BadValues))
	}
	if t.Columns == nil || t.UnknownFields == fold.AddUnknown {
		add(n, "max_columns", plainNode(strconv.Itoa(t.MaxColumns)))
	}
	if t.OnCreate != nil {
		add(n, "on_create", statementsNode(t.OnCreate))
	}
	if t.Columns != nil {
		columns := mapNode()
		for _, c := range t.Columns {
			add(columns, c.Name, columnNode(c, t.Merge[c.Name]))
		}
		add(n, "columns", columns)
	}
	return n
}

// ruleNodes adds the update rules of a table.
func ruleNodes(n *yaml.Node, t *mapping.Table) {
	if t.DeleteWhen != nil {
		add(n, "delete_when", whenNode(t.DeleteWhen))
	}
	if t.OnDelete.Insert {
		add(n, "on_delete", textNode(insertRow))
	} else if t.OnDelete.Mark != "" {
		mark := flow(mapNode())
		add(mark, "mark", textNode(t.OnDelete.Mark))
		add(n, "on_delete", mark)
	}
	if t.Null == fold.KeepNull {
		addText(n, "null", string(t.Null))
	}
	if t.FillOnly {
		add(n, "fill_only", plainNode("true"))
	}
	if t.Version.Base != paths.NoBase {
		if !t.Version.IsEnvelopeVersion() {
			add(n, "version_field", textNode(t.Version.String()))
		}
		addText(n, "version_scope", string(t.Scope))
	}
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

// columnNode writes a column. Its first source has the merge function.
func columnNode(c mapping.Column, function merge.Function) *yaml.Node {
	if len(c.From) == 1 {
		return sourceNode(c.From[0], c.Name, function)
	}
	n := flow(&yaml.Node{Kind: yaml.SequenceNode})
	for i, s := range c.From {
		if i > 0 {
			function = merge.Last
		}
		source := sourceNode(s, c.Name, function)
		if source.Kind == yaml.ScalarNode && source.Value == "null" { // in a list, null looks like a constant
			source = textNode(s.From.String())
		}
		n.Content = append(n.Content, source)
	}
	return n
}

func sourceNode(s mapping.Source, column string, function merge.Function) *yaml.Node {
	n := flow(mapNode())
	isMap := s.When != nil || s.References != "" || function != merge.Last
	if s.From.Base != paths.NoBase {
		from := s.From.String()
		if !isMap && from == paths.FieldPath(column).String() {
			from = ""
		}
		if s.As.Kind != cast.DefaultType {
			from += []string{"as ", " as "}[min(len(from), 1)] + s.As.String()
		}
		switch {
		case isMap:
			add(n, "from", textNode(from))
		case from == "":
			return plainNode("null")
		default:
			return textNode(from)
		}
	}
	if s.Value != nil {
		add(n, "value", constantNode(s.Value))
	}
	addText(n, "stamp", string(s.Stamp))
	addText(n, "meta", string(s.Meta))
	if s.When != nil {
		add(n, "when", whenNode(s.When))
	}
	addText(n, "references", s.References)
	if function != merge.Last {
		addText(n, "merge", function.String())
	}
	return n
}

// constantNode writes a JSON value. YAML can read most of them unchanged.
func constantNode(raw []byte) *yaml.Node {
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
		if t.Not || t.Present != paths.AnyPresence {
			test := flow(mapNode())
			if t.Present != paths.AnyPresence {
				add(test, "present", plainNode(strconv.FormatBool(t.Present == paths.MustBePresent)))
			}
			if t.Not {
				add(test, "not", value)
			}
			value = test
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
