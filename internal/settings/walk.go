package settings

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/paths"
)

// A field is a key of a map in the config file: a field of a struct that has the tags
//
//   - key: the name
//   - help: what the key means, for docs and editors; words in ‘’ are code
//   - default: what holds without the key, in the docs
//   - words: the words that it accepts
//   - min: the least number
//   - none: the word for an empty list
//   - null: the key has null as a value; for all others, null means that the key is absent
//   - empty: the text may be empty
type field struct {
	codec
	name, help, preset string
	words              []string
	nullable           bool
	index              []int
}

// A codec reads, prints and describes the values of a field.
type codec struct {
	form form
	read func(r *reader, n *yaml.Node, where string, into reflect.Value)
	node func(of reflect.Value) *yaml.Node
}

var fieldCache sync.Map // fields by type

// fieldsOf returns the fields with keys of a struct, also of the structs that it embeds.
func fieldsOf(t reflect.Type) (fields []field) {
	if known, ok := fieldCache.Load(t); ok {
		return known.([]field)
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("key"); name != "" {
			one := field{name: name, help: code.Replace(f.Tag.Get("help")), preset: code.Replace(f.Tag.Get("default")), words: strings.Fields(f.Tag.Get("words")),
				nullable: f.Tag.Get("null") != "", index: f.Index}
			if f.Type == reflect.TypeFor[merge.Function]() {
				one.words = merge.Names()
			}
			one.codec = codecOf(&one, f)
			fields = append(fields, one)
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

// code makes Markdown of a help text. A tag cannot contain backquotes.
var code = strings.NewReplacer("‘", "`", "’", "`")

// description returns what the key means, for editors and docs.
func (f *field) description() string {
	if f.preset == "" {
		return f.help
	}
	return f.help + " (default: " + f.preset + ")"
}

// names returns the names of fields.
func names(fields []field) []string {
	all := make([]string, len(fields))
	for i := range fields {
		all[i] = fields[i].name
	}
	return all
}

// readFields reads a map into a struct. It returns the nodes of the keys in the map.
func (r *reader) readFields(n *yaml.Node, where string, into any) map[string]*yaml.Node {
	given := map[string]*yaml.Node{}
	fields, v := fieldsOf(reflect.TypeOf(into).Elem()), reflect.ValueOf(into).Elem()
	r.pairs(n, where, Key, func(at *yaml.Node, name string, value *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			r.fault(pos(at), where, "unknown key %q%s", at.Value, DidYouMean(name, names(fields)))
			return
		}
		f := &fields[i]
		if value = asWord(f.words, value); !isNull(value) || f.nullable {
			given[name] = value
			f.read(r, value, join(where, name), v.FieldByIndex(f.index))
		}
	})
	return given
}

// asWord returns a value. null becomes a word if it is one of words.
func asWord(words []string, value *yaml.Node) *yaml.Node {
	if !isNull(value) || !slices.Contains(words, value.Value) {
		return value
	}
	word := *value
	word.Tag = "!!str"
	return &word
}

// fieldsNode writes a struct as a map. Zero values are omitted.
func fieldsNode(of any) *yaml.Node {
	n, v := mapNode(), reflect.ValueOf(of)
	for _, f := range fieldsOf(v.Type()) {
		if value := v.FieldByIndex(f.index); !value.IsZero() {
			add(n, f.name, f.node(value))
		}
	}
	return n
}

// codecFor makes a codec of functions for one type.
func codecFor[T any](form form, read func(r *reader, n *yaml.Node, where string) T, node func(T) *yaml.Node) codec {
	return codec{form,
		func(r *reader, n *yaml.Node, where string, into reflect.Value) {
			into.Set(reflect.ValueOf(read(r, n, where)))
		},
		func(of reflect.Value) *yaml.Node { return node(of.Interface().(T)) }}
}

// codecOf returns the codec for the type of a field.
func codecOf(f *field, of reflect.StructField) codec {
	switch of.Type {
	case reflect.TypeFor[paths.When]():
		return codecFor(ref("when"), (*reader).when, whenNode)
	case reflect.TypeFor[[]paths.Value]():
		return codecFor(ref("values"), (*reader).values, valuesNode)
	case reflect.TypeFor[paths.Presence]():
		return codecFor(boolForm, (*reader).presence, presenceNode)
	case reflect.TypeFor[*envelope.Envelope]():
		return codecFor(ref("envelope"), (*reader).envelope, func(e *envelope.Envelope) *yaml.Node { return fieldsNode(*e) })
	case reflect.TypeFor[[]*tableDraft]():
		return codecFor(mapForm(anyForm, ref("table")), (*reader).tables, tablesNode)
	case reflect.TypeFor[[]mapping.Column]():
		return codecFor(mapForm(anyForm, ref("column")), (*reader).columns, columnsNode)
	case reflect.TypeFor[mapping.TypedPath]():
		return codecFor(textForm, (*reader).from, func(t mapping.TypedPath) *yaml.Node { return textNode(textOf(reflect.ValueOf(t))) })
	case reflect.TypeFor[constant]():
		return codecFor(anyForm, (*reader).constant, constantNode)
	case reflect.TypeFor[[]mapping.Statement]():
		return codecFor(ref("statements"), (*reader).statements, statementsNode)
	case reflect.TypeFor[[]mapping.PeriodicSQL]():
		return codecFor(mapForm(ageForm, ref("statements")), (*reader).every, everyNode)
	case reflect.TypeFor[mapping.OnDelete]():
		return codecFor(ref("on_delete"), (*reader).onDelete, onDeleteNode)
	case reflect.TypeFor[map[string]string]():
		return codecFor(form{"type": "object", "additionalProperties": nameForm}, (*reader).renamed, renamedNode)
	case reflect.TypeFor[[]Case]():
		return codecFor(listOf(ref("test")), (*reader).cases, nil) // tests are not printed
	case reflect.TypeFor[[]WantTable]():
		return codecFor(form{"type": "object", "additionalProperties": form{"type": "array", "items": form{"type": "object"}}}, (*reader).want, nil)
	case reflect.TypeFor[[]string]():
		return namesCodec(of.Tag.Get("none"))
	}
	if of.Type.Kind() == reflect.Slice {
		return listCodec(f, of.Type.Elem())
	}
	return f.scalarCodec(of)
}

// scalarCodec is the codec of a value that has one text.
func (f *field) scalarCodec(of reflect.StructField) codec {
	least, _ := strconv.Atoi(of.Tag.Get("min")) // 0 without one
	mayBeEmpty := of.Tag.Get("empty") != ""
	return codec{f.scalarForm(of.Type, least, mayBeEmpty),
		func(r *reader, n *yaml.Node, where string, into reflect.Value) {
			text, ok := r.text(n, where)
			if !ok {
				return
			}
			err := f.parse(text, into, least)
			if err == nil && text == "" && into.Kind() == reflect.String && !mayBeEmpty {
				err = errors.New("must not be empty")
			}
			if err != nil {
				r.fault(pos(n), where, "%s", hinted(err))
			}
		},
		func(of reflect.Value) *yaml.Node {
			switch of.Kind() {
			case reflect.Bool, reflect.Int:
				return plainNode(fmt.Sprint(of.Interface()))
			}
			return textNode(textOf(of))
		}}
}

// parse parses the text of a value.
func (f *field) parse(text string, into reflect.Value, least int) error {
	leaf, isLeaf := into.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case len(f.words) > 0 && !slices.Contains(f.words, text):
		return fmt.Errorf("%q must be %s%s", text, Either(f.words), DidYouMean(text, f.words))
	case isLeaf:
		return leaf.UnmarshalText([]byte(text))
	case into.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		into.SetBool(text == "true")
	case into.Kind() == reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil || i < least || strconv.Itoa(i) != text { // some readers treat leading zeros as octal
			return fmt.Errorf("%q must be a whole number, at least %d", text, least)
		}
		into.SetInt(int64(i))
	default:
		into.SetString(text)
	}
	return nil
}

// textOf returns the text of a value.
func textOf(v reflect.Value) string {
	if leaf, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := leaf.MarshalText() // ours cannot fail
		return string(text)
	}
	return v.String()
}

