package mapping

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An Envelope says where the messages of a change stream have a table, a row and what becomes of it.
// Its paths, but for Unwrap and ConnectSchema, read the message that Unwrap leads to.
type Envelope struct {
	Preset string `json:"-"` // its name; "" for one of its own
	Unwrap Path   // of an object that is the message; where there is none, the line is the message
	// ConnectSchema is, in the line, what says which types the fields of the row have, as Kafka Connect's JSON
	// converter has it. Where the envelope has one, a line without it is unwrapped only if it has nothing else.
	ConnectSchema Path
	Table         []Path // the parts of the table's name, those that are present; nil: messages name no table
	// OneTable ends the run when messages name a second table.
	OneTable bool
	Each     Path   // of an array, each of whose elements is a row; the zero path: there is one row
	Row      []Path // the first that is present is the row: an object, or an array of its fields as pairs of name and value
	// Old has the row as it was before, or some of it: the key of a delete, and the former key of an
	// update. With Each it is an array beside that one.
	Old  Path
	Key  Path     // an object with the fields of the key, which the row may lack; an array has their names alone
	Omit []string // names of fields that are no columns; a * at the end stands for any text
	// Absent are texts of values that mean that there is none.
	Absent []string
	Unset  Path // an array with the names of fields that are NULL, unless the row is whole
	// Partial is an array that has elements where the message changes parts of values that it does not
	// have; then it is rejected, unless the row is whole.
	Partial Path
	// ExtendedJSON has fields of the row with a type beside their value, as MongoDB writes them.
	ExtendedJSON bool

	ReplaceWhen When // the row is whole: what it lacks is NULL
	// Schema and SchemaKey are of messages that describe the rows to come of their table: a JSON Schema
	// of them, and an array with the names of the fields that are their key.
	Schema, SchemaKey Path
	// Resume has a value from which the source resumes, in messages of their own.
	Resume Path

	Ignore       When
	DeleteWhen   When
	TruncateWhen When
	WriteWhen    When // nil: all others; what is none of these is rejected
	InsertWhen   When // messages that insert their row: what they leave out nothing else has
	WarnWhen     When // they are ignored, with a warning
	FailWhen     When // they end the run
	// Version are parts that are compared in order. They count for tables whose version is
	// [EnvelopeVersion].
	Version []VersionPart
}

// Removes reports whether messages may remove rows, as those do that change a key.
func (e *Envelope) Removes() bool {
	return e.DeleteWhen != nil || e.TruncateWhen != nil || e.Old.Base != NoBase
}

// A VersionPart is one of the numbers that a version consists of.
type VersionPart struct {
	From Path
	As   VersionCast
}

// VersionCast is how a part of a version is read.
type VersionCast string

// The casts of versions, whose texts have another order.
const (
	NoCast      VersionCast = ""
	LSNCast     VersionCast = "lsn"       // 16/B374D848, of Postgres
	BinlogCast  VersionCast = "binlog"    // mysql-bin.000003, or with a position: mysql-bin.000003:154
	MongoCast   VersionCast = "mongo_ts"  // {"$timestamp": {"t": 1589549400, "i": 1}}
	RFC3339Cast VersionCast = "timestamp" // 2020-05-15T13:30:00.5Z
)

// VersionCasts are the casts by name.
var VersionCasts = []VersionCast{LSNCast, BinlogCast, MongoCast, RFC3339Cast}

// ParseVersionPart reads PATH or PATH as CAST.
func ParseVersionPart(text string) (v VersionPart, err error) {
	path, as, cast := cutAs(strings.TrimSpace(text))
	if v.From, err = ParsePath(path); err != nil {
		return v, err
	}
	if !cast {
		return v, nil
	}
	var names []string
	for _, known := range VersionCasts {
		if v.As = known; as == string(known) {
			return v, nil
		}
		names = append(names, string(known))
	}
	return v, fmt.Errorf("%q: a version is read as %s, or as it is", as, strings.Join(names, ", "))
}

// String is the part as [ParseVersionPart] reads it.
func (v VersionPart) String() string {
	if v.As == NoCast {
		return v.From.String()
	}
	return fmt.Sprintf("%s as %s", v.From, v.As)
}

// EnvelopeVersion is the path of the version that a message's envelope has. No feed has such a name: it
// is not UTF-8.
var EnvelopeVersion = Path{Base: MessageBase, Steps: []Step{{Name: "\xffversion", Index: -1}}, Text: "the envelope's version"}

// IsEnvelopeVersion reports whether a path is [EnvelopeVersion].
func (p Path) IsEnvelopeVersion() bool { return p.Text == EnvelopeVersion.Text }

// envelope is one that is ready to take lines.
type envelope struct {
	spec  *Envelope
	outer int32   // the tree of lines that are unwrapped; 0: none is
	slots []int32 // of that tree
	row   int32   // the tree of rows

	unwrap, connect, each, old, key, unset place
	schema, schemaKey, resume              place
	table, rows                            []place
	deletes, truncates, writes, inserts    condition
	warns, fails                           condition
	absent                                 [][]byte // raw JSON
	hints                                  [][]byte // one of them is in each text that has one of absent
	names                                  [][]byte // that Omit lists, and what such names begin with
	prefixes                               [][]byte
	version                                []versionPart
	versionAt                              place
	partial                                place
	replaces                               condition
}

type versionPart struct {
	at   place
	spec *VersionPart
}

