package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

// fence adds statements that lock the lanes' checkpoints until the flush ends, and check that they are at the flush's
// start. To avoid deadlocks, flushes lock shared lanes in the order of their names: first the new lanes, which get a
// checkpoint at 0, then all.
func (a *attempt) fence() {
	d, s := a.d, a.script
	var begun []sink.Lane
	stand := make([]string, len(a.f.Lanes))
	for i := range a.f.Lanes {
		l := &a.f.Lanes[i]
		name := a.f.LaneName(l)
		if stand[i] = fmt.Sprintf("(%s, %d)", literal(name), l.Checkpoint.Seq-1); l.Checkpoint.Seq == 1 {
			begun = append(begun, sink.Lane{Source: name})
		}
	}
	if len(begun) > 0 {
		slices.SortFunc(begun, func(x, y sink.Lane) int { return cmp.Compare(x.Source, y.Source) })
		s.addAll(d.dialect().BeginLanes(a.f.Job, a.f.Run, begun))
	}
	s.put(demand(errFenced, "(SELECT count(*) FROM (\n"+
		"  SELECT FROM %s.weir_checkpoints c JOIN (VALUES %s) v (source, seq) ON c.source = v.source AND c.seq = v.seq\n"+
		"  WHERE c.job = %s\n  ORDER BY c.source FOR NO KEY UPDATE OF c) x) = %d",
		d.schema, strings.Join(stand, ", "), literal(a.f.Job), len(stand)))
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
