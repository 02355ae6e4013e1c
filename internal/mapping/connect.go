package mapping

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// This file is about the schemas that Kafka Connect's JSON converter puts into each message: they say
// which types the fields of its row have.

// A connectSchema is one of them, or a part of one.
type connectSchema struct {
	Field      string          `json:"field"`
	Type       string          `json:"type"`
	Name       string          `json:"name"` // of what the type stands for
	Parameters connectDigits   `json:"parameters"`
	Fields     []connectSchema `json:"fields"`
}

type connectDigits struct {
	Scale string `json:"scale"` // of a decimal
}

// logical are the types of values by the names that Kafka Connect and Debezium have for them.
var logical = map[string]TypeKind{
	"org.apache.kafka.connect.data.Date":      DateDays,
	"org.apache.kafka.connect.data.Time":      TimeMs,
	"org.apache.kafka.connect.data.Timestamp": TimestampMs,
	"org.apache.kafka.connect.data.Decimal":   Base64Number,

	"io.debezium.time.Date":                 DateDays,
	"io.debezium.time.Time":                 TimeMs,
	"io.debezium.time.MicroTime":            TimeUs,
	"io.debezium.time.NanoTime":             TimeNs,
	"io.debezium.time.Timestamp":            TimestampMs,
	"io.debezium.time.MicroTimestamp":       TimestampUs,
	"io.debezium.time.NanoTimestamp":        TimestampNs,
	"io.debezium.time.ZonedTimestamp":       Timestamp,
	"io.debezium.time.IsoTimestamp":         Timestamp,
	"io.debezium.data.VariableScaleDecimal": Base64Number,
	"io.debezium.data.Json":                 JSONText,
	"io.debezium.data.Uuid":                 UUID,
}

// plainTypes are the types of columns for values that are as they come. weir widens such a column where
// the source's column becomes another one.
var plainTypes = map[string]schema.Type{
	"boolean": schema.Bool, "string": schema.Text, "array": schema.JSON, "map": schema.JSON, "struct": schema.JSON,
	"int8": schema.Int, "int16": schema.Int, "int32": schema.Int, "int64": schema.Int, "float": schema.Real, "double": schema.Real,
}

// A rowSchema is what a schema says of the row of a message.
type rowSchema struct {
	structs bool // it is the schema of objects, as a message's is
	fields  []connectSchema
	tables  map[int]*typing // those whose rows were met
}

// A typing is what a schema says of the rows of a table.
type typing struct {
	casts    map[string]*cast // by the field's name
	sources  map[*source]*cast
	declared map[string]schema.Column
}

// maxSchemas is how many bytes of texts of schemas are kept, with what they say.
const maxSchemas = 8 << 20

// readSchema reads the schema of the message at hand.
func (s *Scratch) readSchema() {
	if v := s.at(s.plan.envelope.connect); v != nil && v.Kind == feed.JSON {
		s.stream.schema = s.rowSchema(v.Value)
	}
}

// hasSchema reports whether a line has the schema of a message. It is not one of the message's fields then.
func (s *Scratch) hasSchema() bool {
	v := s.at(s.plan.envelope.connect)
	return v != nil && v.Kind == feed.JSON && s.rowSchema(v.Value).structs
}

// rowSchema returns what a schema says of the row of its message.
func (s *Scratch) rowSchema(raw []byte) *rowSchema {
	st := &s.stream
	if r, known := st.schemas[string(raw)]; known {
		return r
	}
	var top connectSchema
	if json.Unmarshal(raw, &top) != nil { // it is no such schema
		top = connectSchema{}
	}
	r := &rowSchema{structs: top.Type == "struct", fields: rowFields(top, s.plan.envelope.spec.Row), tables: map[int]*typing{}}
	if st.schemaBytes += len(raw); st.schemas == nil || st.schemaBytes > maxSchemas {
		st.schemas, st.schemaBytes = map[string]*rowSchema{}, len(raw)
	}
	st.schemas[string(raw)] = r
	return r
}

// rowFields are the fields of the first struct that a path leads to.
func rowFields(top connectSchema, row []Path) []connectSchema {
	for _, path := range row {
		of, found := top, true
		for _, step := range path.Steps {
			at := of
			found = false
			for _, f := range at.Fields {
				if f.Field == step.Name && step.Index < 0 {
					of, found = f, true
				}
			}
		}
		if found && len(of.Fields) > 0 {
			return of.Fields
		}
	}
	return nil
}

// typing returns what the schema of the message at hand says of the rows of a table; nil: nothing.
func (s *Scratch) typing(table int) *typing {
	r, t := s.stream.schema, &s.plan.tables[table]
	if r == nil || len(r.fields) == 0 || t.each != nil || t.hasAt {
		return nil
	}
	if r.tables[table] == nil {
		r.tables[table] = s.plan.typing(table, s.now(table), r.fields)
	}
	return r.tables[table]
}

// now is a table with the columns that the messages so far have brought.
func (s *Scratch) now(table int) *schema.Table {
	if s.Now != nil {
		if now, ok := s.Now(table); ok {
			return &now
		}
	}
	return &s.plan.fitted[table]
}

