package sink

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/weirsync/weir/internal/fold"
)

// Dialect is the SQL of weir's own tables: its fields are the parts in which databases differ, and its methods return
// statements. [Ledger] executes them. A driver that sends a flush as one script adds them to it instead.
type Dialect struct {
	Prefix   string // before a table's name: its schema and a dot
	Integer  string
	Time     string
	Bytes    string
	Serial   string // of an auto-incrementing primary key
	Raw      string // the columns of weir_rejects that hold a line
	Hot      string // table option, if each flush updates the rows
	Keyed    string // table option, if the table is accessed only by its key
	KeyOrder string // the columns of that key; "": the table comes first
	Bytewise string // suffix to sort by bytes
	Reason   string // the first word of a reject's reason, which ends before a colon
	Kept     string // a rejected line's columns: hex digits if it is not text, else NULL; and the text
	Lock     string // statement that keeps others from writing to weir_jobs; "": a transaction does

	Writer string // the run that wrote a checkpoint c, if the column contains more; "": c.run

	Micros func(sql string) string       // a time as microseconds since 1970
	Moment func(t time.Time) string      // a time literal
	Now    string                        // the database's current time
	Text   func(s string) string         // a string literal
	Line   func(dst, line []byte) []byte // appends a literal of a rejected line, for the column raw
	Table  func(name string) string      // the canonical form of a table's names
}

// Create returns the statements that create weir's own tables if they are missing. They do not lock an existing table.
// CREATE INDEX IF NOT EXISTS would, until the end of the flush, while others write to the table.
func (d Dialect) Create() []string {
	return []string{
		d.with(`CREATE TABLE IF NOT EXISTS {p}weir_meta (
  name text PRIMARY KEY NOT NULL,
  value text
)`),
		d.with(`CREATE TABLE IF NOT EXISTS {p}weir_jobs (
  job text NOT NULL,
  tbl text NOT NULL,
  PRIMARY KEY (job, tbl)
)`),
		d.with(`CREATE TABLE IF NOT EXISTS {p}weir_checkpoints (
  job text NOT NULL,
  source text NOT NULL,
  seq {int} NOT NULL,
  run text NOT NULL,
  line {int} NOT NULL,
  "offset" {int} NOT NULL,
  mark text,
  rejected {int} NOT NULL,
  settings text,
  tableid text,
  updated {time},
  PRIMARY KEY (job, source)
){hot}`),
		d.with(`CREATE TABLE IF NOT EXISTS {p}weir_rejects (
  id {serial},
  job text,
  source text,
  line {int},
  "offset" {int},
  element {int} NOT NULL DEFAULT 0,
  reason text,
  {raw},
  time {time},
  UNIQUE (job, source, id)
)`),
		d.with(fmt.Sprintf("INSERT INTO {p}weir_meta (name, value) VALUES ('format', '%d') ON CONFLICT DO NOTHING", Format)),
	}
}

// FormatSQL queries the input of [CheckFormat].
func (d Dialect) FormatSQL() string {
	return d.with("SELECT max(value) FROM {p}weir_meta WHERE name = 'format'")
}

// Versions returns the statements that create the table of versions. For each row of a table with versions, it stores
// the version of each value; see [fold.Resolved]. gone is when the row was deleted. Only drivers read and write the
// rows, together with the table's.
func (d Dialect) Versions() []string {
	return []string{
		d.with(`CREATE TABLE IF NOT EXISTS {p}weir_versions (
  tbl text NOT NULL,
  key {bytes} NOT NULL,
  state {bytes} NOT NULL,
  gone {time},
  PRIMARY KEY ({order})
){keyed}`),
		d.with("CREATE INDEX IF NOT EXISTS weir_versions_gone ON {p}weir_versions (tbl, gone) WHERE gone IS NOT NULL"),
	}
}

