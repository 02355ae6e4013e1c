package sink

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Ledger queries weir's own tables in an SQL database. It returns no rows if the tables are missing. The sinks and
// inspectors of all SQL drivers embed it.
type Ledger func(ctx context.Context, sql func(Dialect) string) ([][][]byte, error)

// A JobLedger queries them for one job; [Claims] embed it.
type JobLedger struct {
	Ask Ledger
	Job string
}

func (q Ledger) ask(ctx context.Context, sql string, texts ...string) ([][][]byte, error) {
	return q(ctx, func(d Dialect) string { return d.with(sql, texts...) })
}

// Tables implements [Claims].
func (l *JobLedger) Tables(ctx context.Context) (names []string, err error) {
	rows, err := l.Ask.ask(ctx, "SELECT tbl FROM {p}weir_jobs WHERE job = {1} ORDER BY tbl{c}", l.Job)
	for _, row := range rows {
		names = append(names, string(row[0]))
	}
	return names, err
}

// Latest implements [Claims].
func (l *JobLedger) Latest(ctx context.Context) (source string, cp Checkpoint, err error) {
	rows, err := l.Ask.ask(ctx, `SELECT source, line, "offset", mark, coalesce(tableid, '') FROM {p}weir_checkpoints`+
		" WHERE job = {1} AND mark <> '' AND NOT ("+ofRun("source")+") ORDER BY updated DESC NULLS LAST LIMIT 1", l.Job)
	for _, row := range rows {
		source, cp = string(row[0]), Checkpoint{Line: number(row[1]), Offset: number(row[2]), Mark: string(row[3]), TableID: string(row[4])}
	}
	return source, cp, err
}

// Checkpoints implements [Claims].
func (l *JobLedger) Checkpoints(ctx context.Context, lanes ...string) ([]Checkpoint, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	rows, err := l.Ask(ctx, func(d Dialect) string { return d.CheckpointsSQL(l.Job, lanes) })
	if err != nil {
		return nil, err
	}
	return ReadCheckpoints(len(lanes), rows), nil
}

// CheckpointsSQL queries the checkpoints c of lanes, for [ReadCheckpoints].
func (d Dialect) CheckpointsSQL(job string, lanes []string) string {
	return d.lanesSQL(job, lanes, `c.seq, c.line, c."offset", coalesce(c.mark, ''), c.rejected, coalesce(c.settings, ''), `+
		cmp.Or(d.Writer, "c.run")+`, coalesce(c.tableid, ''), `+d.Micros("c.updated"))
}

// lanesSQL queries columns of the lanes' checkpoints c, after each lane's number.
func (d Dialect) lanesSQL(job string, lanes []string, columns string) string {
	values := make([]string, len(lanes))
	for i, l := range lanes {
		values[i] = fmt.Sprintf("(%d, %s)", i, d.Text(l))
	}
	return fmt.Sprintf("SELECT v.column1, %s FROM (VALUES %s) v JOIN %sweir_checkpoints c ON c.job = %s AND c.source = v.column2",
		columns, strings.Join(values, ", "), d.Prefix, d.Text(job))
}

// ReadCheckpoints decodes the result of [Dialect.CheckpointsSQL] for this many lanes.
func ReadCheckpoints(lanes int, rows [][][]byte) []Checkpoint {
	all := make([]Checkpoint, lanes)
	for _, row := range rows {
		all[number(row[0])] = Checkpoint{Seq: number(row[1]), Line: number(row[2]), Offset: number(row[3]), Mark: string(row[4]),
			Rejected: number(row[5]), Settings: string(row[6]), Run: string(row[7]), TableID: string(row[8]), Committed: moment(row[9])}
	}
	return all
}

// Judge is [Flush.Judge] with the fences in weir's tables.
func (q Ledger) Judge(ctx context.Context, f *Flush) (done bool, err error) {
	names, found := f.laneNames(), map[string]Fence{}
	rows, err := q(ctx, func(d Dialect) string { return d.lanesSQL(f.Job, names, "c.seq, c.run") })
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		found[names[number(row[0])]] = Fence{Seq: number(row[1]), Run: string(row[2])}
	}
	return f.Judge(found)
}

// Checkpoint returns the statement that writes a flush's checkpoints. tableIDs is SQL for [Flush.TableIDs].
func (d Dialect) Checkpoint(f *Flush, tableIDs string) string {
	named := slices.Clone(f.Lanes)
	for i := range named {
		named[i].Source = f.LaneName(&named[i])
	}
	return d.insertLanes(f.Job, f.Run, named, tableIDs) + "\nON CONFLICT (job, source) DO UPDATE SET seq = excluded.seq, run = excluded.run," +
		` line = excluded.line, "offset" = excluded."offset", mark = excluded.mark, rejected = excluded.rejected,` +
		" settings = excluded.settings, tableid = excluded.tableid, updated = excluded.updated"
}

