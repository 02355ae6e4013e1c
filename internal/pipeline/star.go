package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
)

// A tableAdder adds a table to the run at the first message that names it. Only the reader uses it.
type tableAdder struct {
	*run
	admission *admission
	latest    *start // of the source that the job committed last
	folding   *folding
	settings  *settings
	turns     turns
}

// An addition is a table that a message needs.
type addition struct {
	of     *mapping.NewTable
	key    []string
	have   schema.Table // the table in the database
	fitted schema.Table // have, fitted to the job's settings
}

// find looks the table up in the database and chooses its key. It returns nil if the message truncates a table that
// does not exist.
func (ta *tableAdder) find(flushing context.Context, n *mapping.NewTable) (t *addition, err error) {
	t = &addition{of: n, key: n.Key}
	err = ta.turns.take(flushing, func(ctx context.Context) (err error) {
		read := ta.readOrMakeSchema(n)
		if t.key == nil && n.Table < 0 {
			if star := ta.cfg.Star; !star.KeyByDefault {
				t.key = star.Key
			}
		}
		keyless := n.Key != nil && len(n.Key) == 0 || n.Truncates // the stream names no key: the table has none, or this is a truncation
		if t.key == nil || keyless {
			switch t.have, err = sink.Table(ctx, read, n.Name, nil); {
			case keyless && errors.As(err, new(sink.NoKeyError)):
				t.key = []string{}
			case err != nil:
				return err
			case t.have.Exists && (!keyless || n.Truncates || n.Has(t.have.KeyColumns())):
				t.key = t.have.KeyColumns()
			case t.key == nil:
				t.key = []string{mapping.DefaultKey}
			}
		}
		t.have, err = sink.Table(ctx, read, n.Name, t.key)
		return err
	})
	if err == nil && n.Truncates && !t.have.Exists {
		return nil, nil
	}
	added := Table{Name: n.Name, Fold: fold.Options{Key: t.key}}
	if to := added.AddsTo(); err == nil && to != "" && t.have.Exists && ta.cfg.Restart.FromStart && !ta.cfg.Restart.Rebuild {
		err = fmt.Errorf("--restart reread would add all messages again to %s: drop it first", to)
	}
	if err != nil {
		return nil, t.failed(err)
	}
	return t, nil
}

// readOrMakeSchema returns a function that reads a table and creates its schema if that is missing. It creates none for
// a truncation, or in a run that writes nothing.
func (ta *tableAdder) readOrMakeSchema(n *mapping.NewTable) sink.ReadTables {
	return func(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
		tables, err := ta.readTables(ctx, wanted...)
		var missing sink.NoSchemaError
		switch {
		case !errors.As(err, &missing):
			return tables, err
		case n.Truncates || ta.looks:
			return sink.NoTables(ctx, wanted...)
		}
		maker, err := sink.As[sink.SchemaMaker](ta.db, "make a schema")
		if err == nil {
			err = ta.cfg.Retry.Do(ctx, func() error { return maker.MakeSchema(ctx, missing) })
		}
		if err != nil {
			return nil, err
		}
		return ta.readTables(ctx, wanted...)
	}
}

func (t *addition) failed(err error) error {
	return fmt.Errorf("table %q of the stream: %w", t.of.StreamName, err)
}

// fit fits an added table to the job's settings, and returns its rules. An error rejects the message that needs the
// table.
func (ta *tableAdder) fit(t *addition, added, base *Table) (o fold.Options, err error) {
	f := ta.folding
	for _, other := range f.have {
		if t.of.Table < 0 && t.have.FullName != "" && other.FullName == t.have.FullName {
			return o, feed.Errorf(feed.BadName, "the table %q is the same as another one in the database, %q: give it another name in a config file, with from", feed.Clip([]byte(t.of.StreamName)), other.Name)
		}
	}
	added.Name = t.have.Name
	added.Fold.MaxColumns = base.Fold.MaxColumns
	t.fitted = t.have.Clone()
	if f.mapper.whole != nil && added.AddsTo() != "" {
		err = errors.New("with --tables, this job and the one of all tables would both add messages to it")
	} else if err = f.mapper.plan.Fit(f.adding, &t.fitted); err == nil {
		o, err = f.options(added, &t.fitted)
	}
	if err != nil {
		return o, t.of.Refuse(t.key, err)
	}
	return o, nil
}

// add appends the table to the run's tables, or sets the key of a table that had none, and returns its rules. Batches
// that were already started have no rows of it. ok is false if the line is rejected. A rejected line adds no table,
// unless the stream or the database gives the table's key. open has the lanes being read.
func (ta *tableAdder) add(t *addition, line *feed.Line, open map[*lane]bool) (o fold.Options, ok bool, err error) {
	if len(t.of.Key) > 0 || t.have.Exists {
		line = nil
	}
	f, base := ta.folding, ta.cfg.Star
	if f.adding = len(f.tables); t.of.Table >= 0 {
		f.adding, base = t.of.Table, &f.tables[t.of.Table]
	}
	added, err := f.mapper.add(t.of, t.key, line, func(added *Table) (err error) {
		o, err = ta.fit(t, added, base)
		return err
	})
	switch {
	case errors.As(err, new(*feed.Error)):
		return o, false, nil
	case err != nil:
		return o, false, t.failed(err)
	}
	// From here on later attempts have the table too, whatever ends this one.
	if t.of.Table >= 0 {
		f.tables[t.of.Table], f.have[t.of.Table] = added, t.have
		ta.settings.Tables = settingsOf(ta.cfg, f.tables[:ta.admission.declared]).Tables
	} else {
		f.tables, f.have = append(f.tables, added), append(f.have, t.have)
		ta.p.AddTable(added.Name)
	}
	if added.Fold.Appends() && !base.Fold.Appends() {
		ta.cfg.Log.Warn(fmt.Sprintf("table %q has no key in the stream: each row is inserted, and what needs a key is rejected", added.Name))
		ta.settings.Keyless[added.Name] = true
	}
	if err := ta.admission.checkTables(ta.latest, sink.OtherTables(&ta.latest.cp, []schema.Table{t.have})); err != nil {
		return o, false, err
	}
	for l := range open {
		if err := ta.admission.checkTables(&l.start, sink.OtherTables(&l.cp, []schema.Table{t.have})); err != nil {
			return o, false, err
		}
	}
	if limits := &f.caps.Limits; limits.NoSchemas { // otherwise names in the database are the stream's
		ta.settings.Names[limits.FoldName(t.of.Name)] = t.of.StreamName
	}
	return o, true, nil
}

// check is [admission.checkTables] for a lane that starts after messages added tables.
func (ta *tableAdder) check(flushing context.Context, s *start) error {
	known := len(ta.admission.found)
	if s.cp.Run == ta.id || len(sink.OtherTables(&s.cp, ta.folding.have[known:])) == 0 {
		return nil
	}
	var now []schema.Table // another run may have created them since the lookup
	err := ta.turns.take(flushing, func(ctx context.Context) (err error) {
		now, err = ta.readTables(ctx, TableKeys(ta.folding.tables[known:])...)
		return err
	})
	if err != nil {
		return err
	}
	return ta.admission.checkTables(s, sink.OtherTables(&s.cp, now))
}
