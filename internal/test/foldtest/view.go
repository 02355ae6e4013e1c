package foldtest

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A raw is a value as JSON; "" means absent.
type raw string

func (r raw) value() Value { return MustParse(string(r)) }
func (r raw) isNull() bool { return r == "null" }

// members returns the members of an object.
func (r raw) members() (m map[string]json.RawMessage, ok bool) {
	if r == "" || r[0] != '{' {
		return nil, false
	}
	return m, json.Unmarshal([]byte(r), &m) == nil
}

func (r raw) elements() (e []json.RawMessage, ok bool) {
	if r == "" || r[0] != '[' {
		return nil, false
	}
	return e, json.Unmarshal([]byte(r), &e) == nil
}

func (r raw) step(s paths.Step) raw {
	switch {
	case r.isNull():
		return r
	case s.Index >= 0:
		if all, ok := r.elements(); ok && s.Index < len(all) {
			return raw(all[s.Index])
		}
	default:
		if all, ok := r.members(); ok {
			return raw(all[s.Name])
		}
	}
	return ""
}

// A view is what paths can start from.
type view struct {
	message, unit, row raw // unit is the message or the element
	parent             *view
	index              int
	name               string // of a member, if the elements are in an object
	line, offset       int64
}

func (v *view) get(p paths.Path, base raw) raw {
	switch p.Base {
	case paths.MessageBase:
		base = v.message
	case paths.ParentBase:
		base = v.parent.row
	}
	for _, s := range p.Steps {
		base = base.step(s)
	}
	return base
}

func (v *view) holds(w paths.When) bool {
	return w == nil || slices.ContainsFunc(w, func(all paths.All) bool {
		return !slices.ContainsFunc(all, func(t paths.Test) bool { return !v.passes(t) })
	})
}

func (v *view) passes(t paths.Test) bool {
	x := v.get(t.Path, v.unit)
	if t.Present == paths.MustBePresent && x == "" || t.Present == paths.MustBeAbsent && x != "" {
		return false
	}
	if t.In == nil {
		return true
	}
	is := x != "" && slices.ContainsFunc(t.In, func(want paths.Value) bool {
		if want.Null || x.isNull() {
			return want.Null && x.isNull()
		}
		return x.value().Text == want.Text
	})
	return is != t.Not
}

// MarshalJSON returns the value unchanged.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func (v *view) meta(m mapping.Meta) raw {
	switch m {
	case mapping.IndexMeta:
		return raw(strconv.Itoa(v.index))
	case mapping.KeyMeta:
		if v.name == "" {
			return "null"
		}
		return raw(Value{Kind: String, Text: v.name}.JSON())
	case mapping.LineMeta:
		return raw(strconv.FormatInt(v.line, 10))
	case mapping.OffsetMeta:
		return raw(strconv.FormatInt(v.offset, 10))
	}
	return `"source"`
}

// rest adds the fields that have no column.
