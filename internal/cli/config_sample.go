package cli

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/quantity"
)

// A sampledField describes the sampled values of a field of the messages or of an object in them.
type sampledField struct {
	name     string
	path     []string
	present  int // number of messages that have it
	kinds    map[valueKind]int
	distinct map[string]int  // scalar values as text, if they are few
	many     bool            // distinct is incomplete
	members  []*sampledField // of objects, in order of appearance
	byName   map[string]*sampledField
	elements *sampledField // of arrays
	last     string
}

// valueKind is a kind of values, more specific than JSON's.
type valueKind string

const (
	nullValue   valueKind = "null"
	boolValue   valueKind = "boolean"
	intValue    valueKind = "integer"
	bigValue    valueKind = "integer of more than 64 bits"
	realValue   valueKind = "fraction"
	longValue   valueKind = "fraction of many digits"
	textValue   valueKind = "text"
	timeValue   valueKind = "time"
	dateValue   valueKind = "date"
	uuidValue   valueKind = "uuid"
	digitsValue valueKind = "integer in quotes"
	objectValue valueKind = "object"
	arrayValue  valueKind = "array"
)

const (
	maxDistinct     = 20_000 // distinct values that are counted for a field
	maxDraftColumns = 200
	maxDepth        = 3    // nesting depth of objects whose members become columns
	maxSampled      = 2000 // sampled members of an object
)

// addFields adds the fields of a message.
func (d *draft) addFields(m []byte) {
	for w := feed.Walk(m); w.Next(); {
		if w.Depth == 1 && w.Name != nil {
			name := memberName(w.Name)
			if name == "" { // sync rejects the message
				w.Raw()
				continue
			}
			f := d.byName[name]
			if f == nil {
				if len(d.fields) >= maxSampled {
					w.Raw()
					continue
				}
				f = newSampledField(nil, name)
				d.byName[name] = f
				d.fields = append(d.fields, f)
			}
			f.add(w.Kind, w.Raw())
		}
	}
}

func newSampledField(above []string, name string) *sampledField {
	return &sampledField{name: name, path: append(slices.Clone(above), name), kinds: map[valueKind]int{}, distinct: map[string]int{}, byName: map[string]*sampledField{}}
}

// add adds a value.
func (f *sampledField) add(kind feed.Kind, raw []byte) {
	f.present++
	k := kindOfValue(kind, raw)
	f.kinds[k]++
	switch k {
	case nullValue:
	case objectValue:
		f.addMembers(raw)
	case arrayValue:
		f.addElements(raw)
	default:
		value := string(feed.Text(nil, raw, kind))
		if f.distinct[value]++; len(f.distinct) > maxDistinct {
			delete(f.distinct, value)
			f.many = true
		}
		f.last = value
	}
}

func (f *sampledField) addMembers(raw []byte) {
	if len(f.path) >= maxDepth {
		return
	}
	for w := feed.Walk(raw); w.Next(); {
		if w.Depth != 1 {
			continue
		}
		name := memberName(w.Name)
		of := f.byName[name]
		if of == nil {
			if len(f.members) >= maxSampled {
				w.Raw()
				continue
			}
			of = newSampledField(f.path, name)
			f.byName[name] = of
			f.members = append(f.members, of)
		}
		of.add(w.Kind, w.Raw())
	}
}

func (f *sampledField) addElements(raw []byte) {
	if f.elements == nil {
		f.elements = newSampledField(nil, f.name)
		f.elements.path = nil
	}
	for w := feed.Walk(raw); w.Next(); {
		if w.Depth == 1 {
			f.elements.add(w.Kind, w.Raw())
		}
	}
}

