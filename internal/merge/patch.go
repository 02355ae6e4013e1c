package merge

import (
	"bytes"

	"github.com/weirsync/weir/internal/feed"
)

// Patches were scanned as values of a line before, so their depth is limited. If an object repeats a name, the last value
// counts, in the place of the first.
//
// Patches do not compose: {"a":null} and then {"a":{"b":1}} turn {"a":{"c":2}} into {"a":{"b":1}}, which no single
// patch does. [AppendPatches] therefore builds a patch sequence: an object that may repeat a name and whose members are
// applied in their order.

// AppendPatched appends the result of applying a patch sequence, or a value that is not an object, to a text; nil is none.
// Existing members keep their places, and new ones follow in the order of the patches.
func AppendPatched(dst, text, patches []byte) []byte {
	if patches[0] != '{' {
		return append(dst, patches...)
	}
	var to object
	if feed.IsObject(text) {
		to = readObject(bytes.TrimSpace(text))
	}
	eachMember(patches, func(name, value []byte) {
		at := to.find(name)
		switch {
		case value[0] == 'n':
			to.remove(at)
		case value[0] != '{':
			to.set(at, name, value)
		case at < 0:
			to.set(at, name, AppendPatched(nil, nil, value))
		default:
			to.set(at, name, AppendPatched(nil, to.members[at].value, value))
		}
	})
	return to.append(dst)
}

// AppendPatches appends a patch sequence, nil if it is empty, extended by one more patch, an object.
func AppendPatches(dst, patches, patch []byte) []byte {
	var sequence object
	if patches != nil {
		eachMember(patches, func(name, value []byte) { sequence.push(name, value) })
	}
	for _, m := range readObject(patch).members {
		sequence.extend(m.name, m.value)
	}
	return sequence.append(dst)
}

// extend adds a member to a patch sequence. A name has at most a null, a value that is not an object, and an object, in
// this order.
func (o *object) extend(name, value []byte) {
	at := o.find(name)
	added := value
	if value[0] == '{' {
		added = AppendPatches(nil, nil, value)
	}
	switch {
	case at < 0:
		o.push(name, added)
	case value[0] == 'n': // it undoes the other members of the name
		first := at
		for before := o.members[first].before; before >= 0; before = o.members[first].before {
			o.remove(first)
			first = before
		}
		o.members[first].value = value
	case o.members[at].value[0] == 'n': // the member returns as the last one
		o.push(name, added)
	case value[0] == '{' && o.members[at].value[0] == '{':
		o.members[at].value = AppendPatches(nil, o.members[at].value, value)
	case value[0] == '{':
		o.push(name, added)
	default:
		if before := o.members[at].before; before >= 0 && o.members[before].value[0] != 'n' {
			o.remove(at)
			at = before
		}
		o.members[at].value = value
	}
}

// An object is a JSON object under construction.
type object struct {
	members []member
	last    map[string]int // by name: its last member; nil if there are few
}

type member struct {
	name, value []byte // the raw name without its quotes; a nil value: it was removed
	before      int    // the previous member with the same name, or -1
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
	for at := len(o.members) - 1; at >= 0; at-- {
		if m := &o.members[at]; m.value != nil && bytes.Equal(plain(m.name), name) {
			return at
		}
	}
	return -1
}

// push appends a member, after others with its name.
func (o *object) push(name, value []byte) {
	before := o.find(name)
	o.members = append(o.members, member{name, value, before})
	switch {
	case o.last != nil:
		o.last[string(plain(name))] = len(o.members) - 1
	case len(o.members) > fewMembers:
		o.last = map[string]int{}
		for at, m := range o.members {
			if m.value != nil {
				o.last[string(plain(m.name))] = at
			}
		}
	}
}

// set sets the value of the member at an index, or appends a member if that is -1.
func (o *object) set(at int, name, value []byte) {
	if at < 0 {
		o.push(name, value)
		return
	}
	o.members[at].value = value
}

// remove removes the member at an index, the last with its name; -1 removes none.
func (o *object) remove(at int) {
	if at < 0 {
		return
	}
	m := &o.members[at]
	m.value = nil
	if o.last == nil {
		return
	}
	if name := string(plain(m.name)); m.before >= 0 {
		o.last[name] = m.before
	} else {
		delete(o.last, name)
	}
}

func (o *object) append(dst []byte) []byte {
	dst = append(dst, '{')
	from := len(dst)
	for _, m := range o.members {
		if m.value == nil {
			continue
		}
		if len(dst) > from {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.name...), '"', ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

// readObject reads an object.
func readObject(json []byte) (o object) {
	eachMember(json, func(name, value []byte) { o.set(o.find(name), name, value) })
	return o
}

// eachMember calls each with the members of an object.
func eachMember(json []byte, each func(name, value []byte)) {
	w := feed.Walk(json)
	w.Next() // the object itself
	for w.Next() {
		name := w.Name
		each(name, w.Raw())
	}
}
