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
	check    *resumeCheck
	latest   *start // of the source that the job committed last
	tables   *tables
	settings *settings
	queue    dbQueue
	unfit    map[string]*feed.Error // why a table cannot have its settings, by what the stream says of it
}

// An addition is a table that a message needs.
type addition struct {
	*mapping.NewTable
	key    []string
	at     int          // index among the run's tables
	have   schema.Table // the table in the database
	fitted schema.Table // have, fitted to the job's settings
	rules  fold.Options
}

// maxUnfit is how many tables are remembered that cannot have their settings. Asking the database again takes
// milliseconds a line.
const maxUnfit = 1000

// add appends the table that a message needs to the run's tables. Batches that were already started have no rows of it.
// It returns nil if the message truncates a table that does not exist. A [*feed.Error] rejects the line. open has the
// lanes being read.
func (ta *tableAdder) add(flushing context.Context, n *mapping.NewTable, line *feed.Line, open map[*lane]bool) (*addition, error) {
	needed := fmt.Sprint(*n)
	if why := ta.unfit[needed]; why != nil {
		return nil, why
	}
	f, t, fits := ta.tables, &addition{NewTable: n, key: n.Key}, false
	if err := ta.find(flushing, t); err != nil {
		return nil, t.failed(err)
	}
	if n.Truncates && !t.have.Exists {
		return nil, nil
	}
	err := f.mapper.Add(n, t.key, func(table int) error {
		t.at = table
		if err := ta.fit(t); err != nil {
			return err
		}
		if fits = true; len(n.Key) > 0 || t.have.Exists {
			return nil
		}
		_, err := f.mapper.Map(line, "", fold.Place{})
		if bad, rejected := errors.AsType[*feed.Error](err); rejected {
			return bad // a rejected line adds no table, unless the stream or the database gives its key
		}
		return nil
	})
	if why, refused := errors.AsType[*feed.Error](err); refused {
		if len(ta.unfit) == maxUnfit {
			clear(ta.unfit)
		}
		if !fits { // else only this line is rejected
			ta.unfit[needed] = why
		}
		return nil, why
	}
	if err != nil {
		return nil, t.failed(err)
	}
	// From here on later attempts have the table too, whatever ends this one.
	added := f.cfg.Plan.Tables[t.at]
	if added.Options.Appends() && !f.cfg.Plan.Star().Options.Appends() {
		ta.cfg.Log.Warn(fmt.Sprintf("table %q has no key in the stream: each row is inserted, and what needs a key is rejected", added.Name))
		ta.settings.Keyless[added.Name] = true
	}
	f.have = append(f.have, t.have)
	ta.p.AddTable(added.Name)
	if limits := &f.caps.Limits; limits.NoSchemas { // otherwise names in the database are the stream's
		ta.settings.Names[limits.FoldName(n.Name)] = n.StreamName
	}
	others := []schema.Table{t.have}
	if err := ta.check.checkTables(ta.latest, sink.OtherTables(&ta.latest.cp, others)); err != nil {
		return nil, err
	}
	for l := range open {
		if err := ta.check.checkTables(&l.start, sink.OtherTables(&l.cp, others)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// find looks the table up in the database and chooses its key.
func (ta *tableAdder) find(flushing context.Context, t *addition) error {
	err := ta.queue.take(flushing, func(ctx context.Context) (err error) {
		read := ta.readOrMakeSchema(t.NewTable)
		if t.key == nil {
			t.key = ta.cfg.Plan.StarKey()
		}
		keyless := t.Key != nil && len(t.Key) == 0 || t.Truncates // the stream names no key: the table has none, or this is a truncation
		if t.key == nil || keyless {
			switch t.have, err = sink.Table(ctx, read, t.Name, nil); {
			case keyless && errors.As(err, new(sink.NoKeyError)):
				t.key = []string{}
			case err != nil:
				return err
			case t.have.Exists && (!keyless || t.Truncates || t.Has(t.have.KeyColumns())):
				t.key = t.have.KeyColumns()
			case t.key == nil:
				t.key = []string{mapping.DefaultKey}
			}
		}
		t.have, err = sink.Table(ctx, read, t.Name, t.key)
		return err
	})
	added := mapping.TablePlan{Name: t.Name, Options: fold.Options{Key: t.key}}
	if to := added.AddsTo(); err == nil && to != "" && t.have.Exists && ta.cfg.Restart.FromStart && !ta.cfg.Restart.Rebuild {
		err = fmt.Errorf("--restart reread would add all messages again to %s: drop it first", to)
	}
	return err
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
		case n.Truncates || ta.dryRun:
			return sink.NoTables(ctx, wanted...)
		}
		db, err := sink.As[sink.Housekeeper](ta.db, "make a schema")
		if err != nil {
			return nil, err
		}
		made := ta.cfg.Retry.Do(ctx, func() error { return db.Execute(ctx, missing.SQL) })
		tables, err = ta.readTables(ctx, wanted...)
		if made != nil && errors.As(err, &missing) { // otherwise another run has just made it
			err = made
		}
		return tables, err
	}
}

func (t *addition) failed(err error) error {
	return fmt.Errorf("table %q of the stream: %w", t.StreamName, err)
}

// fit fits an added table to the job's settings.
func (ta *tableAdder) fit(t *addition) (err error) {
	f := ta.tables
	for _, other := range f.have {
		if t.have.FullName != "" && other.FullName == t.have.FullName {
			return feed.Errorf(feed.BadName, "the table %q is the same as another one in the database, %q: give it another name in a config file, with from", feed.Clip([]byte(t.StreamName)), other.Name)
		}
	}
	f.cfg.Plan.Tables[t.at].Name = t.have.Name
	t.fitted = t.have.Clone()
	if t.rules, err = f.cfg.Plan.Fit(t.at, &t.fitted); err != nil {
		return t.Refuse(t.key, err)
	}
	return nil
}

// checkStart is [resumeCheck.checkTables] for a lane that starts after messages added tables.
func (ta *tableAdder) checkStart(flushing context.Context, s *start) error {
	known := len(ta.check.found)
	if s.cp.Run == ta.id || len(sink.OtherTables(&s.cp, ta.tables.have[known:])) == 0 {
		return nil
	}
	var now []schema.Table // another run may have created them since the lookup
	err := ta.queue.take(flushing, func(ctx context.Context) (err error) {
		now, err = ta.readTables(ctx, tableKeys(ta.cfg.Plan.Tables[known:])...)
		return err
	})
	if err != nil {
		return err
	}
	return ta.check.checkTables(s, sink.OtherTables(&s.cp, now))
}
