package sink

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Query asks for rows of weir's own tables; it has none where these are missing. What a
// driver reads there by SQL that all databases share, it reads by this.
type Query func(ctx context.Context, sql func(Dialect) string) ([][][]byte, error)

func (q Query) ask(ctx context.Context, sql string, texts ...string) ([][][]byte, error) {
	return q(ctx, func(d Dialect) string { return d.with(sql, texts...) })
}

// Tables are for [Claims].
func (q Query) Tables(ctx context.Context, job string) (names []string, err error) {
	rows, err := q.ask(ctx, "SELECT tbl FROM {p}weir_jobs WHERE job = {1} ORDER BY tbl{c}", job)
	for _, row := range rows {
		names = append(names, string(row[0]))
	}
	return names, err
}

// Latest is for [Claims].
func (q Query) Latest(ctx context.Context, job string) (source string, cp Checkpoint, err error) {
	rows, err := q.ask(ctx, `SELECT source, line, "offset", mark, coalesce(tableid, '') FROM {p}weir_checkpoints`+
		" WHERE job = {1} AND mark <> '' AND NOT ("+ofRun("source")+") ORDER BY updated DESC NULLS LAST LIMIT 1", job)
	for _, row := range rows {
		source, cp = string(row[0]), Checkpoint{Line: number(row[1]), Offset: number(row[2]), Mark: string(row[3]), TableID: string(row[4])}
	}
	return source, cp, err
}

// RejectFile is for [Claims].
func (q Query) RejectFile(ctx context.Context, job, path string) (f RejectFile, err error) {
	rows, err := q.ask(ctx, "SELECT size, id FROM {p}weir_reject_files WHERE job = {1} AND path = {2}", job, path)
	for _, row := range rows {
		f = RejectFile{Path: path, Size: number(row[0]), ID: string(row[1])}
	}
	return f, err
}

// WritersSQL asks for what [Dialect.Writers] takes.
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

// betweenTables stands between the names of a job's tables in an answer; no name has it.
const betweenTables = "\x1f"

// Status is for [Inspector].
func (q Query) Status(ctx context.Context) (st Status, err error) {
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
			Line: number(row[3]), Offset: number(row[4]), Flushes: number(row[5])}
		if row[6] != nil {
			j.Updated = time.UnixMicro(number(row[6])).UTC()
		}
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

const (
	// KeptAtOnce are the rejected lines that one query asks for.
	KeptAtOnce = 1000
	// SentAtOnce are those of an [Outbox]: fewer, as their texts wait in memory while they are sent.
	SentAtOnce = 200
)

// Rejects are for [Inspector].
func (q Query) Rejects(ctx context.Context, job string, each func(Kept) error) error {
	of := ""
	if job != "" {
		of = " AND job = {1}"
	}
	for last := int64(0); ; {
		some, err := q.rejects(ctx, nextRejects(last, of, KeptAtOnce), job)
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

// nextRejects is SQL for those behind one, by a further condition.
func nextRejects(after int64, of string, limit int) string {
	return fmt.Sprintf("WHERE id > %d%s ORDER BY id LIMIT %d", after, of, limit)
}

// LastRejects is for [Inspector].
func (q Query) LastRejects(ctx context.Context, job string, n int) (last []Kept, err error) {
	return q.rejects(ctx, fmt.Sprintf("WHERE job = {1} ORDER BY id DESC LIMIT %d", n), job)
}

// rejects returns rejected lines; which is SQL that chooses them.
func (q Query) rejects(ctx context.Context, which string, texts ...string) (some []Kept, err error) {
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
			Reason: string(row[5]), Text: text, Time: time.UnixMicro(number(row[6])).UTC()})
	}
	return some, err
}

// Outbox is for [Sink]; exec runs a statement.
func (q Query) Outbox(ctx context.Context, o *Outbox, exec func(sql func(Dialect) string) error) (next []Kept, waiting int64, err error) {
	if len(o.Lanes) == 0 {
		return nil, 0, nil
	}
	of, texts := o.condition()
	if len(o.Sent) > 0 {
		ids := make([]string, len(o.Sent))
		for i, id := range o.Sent {
			ids[i] = strconv.FormatInt(id, 10)
		}
		err = exec(func(d Dialect) string {
			return d.with("DELETE FROM {p}weir_rejects WHERE id IN ("+strings.Join(ids, ", ")+")"+of, texts...)
		})
		if err != nil {
			return nil, 0, err
		}
	}
	next, err = q.rejects(ctx, nextRejects(o.After, of, SentAtOnce), texts...)
	if err != nil || len(next) > 0 || o.After == 0 {
		return next, 0, err
	}
	rows, err := q.ask(ctx, "SELECT count(*) FROM {p}weir_rejects WHERE true"+of, texts...)
	for _, row := range rows {
		waiting = number(row[0])
	}
	return nil, waiting, err
}

// condition is one on the lines of the outbox, with its texts.
func (o *Outbox) condition() (of string, texts []string) {
	lanes := make([]string, len(o.Lanes))
	for i := range lanes {
		lanes[i] = fmt.Sprintf("{%d}", i+2)
	}
	return " AND job = {1} AND source IN (" + strings.Join(lanes, ", ") + ")", slices.Concat([]string{o.Job}, o.Lanes)
}

// StoredRejects is for [Inspector].
func (q Query) StoredRejects(ctx context.Context, job string) (n int64, err error) {
	rows, err := q.ask(ctx, "SELECT count(*) FROM {p}weir_rejects WHERE job = {1}", job)
	for _, row := range rows {
		n = number(row[0])
	}
	return n, err
}

// ofRun is SQL for whether a source is a lane that no run resumes.
func ofRun(source string) string {
	return fmt.Sprintf("substr(%s, 1, %d) = '%s'", source, len(RunPrefix), RunPrefix)
}

// Forget is for [Sink], in a transaction that keeps other jobs from writing to their first
// tables. versions tells that the table of versions exists; exec runs a statement, and
// returns how many rows it has changed.
func (q Query) Forget(ctx context.Context, job string, versions bool, exec func(sql string) (int64, error)) (f Forgotten, err error) {
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
	f.Found = runs+f.Sources+f.Rejects+remove("weir_reject_files WHERE job = {1}", job)+remove("weir_jobs WHERE job = {1}", job) > 0
	return f, err
}

// with is a statement whose {1}, {2}, … are texts.
func (d Dialect) with(sql string, texts ...string) string {
	pairs := []string{"{p}", d.Prefix, "{c}", d.Bytewise}
	for i, text := range texts {
		pairs = append(pairs, "{"+strconv.Itoa(i+1)+"}", d.Text(text))
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}

// number reads an integer of the database's; NULL is 0.
func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
