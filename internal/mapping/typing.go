package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
)

// A typing is what the schema in a message says about the rows of a table.
type typing struct {
	casts    map[string]*cast.Cast // by the field's name
	sources  map[*source]*cast.Cast
	declared *fold.Declared
}

// A TypeChangedError ends a run: from a message on, the stream declares a type for a column that cannot hold its values
// next to the column's.
type TypeChangedError struct {
	Table string
	Err   *schema.TypeError
}

func (e *TypeChangedError) Error() string {
	return fmt.Sprintf("table %q: %v, which the stream declares from this message on", e.Table, e.Err)
}

// lastTyping is the last typing of a table: schemas rarely change.
type lastTyping struct {
	of *envelope.RowSchema
	*typing
}

// table returns a table with the columns that messages have added.
func (b *rowBuilder) table(t *TablePlan) *schema.Table {
	if b.current == nil || t.index == b.adding {
		return &t.fitted
	}
	now := b.current(t.index)
	return &now
}

// typing returns what a schema says about the rows of a table; nil for nothing. The error is a [*TypeChangedError].
func (b *rowBuilder) typing(r *envelope.RowSchema, t *TablePlan) (*typing, error) {
	if r == nil || len(r.Fields) == 0 || t.nest.isElement() || t.row.nested {
		return nil, nil
	}
	last := &b.tables[t.index].typing
	if last.of == r {
		return last.typing, nil
	}
	now, err := b.plan.typing(t, b.table(t), r.Fields)
	if err != nil {
		return nil, err
	}
	*last = lastTyping{r, now}
	return now, nil
}

// typing returns what fields say about the rows of a table in its current state. Columns that have a type in the
// mapping keep it.
func (p *Plan) typing(t *TablePlan, have *schema.Table, fields []envelope.FieldSchema) (*typing, error) {
	y := &typing{casts: map[string]*cast.Cast{}, sources: map[*source]*cast.Cast{}, declared: &fold.Declared{Columns: map[string]schema.Column{}}}
	if k := t.spec.Type.Kind; k != cast.Auto && k != cast.DefaultType {
		return y, nil
	}
	for i := range fields {
		f, listed := &fields[i], false
		for j := range t.columns {
			c := &t.columns[j]
			listed = listed || c.spec.Name == f.Field
			if len(c.sources) != 1 || c.references != nil || !p.readsUncast(&c.sources[0], f.Field) {
				continue
			}
			as, err := p.typeColumn(y, t, have, f, c.spec.Name)
			if err != nil {
				return nil, err
			}
			y.sources[&c.sources[0]] = as
		}
		if !listed {
			as, err := p.typeColumn(y, t, have, f, f.Field)
			if err != nil {
				return nil, err
			}
			y.casts[f.Field] = as
		}
	}
	return y, nil
}

// readsUncast reports whether a source is a field of the row, unconverted.
func (p *Plan) readsUncast(s *source, field string) bool {
	at := s.From.Place()
	return s.cast.KeepsAll() && at.Tree == p.stream.RowTree() && p.trees.IsMember(at, field)
}

// typeColumn declares a column for the values of a field, and returns the conversion for them. It returns nil if they
// need none, or if a column that others made has another type.
func (p *Plan) typeColumn(y *typing, t *TablePlan, have *schema.Table, f *envelope.FieldSchema, name string) (*cast.Cast, error) {
	key := slices.ContainsFunc(t.key, func(k keyPart) bool { return k.title == name })
	as := f.Cast(p.limits.TextTypes)
	c := schema.New(name, key)
	if at := p.limits.Find(have, name, len(have.Columns)); at >= 0 {
		c = have.Columns[at]
	}
	if f.Kind == cast.DefaultType && f.Type == "" || as != nil && (!as.CanStoreIn(&c) || key && p.cannotBeKey(as)) {
		return nil, nil
	}
	want := f.Column(name, key, as, p.limits.TextTypes)
	if err := (*schema.TypeError)(nil); errors.As(c.Declare(&want), &err) {
		return nil, &TypeChangedError{t.spec.Name, err}
	}
	if !key || len(t.nest.children) == 0 && !p.isReferenced(t) { // else other tables have columns with the same type
		y.declared.Columns[name] = want
	}
	if as != nil {
		if as.TextJSON = p.limits.TextTypes || c.Type != schema.JSON; c.Type == schema.Bits {
			as.BitLength = cmp.Or(c.Size, -1)
		}
	}
	return as, nil
}

// cannotBeKey reports whether the database does not define equality for the type.
func (p *Plan) cannotBeKey(c *cast.Cast) bool {
	return c.Column(false) == schema.JSON || !p.limits.TextTypes && (c.Column(false) == schema.Bytes || c.Precision > 0)
}

// readTyped converts a field of the row to the type in the schema. raw is the raw name, between its quotes.
func (b *rowBuilder) readTyped(t *TablePlan, types *typing, f feed.Field, raw []byte) (feed.Field, *refusal) {
	name := feed.Unquoted(nil, raw)
	as := types.casts[string(name)]
	if as == nil {
		return f, nil
	}
	v, why := b.cast.Read(&f, as)
	if why != "" {
		return f, t.refuse(feed.Errorf(feed.BadValue, "table %q: the field %q is %s: %s", t.spec.Name, name, feed.Clip(f.Value), why))
	}
	v.Name = f.Name
	return v, nil
}
