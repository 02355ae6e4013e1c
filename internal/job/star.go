package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// An ask is what the flusher's goroutine, which alone uses the database, does for another one, which
// waits until done is closed.
type ask struct {
	do   func(context.Context) error
	err  error
	done chan struct{}
}

// ask has the flusher do something between two flushes.
func (rd *reader) ask(flushing context.Context, do func(context.Context) error) error {
	a := &ask{do: do, done: make(chan struct{})}
	select {
	case rd.asks <- a:
	case <-flushing.Done():
		return flushing.Err()
	}
	select {
	case <-a.done:
		return a.err
	case <-flushing.Done():
		return flushing.Err()
	}
}

// errNoTable is returned for a message that removes the rows of a table which does not exist.
var errNoTable = errors.New("there is no such table")

// addTable adds a table that a message needs, which begins at an index of a block, behind the others.
// Sets that are on their way lack it. A line that is rejected adds no table, unless the stream or the database says
// which key it has.
func (rd *reader) addTable(flushing context.Context, e *event, i, at int, n *mapping.NewTable) error {
	var have schema.Table
	var t Table
	err := rd.ask(flushing, func(ctx context.Context) (err error) {
		key := n.Key
		if key == nil {
			if have, err = sink.Table(ctx, rd.readTables, n.Name, nil); err != nil {
				return err
			}
			if key = rd.Star.Key; have.Exists {
				key = have.KeyColumns()
			}
		}
		if have, err = sink.Table(ctx, rd.readTables, n.Name, key); err != nil {
			return err
		}
		if n.Truncates && !have.Exists {
			return errNoTable
		}
		if err := rd.sameAsOther(&have); err != nil {
			return err
		}
		line := &e.lines[i]
		if n.Key != nil || have.Exists {
			line = nil
		}
		if t, err = rd.mapper.(*planned).add(n, key, line); err != nil {
			return err
		}
		// From here on an attempt that comes after this one has the table, too, whatever ends this one.
		t.Name = have.Name
		t.Fold.WholeLines, t.Fold.MaxColumns = rd.Star.Fold.WholeLines, rd.Star.Fold.MaxColumns
		rd.added, rd.found = append(rd.added, t), append(rd.found, have)
		rd.p.AddTable(t.Name)
		return nil
	})
	if err == errNoTable {
		return err
	}
	if rd.mapper.(*planned).refused != nil {
		return nil // the mapper rejects the line
	}
	if err != nil {
		return fmt.Errorf("table %q of the stream: %w", n.Of, err)
	}
	if err := rd.checkTables(&rd.latest, otherAdded(&rd.latest.cp, have)); err != nil {
		return err
	}
	for l := range rd.open {
		if err := rd.checkTables(&l.start, otherAdded(&l.cp, have)); err != nil {
			return err
		}
	}
	if limits := &rd.caps.Limits; limits.NoSchemas { // else the database has all names of the stream
		rd.streamNames[limits.FoldName(n.Name)] = n.Of
		if err := rd.keepSettings(); err != nil {
			return err
		}
	}
	fitted := have.Clone()
	if err := t.Fit(&rd.caps.Limits, &fitted); err != nil {
		return err
	}
	if fitted.HasConstraints && !rd.lookedAt && rd.set.Rows() > 0 && // from now on all keep their messages
		!rd.folders[0].Table().HasConstraints {
		if err := rd.split(flushing, e, at); err != nil {
			return err
		}
	}
	if _, err := rd.addFolder(&fitted, rd.caps); err != nil {
		return err
	}
	if !rd.lookedAt {
		rd.folders.Link()
	}
	rd.set.Grow(len(rd.folders))
	return nil
}

// sameAsOther reports that a table which a message adds is one that the run has by another name.
func (r *run) sameAsOther(t *schema.Table) error {
	for _, other := range slices.Concat(r.tables, r.found) {
		if t.FullName != "" && other.FullName == t.FullName {
			return fmt.Errorf("in the database it is the same as %q: give one of the two another name in a config file, with from", other.Name)
		}
	}
	return nil
}

// checkAdded is checkTables of a lane that begins after messages have added tables.
func (rd *reader) checkAdded(flushing context.Context, l *lane) error {
	if l.cp.Run == rd.id || len(otherAdded(&l.cp, rd.found...)) == 0 {
		return nil
	}
	var now []schema.Table // another run may have made them since they were found
	err := rd.ask(flushing, func(ctx context.Context) (err error) {
		now, err = rd.readTables(ctx, TableKeys(rd.added)...)
		return err
	})
	if err != nil {
		return err
	}
	return rd.checkTables(&l.start, otherAdded(&l.cp, now...))
}

// otherAdded is [sink.OtherTables] of tables that messages have added. Where a checkpoint knows one table,
// without its name, that is none of them.
func otherAdded(cp *sink.Checkpoint, tables ...schema.Table) []*schema.Table {
	if names, _ := sink.SplitIDs(cp.TableID); names == nil {
		return nil
	}
	return sink.OtherTables(cp, tables)
}
