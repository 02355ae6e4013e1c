package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

// laneColumns are what [attempt.values] has of a lane, and content is how the checkpoint is
// updated with it.
const (
	laneColumns = `source, seq, line, "offset", mark, rejected, settings`
	content     = `line = v.line, "offset" = v."offset", mark = v.mark, rejected = v.rejected, settings = v.settings, updated = now()`
)

// fence adds what demands that the lanes stand where the flush begins, moves them on and
// writes their checkpoints. Flushes that share lanes wait for each other in one order, by
// the names: first for new lanes, then for those that exist.
func (a *attempt) fence() {
	d, s := a.d, a.script
	var made, moved []*sink.Lane
	for _, l := range a.lanes() {
		if l.Checkpoint.Seq == 1 {
			made = append(made, l)
		} else {
			moved = append(moved, l)
		}
	}
	job, run := literal(a.f.Job), literal(a.f.Run)
	id := "''" // until it is known
	if !a.late {
		id = a.tableIDs()
	}
	if len(made) > 0 {
		slices.SortFunc(made, func(x, y *sink.Lane) int { return cmp.Compare(a.f.LaneName(x), a.f.LaneName(y)) })
		s.means(s.add("INSERT INTO %s.weir_checkpoints (job, run, tableid, updated, %s)\nSELECT %s, %s, %s, now(), v.*\nFROM %s",
			d.schema, laneColumns, job, run, id, a.values(made)), errFenced, uniqueViolation)
	}
	if len(moved) > 1 {
		s.add("SELECT count(*) FROM (SELECT FROM %s.weir_checkpoints WHERE job = %s AND source IN (%s) ORDER BY source FOR NO KEY UPDATE) x",
			d.schema, job, a.names(moved))
	}
	if len(moved) > 0 {
		s.means(s.add("WITH moved AS (\n  UPDATE %s.weir_checkpoints c SET seq = v.seq, run = %s, tableid = %s, %s\n  FROM %s\n"+
			"  WHERE c.job = %s AND c.source = v.source AND c.seq = v.seq - 1 RETURNING 1)\n"+
			"SELECT 1 / (count(*) = %d)::integer FROM moved",
			d.schema, run, id, content, a.values(moved), job, len(moved)), errFenced, divisionByZero)
	}
}

// tableIDs is SQL for the IDs of the tables as they are in the flush's transaction.
func (a *attempt) tableIDs() string {
	ids, late := make([]string, len(a.parts)), a.parts[:0:0]
	for i, p := range a.parts {
		if ids[i] = p.after.ID; p.after.Exists && ids[i] == "" {
			late = append(late, p)
		}
	}
	if len(late) == 0 {
		return literal(a.f.TableIDs(ids...))
	}
	for i, p := range a.parts {
		ids[i] = literal(a.f.BeforeID(i)) + " || " + a.d.tableID(&p.after)
	}
	return strings.Join(ids, " || ")
}

// checkpoints adds what writes the checkpoints once more, with what is known at the end
// alone, and reads the tables' IDs.
func (a *attempt) checkpoints() {
	d := a.d
	a.script.with(flushMethods...) // there may be many lanes
	a.idAt = a.script.add("UPDATE %s.weir_checkpoints c SET tableid = %s, %s\nFROM %s\nWHERE c.job = %s AND c.source = v.source\nRETURNING c.tableid",
		d.schema, a.tableIDs(), content, a.values(a.lanes()), literal(a.f.Job))
}

func (a *attempt) lanes() []*sink.Lane {
	lanes := make([]*sink.Lane, len(a.f.Lanes))
	for i := range lanes {
		lanes[i] = &a.f.Lanes[i]
	}
	return lanes
}

// values is a table v in SQL with the checkpoints of lanes.
func (a *attempt) values(lanes []*sink.Lane) string {
	var b strings.Builder
	for i, l := range lanes {
		if i > 0 {
			b.WriteString(", ")
		}
		cp := &l.Checkpoint
		fmt.Fprintf(&b, "(%s, %d, %d, %d, %s, %d, %s)", literal(a.f.LaneName(l)), cp.Seq, cp.Line, cp.Offset,
			literal(cp.Mark), cp.Rejected, literal(cp.Settings))
	}
	return "(VALUES " + b.String() + ") v(" + laneColumns + ")"
}

// names lists the names of lanes.
func (a *attempt) names(lanes []*sink.Lane) string {
	names := make([]string, len(lanes))
	for i, l := range lanes {
		names[i] = literal(a.f.LaneName(l))
	}
	return strings.Join(names, ", ")
}
