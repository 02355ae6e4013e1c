package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A tableAdder adds a table to the run at the first message that names it. Only the reader uses it.
type tableAdder struct {
	run       *run
	admission *admission
	latest    *start // of the source that the job committed last
	folding   *folding
	settings  *keptSettings
	turns     *turns
}

// An addition is a table that a message needs.
type addition struct {
	of     *mapping.NewTable
	key    []string
	have   schema.Table // the table in the database
	fitted schema.Table // have, fitted to the job's settings
}

// find looks the table up in the database and chooses its key. It returns nil if the message truncates a table that does
// not exist.
func (ta *tableAdder) find(flushing context.Context, n *mapping.NewTable) (t *addition, err error) {
	t = &addition{of: n, key: n.Key}
	err = ta.turns.take(flushing, func(ctx context.Context) (err error) {
		read := ta.readOrMakeSchema(n)
		if t.key == nil && n.Table < 0 {
			t.key = ta.run.cfg.Mapping.Star.Key
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
	if to := added.AddsTo(); err == nil && to != "" && t.have.Exists && ta.run.cfg.Restart.FromStart && !ta.run.cfg.Restart.Rebuild {
		err = fmt.Errorf("--restart reread would add all messages again to %s: drop it first", to)
	}
	if err == nil && n.Table < 0 {
		err = ta.isOther(&t.have)
	}
	if err != nil {
		return nil, t.failed(err)
	}
	return t, nil
}

// readOrMakeSchema returns a function that reads a table and creates its schema if that is missing. It creates none for a
// truncation, or in a run that writes nothing.
func (ta *tableAdder) readOrMakeSchema(n *mapping.NewTable) sink.ReadTables {
	return func(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
		db := ta.run.db
		tables, err := db.Tables(ctx, wanted...)
		var missing sink.NoSchemaError
		switch {
		case !errors.As(err, &missing):
			return tables, err
		case n.Truncates || ta.run.looks:
			return sink.NoTables(ctx, wanted...)
		}
		maker, err := sink.As[sink.SchemaMaker](db, "make a schema")
		if err == nil {
			err = maker.MakeSchema(ctx, missing)
		}
		if err != nil {
			return nil, err
		}
		return db.Tables(ctx, wanted...)
	}
}

func (t *addition) failed(err error) error {
	return fmt.Errorf("table %q of the stream: %w", t.of.StreamName, err)
}

// isOther returns an error if the run already has the table under another name.
func (ta *tableAdder) isOther(t *schema.Table) error {
	for _, other := range ta.folding.have {
		if t.FullName != "" && other.FullName == t.FullName {
			return fmt.Errorf("in the database it is the same as %q: give one of the two another name in a config file, with from", other.Name)
		}
	}
	return nil
}

// add appends the table to the run's tables, or sets the key of a table that had none. Batches that were already started
// have no rows of it. ok is false if the line is rejected. A rejected line adds no table, unless the stream or the database
// gives the table's key. open has the lanes being read.
func (ta *tableAdder) add(t *addition, line *feed.Line, open map[*lane]bool) (ok bool, err error) {
	if len(t.of.Key) > 0 || t.have.Exists {
		line = nil
	}
	f, base := ta.folding, ta.run.cfg.Mapping.Star
	if f.adding = len(f.tables); t.of.Table >= 0 {
		f.adding, base = t.of.Table, &f.tables[t.of.Table]
	}
	added, refused, err := f.plan.add(t.of, t.key, line)
	if refused {
		return false, nil
	}
	if err != nil {
		return false, t.failed(err)
	}
	// From here on later attempts have the table too, whatever ends this one.
	added.Name = t.have.Name
	added.Fold.WholeLines, added.Fold.MaxColumns = base.Fold.WholeLines, base.Fold.MaxColumns
	if t.of.Table >= 0 {
		f.tables[t.of.Table], f.have[t.of.Table] = added, t.have
		if err := ta.settings.refresh(settingsOf(ta.run.cfg, f.tables[:ta.admission.declared])); err != nil {
			return false, err
		}
	} else {
		f.tables, f.have = append(f.tables, added), append(f.have, t.have)
		ta.run.p.AddTable(added.Name)
	}
	if added.Fold.Appends() && !base.Fold.Appends() {
		ta.run.cfg.Log.Warn(fmt.Sprintf("table %q has no key in the stream: each row is inserted, and what needs a key is rejected", added.Name))
		if err := ta.settings.addKeyless(added.Name); err != nil {
			return false, err
		}
	}
	if err := ta.admission.checkTables(ta.latest, otherAdded(&ta.latest.cp, t.have)); err != nil {
		return false, err
	}
	for l := range open {
		if err := ta.admission.checkTables(&l.start, otherAdded(&l.cp, t.have)); err != nil {
			return false, err
		}
	}
	if limits := &f.caps.Limits; limits.NoSchemas { // otherwise names in the database are the stream's
		if err := ta.settings.rename(limits.FoldName(t.of.Name), t.of.StreamName); err != nil {
			return false, err
		}
	}
	t.fitted = t.have.Clone()
	return true, added.Fit(&f.caps.Limits, &t.fitted)
}

// check is [admission.checkTables] for a lane that starts after messages added tables.
func (ta *tableAdder) check(flushing context.Context, s *start) error {
	known := len(ta.admission.found)
	if s.cp.Run == ta.run.id || len(otherAdded(&s.cp, ta.folding.have[known:]...)) == 0 {
		return nil
	}
	var now []schema.Table // another run may have created them since the lookup
	err := ta.turns.take(flushing, func(ctx context.Context) (err error) {
		now, err = ta.run.db.Tables(ctx, TableKeys(ta.folding.tables[known:])...)
		return err
	})
	if err != nil {
		return err
	}
	return ta.admission.checkTables(s, otherAdded(&s.cp, now...))
}

// otherAdded is [sink.OtherTables] for tables that messages added. A checkpoint of a single table has its ID without a name:
// that is never an added table.
func otherAdded(cp *sink.Checkpoint, tables ...schema.Table) []*schema.Table {
	if names, _ := sink.SplitIDs(cp.TableID); names == nil {
		return nil
	}
	return sink.OtherTables(cp, tables)
}