func (f *field) scalarForm(t reflect.Type, least int, mayBeEmpty bool) form {
	switch {
	case len(f.words) > 0:
		return enum(f.words...)
	case t == reflect.TypeFor[cast.Type]():
		return typeForm
	case t.Kind() == reflect.Bool:
		return boolForm
	case t.Kind() == reflect.Int:
		return countForm(least)
	case mayBeEmpty:
		return textForm
	}
	return nameForm
}

// namesCodec is the codec of a name or a list of names. none is the word for no names, or "".
func namesCodec(none string) codec {
	return codecFor(namesForm, func(r *reader, n *yaml.Node, where string) []string {
		if none != "" && n.Kind == yaml.ScalarNode && n.Value == none {
			return []string{}
		}
		return r.names(n, where)
	}, func(all []string) *yaml.Node {
		switch {
		case len(all) == 0:
			return textNode(none)
		case len(all) == 1 && all[0] == none:
			return sequenceNode(all)
		}
		return listNode(all)
	})
}

// listCodec is the codec of a value or a list of values.
func listCodec(f *field, element reflect.Type) codec {
	item := f.scalarCodec(reflect.StructField{Type: element})
	return codec{oneOf(item.form, listOf(item.form)),
		func(r *reader, n *yaml.Node, where string, into reflect.Value) {
			items := []*yaml.Node{n}
			if n.Kind == yaml.SequenceNode {
				items = r.items(n, where, "paths")
			}
			for _, one := range items {
				v := reflect.New(element).Elem()
				item.read(r, one, where, v)
				into.Set(reflect.Append(into, v))
			}
		},
		func(of reflect.Value) *yaml.Node {
			texts := make([]string, of.Len())
			for i := range texts {
				texts[i] = textOf(of.Index(i))
			}
			return listNode(texts)
		}}
}

// eachPath calls f for all paths in a value.
func eachPath(v reflect.Value, f func(paths.Path)) {
	if p, ok := v.Interface().(paths.Path); ok {
		f(p)
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			eachPath(v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachPath(v.Field(i), f)
		}
	}
}
