package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// An entry is one setting of a file. No value is read as a number, a date or a boolean
// before the setting itself reads it.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

func (e *entry) set(s *Setting) error {
	if v, ok := text(e.value); ok {
		return s.Set(v)
	}
	if e.value.Kind != yaml.SequenceNode {
		return errors.New("must be a value or a list of values")
	}
	if s.SetList == nil {
		return errors.New("must be a single value, not a list")
	}
	values := make([]string, len(e.value.Content))
	for i, item := range e.value.Content {
		item = resolved(item)
		var ok bool
		if values[i], ok = text(item); !ok || isNull(item) {
			return fmt.Errorf("item %d is not a value", i+1)
		}
	}
	return s.SetList(values)
}

// read returns the settings of a file; those that are null are left out.
func read(file string) ([]entry, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the config file: %w", err)
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	switch err := d.Decode(&doc); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := d.Decode(&more); err == nil {
		return nil, fmt.Errorf("%s:%d: a second document begins; a config file has one", file, more.Line)
	} else if err != io.EOF {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	top := doc.Content[0]
	if isNull(top) {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: must be settings, such as batch_rows: 1000", file, top.Line)
	}
	var entries []entry
	var faults []error
	first := map[string]int{} // line
	for i := 0; i < len(top.Content); i += 2 {
		key := top.Content[i]
		name, ok := text(key)
		e := entry{Key(name), key.Line, resolved(top.Content[i+1])} // batch-rows, as on the command line, is batch_rows
		switch {
		case !ok:
			faults = append(faults, fmt.Errorf("%s:%d: must be the name of a setting, such as batch_rows: 1000", file, e.line))
		case first[e.key] > 0:
			faults = append(faults, fmt.Errorf("%s:%d: %s is already set in line %d", file, e.line, e.key, first[e.key]))
		case !isNull(e.value):
			entries = append(entries, e)
		}
		first[e.key] = e.line
	}
	return entries, errors.Join(faults...)
}

// resolved is the node that an alias stands for, or the node itself.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// text is a scalar as it is written, without its quotes; ok is false for one with another
// tag.
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
