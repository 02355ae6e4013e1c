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

// AtDatabase returns the plan with the keys that no setting names: the primary key of an existing table.
func (p *Plan) AtDatabase(ctx context.Context, read sink.ReadTables) (*Plan, error) {
	keys := map[string][]string{}
	for _, name := range p.withoutKey() {
		key, err := primaryKey(ctx, read, name, &p.To.Caps)
		if err != nil && !errors.As(err, new(sink.NoKeyError)) {
			return nil, err
		} else if key != nil {
			keys[name] = key
		}
	}
	if len(keys) == 0 {
		return p, nil
	}
	b := p.spec.builder()
	b.plan, b.keys = *p, keys
	b.tables(p.table)
	if err := b.usage(); err != nil {
		return nil, err
	}
	if len(p.Job.Sources) > 0 && IsKafka(p.Job.Sources) {
		b.plan.options.Kafka.Tombstones = b.tombstones()
		b.plan.Job.Kind = *Kinds(&b.plan.options).Of(p.Job.Sources[0])
	}
	return &b.plan, nil
}

// withoutKey returns the tables whose key no setting names.
func (p *Plan) withoutKey() (names []string) {
	switch file := p.spec.Mapping; {
	case file != nil:
		for i := range file.Tables {
			// A surrogate key is the primary key, but not the key of the messages.
			if t := &file.Tables[i]; t.KeyByDefault && t.ID == "" && !t.IsStar() {
				names = append(names, t.Name)
			}
		}
	case p.spec.Fold.Key == nil && p.table != mapping.Star: // [pipeline.Run] finds the keys of tables that messages add
		names = append(names, p.table)
	}
	return names
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

// withKeys returns the file's mapping with primary keys for tables whose key no setting names. Other tables must not
// depend on them.
func (b *builder) withKeys(m *mapping.Mapping) *mapping.Mapping {
	if m == nil || len(b.keys) == 0 {
		return m
	}
	of := *m
	of.Tables = slices.Clone(m.Tables)
	for i := range of.Tables {
		t := &of.Tables[i]
		key := b.keys[t.Name]
		if key == nil {
			continue
		}
		t.Key = key
		if j := slices.IndexFunc(m.Tables, func(other mapping.Table) bool { return slices.Contains(other.Dependencies(), t.Name) }); j >= 0 {
			b.add(&mapping.Fault{File: m.File, Pos: t.Pos, Where: "tables." + t.Name, Text: "the primary key of the table is " + strings.Join(key, ", ") + ", and " + m.Tables[j].Name + " depends on its key: name it with key"})
		}
	}
	return &of
}
