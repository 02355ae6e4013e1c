package settings

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/sink"
)

// AtDatabase returns the plan with the keys that no setting names: the primary key of an existing table. A table
// without one has an open key if messages may name it.
func (p *Plan) AtDatabase(ctx context.Context, read sink.ReadTables) (*Plan, error) {
	keys, open := map[string][]string{}, map[string]bool{}
	for _, name := range p.withoutKey() {
		key, found, err := primaryKey(ctx, read, name, &p.To.Caps)
		switch {
		case !found && p.namesKeyOf(name) && (err == nil || errors.As(err, new(sink.NoKeyError))):
			open[name] = true
		case err != nil && !errors.As(err, new(sink.NoKeyError)):
			return nil, err
		case key != nil:
			keys[name] = key
		}
	}
	if len(keys)+len(open) == 0 {
		return p, nil
	}
	b := p.spec.builder()
	b.plan, b.keys, b.open = *p, keys, open
	b.tables(p.table)
	if err := b.usage(); err != nil {
		return nil, err
	}
	if len(p.Job.Sources) > 0 && IsKafka(p.Job.Sources) {
		b.plan.options.Kafka.Tombstones = b.tombstones()
		b.plan.Job.Kind = *b.env.Kinds(&b.plan.options).Of(p.Job.Sources[0])
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

// namesKeyOf reports whether messages may name the key of a table. Other settings must not depend on that key.
func (p *Plan) namesKeyOf(name string) bool {
	m := p.Mapping
	if m.Envelope == nil || !m.Envelope.NamesKeys() {
		return false
	}
	t := m.Table(name)
	return t.Of == "" && t.Each.Base == paths.NoBase && t.Row.Base == paths.NoBase &&
		!slices.ContainsFunc(m.Tables, func(other mapping.Table) bool { return slices.Contains(other.Dependencies(), name) })
}

// primaryKey returns the primary key of a table. nil: its key is id, because the table is missing or has no primary
// key, or because id is unique and the primary key is one that the database fills in or that weir cannot use. found is
// false for a table without a key.
func primaryKey(ctx context.Context, read sink.ReadTables, name string, caps *sink.Caps) (key []string, found bool, err error) {
	name = caps.TableName(name)
	t, err := sink.Table(ctx, read, name, nil)
	switch {
	case errors.As(err, new(sink.KeyError)):
		return nil, true, nil
	case err == nil && !t.Exists:
		return nil, false, nil
	case err == nil:
		if key = t.KeyColumns(); len(key) == 1 && caps.FoldName(key[0]) == caps.FoldName(mapping.DefaultKey) {
			return nil, true, nil
		}
		if !slices.ContainsFunc(t.StoredKey(), func(i int) bool { return isFilled(&t.Columns[i], caps) }) {
			return key, true, nil
		}
	}
	if _, notID := sink.Table(ctx, read, name, []string{mapping.DefaultKey}); notID == nil {
		return nil, true, nil
	}
	return key, key != nil, err
}

// isFilled reports whether the database fills in a key column that a message does not name.
func isFilled(c *schema.Column, caps *sink.Caps) bool {
	return c.Generated || c.Default != "" || caps.Untyped && strings.EqualFold(c.Decl, "INTEGER") // SQLite's row ID
}

// withKeys returns the file's mapping with primary keys for tables whose key no setting names. Other settings in the
// file must not depend on the database.
func (b *builder) withKeys(m *mapping.Mapping) *mapping.Mapping {
	if m == nil || len(b.keys)+len(b.open) == 0 {
		return m
	}
	of := *m
	of.Tables = slices.Clone(m.Tables)
	for i := range of.Tables {
		t := &of.Tables[i]
		if b.open[t.Name] {
			*t = t.Open()
		}
		key := b.keys[t.Name]
		if key == nil {
			continue
		}
		fault := func(at paths.Pos, why string) {
			b.add(&mapping.Fault{File: m.File, Pos: at, Text: "tables." + t.Name + ": the primary key of the table is " + strings.Join(key, ", ") + ", " + why})
		}
		if m.Envelope != nil && m.Envelope.NamesKeys() { // the first run did not know the key
			*t = t.WithKey(key)
		}
		t.Key = key
		for _, k := range key {
			if t.Columns != nil && !slices.ContainsFunc(t.Columns, func(c mapping.Column) bool { return c.Name == k }) {
				fault(t.Pos, "which is not among its columns: name the key with key")
				break
			}
		}
		if j := slices.IndexFunc(m.Tables, func(other mapping.Table) bool { return slices.Contains(other.Dependencies(), t.Name) }); j >= 0 {
			fault(t.Pos, "and "+m.Tables[j].Name+" depends on its key: name it with key")
		}
	}
	return &of
}