// MarksSQL queries entries of weir_meta, as names and values. See [MadeMark] and the others.
func (d Dialect) MarksSQL(names ...string) string {
	return d.with("SELECT name, value FROM {p}weir_meta WHERE name IN (") + d.texts(names) + ")"
}

// SetMark returns the statement that writes an entry of weir_meta.
func (d Dialect) SetMark(name, value string) string {
	return d.with("INSERT INTO {p}weir_meta (name, value) VALUES ({1}, {2}) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
}

// AddTable returns the statement that records that a job writes to a table.
func (d Dialect) AddTable(job, table string) string {
	return d.with("INSERT INTO {p}weir_jobs (job, tbl) VALUES ({1}, {2}) ON CONFLICT DO NOTHING", job, table)
}

// Empty returns the statements that remove, for [Flush].Rebuild, the job's rejects, and its checkpoints of other lanes.
func (d Dialect) Empty(f *Flush) []string {
	return []string{
		d.with("DELETE FROM {p}weir_checkpoints WHERE job = {1} AND source NOT IN (", f.Job) + d.texts(f.laneNames()) + ")",
		d.with("DELETE FROM {p}weir_rejects WHERE job = {1}", f.Job),
	}
}

// Reject returns the statement that stores a rejected line.
func (d Dialect) Reject(f *Flush, r *fold.Reject) string {
	sql := d.with(fmt.Sprintf(`INSERT INTO {p}weir_rejects (job, source, line, "offset", element, reason, time, raw) VALUES ({1}, {2}, %d, %d, %d, {3}, %s, `, r.Line, r.Offset, r.Element, d.Now),
		f.Job, f.Lanes[r.Lane].Source, r.Why())
	text := append(d.Line(slices.Grow([]byte(sql), 2*len(r.Text)+len("x'')")), r.Text), ')') // perhaps 2 digits a byte
	return unsafe.String(unsafe.SliceData(text), len(text))                                  // a line may be long: no copy
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
			restarts = append(restarts, l.Source)
		}
	}
	if len(restarts) > 0 {
		statements = append(statements, d.with("DELETE FROM {p}weir_rejects WHERE job = {1} AND source IN (", f.Job)+d.texts(restarts)+")")
	}
	if !f.DropRejects.IsZero() {
		statements = append(statements, d.with("DELETE FROM {p}weir_rejects WHERE job = {1} AND time < "+d.Moment(f.DropRejects), f.Job))
	}
	if slices.ContainsFunc(f.Lanes, func(l Lane) bool { return l.Unnamed && l.Checkpoint.Seq == 1 }) {
		statements = append(statements, d.with("DELETE FROM {p}weir_checkpoints WHERE "+ofRun("source")+" AND updated < "+d.Moment(time.Now().Add(-RunsKept))))
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
	return slices.Compact(jobs)
}

// lockJobs returns the statement that keeps others from writing to weir_jobs until the transaction ends.
func (d Dialect) lockJobs() (statements []string) {
	if d.Lock != "" {
		statements = append(statements, d.with(d.Lock))
	}
	return statements
}

// ofRun returns SQL for whether a source is a lane that no run resumes.
func ofRun(source string) string {
	return fmt.Sprintf("substr(%s, 1, %d) = '%s'", source, len(RunPrefix), RunPrefix)
}

func (d Dialect) texts(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = d.Text(text)
	}
	return strings.Join(all, ", ")
}

// with returns a statement with the dialect's parts inserted, and texts for {1}, {2}, ….
func (d Dialect) with(sql string, texts ...string) string {
	pairs := []string{"{p}", d.Prefix, "{c}", d.Bytewise, "{int}", d.Integer, "{time}", d.Time, "{bytes}", d.Bytes, "{serial}", d.Serial,
		"{raw}", d.Raw, "{hot}", d.Hot, "{keyed}", d.Keyed, "{order}", cmp.Or(d.KeyOrder, "tbl, key")}
	for i, text := range texts {
		pairs = append(pairs, "{"+strconv.Itoa(i+1)+"}", d.Text(text))
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}