// BeginLanes returns the statement that writes checkpoints for lanes that have none.
func (d Dialect) BeginLanes(job, run string, lanes []Lane) string {
	return d.insertLanes(job, run, lanes, "''") + "\nON CONFLICT DO NOTHING"
}

// insertLanes returns the INSERT of the lanes' checkpoints, under their sources' names.
func (d Dialect) insertLanes(job, run string, lanes []Lane, tableIDs string) string {
	values := make([]string, len(lanes))
	for i := range lanes {
		cp := &lanes[i].Checkpoint
		values[i] = fmt.Sprintf("(%s, %s, %d, %s, %d, %d, %s, %d, %s, %s, %s)", d.Text(job), d.Text(lanes[i].Source), cp.Seq, d.Text(run), cp.Line, cp.Offset,
			d.Text(cp.Mark), cp.Rejected, d.Text(cp.Settings), tableIDs, d.Now)
	}
	return "INSERT INTO " + d.Prefix + `weir_checkpoints (job, source, seq, run, line, "offset", mark, rejected, settings, tableid, updated)` +
		"\nVALUES " + strings.Join(values, ", ")
}

// Prune returns the statements that remove, in a flush, rejected lines of sources that are reread, old rejected lines,
// and old checkpoints that no run resumes.
func (d Dialect) Prune(f *Flush) (statements []string) {
	var restarts []string
	for i := range f.Lanes {
		if l := &f.Lanes[i]; l.Restart {
			restarts = append(restarts, d.Text(l.Source))
		}
	}
	if len(restarts) > 0 {
		statements = append(statements, d.with("DELETE FROM {p}weir_rejects WHERE job = {1}", f.Job)+" AND source IN ("+strings.Join(restarts, ", ")+")")
	}
	if !f.DropRejects.IsZero() {
		statements = append(statements, d.with("DELETE FROM {p}weir_rejects WHERE job = {1} AND time < "+d.Moment(f.DropRejects), f.Job))
	}
	if slices.ContainsFunc(f.Lanes, func(l Lane) bool { return l.Unnamed && l.Checkpoint.Seq == 1 }) {
		statements = append(statements, d.with("DELETE FROM {p}weir_checkpoints WHERE "+ofRun("source")+" AND updated < "+d.Moment(time.Now().Add(-RunsKept))))
	}
	return statements
}

// DeleteRejects returns the statements that remove rejected lines by their IDs.
func (d Dialect) DeleteRejects(ids []int64) (statements []string) {
	for some := range slices.Chunk(ids, keptAtOnce) {
		texts := make([]string, len(some))
		for i, id := range some {
			texts[i] = strconv.FormatInt(id, 10)
		}
		statements = append(statements, d.with("DELETE FROM {p}weir_rejects WHERE id IN ("+strings.Join(texts, ", ")+")"))
	}
	return statements
}

// WritersSQL queries the input of [Dialect.Writers].
func (d Dialect) WritersSQL() string {
	return d.with("SELECT job, tbl FROM {p}weir_jobs ORDER BY job{c}")
}

// Writers returns the jobs that have written to a table, which Dialect.Table names.
func (d Dialect) Writers(answer [][][]byte, table string) (jobs []string) {
	for _, row := range answer {
		if d.Table(string(row[1])) == table {
			jobs = append(jobs, string(row[0]))
		}
	}
	return jobs
}

// betweenTables separates table names in a result. No name contains it.
const betweenTables = "\x1f"

// Status implements [Inspector].
func (q Ledger) Status(ctx context.Context) (st Status, err error) {
	jobs, err := q(ctx, func(d Dialect) string {
		return d.with(`SELECT j.job, j.tables, c.source, c.line, c."offset", c.seq, ` +
			d.Micros("coalesce(c.updated, (SELECT max(updated) FROM {p}weir_checkpoints l WHERE l.job = j.job))") +
			" FROM (SELECT job, string_agg(tbl, " + d.Text(betweenTables) + " ORDER BY tbl{c}) AS tables FROM {p}weir_jobs GROUP BY job) j" +
			" LEFT JOIN {p}weir_checkpoints c ON c.job = j.job AND NOT (" + ofRun("c.source") + ") ORDER BY j.job{c}, c.source{c}")
	})
	if err != nil {
		return st, err
	}
	for _, row := range jobs {
		j := JobStatus{Job: string(row[0]), Tables: strings.Split(string(row[1]), betweenTables), Source: string(row[2]),
			Line: number(row[3]), Offset: number(row[4]), Flushes: number(row[5]), Updated: moment(row[6])}
		st.Jobs = append(st.Jobs, j)
	}
	rejects, err := q(ctx, func(d Dialect) string {
		return d.with("SELECT job, " + d.Reason + ", count(*) FROM {p}weir_rejects GROUP BY 1, 2 ORDER BY 1, 3 DESC")
	})
	for _, row := range rejects {
		st.Rejects = append(st.Rejects, RejectCount{Job: string(row[0]), Reason: string(row[1]), Count: number(row[2])})
	}
	return st, err
}

