package merge

import (
	"bytes"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// Patches were scanned as values of a line before, so their depth is limited. If an object repeats a name, the last
// value counts, in the place of the first.
//
// Patches do not compose: {"a":null} and then {"a":{"b":1}} turn {"a":{"c":2}} into {"a":{"b":1}}, which no single
// patch does. Patches are therefore merged into a patch sequence: an object that may repeat a name and whose members
// are applied in their order.

// Extend appends a patch, an object, to a patch sequence, empty for none.
func Extend(patches, patch []byte) []byte {
	return join(appendPatch(patches, patch), len(patches))
}

// appendPatch appends a patch as a sequence: without repeated names and white space.
func appendPatch(dst, patch []byte) []byte {
	dst = append(dst, '{')
	for _, m := range readObject(patch).members {
		if m.value[0] == '{' {
			dst = appendPatch(appendName(dst, m.name), m.value)
		} else {
			dst = append(appendName(dst, m.name), m.value...)
		}
	}
	return append(dst, '}')
}

// join joins two sequences to one. The second begins at an index; the first may be empty.
func join(text []byte, at int) []byte {
	switch {
	case at == 0:
		return text
	case text[at-2] == '{':
		return append(text[:at-2], text[at:]...)
	case text[at+1] == '}':
		return text[:at]
	}
	text[at-1] = ','
	return append(text[:at], text[at+1:]...)
}

// AppendCombined appends a sequence that has the same effect as patches. It is never longer, and a name has at most a
// null, a value that is not an object, and an object, in this order.
func AppendCombined(dst, patches []byte) []byte {
	var o object
	o.apply(patches)
	dst = append(dst, '{')
	for i := range o.members {
		m := &o.members[i]
		if m.isNull {
			dst = append(appendName(dst, m.name), "null"...)
		}
		if m.value != nil {
			dst = append(appendName(dst, m.name), m.value...)
		}
		if m.patches != nil {
			dst = AppendCombined(appendName(dst, m.name), m.patches)
		}
	}
	return append(dst, '}')
}

// AppendPatched appends the result of applying a patch sequence, or a value that is not an object, to a text; nil is
// none. Existing members keep their places, and new ones follow in the order of the patches.
func AppendPatched(dst, text, patches []byte) []byte {
	if patches[0] != '{' {
		return append(dst, patches...)
	}
	var o object
	if feed.IsObject(text) {
		o = readObject(bytes.TrimSpace(text))
	}
	o.apply(patches)
	dst = append(dst, '{')
	for i := range o.members {
		switch m := &o.members[i]; {
		case m.patches != nil:
			dst = AppendPatched(appendName(dst, m.name), m.value, m.patches)
		case m.value != nil:
			dst = append(appendName(dst, m.name), m.value...)
		}
	}
	return append(dst, '}')
}

// An object is a JSON object under construction.
type object struct {
	members []member
	last    map[string]int // by name: its last member; nil if there are few
}

// A member without a value and patches was removed. In a sequence its null is applied first, then its value.
type member struct {
	name    []byte // raw, without its quotes
	isNull  bool
	value   []byte // in a sequence not an object
	patches []byte // a sequence that is applied to the value
}

func (o *object) apply(patches []byte) {
	eachMember(patches, func(name, value []byte) {
		at := o.find(name)
		switch {
		case at < 0:
			at = o.push(member{name: name})
		case value[0] != 'n' && o.members[at].value == nil && o.members[at].patches == nil:
			o.members[at] = member{} // it returns as the last member
			at = o.push(member{name: name, isNull: true})
		}
		m := &o.members[at]
		switch {
		case value[0] == 'n':
			*m = member{name: m.name, isNull: true}
		case value[0] != '{':
			m.value, m.patches = value, nil
		case m.patches == nil:
			m.patches = value
		default:
			m.patches = join(append(m.patches, value...), len(m.patches))
		}
	})
}

// fewMembers is how many members are searched without an index.
const fewMembers = 16

// plain returns a member's name unescaped.
func plain(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	return feed.AppendUnquoted(nil, name)
}

// find returns the index of the last member with a name, or -1.
func (o *object) find(name []byte) int {
	name = plain(name)
	if o.last != nil {
		if at, ok := o.last[string(name)]; ok {
			return at
		}
		return -1
	}
	for at, m := range slices.Backward(o.members) {
		if m.name != nil && bytes.Equal(plain(m.name), name) {
			return at
		}
	}
	return -1
}

func (o *object) push(m member) int {
	o.members = append(o.members, m)
	switch {
	case o.last != nil:
		o.last[string(plain(m.name))] = len(o.members) - 1
	case len(o.members) > fewMembers:
		o.last = map[string]int{}
		for at, m := range o.members {
			if m.name != nil {
				o.last[string(plain(m.name))] = at
			}
		}
	}
	return len(o.members) - 1
}

// appendName appends the name of an object's next member.
func appendName(dst, name []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), '"', ':')
}

func readObject(json []byte) (o object) {
	eachMember(json, func(name, value []byte) {
		if at := o.find(name); at < 0 {
			o.push(member{name: name, value: value})
		} else {
			o.members[at].value = value
		}
	})
	return o
}

func eachMember(json []byte, each func(name, value []byte)) {
	w := feed.Walk(json)
	w.Next() // the object itself
	for w.Next() {
		name := w.Name
		each(name, w.Raw())
	}
}
