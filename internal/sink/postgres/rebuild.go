package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

// A flush that first empties its tables, because the source is reread from its start.

// A rebuildError says why tables must not be emptied. The flush itself may have filled them, if its reply was lost.
type rebuildError struct{ error }

func (e rebuildError) Unwrap() error { return e.error }

// readRebuild reads the tables that the flush is going to empty.
func (a *attempt) readRebuild(ctx context.Context) error {
	d := a.d
	if d.ready { // otherwise no job has written yet
		r, err := d.query(ctx, a.otherJobsSQL())
		if err != nil {
			return err
		}
		a.otherJobs = string(r[0].rows[0][0])
	}
	wanted := make([]sink.TableKey, len(a.parts))
	for i, p := range a.parts {
		wanted[i] = sink.TableKey{Name: p.b.Table.Name, Key: p.t.key}
	}
	now, err := d.readRelations(ctx, wanted)
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return err
	}
	for i, p := range a.parts {
		p.t.relation = now[i]
		if err := errors.Join(sink.MayRebuild(&p.t.Table, storable(a.f.Job)), sink.MayEmpty(&p.t.Table, func(other string) bool { return a.partNamed(other) != nil })); err != nil {
			return rebuildError{err}
		}
		p.t.Emptied(&caps.Limits, &p.b.Table)
	}
	return nil
}

// emptyTables adds statements that remove everything that the job has written to the tables.
func (a *attempt) emptyTables() {
	d, s := a.d, a.script
	s.addAll(d.dialect().Empty(a.f)...)
	var truncate, drop []string
	for _, p := range a.parts {
		d.dropVersions(s, d.fullName(&p.t.relation))
		switch {
		case p.t.Exists:
			truncate = append(truncate, p.t.ident)
		case p.t.oid != "": // it has another key
			drop = append(drop, p.t.ident)
		}
	}
	s.add(briefly)
	if len(drop) > 0 {
		s.add("DROP TABLE %s", strings.Join(drop, ", "))
	}
	if len(truncate) > 0 {
		s.add("TRUNCATE %s", strings.Join(truncate, ", "))
	}
	s.add(patiently)
	// Another job may have written to a table before this one got its lock.
	s.put(demand(errMoved, "(%s) = %s", a.otherJobsSQL(), literal(a.otherJobs)))
}

// otherJobsSQL returns SQL for a hash of the other jobs that have written, with their tables.
func (a *attempt) otherJobsSQL() string {
	return "SELECT coalesce(md5(string_agg(job || ' ' || tbl, ',' ORDER BY job, tbl)), '') FROM " + a.d.schema + ".weir_jobs WHERE job <> " + literal(a.f.Job)
}