var (
	plainText  = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./-]*$`) // safe in YAML without quotes
	plainName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	uuidText   = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	digitsText = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)
	keyName    = regexp.MustCompile(`(?i)^(_?id|uuid|guid|key|pk|code|ident|sku|isbn|iban|mmsi|icao24|icao|imei|mac|vin)$|(_|-)(id|uuid|key|no)$|[a-z](Id|ID|Uuid|UUID|Key)$`)
	kindName   = regexp.MustCompile(`(?i)^(type|op|operation|action|event|kind|event_?type|message_?type|msg_?type|record_?type|cmd|command|verb|method|__op)$`)
	timeName   = regexp.MustCompile(`(?i)(^|_)(ts|time|timestamp|date|clock|version|rev|revision|seq|lsn|updated|modified|pitr)(_|$)|(_at|At|Time|Timestamp|_ms|_ts)$`)
	deleteText = regexp.MustCompile(`(?i)^(d|del|delete|deleted|remove|removed|rm|destroy|tombstone|drop)$`)
)

func kindOfValue(kind feed.Kind, raw []byte) valueKind {
	switch kind {
	case feed.Null:
		return nullValue
	case feed.Bool:
		return boolValue
	case feed.JSON:
		if raw[0] == '[' {
			return arrayValue
		}
		return objectValue
	case feed.Int:
		if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
			return bigValue
		}
		return intValue
	case feed.String:
		s := string(feed.Text(nil, raw, kind))
		switch {
		case uuidText.MatchString(s):
			return uuidValue
		case digitsText.MatchString(s):
			return digitsValue
		case len(s) == len(time.DateOnly) && parses(time.DateOnly, s):
			return dateValue
		case len(s) > len(time.DateOnly) && parses(time.RFC3339Nano, s):
			return timeValue
		}
		return textValue
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || digitsOf(strconv.FormatFloat(f, 'e', -1, 64)) != digitsOf(string(raw)) {
		return longValue
	}
	return realValue
}

// digitsOf returns the significant digits of a number.
func digitsOf(number string) string {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	return strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
}

func parses(layout, s string) bool {
	_, err := time.Parse(layout, s)
	return err == nil
}

// seen returns the kinds of the values other than null, the most frequent first.
func (f *sampledField) seen() []valueKind {
	kinds := slices.DeleteFunc(slices.Collect(maps.Keys(f.kinds)), func(k valueKind) bool { return k == nullValue })
	slices.SortFunc(kinds, func(a, b valueKind) int { return cmp.Or(f.kinds[b]-f.kinds[a], strings.Compare(string(a), string(b))) })
	return kinds
}

// columnType returns the type that fits all values, or "", and a note for the comment.
func (f *sampledField) columnType() (of, note string) {
	kinds := f.seen()
	only := func(any ...valueKind) bool {
		return len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k valueKind) bool { return !slices.Contains(any, k) })
	}
	switch {
	case len(kinds) == 0:
		return "", "null alone"
	case only(boolValue):
		return "boolean", ""
	case only(intValue):
		return "integer", f.epochNote()
	case only(intValue, realValue):
		return "real", ""
	case only(intValue, realValue, longValue, bigValue):
		return "numeric", ""
	case only(timeValue):
		return "timestamp", ""
	case only(dateValue):
		return "date", ""
	case only(uuidValue):
		return "uuid", ""
	case only(digitsValue):
		return "text", cmp.Or(f.epochNote(), "digits in quotes: as integer makes them numbers")
	case only(textValue, timeValue, dateValue, uuidValue, digitsValue):
		return "text", ""
	case only(objectValue, arrayValue):
		return "json", ""
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = fmt.Sprintf("%s (%s)", k, quantity.Grouped(int64(f.kinds[k])))
	}
	return "", "of several kinds: " + strings.Join(names, ", ")
}

// epochNote notes that the numbers of a field named like a time are probably seconds, milliseconds or microseconds
// since 1970.
func (f *sampledField) epochNote() string {
	n, err := strconv.ParseInt(f.last, 10, 64)
	switch {
	case err != nil || !timeName.MatchString(f.name) && f.kinds[digitsValue] == 0 && n < 1_000_000_000_000:
	case n >= 1_000_000_000 && n < 5_000_000_000:
		return "as timestamp, if these are seconds since 1970"
	case n >= 1_000_000_000_000 && n < 5_000_000_000_000:
		return "as timestamp_ms, if these are milliseconds since 1970"
	case n >= 1_000_000_000_000_000 && n < 5_000_000_000_000_000:
		return "as timestamp_us, if these are microseconds since 1970"
	}
	return ""
}

// columns returns the columns of the table, one line with a comment each.
func (d *draft) columns() (lines []string) {
	type column struct{ name, source, note string }
	var all []column
	taken := map[string]bool{}
	for _, f := range d.fields {
		taken[strings.ToLower(f.name)] = true
	}
	named := map[string]bool{}
	add := func(f *sampledField, name string) {
		of, note := f.columnType()
		d.jsonColumns[name] = of == "json"
		source := ""
		if len(f.path) == 1 && name == f.name {
			if of != "" {
				source = " as " + of
			}
		} else {
			source = " " + pathText(f.path)
			if of != "" {
				source += " as " + of
			}
		}
		all = append(all, column{name, strings.TrimSpace(source), cmp.Or(note, d.rareNote(f))})
	}
	var flatten func(f *sampledField, prefix string) bool
	flatten = func(f *sampledField, prefix string) bool {
		if !f.isRecord() {
			return false
		}
		for _, m := range f.members {
			if name := prefix + "_" + m.name; taken[strings.ToLower(name)] {
				return false
			}
		}
		for _, m := range f.members {
			name := prefix + "_" + m.name
			taken[strings.ToLower(name)] = true
			if !flatten(m, name) {
				add(m, name)
			}
		}
		return true
	}
	for _, f := range d.fields {
		name := f.name
		for n := 2; named[strings.ToLower(name)]; n++ { // SQLite's column names ignore case
			name = fmt.Sprintf("%s_%d", f.name, n)
		}
		named[strings.ToLower(name)] = true
		if name == f.name && flatten(f, name) {
			continue
		}
		add(f, name)
	}
	slices.SortStableFunc(all, func(a, b column) int {
		return cmp.Compare(btoi(a.name != d.key), btoi(b.name != d.key))
	})
	left := 0
	if len(all) > maxDraftColumns {
		left = len(all) - maxDraftColumns
		all = all[:maxDraftColumns]
	}
	for _, c := range all {
		line := quotedYAML(c.name) + ":"
		if c.source != "" {
			line += " " + sourceYAML(c.source)
		}
		if c.note != "" {
			line = fmt.Sprintf("%-32s  # %s", line, oneLine(c.note))
		}
		lines = append(lines, line)
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("# %d more fields are left out: names that are data belong in a json column, or in rows (each: .)", left))
	}
	return lines
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sourceYAML returns the source of a column as YAML.
func sourceYAML(s string) string {
	if strings.ContainsAny(s, "\"':#{}[],&*!|>%@`\\") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}

