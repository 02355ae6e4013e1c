package sink

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Ledger is weir's own tables in one SQL database. It decides what is in them: jobs, checkpoints, rejected lines, and
// what weir has created. A driver embeds it in its [Sink], its [Inspector] and, as a [JobLedger], its [Claims], and
// implements its three functions. Query and Exec return nothing if weir's tables are missing.
type Ledger struct {
	// Query returns the rows of a query. A NULL is nil.
	Query func(ctx context.Context, sql func(Dialect) string) ([][][]byte, error)
	// Exec executes statements one after the other, and returns how many rows each has changed.
	Exec func(ctx context.Context, sql func(Dialect) []string) (changed []int64, err error)
	// Transaction calls f in a transaction, which is rolled back if f fails.
	Transaction func(ctx context.Context, f func(Ledger) error) error
}

// A JobLedger reads what a ledger has of one job.
type JobLedger struct {
	Ledger Ledger // only its Query is needed
	Job    string
}

func (l Ledger) ask(ctx context.Context, sql string, texts ...string) ([][][]byte, error) {
	return l.Query(ctx, func(d Dialect) string { return d.with(sql, texts...) })
}

// Marks returns the values of entries in weir_meta; "" for a missing one.
func (l Ledger) Marks(ctx context.Context, names ...string) ([]string, error) {
	rows, err := l.Query(ctx, func(d Dialect) string { return d.MarksSQL(names...) })
	values := make([]string, len(names))
	for _, row := range rows {
		values[slices.Index(names, string(row[0]))] = string(row[1])
	}
	return values, err
}

// SetMark writes an entry of weir_meta.
func (l Ledger) SetMark(ctx context.Context, name, value string) error {
	_, err := l.Exec(ctx, func(d Dialect) []string { return []string{d.SetMark(name, value)} })
	return err
}

// Writers returns the jobs that have written to a table, which Dialect.Table names.
func (l Ledger) Writers(ctx context.Context, table string) (jobs []string, err error) {
	var d Dialect
	rows, err := l.Query(ctx, func(of Dialect) string { d = of; return d.WritersSQL() })
	return d.Writers(rows, table), err
}

// Record writes what weir's tables have of a flush, after its rows. tables are the batches' tables as they then are, and
// refused the messages that the database has rejected.
func (l Ledger) Record(ctx context.Context, f *Flush, tables []*schema.Table, refused []fold.Reject) error {
	ids, rejects := make([]string, len(tables)), slices.Concat(f.Rejects, refused)
	_, err := l.Exec(ctx, func(d Dialect) []string {
		all := d.Prune(f)
		for i, t := range tables {
			ids[i] = t.ID
			if f.First() || !slices.Contains(t.Writers, f.Job) {
				all = append(all, d.AddTable(f.Job, t.Name))
			}
		}
		return all
	})
	for i := 0; f.KeepRejects && err == nil && i < len(rejects); i++ {
		_, err = l.Exec(ctx, func(d Dialect) []string { return []string{d.Reject(f, &rejects[i])} })
	}
	if err == nil && f.BeforeCommit != nil {
		err = f.BeforeCommit(rejects)
	}
	if err == nil {
		_, err = l.Exec(ctx, func(d Dialect) []string { return []string{d.Checkpoint(f, d.Text(f.TableIDs(ids...)))} })
	}
	return err
}

// DropVersions removes the versions of a table, which Dialect.Table names, and reports whether there were any.
func (l Ledger) DropVersions(ctx context.Context, table string) (found bool, err error) {
	n, err := l.Exec(ctx, func(d Dialect) []string {
		return []string{d.with("DELETE FROM {p}weir_meta WHERE name = {1}", VersionsMark(table))}
	})
	if err != nil || n == nil || n[0] == 0 { // weir_versions may be missing
		return false, err
	}
	_, err = l.Exec(ctx, func(d Dialect) []string {
		return []string{d.with("DELETE FROM {p}weir_versions WHERE tbl = {1}", table)}
	})
	return true, err
}

// Tables implements [Claims].
func (l *JobLedger) Tables(ctx context.Context) (names []string, err error) {
	rows, err := l.Ledger.ask(ctx, "SELECT tbl FROM {p}weir_jobs WHERE job = {1} ORDER BY tbl{c}", l.Job)
	for _, row := range rows {
		names = append(names, string(row[0]))
	}
	return names, err
}

