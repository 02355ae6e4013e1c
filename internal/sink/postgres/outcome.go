package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// send sends the script so far, and starts a new one.
func (a *attempt) send(ctx context.Context) ([]result, error) {
	r, err := a.d.run(ctx, a.script)
	if err != nil {
		return nil, err
	}
	a.count(r)
	a.script = &script{}
	return r, nil
}

// end adds the rejects, the checkpoints and the COMMIT.
func (a *attempt) end(rejects []fold.Reject) error {
	d, f, s := a.d, a.f, a.script
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects); err != nil {
			return err
		}
	}
	s.addAll(d.dialect().Prune(f)...)
	if f.KeepRejects {
		d.keep(s, f, rejects)
	}
	a.checkpoints()
	for _, p := range a.parts {
		if p.factsAt = 0; p.after.Exists && p.after.facts == "" {
			p.factsAt = s.addAll(strings.ReplaceAll(factsSQL, "r.oid", quote(p.after.ident)+"::regclass"))
		}
	}
	s.add("COMMIT")
	return nil
}

// count adds the effects of the script's statements to the parts' counts. It returns false if the results end too
// early.
func (a *attempt) count(r []result) bool {
	var before [][]byte
	var merged int64
	for i, st := range a.script.statements {
		switch {
		case st.part == nil:
			continue
		case i >= len(r):
			return false
		}
		to, n := &st.part.counts, r[i].tag.RowsAffected()
		var ins, upd, del int64 // on rows that messages are about
		switch st.tally {
		case inserted:
			ins = n
		case deleted:
			del = n
		case removed:
			to.Deleted += n
		case countsBefore:
			before, merged = r[i].rows[0], 0
		case counted:
			merged += n
		case countsAfter:
			ins, upd, del = st.part.plan.split(merged, before, r[i].rows[0])
		}
		to.Inserted, to.Updated, to.Deleted, to.Unchanged = to.Inserted+ins, to.Updated+upd, to.Deleted+del, to.Unchanged-ins-upd-del
	}
	for _, p := range a.parts {
		if a.script.planned && p.plan != nil {
			p.counts.Unchanged += int64(p.plan.about)
		}
	}
	return true
}

// split divides a statement's count into inserts, updates and deletes, by the server's counters before and after: its
// tag has only the sum. The counters include what triggers and foreign keys of the table write to it; the tag does not.
func (p *tablePlan) split(all int64, before, after [][]byte) (inserted, updated, deleted int64) {
	count := func(column int) int64 { return sink.Number(after[column]) - sink.Number(before[column]) }
	if inserted = min(count(0), all); p.removes() {
		deleted = min(count(1), all-inserted, int64(p.acts.deletes))
	}
	return inserted, all - inserted - deleted, deleted
}

// result returns the attempt's result.
func (a *attempt) result() sink.Result {
	res := sink.Result{Tables: make([]sink.Counts, len(a.parts)), Refused: a.refused}
	for i, p := range a.parts {
		res.Tables[i] = p.counts
	}
	return res
}

// committed handles the results of a script whose last statement was COMMIT.
func (a *attempt) committed(r []result) error {
	if tag := r[len(r)-1].tag.String(); tag != "COMMIT" {
		return fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	d := a.d
	_, ids := sink.SplitIDs(string(r[a.idAt].rows[0][0]))
	for i, p := range a.parts {
		if p.after.Exists && p.after.ID == "" {
			p.after.setID(ids[i])
		}
		if p.factsAt > 0 {
			p.after.facts = string(r[p.factsAt].rows[0][0])
		}
		p.committed()
		d.versions = d.versions || p.b.Used() && p.b.Scope == fold.ColumnScope
		if p.plan == nil || a.piecewise {
			continue
		}
		p.t.news.wrote(p.counts.Inserted == int64(p.plan.about))
		p.repeatsNext()
		if p.plan.versions != nil {
			p.t.versioned = p.plan.versions.names
		}
	}
	d.ready = true
	return nil
}

func (p *part) committed() {
	if job := storable(p.a.f.Job); !slices.Contains(p.after.Writers, job) {
		p.after.Writers = append(slices.Clip(p.after.Writers), job)
	}
	p.t.relation, p.t.stage = p.after, stage{types: p.stage.types, functions: p.stage.functions}
	if p.a.d.pooled {
		p.t.stage = stage{}
	}
}

func (a *attempt) undo(ctx context.Context) error {
	for _, p := range a.parts {
		p.t.stage.used = p.t.stage.types != nil // its rows are rolled back, but still occupy space
	}
	return a.d.rollback(ctx)
}

// checkpoints adds statements that write the checkpoints, and read the tables' IDs, some of which are only known now.
func (a *attempt) checkpoints() {
	a.idAt = a.script.addAll(a.d.dialect().Checkpoint(a.f, a.tableIDs()) + "\nRETURNING tableid")
}

// tableIDs returns SQL for the tables' IDs in the flush's transaction.
func (a *attempt) tableIDs() string {
	sql := make([]string, len(a.parts))
	for i, p := range a.parts {
		id := literal(p.after.ID)
		if p.after.Exists && p.after.ID == "" {
			id = a.d.idSQL(literal(p.after.ident) + "::regclass")
		}
		sql[i] = literal(a.f.BeforeID(i)) + " || " + id
	}
	return cmp.Or(strings.Join(sql, " || "), "''") // a flush may have no table yet
}