// rareNote notes that few messages have a field.
func (d *draft) rareNote(f *sampledField) string {
	if of := len(d.messages); f.present*100 < of {
		return fmt.Sprintf("in %s of %s", quantity.Grouped(int64(f.present)), quantity.Count(int64(of), "message"))
	}
	return ""
}

// isRecord reports whether the values are objects whose members can be columns: there are few, and they have plain
// names that are not data.
func (f *sampledField) isRecord() bool {
	if kinds := f.seen(); len(kinds) != 1 || kinds[0] != objectValue || len(f.members) == 0 || len(f.members) > 30 {
		return false
	}
	return !slices.ContainsFunc(f.members, func(m *sampledField) bool { return !plainName.MatchString(m.name) })
}

// pathText returns a path and quotes names if needed.
func pathText(path []string) string {
	texts := make([]string, len(path))
	for i, name := range path {
		if texts[i] = name; !plainName.MatchString(name) {
			texts[i] = strconv.Quote(name)
		}
	}
	return strings.Join(texts, ".")
}

// childrenText proposes child tables for arrays of objects.
func (d *draft) childrenText(line func(string, ...any)) {
	for _, f := range d.fields {
		e := f.elements
		if e == nil || !slices.Equal(e.seen(), []valueKind{objectValue}) || !plainName.MatchString(f.name) {
			continue
		}
		key := ""
		for _, m := range e.members {
			if keyName.MatchString(m.name) && m.present == e.present && m.isScalar() {
				key = m.name
				break
			}
		}
		var columns []string
		for _, m := range e.members {
			of, _ := m.columnType()
			if of != "" {
				of = " as " + of
			}
			if plainName.MatchString(m.name) && len(columns) < 12 {
				columns = append(columns, quotedYAML(m.name)+":"+of)
			}
		}
		index := ""
		if key == "" {
			key, index = "nr", "nr: {meta: index}, "
		}
		line("  # %q is an array of objects. Instead of the column (and its values in the test), a table with a row for each element:", f.name)
		line("  # %s_%s:", d.table, f.name)
		line("  #   of: %s", quotedYAML(d.table))
		line("  #   each: %s", f.name)
		line("  #   key: %s", quotedYAML(key))
		line("  #   columns: {%s%s}", index, strings.Join(columns, ", "))
	}
}

func (f *sampledField) isScalar() bool {
	return !slices.ContainsFunc(f.seen(), func(k valueKind) bool { return k == objectValue || k == arrayValue })
}

