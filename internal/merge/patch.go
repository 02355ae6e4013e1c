package merge

import (
	"bytes"

	"github.com/weirsync/weir/internal/feed"
)

// Patches have been scanned as values of a line before, and are no deeper than these. Of equal names in an object the last
// counts, in the place of the first.
//
// Two patches have no patch that does the same as both: {"a":null} and then {"a":{"b":1}} leaves {"a":{"b":1}} of
// {"a":{"c":2}}, which no single patch does. [AppendPatches] makes patches in a row of them: an object that may name a
// member several times, whose members are applied one after the other, as they stand.

// AppendPatched appends what patches in a row, or a value that is no object, make of a text, which may be nil for none.
// Members that were there keep their places, and new ones come behind them in the order of the patches.
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

// AppendPatches appends patches in a row and behind them one more, an object. No patches are nil.
func AppendPatches(dst, patches, patch []byte) []byte {
	var row object
	if patches != nil {
		eachMember(patches, func(name, value []byte) { row.push(name, value) })
	}
	for _, m := range readObject(patch).members {
		row.then(m.name, m.value)
	}
	return row.append(dst)
}

// then has one more member be applied. Of each name there are at most a null, a value that is no object, and an object, in
// this order.
func (o *object) then(name, value []byte) {
	at := o.find(name)
	added := value
	if value[0] == '{' {
		added = AppendPatches(nil, nil, value)
	}
	switch {
	case at < 0:
		o.push(name, added)
	case value[0] == 'n': // it takes what the others made
		first := at
		for before := o.members[first].before; before >= 0; before = o.members[first].before {
			o.remove(first)
			first = before
		}
		o.members[first].value = value
	case o.members[at].value[0] == 'n': // it comes back, behind all others
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

// An object is one that is being made.
type object struct {
	members []member
	last    map[string]int // by name, where there are many: the last member of the name
}

type member struct {
	name, value []byte // the name as it stands between its quotes; no value: it was removed
	before      int    // the member of the same name before it; -1: there is none
}

// fewMembers is how many are looked through.
const fewMembers = 16

// plain is a member's name without its escapes.
func plain(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	return feed.AppendUnquoted(nil, name)
}

// find returns the last member of a name, -1 if there is none.
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

// push adds a member, behind others of its name.
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

// set gives a member a value, or adds it if there is none.
func (o *object) set(at int, name, value []byte) {
	if at < 0 {
		o.push(name, value)
		return
	}
	o.members[at].value = value
}

// remove removes the last member of a name, if there is one.
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
