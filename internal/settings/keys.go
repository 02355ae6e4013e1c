package settings

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
)

// AtDatabase returns the plan with the keys that no setting names: the primary key of an existing table. Other tables must
// not depend on these.
func (p *Plan) AtDatabase(ctx context.Context, read sink.ReadTables) (*Plan, error) {
	b, m, found := p.spec.builder(), *p.Mapping, false
	b.plan, m.Tables = *p, slices.Clone(m.Tables)
	var unusable []error
	for i := range m.Tables {
		t := &m.Tables[i]
		if !t.KeyByDefault || t.ID != "" || t.IsStar() { // a generated key is the primary key, but not that of the messages
			continue
		}
		key, err := primaryKey(ctx, read, t.Name, &p.To.Caps)
		switch {
		case errors.As(err, new(sink.NoKeyError)), err == nil && key == nil:
			continue
		case errors.As(err, new(*sink.Error)):
			return nil, err
		case err != nil:
			unusable = append(unusable, &mapping.Fault{File: m.File, Pos: t.Pos, Text: err.Error(), Err: err})
			continue
		}
		t.Key, found = key, true
		if j := slices.IndexFunc(m.Tables, func(other mapping.Table) bool { return slices.Contains(other.Dependencies(), t.Name) }); j >= 0 {
			b.add(&mapping.Fault{File: m.File, Pos: t.Pos, Where: "tables." + t.Name, Text: "the primary key of the table is " + strings.Join(key, ", ") + ", and " + m.Tables[j].Name + " depends on its key: name it with key"})
		}
	}
	if !found || unusable != nil {
		return p, errors.Join(unusable...)
	}
	b.compile(&m)
	if err := b.usage(); err != nil {
		return nil, err
	}
	if len(p.Job.Sources) > 0 && IsKafka(p.Job.Sources) {
		b.plan.options.Kafka.Tombstones = b.tombstones()
		b.plan.Job.Kind = *Kinds(&b.plan.options).Of(p.Job.Sources[0])
	}
	return &b.plan, nil
}

// primaryKey returns the primary key of a table. nil: its key is id, because the table is missing or has no primary
// key, or because id is unique and the primary key is one that the database fills in or that weir cannot use.
func primaryKey(ctx context.Context, read sink.ReadTables, name string, caps *sink.Caps) (key []string, err error) {
	name = caps.TableName(name)
	t, err := sink.Table(ctx, read, name, nil)
	switch {
	case errors.As(err, new(sink.KeyError)), err == nil && !t.Exists:
		return nil, nil
	case err == nil:
		if key = t.KeyColumns(); len(key) == 1 && caps.FoldName(key[0]) == caps.FoldName(mapping.DefaultKey) {
			return nil, nil
		}
		if !slices.ContainsFunc(t.StoredKey(), func(i int) bool { return isFilled(&t.Columns[i], caps) }) {
			return key, nil
		}
	}
	if _, notID := sink.Table(ctx, read, name, []string{mapping.DefaultKey}); notID == nil {
		return nil, nil
	}
	return key, err
}

// isFilled reports whether the database fills in a key column that a message does not name.
func isFilled(c *schema.Column, caps *sink.Caps) bool {
	return c.Generated || c.Default != "" || caps.Untyped && strings.EqualFold(c.Decl, "INTEGER") // SQLite's row ID
}