// Latest implements [Claims].
func (l *JobLedger) Latest(ctx context.Context) (source string, cp Checkpoint, err error) {
	rows, err := l.Ledger.ask(ctx, `SELECT source, line, "offset", mark, coalesce(tableid, '') FROM {p}weir_checkpoints`+
		" WHERE job = {1} AND mark <> '' AND NOT ("+ofRun("source")+") ORDER BY updated DESC NULLS LAST LIMIT 1", l.Job)
	for _, row := range rows {
		source, cp = string(row[0]), Checkpoint{Line: Number(row[1]), Offset: Number(row[2]), Mark: string(row[3]), TableID: string(row[4])}
	}
	return source, cp, err
}

// Checkpoints implements [Claims].
func (l *JobLedger) Checkpoints(ctx context.Context, lanes ...string) ([]Checkpoint, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	rows, err := l.Ledger.Query(ctx, func(d Dialect) string { return d.CheckpointsSQL(l.Job, lanes) })
	if err != nil {
		return nil, err
	}
	return ReadCheckpoints(len(lanes), rows), nil
}

// ReadCheckpoints decodes the result of [Dialect.CheckpointsSQL] for this many lanes.
func ReadCheckpoints(lanes int, rows [][][]byte) []Checkpoint {
	all := make([]Checkpoint, lanes)
	for _, row := range rows {
		all[Number(row[0])] = Checkpoint{Seq: Number(row[1]), Line: Number(row[2]), Offset: Number(row[3]), Mark: string(row[4]),
			Rejected: Number(row[5]), Settings: string(row[6]), Run: string(row[7]), TableID: string(row[8]), Committed: moment(row[9])}
	}
	return all
}

// CheckFence is [Flush.CheckFence] with the fences in weir's tables.
func (l Ledger) CheckFence(ctx context.Context, f *Flush) (done bool, err error) {
	names, found := f.laneNames(), map[string]Fence{}
	rows, err := l.Query(ctx, func(d Dialect) string { return d.lanesSQL(f.Job, names, "c.seq, c.run") })
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		found[names[Number(row[0])]] = Fence{Seq: Number(row[1]), Run: string(row[2])}
	}
	return f.CheckFence(found)
}

// betweenTables separates table names in a result. No name contains it.
const betweenTables = "\x1f"

// Status implements [Inspector].
func (l Ledger) Status(ctx context.Context) (st Status, err error) {
	jobs, err := l.Query(ctx, func(d Dialect) string {
		return d.with(`SELECT j.job, j.tables, c.source, c.line, c."offset", ` +
			d.Micros("coalesce(c.updated, (SELECT max(updated) FROM {p}weir_checkpoints l WHERE l.job = j.job))") +
			" FROM (SELECT job, string_agg(tbl, " + d.Text(betweenTables) + " ORDER BY tbl{c}) AS tables FROM {p}weir_jobs GROUP BY job) j" +
			" LEFT JOIN {p}weir_checkpoints c ON c.job = j.job AND NOT (" + ofRun("c.source") + ") ORDER BY j.job{c}, c.source{c}")
	})
	if err != nil {
		return st, err
	}
	for _, row := range jobs {
		j := JobStatus{Job: string(row[0]), Tables: strings.Split(string(row[1]), betweenTables), Source: string(row[2]),
			Line: Number(row[3]), Offset: Number(row[4]), Updated: moment(row[5])}
		st.Jobs = append(st.Jobs, j)
	}
	rejects, err := l.Query(ctx, func(d Dialect) string {
		return d.with("SELECT job, " + d.Reason + ", count(*) FROM {p}weir_rejects GROUP BY 1, 2 ORDER BY 1, 3 DESC")
	})
	for _, row := range rejects {
		st.Rejects = append(st.Rejects, RejectCount{Job: string(row[0]), Reason: string(row[1]), Count: Number(row[2])})
	}
	return st, err
}

// keptAtOnce is how many rejected lines one query reads or removes.
const keptAtOnce = 1000