// keptAtOnce is how many rejected lines one query reads or removes.
const keptAtOnce = 1000

// Rejects implements [Inspector].
func (q Ledger) Rejects(ctx context.Context, job string, each func(Kept) error) error {
	rows, err := q.ask(ctx, "SELECT coalesce(max(id), 0) FROM {p}weir_rejects")
	if err != nil || len(rows) == 0 {
		return err
	}
	of := fmt.Sprintf(" AND id <= %d", number(rows[0][0]))
	if job != "" {
		of += " AND job = {1}"
	}
	for last := int64(0); ; {
		some, err := q.rejects(ctx, fmt.Sprintf("WHERE id > %d%s ORDER BY id LIMIT %d", last, of, keptAtOnce), job)
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

// LastRejects implements [Inspector].
func (q Ledger) LastRejects(ctx context.Context, job string, n int) (last []Kept, err error) {
	return q.rejects(ctx, fmt.Sprintf("WHERE job = {1} ORDER BY id DESC LIMIT %d", n), job)
}

// rejects returns rejected lines; which is SQL that selects them.
func (q Ledger) rejects(ctx context.Context, which string, texts ...string) (some []Kept, err error) {
	rows, err := q(ctx, func(d Dialect) string {
		return d.with(fmt.Sprintf(`SELECT id, job, source, line, "offset", reason, %s, %s FROM {p}weir_rejects %s`, d.Micros("time"), d.Kept, which), texts...)
	})
	for _, row := range rows {
		text := row[8]
		if row[7] != nil {
			if text, err = hex.DecodeString(string(row[7])); err != nil {
				return nil, err
			}
		}
		some = append(some, Kept{ID: number(row[0]), Job: string(row[1]), Source: string(row[2]), Line: number(row[3]), Offset: number(row[4]),
			Reason: string(row[5]), Text: text, Time: moment(row[6])})
	}
	return some, err
}

// StoredRejects implements [Inspector].
func (q Ledger) StoredRejects(ctx context.Context, job string) (n int64, err error) {
	rows, err := q.ask(ctx, "SELECT count(*) FROM {p}weir_rejects WHERE job = {1}", job)
	for _, row := range rows {
		n = number(row[0])
	}
	return n, err
}

// ofRun returns SQL for whether a source is a lane that no run resumes.
func ofRun(source string) string {
	return fmt.Sprintf("substr(%s, 1, %d) = '%s'", source, len(RunPrefix), RunPrefix)
}

// Forget implements [Forgetter], in a transaction that stops other jobs from writing their first tables. versions says
// that the table of versions exists. exec runs a statement, and returns how many rows it changed.
func (q Ledger) Forget(ctx context.Context, job string, versions bool, exec func(sql string) (int64, error)) (f Forgotten, err error) {
	var d Dialect
	rows, err := q(ctx, func(of Dialect) string {
		d = of
		return d.with("SELECT tbl, CASE WHEN job = {1} THEN 1 ELSE 0 END FROM {p}weir_jobs", job)
	})
	if err != nil {
		return f, err
	}
	others := map[string]bool{}
	for _, row := range rows {
		if number(row[1]) == 0 {
			others[d.Table(string(row[0]))] = true
		}
	}
	remove := func(sql string, texts ...string) (n int64) {
		if err == nil {
			n, err = exec(d.with("DELETE FROM {p}"+sql, texts...))
		}
		return n
	}
	for _, row := range rows {
		if table := d.Table(string(row[0])); number(row[1]) == 1 && !others[table] {
			if versions {
				remove("weir_versions WHERE tbl = {1}", table)
			}
			f.Versions = remove("weir_meta WHERE name = {1}", VersionsMark(table)) > 0 || f.Versions
		}
	}
	runs := remove("weir_checkpoints WHERE job = {1} AND "+ofRun("source"), job)
	f.Sources = remove("weir_checkpoints WHERE job = {1}", job)
	f.Rejects = remove("weir_rejects WHERE job = {1}", job)
	f.Found = runs+f.Sources+f.Rejects+remove("weir_jobs WHERE job = {1}", job) > 0
	return f, err
}

// with returns a statement with texts inserted for {1}, {2}, ….
func (d Dialect) with(sql string, texts ...string) string {
	pairs := []string{"{p}", d.Prefix, "{c}", d.Bytewise}
	for i, text := range texts {
		pairs = append(pairs, "{"+strconv.Itoa(i+1)+"}", d.Text(text))
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}

// moment decodes a time of [Dialect.Micros]. NULL is the zero time.
func moment(b []byte) (t time.Time) {
	if b != nil {
		t = time.UnixMicro(number(b)).UTC()
	}
	return t
}

// number decodes an integer. NULL is 0.
func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
