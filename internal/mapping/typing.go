package mapping

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// A typing is what the schema beside a message says of the rows of a table.
type typing struct {
	casts    map[string]*cast.Cast // by the field's name
	sources  map[*source]*cast.Cast
	declared map[string]schema.Column
}

// typings are what schemas say of tables.
type typings struct {
	plan    *Plan
	current func(table int) (_ schema.Table, ok bool)
	cache   map[typingKey]*typing
}

type typingKey struct {
	schema *envelope.RowSchema
	table  int
}

// maxTypings is how many are kept.
const maxTypings = 10_000

// table is a table with the columns that the messages so far have brought.
func (y *typings) table(table int) *schema.Table {
	if y.current != nil {
		if now, ok := y.current(table); ok {
			return &now
		}
	}
	return &y.plan.fitted[table]
}

// of returns what a schema says of the rows of a table; nil: nothing.
func (y *typings) of(r *envelope.RowSchema, t *planned) *typing {
	if r == nil || len(r.Fields) == 0 || t.nest.isElement() || t.row.nested {
		return nil
	}
	key := typingKey{r, t.index}
	if known := y.cache[key]; known != nil {
		return known
	}
	if y.cache == nil || len(y.cache) >= maxTypings {
		y.cache = map[typingKey]*typing{}
	}
	y.cache[key] = y.plan.typing(t, y.table(t.index), r.Fields)
	return y.cache[key]
}

// remove removes a table from the cache.
func (y *typings) remove(table int) {
	for key := range y.cache {
		if key.table == table {
			delete(y.cache, key)
		}
	}
}

// typing is what fields say of the rows of a table, as it is now. Columns whose type the mapping names keep that.
func (p *Plan) typing(t *planned, have *schema.Table, fields []envelope.FieldSchema) *typing {
	y := &typing{casts: map[string]*cast.Cast{}, sources: map[*source]*cast.Cast{}, declared: map[string]schema.Column{}}
	if k := t.spec.Type.Kind; k != cast.Auto && k != cast.DefaultType {
		return y
	}
	for i := range fields {
		if as := p.typeColumn(y, t, have, &fields[i], fields[i].Field); as != nil {
			y.casts[fields[i].Field] = as
		}
	}
	for i := range t.columns {
		c := &t.columns[i]
		delete(y.declared, c.spec.Name)
		if len(c.sources) != 1 || c.references != nil {
			continue
		}
		src := &c.sources[0]
		for j := range fields {
			if src.kind != aPath || !src.cast.KeepsAll() || src.at.Tree != p.stream.RowTree() || !p.trees.IsMember(src.at, fields[j].Field) {
				continue
			}
			if as := p.typeColumn(y, t, have, &fields[j], c.spec.Name); as != nil {
				y.sources[src] = as
			}
		}
	}
	return y
}

// typeColumn declares a column for the values of a field, and returns how these are read. A column that has
// another type in the database gets them as they come, which is nil.
func (p *Plan) typeColumn(y *typing, t *planned, have *schema.Table, f *envelope.FieldSchema, name string) *cast.Cast {
	key := slices.ContainsFunc(t.key, func(k keyPart) bool { return k.title == name })
	as := f.Cast(p.limits.TextTypes)
	at := p.limits.Find(have, name, len(have.Columns))
	exists := at >= 0 && !(have.Columns[at].New && have.Columns[at].Type == schema.Any)
	if as != nil && (exists && !as.CanStoreOrWiden(&have.Columns[at]) || key && p.cannotBeKey(as)) {
		return nil
	}
	if as != nil {
		as.TextJSON = p.limits.TextTypes || exists && have.Columns[at].Type != schema.JSON
	}
	if !key || len(t.nest.children) == 0 && !p.isReferenced(t.index) { // else other tables have columns like it
		if c, ok := f.Column(name, key, as, p.limits.TextTypes); ok {
			y.declared[name] = c
		}
	}
	return as
}

// cannotBeKey reports that the database does not say which values of the type are equal, as those of a key have to be.
func (p *Plan) cannotBeKey(c *cast.Cast) bool {
	return c.Column(false) == schema.JSON || !p.limits.TextTypes && (c.Kind == cast.Bytes || c.Precision > 0)
}

// readTyped reads a field of the row by the type that the schema has for it. raw is what stands between the quotes of its name.
func (b *rowBuilder) readTyped(t *planned, types *typing, f feed.Field, raw []byte) (feed.Field, *refusal) {
	name := feed.Unquoted(nil, raw)
	as := types.casts[string(name)]
	if as == nil {
		return f, nil
	}
	v, why := b.cast.Read(&f, as)
	if why != "" {
		why = fmt.Sprintf("the field %q is %s: %s", name, feed.Clip(f.Value), why)
		if !b.setNull(t, string(name), why, &v) {
			return f, t.refuse(feed.Errorf(feed.BadValue, "table %q: %s", t.spec.Name, why))
		}
	}
	v.Name = f.Name
	return v, nil
}
