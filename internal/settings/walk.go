package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
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
//   - filled: the text must not be empty
//   - top: a table without the key has the value of the setting with its name: all tables, or those that are no children
//   - commas: a text may have several items
//
// and for settings of a run
//
//   - word: the word for a duration, forever or 0
//   - unset: what is shown if nothing sets it
//   - flag: it has none; short: the flag's short form; once: only the command line sets it
type field struct {
	codec
	name, help, none, word string
	words                  []string
	least                  int
	commas                 bool
	tag                    reflect.StructTag
	index                  []int
}

// A codec reads and describes the values of a field.
type codec struct {
	form form
	read func(r *reader, n *yaml.Node, where string, into reflect.Value)
}

var fieldCache sync.Map // fields by type

// fieldsOf returns the fields with keys of a struct, also of the structs that it embeds.
func fieldsOf(t reflect.Type) (fields []field) {
	if known, ok := fieldCache.Load(t); ok {
		return known.([]field)
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("key") != "" {
			fields = append(fields, newField(f))
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

func newField(of reflect.StructField) field {
	tag := of.Tag
	f := field{name: tag.Get("key"), help: code.Replace(tag.Get("help")), words: slices.Collect(strings.FieldsSeq(tag.Get("words"))),
		none: tag.Get("none"), word: tag.Get("word"), commas: tag.Get("commas") != "", tag: tag, index: of.Index}
	f.least, _ = strconv.Atoi(tag.Get("min")) // 0 without one
	if of.Type == reflect.TypeFor[merge.Function]() {
		f.words = merge.Names()
	} else if tag.Get("words") == "presets" {
		f.words = PresetNames()
	}
	f.codec = codecOf(&f, of.Type)
	return f
}

// code makes Markdown of a help text. A tag cannot contain backquotes.
var code = strings.NewReplacer("‘", "`", "’", "`")

// description returns what the key means, for editors and docs.
func (f *field) description() string {
	if preset := f.tag.Get("default"); preset != "" {
		return f.help + " (default: " + code.Replace(preset) + ")"
	}
	return f.help
}

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
	r.pairs(n, where, func(at *yaml.Node, name string, value *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			r.fault(pos(at), where, "unknown key %q%s", name, feed.DidYouMean(name, names(fields)))
			return
		}
		f := &fields[i]
		if value = asWord(f.words, value); !isNull(value) || f.tag.Get("null") != "" {
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

// codecFor makes a codec of a function for one type.
func codecFor[T any](form form, read func(r *reader, n *yaml.Node, where string) T) codec {
	return codec{form, func(r *reader, n *yaml.Node, where string, into reflect.Value) {
		into.Set(reflect.ValueOf(read(r, n, where)))
	}}
}

func codecOf(f *field, t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[paths.When]():
		return codecFor(ref("when"), (*reader).when)
	case reflect.TypeFor[[]paths.Value]():
		return codecFor(ref("values"), (*reader).values)
	case reflect.TypeFor[paths.Presence]():
		return codecFor(boolForm, (*reader).presence)
	case reflect.TypeFor[*envelope.Envelope]():
		return codecFor(ref("envelope"), (*reader).envelope)
	case reflect.TypeFor[[]mapping.Table]():
		return codecFor(mapForm(anyForm, ref("table")), (*reader).tables)
	case reflect.TypeFor[[]mapping.Column]():
		return codecFor(mapForm(anyForm, ref("column")), (*reader).columns)
	case reflect.TypeFor[mapping.TypedPath]():
		return codecFor(textForm, (*reader).from)
	case reflect.TypeFor[constant]():
		return codecFor(anyForm, (*reader).constant)
	case reflect.TypeFor[[]mapping.Statement]():
		return codecFor(ref("statements"), (*reader).statements)
	case reflect.TypeFor[[]mapping.PeriodicSQL]():
		return codecFor(mapForm(ageForm, ref("statements")), (*reader).every)
	case reflect.TypeFor[map[string]string]():
		return codecFor(form{"type": "object", "additionalProperties": nameForm}, (*reader).renamed)
	case reflect.TypeFor[[]Case]():
		return codecFor(listOf(ref("test")), (*reader).cases)
	case reflect.TypeFor[[]WantTable]():
		return codecFor(form{"type": "object", "additionalProperties": form{"type": "array", "items": form{"type": "object"}}}, (*reader).want)
	}
	if isList(t) {
		return codec{f.listForm(t), f.readList}
	}
	return codec{f.scalarForm(t), f.readScalar}
}

// readScalar reads a value that has one text.
func (f *field) readScalar(r *reader, n *yaml.Node, where string, into reflect.Value) {
	text, ok := r.text(n, where)
	if !ok {
		return
	}
	err := f.parse(text, into)
	if into.Kind() == reflect.Bool && text != "true" && text != "false" { // 1 and f are no booleans in YAML
		err = fmt.Errorf("%q is neither true nor false", text)
	}
	r.wrong(n, where, err)
}

// readList reads a text or a list of texts.
func (f *field) readList(r *reader, n *yaml.Node, where string, into reflect.Value) {
	list := reflect.MakeSlice(into.Type(), 0, len(n.Content))
	add := func(at *yaml.Node, text string) {
		var err error
		if list, err = f.add(list, text); err != nil {
			r.wrong(at, where, err)
		}
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range r.items(n, where, "texts") {
			if text, ok := r.text(item, where); ok {
				add(item, text)
			}
		}
	} else if text, ok := r.text(n, where); ok {
		items, err := f.items(text)
		r.wrong(n, where, err)
		for _, item := range items {
			add(n, item)
		}
	}
	into.Set(list)
}

// wrong reports the fault of a text, if it has one.
func (r *reader) wrong(n *yaml.Node, where string, err error) {
	if err != nil {
		r.fault(pos(n), where, "%v", err)
	}
}

func (f *field) scalarForm(t reflect.Type) form {
	_, mayBeUnset := f.tag.Lookup("unset")
	switch {
	case len(f.words) > 0 && mayBeUnset:
		return enum(append(slices.Clone(f.words), "")...)
	case len(f.words) > 0:
		return enum(f.words...)
	case t == reflect.TypeFor[cast.Type]():
		return typeForm
	case t == reflect.TypeFor[Size]():
		return sizeForm
	case t == reflect.TypeFor[Rate]():
		return rateForm
	case t == reflect.TypeFor[oneOf]():
		return conditionForm
	case t == reflect.TypeFor[merging]():
		return form{"type": "string", "pattern": functionPattern}
	case t == reflect.TypeFor[time.Duration]() && f.word != "":
		return anyOf(durationForm, enum(f.word))
	case t == reflect.TypeFor[time.Duration]():
		return durationForm
	case strings.HasSuffix(f.name, "_when"): // FIELD=VALUE
		return anyOf(conditionForm, enum(""))
	case t.Kind() == reflect.Bool:
		return boolForm
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return countForm(f.least)
	case isLeaf(t) && mayBeUnset:
		return textForm
	case isLeaf(t), f.tag.Get("filled") != "":
		return nameForm
	}
	return textForm
}

// listForm is the form of a text or a list of texts.
func (f *field) listForm(t reflect.Type) form {
	item := nameForm
	if t.Elem().Kind() != reflect.String {
		item = f.scalarForm(t.Elem())
	}
	if f.commas && f.none == "" {
		return anyOf(item, listOf(item), enum(""))
	}
	return anyOf(item, listOf(item))
}