// Rejects implements [Inspector].
func (l Ledger) Rejects(ctx context.Context, job string, each func(Kept) error) error {
	rows, err := l.ask(ctx, "SELECT coalesce(max(id), 0) FROM {p}weir_rejects")
	if err != nil || len(rows) == 0 {
		return err
	}
	of := fmt.Sprintf(" AND id <= %d", Number(rows[0][0]))
	if job != "" {
		of += " AND job = {1}"
	}
	for last := int64(0); ; {
		some, err := l.rejects(ctx, fmt.Sprintf("WHERE id > %d%s ORDER BY id LIMIT %d", last, of, keptAtOnce), job)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, k := range some {
			if err := each(k); err != nil {
				return err
			}
		}
		last = some[len(some)-1].ID
	}
}

// rejects returns rejected lines; which is SQL that selects them.
func (l Ledger) rejects(ctx context.Context, which string, texts ...string) (some []Kept, err error) {
	rows, err := l.Query(ctx, func(d Dialect) string {
		return d.with(fmt.Sprintf(`SELECT id, job, source, line, "offset", element, reason, %s, %s FROM {p}weir_rejects %s`, d.Micros("time"), d.Kept, which), texts...)
	})
	for _, row := range rows {
		text := row[9]
		if row[8] != nil {
			if text, err = hex.DecodeString(string(row[8])); err != nil {
				return nil, err
			}
		}
		some = append(some, Kept{ID: Number(row[0]), Job: string(row[1]), Source: string(row[2]), Line: Number(row[3]), Offset: Number(row[4]),
			Element: int(Number(row[5])), Reason: string(row[6]), Text: text, Time: moment(row[7])})
	}
	return some, err
}

// StoredRejects implements [Inspector].
func (l Ledger) StoredRejects(ctx context.Context, job string) (n int64, err error) {
	rows, err := l.ask(ctx, "SELECT count(*) FROM {p}weir_rejects WHERE job = {1}", job)
	for _, row := range rows {
		n = Number(row[0])
	}
	return n, err
}

// DropRejects implements [RejectDropper].
func (l Ledger) DropRejects(ctx context.Context, job, reason string) (dropped int64, err error) {
	err = l.Transaction(ctx, func(l Ledger) error {
		changed, err := l.Exec(ctx, func(d Dialect) []string {
			return []string{d.with("DELETE FROM {p}weir_rejects WHERE {1} IN ('', job) AND ({2} IN ('', reason) OR substr(reason, 1, length({3})) = {3})", job, reason, reason+":")}
		})
		for _, n := range changed {
			dropped = n
		}
		return err
	})
	return dropped, err
}

// Forget implements [Forgetter]. Meanwhile no other job can write its first table.
func (l Ledger) Forget(ctx context.Context, job string) (f Forgotten, err error) {
	err = l.Transaction(ctx, func(l Ledger) error {
		if _, err := l.Exec(ctx, Dialect.lockJobs); err != nil {
			return err
		}
		rows, err := l.Query(ctx, Dialect.WritersSQL)
		if err != nil {
			return err
		}
		var own []string // the tables that no other job has written to
		n, err := l.Exec(ctx, func(d Dialect) []string {
			for _, row := range rows {
				if table := d.Table(string(row[1])); d.Text(string(row[0])) == d.Text(job) && len(d.Writers(rows, table)) == 1 {
					own = append(own, table)
				}
			}
			return []string{
				d.with("DELETE FROM {p}weir_checkpoints WHERE job = {1} AND "+ofRun("source"), job),
				d.with("DELETE FROM {p}weir_checkpoints WHERE job = {1}", job),
				d.with("DELETE FROM {p}weir_rejects WHERE job = {1}", job),
				d.with("DELETE FROM {p}weir_jobs WHERE job = {1}", job),
			}
		})
		if err != nil || n == nil {
			return err
		}
		f = Forgotten{Sources: n[1], Rejects: n[2], Found: n[0]+n[1]+n[2]+n[3] > 0}
		for _, table := range own {
			found, err := l.DropVersions(ctx, table)
			if f.Versions = f.Versions || found; err != nil {
				return err
			}
		}
		return nil
	})
	return f, err
}

// moment decodes a time of [Dialect.Micros]. NULL is the zero time.
func moment(b []byte) (t time.Time) {
	if b != nil {
		t = time.UnixMicro(Number(b)).UTC()
	}
	return t
}

// Number decodes an integer from a result. NULL is 0.
func Number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