// envelope compiles the envelope, and begins the tree of rows.
func (c *compiler) envelope(spec *Envelope) {
	p := c.plan
	e := &envelope{spec: spec}
	p.envelope = e
	find := func(path Path, what string) place {
		if path.Base == NoBase {
			return place{tree: -1}
		}
		return c.find(path, scope{}, false, Pos{}, "envelope: "+what)
	}
	if e.unwrap.tree = -1; spec.Unwrap.Base != NoBase {
		p.trees = append(p.trees, newTree())
		e.outer = int32(len(p.trees) - 1)
		e.unwrap = place{e.outer, p.trees[e.outer].add(0, spec.Unwrap.Steps)}
		if e.connect.tree = -1; spec.ConnectSchema.Base != NoBase {
			e.connect = place{e.outer, p.trees[e.outer].add(0, spec.ConnectSchema.Steps)}
		}
		e.slots = c.slots(p.trees[e.outer])
	}
	p.trees = append(p.trees, newTree())
	e.row = int32(len(p.trees) - 1)
	c.row = e.row
	for _, part := range spec.Table {
		e.table = append(e.table, find(part, "table"))
	}
	for _, row := range spec.Row {
		e.rows = append(e.rows, find(row, "row"))
	}
	e.each, e.old, e.key, e.unset = find(spec.Each, "each"), find(spec.Old, "old"), find(spec.Key, "key"), find(spec.Unset, "unset")
	e.partial, e.replaces = find(spec.Partial, "partial"), c.when(spec.ReplaceWhen, scope{}, "envelope: replace_when")
	e.schema, e.schemaKey, e.resume = find(spec.Schema, "schema"), find(spec.SchemaKey, "schema_key"), find(spec.Resume, "resume")
	p.ignore = c.when(spec.Ignore, scope{}, "envelope: ignore")
	e.deletes = c.when(spec.DeleteWhen, scope{}, "envelope: delete_when")
	e.truncates = c.when(spec.TruncateWhen, scope{}, "envelope: truncate_when")
	e.writes = c.when(spec.WriteWhen, scope{}, "envelope: write_when")
	e.inserts = c.when(spec.InsertWhen, scope{}, "envelope: insert_when")
	e.warns = c.when(spec.WarnWhen, scope{}, "envelope: warn_when")
	e.fails = c.when(spec.FailWhen, scope{}, "envelope: fail_when")
	for _, text := range spec.Absent {
		e.absent = append(e.absent, quoted(text), []byte(text))
	}
	for i, a := range e.absent {
		if !slices.ContainsFunc(e.absent, func(b []byte) bool { return len(b) < len(a) && bytes.Contains(a, b) }) && !slices.ContainsFunc(e.absent[:i], func(b []byte) bool { return bytes.Equal(a, b) }) {
			e.hints = append(e.hints, a)
		}
	}
	if spec.ExtendedJSON {
		e.hints = append(e.hints, []byte(`"$`))
	}
	for _, name := range spec.Omit {
		if prefix, any := strings.CutSuffix(name, "*"); any {
			e.prefixes = append(e.prefixes, []byte(prefix))
		} else {
			e.names = append(e.names, []byte(name))
		}
	}
	e.versionAt.tree = -1
	for i := range spec.Version {
		e.version = append(e.version, versionPart{find(spec.Version[i].From, "version"), &spec.Version[i]})
	}
	for i := range c.mapping.Tables {
		if c.mapping.Tables[i].Version.IsEnvelopeVersion() {
			e.versionAt = find(EnvelopeVersion, "version")
		}
	}
}

// A pattern matches names of tables in a stream.
type pattern struct {
	*regexp.Regexp
	bare bool // it matches the last part of a name, of one schema
	any  bool // it may match several names
}

// patterns are those of the names that a table has in the stream.
func (c *compiler) patterns(t *Table) (all []pattern) {
	from := t.From
	if from == nil {
		from = []string{t.Name}
	}
	for _, name := range from {
		any := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(name))
		all = append(all, pattern{regexp.MustCompile("(?s)^" + any + "$"), !strings.Contains(name, ".") && name != "*", strings.ContainsAny(name, "*?")})
	}
	return all
}

// takes reports whether a table takes rows of a name in the stream, and whether it does so by the
// last part of it.
func (t *planned) takes(name string) (takes, bare bool) {
	last := name[strings.LastIndex(name, ".")+1:]
	for _, p := range t.from {
		if p.MatchString(name) {
			return true, false
		}
		if p.bare && p.MatchString(last) {
			takes, bare = true, true
		}
	}
	return takes, bare
}

// severalNames reports whether a table may have the rows of several tables of the stream.
func (t *planned) severalNames() bool { return len(t.from) > 1 || t.from[0].any }

// A target is what takes the rows of a name in the stream.
type target struct {
	name        string
	tops, loose []int
	only        map[int]string // by table: the part of the name of which it takes no other
}

// target finds what takes the rows of a name.
func (p *Plan) target(name string) *target {
	x := &target{name: name, only: map[int]string{}}
	some := func(tables []int) (some []int) {
		for _, i := range tables {
			takes, bare := true, false
			if len(p.envelope.table) > 0 {
				takes, bare = p.tables[i].takes(name)
			}
			if takes {
				some = append(some, i)
			}
			if p.envelope.spec.OneTable {
				x.only[i] = name
			} else if bare {
				x.only[i] = name[:strings.LastIndex(name, ".")+1]
			}
		}
		return some
	}
	x.tops, x.loose = some(p.tops), some(p.loose)
	return x
}

// omits reports whether a field is no column.
func (e *envelope) omits(name []byte) bool {
	for _, n := range e.names {
		if string(n) == string(name) {
			return true
		}
	}
	for _, p := range e.prefixes {
		if len(name) >= len(p) && string(name[:len(p)]) == string(p) {
			return true
		}
	}
	return false
}

// isAbsent reports whether a value means that there is none.
func (e *envelope) isAbsent(raw []byte) bool {
	for _, a := range e.absent {
		if string(raw) == string(a) {
			return true
		}
	}
	return false
}