// findKey returns the field that most likely identifies a row, and a comment.
func (d *draft) findKey() (name, why string) {
	type candidate struct {
		f     *sampledField
		score int
	}
	n := len(d.messages)
	var all []candidate
	for _, f := range d.fields {
		usable := f.present - f.kinds[nullValue]
		if !f.isScalar() || usable == 0 || f.kinds[realValue]+f.kinds[longValue]+f.kinds[boolValue] > 0 {
			continue
		}
		score := 0
		switch values := f.count(); {
		case values == 1 && n > 10:
			score -= 40 // all messages have the same value
		case values == usable && n > 1:
			score += 10
		case values*2 > usable: // rows are updated occasionally
			score += 8
		case values > 10:
			score += 6
		}
		if keyName.MatchString(f.name) {
			score += 30
		}
		if low := strings.ToLower(f.name); low == "id" || low == "_id" || low == strings.ToLower(strings.TrimSuffix(d.table, "s"))+"_id" {
			score += 20
		}
		if timeName.MatchString(f.name) || f.kinds[timeValue] > 0 || kindName.MatchString(f.name) {
			score -= 30
		}
		switch {
		case usable == n:
			score += 25
		case usable*20 >= n*19:
			score += 10
		default:
			score -= 20
		}
		all = append(all, candidate{f, score})
	}
	if len(all) == 0 {
		return d.fields[0].name, "  # no field looks like a key: choose the one, or the list [a, b], that identifies a row"
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return b.score - a.score })
	best := all[0].f
	usable := best.present - best.kinds[nullValue]
	notes := []string{fmt.Sprintf("%s in %s", quantity.Count(int64(best.count()), "value"), quantity.Count(int64(usable), "message"))}
	if best.many {
		notes[0] = "more than " + notes[0]
	}
	if usable < n {
		notes = append(notes, fmt.Sprintf("%s of %s lack it, and are rejected", quantity.Grouped(int64(n-usable)), quantity.Grouped(int64(n))))
	}
	var others []string
	for _, c := range all[1:] {
		if c.score >= 30 && len(others) < 3 {
			others = append(others, c.f.name)
		}
	}
	if len(others) > 0 {
		notes = append(notes, "or "+strings.Join(others, ", ")+"; or several: [a, b]")
	}
	if all[0].score < 30 && !keyName.MatchString(best.name) {
		notes = append(notes, "no field looks like a key: choose the one, or the list [a, b], that identifies a row")
	} else if with := d.secondKeyField(best); with != "" && !keyName.MatchString(best.name) {
		notes = append(notes, fmt.Sprintf("if a row needs several fields: [%s, %s]", with, best.name))
	}
	return best.name, "  # " + oneLine(strings.Join(notes, "; "))
}

// secondKeyField returns the first field that may form a composite key with another, or "".
func (d *draft) secondKeyField(best *sampledField) string {
	for _, f := range d.fields {
		kinds := f.seen()
		if f != best && f.present == len(d.messages) && len(kinds) == 1 && f.kinds[nullValue] == 0 && slices.Contains([]valueKind{intValue, textValue, uuidValue, digitsValue}, kinds[0]) &&
			f.count() > 1 && !timeName.MatchString(f.name) && !kindName.MatchString(f.name) {
			return quotedYAML(f.name)
		}
	}
	return ""
}

// count returns the number of distinct values, as far as they are counted.
func (f *sampledField) count() int { return len(f.distinct) }

// findKinds returns the field that distinguishes kinds of messages, or nil.
func (d *draft) findKinds() *sampledField {
	var best *sampledField
	for _, f := range d.fields {
		if f.present*10 < len(d.messages)*9 && f.deletes() == "" || f.many || !kindName.MatchString(f.name) || f.count() == 0 || f.count() > 30 || f.count() == 1 && len(d.messages) > 10 || f.kinds[textValue] == 0 {
			continue
		}
		if best == nil || f.count() > best.count() {
			best = f
		}
	}
	return best
}

// values returns the values of a field, the most frequent first.
func (f *sampledField) values() []string {
	return slices.SortedFunc(maps.Keys(f.distinct), func(a, b string) int {
		return cmp.Or(f.distinct[b]-f.distinct[a], strings.Compare(a, b))
	})
}

// valuesText lists up to most values with their counts.
func (f *sampledField) valuesText(most int) string {
	var texts []string
	for i, v := range f.values() {
		if i == most {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, fmt.Sprintf("%s %s", v, quantity.Grouped(int64(f.distinct[v]))))
	}
	return strings.Join(texts, ", ")
}

// deletes returns the value that most likely removes a row, or "".
func (f *sampledField) deletes() string {
	for _, v := range f.values() {
		if deleteText.MatchString(v) {
			return v
		}
	}
	return ""
}

// kindsWithoutKey returns the kinds of messages that never have the key.
func (d *draft) kindsWithoutKey() (without []string) {
	has := map[string]bool{}
	for _, m := range d.messages {
		if kind, ok := fieldText(m, d.kinds.name); ok && !has[kind] {
			_, has[kind] = fieldText(m, d.key)
		}
	}
	for _, kind := range d.kinds.values() {
		if had, ok := has[kind]; ok && !had && len(without) < 10 {
			without = append(without, kind)
		}
	}
	return without
}

// findVersion returns a field that may be the version of a message, or "".
func (d *draft) findVersion() string {
	for _, f := range d.fields {
		if f.present == len(d.messages) && f.kinds[nullValue] == 0 && timeName.MatchString(f.name) && f.isScalar() && f.count() > 1 && f.name != d.key {
			return f.name
		}
	}
	return ""
}