// typing is what fields say of the rows of a table, as it is now. Columns whose type the mapping names keep that.
func (p *Plan) typing(table int, have *schema.Table, fields []connectSchema) *typing {
	t := &p.tables[table]
	y := &typing{casts: map[string]*cast{}, sources: map[*source]*cast{}, declared: map[string]schema.Column{}}
	if k := t.spec.Type.Kind; k != Auto && k != DefaultType {
		return y
	}
	for i := range fields {
		if as := p.typeColumn(y, table, have, &fields[i], fields[i].Field); as != nil {
			y.casts[fields[i].Field] = as
		}
	}
	for i := range t.columns {
		c := &t.columns[i]
		delete(y.declared, c.spec.Name)
		if len(c.sources) != 1 || c.refers != nil {
			continue
		}
		for j := range fields {
			if !p.isField(&c.sources[0], fields[j].Field) {
				continue
			}
			if as := p.typeColumn(y, table, have, &fields[j], c.spec.Name); as != nil {
				y.sources[&c.sources[0]] = as
			}
		}
	}
	return y
}

// typeColumn declares a column for the values of a field, and returns how these are read. A column that has
// another type in the database gets them as they come, which is nil.
func (p *Plan) typeColumn(y *typing, table int, have *schema.Table, f *connectSchema, name string) *cast {
	t := &p.tables[table]
	key := slices.ContainsFunc(t.key, func(k keyPart) bool { return k.title == name })
	as := f.cast(p)
	at := p.limits.Find(have, name, len(have.Columns))
	exists := at >= 0 && !(have.Columns[at].New && have.Columns[at].Type == schema.Any)
	if as != nil && (exists && !as.suits(&have.Columns[at]) || key && p.unequal(as)) {
		return nil
	}
	if as != nil {
		as.textJSON = p.limits.TextTypes || exists && have.Columns[at].Type != schema.JSON
	}
	if !key || len(t.children) == 0 && !p.referred(table) { // else other tables have columns like it
		f.declare(y.declared, name, key, as, p.limits.TextTypes)
	}
	return as
}

// isField reports whether a column has the value of a field of the row, and the mapping names no type.
func (p *Plan) isField(s *source, name string) bool {
	if s.kind != aPath || s.cast.asItIs != anyKind || s.at.tree != p.envelope.row {
		return false
	}
	n := &p.trees[s.at.tree].nodes[s.at.node]
	return n.parent == 0 && n.step.Index < 0 && n.step.Name == name
}

// unequal tells that the database does not say which values of the type are equal, as those of a key have to be.
func (p *Plan) unequal(c *cast) bool {
	return c.column(false) == schema.JSON || !p.limits.TextTypes && (c.Kind == Bytes || c.Precision > 0)
}

// cast is how the values of a field are read; nil: as they come.
func (f *connectSchema) cast(p *Plan) *cast {
	kind := logical[f.Name]
	switch {
	case kind == "" && f.Type == "bytes":
		kind = Bytes
	case kind == "" && f.Type == "double":
		return &cast{Type: Type{Kind: Real}, asItIs: anyKind &^ (1 << feed.Number), reader: (*Scratch).readDouble}
	case kind == "":
		return nil
	}
	c := p.cast(Type{Kind: kind})
	if f.Type == "bytes" && kind == Base64Number {
		n, err := strconv.Atoi(f.Parameters.Scale)
		if err != nil || n < -schema.MaxWhole || n > schema.MaxFraction {
			return nil
		}
		c.scale = n
	}
	return &c
}

// declare notes the column that weir makes for the values of a field.
func (f *connectSchema) declare(columns map[string]schema.Column, name string, key bool, as *cast, textTypes bool) {
	plain := plainTypes[f.Type]
	if as != nil {
		plain = as.column(false)
	}
	switch {
	case plain == schema.Any:
	case plain == schema.Text || plain == schema.Number || plain == schema.Real || as == nil:
		columns[name] = schema.NewOf(name, key, plain)
	default:
		columns[name] = as.make(name, key, textTypes)
	}
}

// suits reports whether a column that exists has values of the type. Where it does not, weir may
// have made it for the values as they came: times are integers then.
func (c *cast) suits(x *schema.Column) bool {
	switch c.Kind {
	case Base64Number, Real, Timestamp, UUID, JSONText:
		if x.Own { // it is widened to them
			return true
		}
	}
	given := *x
	given.Own = false
	return c.takes(&given)
}

// wraps reports whether a line has nothing but a schema and the message.
func (e *envelope) wraps(l *feed.Line) bool {
	for i := range l.Fields {
		if n := l.Fields[i].Name; n < 0 || int(n) >= len(e.slots) || e.slots[n] == 0 {
			return false
		}
	}
	return true
}

// typed reads a field of the row by the type that the schema has for it.
func (s *Scratch) typed(f feed.Field, raw []byte) (_ feed.Field, err *feed.Error) {
	name := raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		name = feed.AppendUnquoted(nil, raw)
	}
	as := s.stream.typing.casts[string(name)]
	if as == nil {
		return f, nil
	}
	v, why := s.read(&f, as)
	if why != "" {
		return f, feed.Errorf(feed.BadValue, "table %q: the field %q is %s: %s", s.plan.tables[s.table].spec.Name, name, brief(&f), why)
	}
	v.Name = f.Name
	return v, nil
}
