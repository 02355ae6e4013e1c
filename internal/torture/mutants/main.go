// Command mutants puts one fault at a time into weir's code, and sees that a test goes
// red: go run ./internal/torture/mutants [NAME...]. A mutant that survives, or whose
// place in the code is gone, is an error.
package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A mutant is a fault: in a file, old becomes new.
type mutant struct {
	name, file, old, new string
	pkg, run             string // the tests that have to notice it
	root                 bool   // these can only be run as root
}

const (
	sqlite   = "./internal/sink/sqlite"
	postgres = "./internal/sink/postgres"
	spool    = "./internal/spool"
	job      = "./internal/job"
	files    = "./internal/source/file"
	conns    = "./internal/source/tcp"
	cli      = "./internal/cli"
	lockfile = "./internal/lockfile"
	schema   = "./internal/schema"
	kills    = "./internal/torture"
	folding  = "./internal/fold"
)

var mutants = []mutant{
	{"a row that was named is deleted in the same batch", "internal/fold/refer.go", `c.Op == Delete && r.named`, `false`,
		folding, "TestAdd_Splits", false},
	{"a row is written in the batch that deletes it", "internal/fold/refer.go", `r != nil && (r.Deleted ||`, `r != nil && (`,
		folding, "TestAdd_Splits", false},
	{"rows that belong to others name no deleted ones", "internal/fold/refer.go", `of = f[of].nested.parent {`, `of = -1 {`,
		folding, "TestAdd_Splits", false},
	{"a row that another needs ends with any delete", "internal/fold/columnscope.go", `vs.ensured || was.Exists && now.live == nil`, `vs.kept`,
		folding, "TestFold_DoesNotDepend", false},
	{"a row that another needs takes no part in versions of rows", "internal/fold/rowscope.go", `vs.live == 0 && !vs.kept`, `vs.live == 0`,
		folding, "TestFold_DoesNotDepend", false},
	{"verify takes any number for any other", "internal/schema/spelling.go", `c.Type == Any) && sameNumber(raw, text)`, `c.Type == Any)`,
		cli, "TestScripts/verify", false},
	{"verify wants a column of nulls alone", "internal/cli/verify.go", `return raw != nil && raw[0] != 'n'`, `return raw != nil`,
		cli, "TestScripts_Postgres/verify", false},
	{"a statement of many rows inserts fewer, SQLite", "internal/sink/sqlite/row.go", `len(next.rows) == w.way.together && next`, `next`,
		cli, "TestScripts_Both/sqlite/versions_beside_rejects", false},
	{"a file with two names is opened", "internal/sink/sqlite/path.go", `case n > 1:`, `case n > 2:`,
		sqlite, "TestOpen_WhatIsNoDatabaseFile", false},
	{"SQLite does not sync", "internal/sink/sqlite/file.go", `"synchronous=" + f.level(),`, `"synchronous=OFF",`,
		kills, "TestPowerCut$/sqlite_full_WAL", true},
	{"full is not EXTRA without a WAL", "internal/sink/sqlite/file.go", `return "EXTRA"`, `return "FULL"`,
		sqlite, "TestOpen_JournalModeAndSynchronous", false},
	{"checkpoint in a transaction of its own, SQLite", "internal/sink/sqlite/flush.go", `	return d.checkpoint(f, tableID)`,
		"	if err := d.c.exec(\"COMMIT\"); err != nil {\n\t\treturn err\n\t}\n\tif err := d.c.exec(\"BEGIN IMMEDIATE\"); err != nil {\n\t\treturn err\n\t}\n\treturn d.checkpoint(f, tableID)",
		sqlite, "TestFlush_KilledAtEveryCall", false},
	{"checkpoint in a transaction of its own, Postgres", "internal/sink/postgres/transaction.go", "	a.fence()\n", "	a.fence()\n	s.add(\"COMMIT\")\n	s.add(\"BEGIN\")\n",
		postgres, "TestFlush_IsOneTransaction", false},
	{"rebuild over what another job commits meanwhile", "internal/sink/postgres/rebuild.go", `"(%s) = %s", a.othersSQL()`, `"true OR (%s) = %s", a.othersSQL()`,
		postgres, "TestRebuild_AnotherJobWritesMeanwhile", false},
	{"rebuild by a run that was stopped", "internal/job/reader.go", `if rd.rebuilds && !rd.read {`, `if false {`,
		cli, "TestScripts/settings$", false},
	{"rejects of a connection replaced", "internal/job/reader.go", `fresh := l.cp.Mark == "" && l.resumes && !l.unnamed`, `fresh := l.cp.Mark == "" && !l.unnamed`,
		cli, "TestScripts/rejects$", false},
	{"checkpoints looked at one by one", "internal/job/checkpoint.go", `if err := r.admit(&starts[i]); err != nil {`, `if err := r.admit(&starts[i]); err != nil && i == 0 {`,
		cli, "TestScripts/settings$", false},
	{"fence without a predecessor, SQLite", "internal/sink/ledger.go", `		case at.Seq > want:`, `		case false:`,
		sqlite, "TestSuite/Fence", false},
	{"no fence on the second lane", "internal/sink/ledger.go", `	for i := range f.Lanes {`, `	for i := range f.Lanes[:1] {`,
		sqlite, "TestSuite$/Lanes", false},
	{"a claim that does not lock, SQLite", "internal/sink/sqlite/claims.go", `busy, err := c.locks.Lock(c.at(lane))`, `busy, err := false, error(nil)`,
		sqlite, "TestSuite$/Claim", false},
	{"a lane does not hold its job, SQLite", "internal/sink/sqlite/claims.go", `busy, err := c.locks.LockShared(c.at())`, `busy, err := false, error(nil)`,
		sqlite, "TestSuite$/Claim", false},
	{"a claim that failed holds some lanes, SQLite", "internal/sink/sqlite/claims.go", `errors.Join(err, c.unlock(added))`, `errors.Join(err, c.unlock(added[:0]))`,
		sqlite, "TestSuite$/Claim", false},
	{"verify compares columns that nobody names, SQLite", "internal/sink/sqlite/compare.go", `!named[i] || c.Key {`, `c.Key {`,
		sqlite, "TestSuite$/Inspector", false},
	{"verify takes another value for the row's, Postgres", "internal/sink/postgres/compare.go", `differ = append(differ, name)`, `_ = differ`,
		postgres, "TestSuite$/Inspector", false},
	{"status lists what no run resumes", "internal/sink/query.go", `c.job = j.job AND NOT (" + ofRun("c.source") + ") ORDER`, `c.job = j.job ORDER`,
		sqlite, "TestSuite$/Inspector", false},
	{"rejects end with the first thousand", "internal/sink/query.go", `ORDER BY id LIMIT %d`, `AND id <= %d ORDER BY id`,
		sqlite, "TestSuite$/Inspector", false},
	{"what is read has to be writable, SQLite", "internal/sink/sqlite/driver.go", `Full, Cache: o.Cache, ReadOnly: true,`, `Full, Cache: o.Cache,`,
		sqlite, "TestOpen_ReadsWhereItMayNotWrite", false},
	{"rejects under the wrong lane, SQLite", "internal/sink/sqlite/flush.go", `f.Lanes[r.Lane].Source`, `f.Lanes[0].Source`,
		sqlite, "TestSuite$/Lanes", false},
	{"one table's state is another's", "internal/sink/sqlite/table.go", `	if t := d.tables[lower(b.Table.Name)]; t != nil {`,
		"	for _, t := range d.tables {\n\t\treturn t\n\t}\n\tif t := d.tables[lower(b.Table.Name)]; t != nil {",
		sqlite, "TestSuite$/Tables", false},
	{"a schema that was rolled back is believed", "internal/sink/sqlite/pieces.go", `		if tables[i], err = d.fit(ctx, b, tables[i], tables); err != nil {`,
		"		tables[i], err = d.fit(ctx, b, tables[i], tables)\n\t\tif err == nil {\n\t\t\td.tables[lower(tables[i].Name)] = tables[i]\n\t\t}\n\t\tif err != nil {",
		sqlite, "TestSuite$/Widening", false},
	{"a table that is copied takes the rows below along", "internal/sink/sqlite/grow.go", `	return d.unkeyed(func() error {`, `	return d.c.undone(func() error {`,
		sqlite, "TestSuite$/ForeignKeys", false},
	{"a child's key keeps its type, SQLite", "internal/sink/sqlite/grow.go", `	grown = needs.Follow(&caps.Limits, referred(above), grown)`, `	_ = referred`,
		sqlite, "TestSuite$/ForeignKeys", false},
	{"weir's foreign keys are constraints to it, Postgres", "internal/sink/postgres/foreign.go", `"k.contype = 'f' AND (left(k.conname, 7)`, `"k.contype = 'f' AND (left(k.conname, 8)`,
		postgres, "TestSuite$/ForeignKeys", false},
	{"other settings continue", "internal/job/checkpoint.go", `	case len(words) > 0 && !r.AcceptSettings:`, `	case false:`,
		cli, "TestScripts$/settings", false},
	{"another table continues", "internal/job/checkpoint.go", `		case !r.AcceptSettings:`, `		case false:`,
		cli, "TestScripts$/dropped", false},
	{"a source of which nothing was taken keeps its position", "internal/job/flusher.go", `if l.tentative && l.folded == refused`, `if false && l.folded == refused`,
		cli, "TestScripts$/settings", false},
	{"rejects that are read again stay", "internal/job/reader.go", `restart: fresh && l.cp.Seq > 0`, `restart: false && l.cp.Seq > 0`,
		cli, "TestScripts$/settings", false},
	{"a rebuild removes what others wrote", "internal/sink/ledger.go", `	case len(others) > 0:`, `	case false:`,
		sqlite, "TestSuite$/Ledger", false},
	{"a rowid of another row ends the run", "internal/sink/sqlite/row.go", `err = w.statements.insertOrFail(vals)`, `err = errors.New("the rowid is another row's")`,
		sqlite, "TestFlush_OnlyTheKey", false},
	{"a text over its number is unchanged, SQLite", "internal/sink/sqlite/value.go", `(kind == lib.SQLITE_TEXT || t != schema.Any)`, `true`,
		sqlite, "TestFlush_EveryValue", false},
	{"an insert's stamp moves, SQLite", "internal/sink/sqlite/row.go", `if w.layout.b.Table.Columns[i].Stamp == schema.UpdateStamp {`, `if w.layout.b.Table.Columns[i].Stamp > schema.NoStamp {`,
		sqlite, "TestSuite_WithoutAWAL/Stamps", false},
	{"an insert's stamp moves, Postgres", "internal/sink/postgres/merge.go", `case c.when == schema.UpdateStamp:`, `case c.when > schema.NoStamp:`,
		postgres, "TestSuite$/Stamps", false},
	{"a row with versions that was removed by hand has its old ones, SQLite", "internal/sink/sqlite/version.go", `n.found[i].State = n.states[`, `n.found[i].Exists, n.found[i].State = true, n.states[`,
		sqlite, "TestFlush_LongValuesOfRemovedRows", false},
	{"versions outlive a row that expired, SQLite", "internal/sink/sqlite/expire.go", `for _, key := range versions {`, `for _, key := range versions[:0] {`,
		sqlite, "TestSuite$/Expiry", false},
	{"rows below old ones are not counted, SQLite", "internal/sink/sqlite/expire.go", `gone[i] = int64(x.c.changes())`, `gone[0] = int64(x.c.changes())`,
		sqlite, "TestSuite$/Expiry", false},
	{"rows below those that stay go, Postgres", "internal/sink/postgres/expire.go", `fmt.Sprintf("(%s) IN (VALUES %s) AND %s", x.columns("%s", ", "), strings.Join(tuples, ", "), x.old))`, `x.old)`,
		postgres, "TestSuite$/Expiry", false},
	{"the key of a row is another one in the next run", "internal/fold/key.go", `switch hidden := t.Columns[x].Hidden; {`, `switch hidden := t.Columns[y].Hidden; {`,
		sqlite, "TestSuite$/Surrogates", false},
	{"no row expires at the end of a file", "internal/job/flusher.go", `f.ended = f.ended || len(s.ended) > 0`, `f.ended = false`,
		job, "TestExpire_AtTheStartAndTheEndOfAFile", false},
	{"a dropped column is not noticed, SQLite", "internal/sink/sqlite/marks.go", `			t.ID += lostMark + strconv.Quote(name)`, `			_ = strconv.Quote(name)`,
		sqlite, "TestSuite$/Ledger", false},
	{"a replaced table is written to, Postgres", "internal/sink/postgres/grow.go", ` AND %[1]s::regclass::oid = %[4]s AND`, ` AND (true OR %[1]s::regclass::oid = %[4]s) AND`,
		postgres, "TestTable_ReplacedMeanwhile", false},
	{"an unlogged table has no marker", "internal/sink/postgres/part.go", `p.unmarked = p.after.unlogged && p.after.marker == ""`, `p.unmarked = false`,
		postgres, "TestTable_Unlogged", false},
	{"fence without a predecessor, Postgres", "internal/sink/postgres/lanes.go", `AND c.seq = v.seq - 1 RETURNING 1`, `AND c.seq >= 0 * v.seq RETURNING 1`,
		postgres, "TestSuite$/Fence", false},
	{"no fence on the second lane, Postgres", "internal/sink/postgres/lanes.go", `1 / (count(*) = %d)::integer`, `1 / (count(*) >= least(%d, 1))::integer`,
		postgres, "TestSuite$/Lanes", false},
	{"lanes are locked in no order, Postgres", "internal/sink/postgres/lanes.go", `if len(moved) > 1 {`, `if len(moved) > 1<<20 {`,
		postgres, "TestLanes_OverlappingWritersDoNotDeadlock", false},
	{"no fence in a group", "internal/sink/postgres/lanes.go", `AND c.seq = v.seq - 1 RETURNING 1`, `AND c.seq >= 0 * v.seq RETURNING 1`,
		cli, "TestScripts_Kafka/kfake//group_zombie$", false},
	{"a stopped member holds its partition", "internal/sink/postgres/takeover.go", `SELECT a.pid, pg_terminate_backend(a.pid) FROM`, `SELECT a.pid, false FROM`,
		postgres, "TestTakeOver_StoppedInTransaction", false},
	{"a revocation does not commit", "internal/source/kafka/group.go", "	if c.kind == lost {\n		s.events", "	if c.kind != assigned {\n		s.events",
		cli, "TestScripts_Kafka/kfake//group_release$", false},
	{"a batch that was damaged on the way is given up", "internal/source/kafka/corrupt.go", `l.doubts++; l.doubts > maxDoubts ||`, `l.doubts++; l.doubts > 0 ||`,
		cli, "TestScripts_Kafka/kfake//corrupt_on_the_way$", false},
	{"good batches behind a damaged header are left out", "internal/source/kafka/corrupt.go", `if more && h.last >= after.first || `, `if more && h.last > after.first+9 || `,
		cli, "TestScripts_Kafka/kfake//corrupt_header$", false},
	{"--start goes back", "internal/source/kafka/kafka.go", `ok && at.Offset < first {`, `ok {`,
		cli, "TestScripts_Kafka/kfake//corrupt$", false},
	{"dead letters are removed before the brokers have them", "internal/source/kafka/deadletter.go", `			if failed == nil {
				sent = append(sent, of.ID)
			}
`, "			sent = append(sent, of.ID)\n",
		cli, "TestScripts_Kafka/kfake//letters_refused$", false},
	{"a group's offsets are those of Kafka", "internal/source/kafka/group.go", `			offsets[p.topic][p.number] = at.offset()`, "			if offsets[p.topic][p.number].EpochOffset().Offset < 0 {\n				offsets[p.topic][p.number] = at.offset()\n			}",
		cli, "TestScripts_Kafka/kfake//group_offsets$", false},
	{"claims are lost with their connection, Postgres", "internal/sink/postgres/claims.go", `if err != nil || !made || c.pooled {`, `if err != nil || !made || !c.pooled {`,
		postgres, "TestClaims_KilledSession", false},
	{"a claim that failed holds the other lanes, Postgres", "internal/sink/postgres/claims.go", `return c.release(ctx, held, !c.shared && !isFalse(locked[0]))`, `return c.release(ctx, held[:0], !c.shared && !isFalse(locked[0]))`,
		postgres, "TestSuite$/Claim", false},
	{"batch without an order", "internal/fold/sort.go", `		rows[i] = all[i].row`, `		_ = rows[i]`,
		postgres, "TestWriters", false},
	{"rows whose keys begin alike have no order", "internal/fold/sort.go", `return compare(x.row.Key, y.row.Key)`, `return 0 * compare(x.row.Key, y.row.Key)`,
		"./internal/fold", "TestBatch_SortedIsTheKeyOrder", false},
	{"keys of one tag are one row", "internal/fold/index.go", ` && bytes.Equal(b.rows[s.row-1].Key, key) {`, ` && (true || bytes.Equal(b.rows[s.row-1].Key, key)) {`,
		"./internal/fold", "TestBatch_KeysOfOneHash", false},
	{"a column holds what a field has brought once", "internal/fold/folder.go", `col != nil && col.Own && !col.Holds(k):`, `col != nil && col.Own && !col.Holds(k) && fd.holds == 0:`,
		"./internal/fold", "TestFold_Widens", false},
	{"no escape in COPY", "internal/sink/postgres/quote.go", "		case '\\\\':\n\t\t\te = '\\\\'\n", "",
		postgres, "TestSuite/Fold", false},
	{"null is absent, Postgres", "internal/sink/postgres/merge.go", `return fmt.Sprintf("get_bit(s.marks, %d) IS DISTINCT FROM 1", c.null)`, `return ""`,
		postgres, "TestSuite/Fold", false},
	{"the first value wins", "internal/fold/folder.go", `v := b.cell(r, fd.col, width); !f.opt.FillOnly {`, `v := b.cell(r, fd.col, width); !f.opt.FillOnly && *v == 0 {`,
		sqlite, "TestSuite/Fold", false},
	{"a value that comes again in its line is looked at", "internal/fold/folder.go", "		f.dropRepeated(c)\n", "",
		sqlite, "TestSuite/Fold", false},
	{"a delete does not replace the row", "internal/fold/folder.go", "		clear(r.cells)\n		r.Replaces = true\n	}\n	if first", "		clear(r.cells)\n	}\n	if first",
		sqlite, "TestSuite/Fold", false},
	{"rejects are forgotten", "internal/sink/sqlite/flush.go", `	if f.KeepRejects {`, `	if f.KeepRejects && len(rejects) != 1 {`,
		kills, "TestCrash$/all/sqlite_full_file", false},
	{"a failed batch is sent as if it were empty", "internal/job/flusher.go", `	res, err := f.flush(ctx, flush)`, "		if flush.Lanes[0].Checkpoint.Seq%7 == 3 {\n\t\t\tflush.Batches = []*fold.Batch{{Table: flush.Batches[0].Table}}\n\t\t}\n\t\tres, err := f.flush(ctx, flush)",
		kills, "TestRandom$/sqlite", false},
	{"what was read before a signal is dropped", "internal/job/scan.go", `if p.limit != nil && reading.Err() != nil && l.repeats && !l.begun.Waits {`, `if reading.Err() != nil {`,
		kills, "TestRandomWays$/sqlite", false},
	{"lines that are too long do not fill a batch", "internal/job/reader.go", `case err == nil && rd.isFull():`, `case err == nil && e.Oversize == 0 && rd.isFull():`,
		kills, "TestRandomWays$/sqlite", false},
	{"whether a row may be deleted is decided by the whole batch", "internal/fold/refer.go", `case s.Unsplit:`, `case true:`,
		kills, "TestRandomWays$/sqlite", false},
	{"a batch is not emptied", "internal/job/set.go", "	s.Reset()\n", "",
		kills, "TestRandom$/sqlite", false},
	{"what one table rejects leaves columns in another", "internal/fold/set.go", `				u.folder.forget(u.to)`, `				_ = u`,
		sqlite, "TestSuite$/Several", false},
	{"messages of several tables are judged row by row", "internal/sink/bisect.go", `case linked || tables > 1:`, `case tables < 0:`,
		sqlite, "TestSuite$/Several", false},
	{"rows that follow a message that waits do not wait", "internal/sink/order.go", `					why[keyOf(s)] = w`, `					_ = s`,
		sqlite, "TestSuite$/Several", false},
	{"deletes come before the children's, Postgres", "internal/sink/postgres/part.go", `p.plan.alone = tables == 1`, `p.plan.alone = true`,
		postgres, "TestFlush_ManyTablesAreOneRoundTrip", false},
	{"rows that seem new hide a delete", "internal/sink/postgres/part.go", `assumeNew && len(p.plan.rows) == len(p.writes) && p.plan.copyable()`, `assumeNew && len(p.plan.rows) > 0 && p.plan.copyable()`,
		postgres, "TestSuite$/Version", false},
	{"a row that others delete takes the deletes that are remembered of it", "internal/fold/state.go", `return r.number()%(n+1) != 0 || r.bad`, `return false`,
		sqlite, "TestSuite$/Version/VersionsOf", false},
	{"a tombstone keeps nothing out", "internal/fold/version.go", `return b.older(v, vs.tomb)`, `return false`,
		sqlite, "TestSuite/Version", false},
	{"a late value goes into a row that is inserted", "internal/fold/folder.go", `if first || f.table.Columns[fd.col].Default == "" {`, `if true {`,
		folding, "TestFold_DoesNotDepend", false},
	{"a late value goes into a row that is inserted, Postgres", "internal/sink/postgres/merge.go", `v = fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", c.begins(and(v+isNull, c.absent())),`,
		`v = fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", and(v+isNull, c.absent()),`, postgres, "TestSuite$/Fold", false},
	{"a late value goes into a row that is inserted, SQLite", "internal/sink/sqlite/row.go", `			v.late = true`, `			v.late = false`,
		sqlite, "TestSuite/Fold", false},
	{"a late delete ends the row", "internal/fold/columnscope.go", ` && !b.outlived(vs.ended, now.live)`, ``,
		folding, "TestFold_DoesNotDepend", false},
	{"a late delete forgets what it took", "internal/fold/columnscope.go", `			r.cells[i] = b.late(nil)`, `			r.cells[i], vs.cells[i] = 0, 0`,
		folding, "TestFold_DoesNotDepend", false},
	{"a late delete leaves NULL, Postgres", "internal/sink/postgres/merge.go", `c.begins("s.op = 'r'"), s.initial(c.at), was)`, `c.begins("s.op = 'r'"), "NULL", was)`,
		postgres, "TestSuite$/Version", false},
	{"versions have no order", "internal/feed/older.go", "	case xok || yok:\n		return xok\n", "",
		sqlite, "TestSuite/Version", false},
	{"the first row by its key gets a unique value", "internal/sink/bisect.go", `	case why.Taken:`, `	case false:`,
		sqlite, "TestSuite/Refused", false},
	{"what was written before a value was taken stays", "internal/sink/bisect.go", `		if p.marked {`, `		if false {`,
		sqlite, "TestSuite/Refused", false},
	{"a message that waits lets its row's next pass", "internal/sink/order.go", `	if len(o.why) > 0 {`, `	if false {`,
		sqlite, "TestSuite/Refused", false},
	{"an old column counts as new", "internal/fold/columnscope.go", `before(version, now.columns[n]) {`, `before(now.columns[n], version) {`,
		sqlite, "TestSuite/Version", false},
	{"the spool does not sync", "internal/spool/log.go", `errors.Join(s.data.Sync(), s.index.Sync())`, `error(nil)`,
		spool, "TestLog_PowerCut", false},
	{"the spool takes a torn end for whole", "internal/spool/index.go", `p = p[n:]; r.sum != r.run.sum {`, `p = p[n:]; r.sum == r.run.sum+1 {`,
		spool, "TestLog_", false},
	{"damage of what was synced counts as a torn end", "internal/spool/log.go", `(sealed || synced > r.data)`, `(synced < 0)`,
		spool, "TestLog_AnyDamagedByte", false},
	{"what was never synced counts as damaged", "internal/spool/log.go", `(sealed || synced > r.data)`, `(sealed || synced >= 0)`,
		spool, "TestLog_PowerCut", false},
	{"captures get what was not compared", "internal/spool/log.go", `position{s: s}.read(size, indexed)); err`, `io.NewSectionReader(s.data, indexed-indexed, size)); err`,
		spool, "TestLog_AnyDamagedByte", false},
	{"the spool's resume value is lost with an empty segment", "internal/spool/log.go", `s.base + s.size; s.indexed > 0 {`, `s.base + s.size; true {`,
		spool, "TestLog_ResumeValue", false},
	{"a block in memory comes before lines on the disk", "internal/spool/handover.go", `case o.event != nil && o.at == h.next:`, `case o.event != nil:`,
		spool, "TestQueue_", false},
	{"the spool is drained from its end", "internal/spool/place.go", `	case known && at >= begin:
		return at, nil`, `	case known && at >= begin:
		return end, nil`,
		kills, "TestCrash$/all/sqlite_full_spool", false},
	{"a bad line that is sent again is kept again", "internal/job/feed.go", `if strings.Contains(*list, sum) {`, `if strings.Contains(*list, sum+sum) {`,
		job, "TestSync_LostConnection", false},
	{"any file is taken for one of rejects", "internal/job/rejects.go", `!head.Match(first)`, `first == nil`,
		cli, "TestScripts$/^outputs", false},
	{"a file of rejects may be a source", "internal/cli/outputs.go", `if what := e.usedAs(path, o, to, args, sources); what != "" {`, `if what := ""; what != "" {`,
		cli, "TestScripts$/^outputs", false},
	{"what a crash left in a file of rejects stays", "internal/job/rejects.go", `min(m.Size, r.size), m.ID`, `r.size, m.ID`,
		cli, "TestScripts$/^rejects", false},
	{"a file of rejects is shared by databases", "internal/job/rejects.go", `mark != "" && mark != m.ID:`, `mark != "" && m.ID != "" && mark != m.ID:`,
		cli, "TestScripts$/^rejects", false},
	{"a capture's number is not remembered", "internal/spool/capture.go", `	c.last = state.Last
`, "",
		spool, "TestCaptures_NamesAreInTheOrder", false},
	{"a capture is too old by its own beginning", "internal/spool/capture.go", `FindStringSubmatch(names[i+1])[2]`, `FindStringSubmatch(names[i])[2]`,
		spool, "TestCaptures_OldOnesGo", false},
	{"the spool is locked while it syncs", "internal/spool/log.go", `	if err := s.sync(); err != nil {
		return err
	}
	return l.noteSynced(s, size)`, `	l.mu.Lock()
	defer l.mu.Unlock()
	return s.sync()`,
		spool, "TestLog_SlowSync", false},
	{"the next segment is begun before the last is on disk", "internal/spool/log.go", `s.index.Truncate(s.indexed), s.sync())`, `s.index.Truncate(s.indexed))`,
		spool, "TestLog_PowerCut", false},
	{"locks of the process in place of the file's", "internal/lockfile/lock_linux.go", `unix.F_OFD_SETLK,`, `unix.F_SETLK,`,
		lockfile, "TestLock_TwoJobsOfOneProcess", false},
	{"a lane is read again before what it brought is committed", "internal/job/reader.go", `	case s := <-rd.free: // no set is on its way
		rd.free <- s
`, "	default:\n",
		job, "TestSync_LanesComeBackBeforeTheyAreCommitted", false},
	{"the database's file is opened by others", "internal/sink/sqlite/flush.go", `	now, err := os.Stat(d.path)`, "	if f, err := os.Open(d.path); err == nil {\n\t\tf.Close()\n\t}\n\tnow, err := os.Stat(d.path)",
		sqlite, "TestSync_FileIsOpenedBySQLiteAlone", false},
	{"a followed file's beginning is not compared", "internal/source/file/follow.go", `same, err := t.holds(t.head, 0)`, `same, err := true, error(nil)`,
		files, "TestFollow_TruncatedAndGrownPastTheOffset", false},
	{"what is before a followed file's offset is not compared", "internal/source/file/follow.go", `same, err = t.holds(t.last, t.at-int64(len(t.last)))`, `same = true`,
		files, "TestFollow_TruncatedAndGrownPastTheOffset", false},
	{"a long line's permit ends with its block", "internal/source/tcp/listen.go", `		if err := s.Send(source.Event{Block: b}); err != nil {
			return err
		}
		in.giveBack()`, `		in.giveBack()
		if err := s.Send(source.Event{Block: b}); err != nil {
			return err
		}`,
		conns, "TestListen_LongLinesWait", false},
	{"a sender's zstd window is as large as a file's", "internal/source/tcp/listen.go", `lines.Decompress(br, format, senderWindow)`, `lines.Decompress(br, format, lines.MaxWindow)`,
		conns, "TestListen_ZstdWindows", false},
	{"silent senders stay", "internal/source/tcp/listen.go", `if number > 0 && (`, `if number < 0 && (`,
		conns, "TestListen_SilentOnesMakeRoom", false},
	{"a TLS stream that was cut ends cleanly", "internal/source/tcp/tls.go", `w.ended = w.ended || err == io.EOF`, `_ = w.ended`,
		conns, "TestLastLine", false},
	{"a refusal of TLS is tried again", "internal/tcp/refusal.go", `return n != 0 && n != alertInternalError && n != alertUserCanceled`, `return n == 1`,
		conns, "TestDial_EndsAtOnce", false},
	{"any number of fields", "internal/feed/scan.go", `if len(dst) == most {`, `if len(dst) == -most {`,
		"./internal/feed", "TestScan_TooManyFields", false},
	{"a rate that starts full", "internal/job/scan.go", `l.AllowN(time.Now(), l.Burst())`, `l.AllowN(time.Now(), 0)`,
		job, "TestMaxRate_AtEveryInstant", false},
	{"a run's type takes the place of the union", "internal/schema/own.go", `c.seen |= s`, `c.seen = s`,
		schema, "TestGrow", false},
	{"a run does not learn what others widened, SQLite", "internal/sink/sqlite/grow.go", `version != was.version || marks != was.marks`, `version != was.version`,
		sqlite, "TestSuite$/Widening", false},
	{"a run does not learn what others widened, Postgres", "internal/sink/postgres/grow.go", `if alters && t.marks != "" {`, `if alters && t.marks == "-" {`,
		postgres, "TestSuite$/Widening", false},
	{"a view does not hold a column", "internal/sink/postgres/grow.go", `why := t.cols[at].held; why != ""`, `why := t.cols[at].held; why == "-"`,
		postgres, "TestWiden_WhatHangsOnAColumn", false},
	{"a double becomes the text that Postgres prints", "internal/sink/postgres/widen.go", `BETWEEN 9007199254740992 AND 1e39`, `BETWEEN 1e38 AND 1e39`,
		postgres, "TestSuite$/Widening/Doubles", false},
	{"rows that need each other are tried alone", "internal/sink/bisect.go", `if err := p.together(); err != nil {`, `if err := error(nil); err != nil {`,
		sqlite, "TestSuite$/Refused/ForeignKeysInACircle", false},
	{"messages that were not kept are not missed", "internal/sink/bisect.go", `case !p.logged && (count(rows) == 1 || why.Taken):`, `case count(rows) == 0:`,
		postgres, "TestSuite$/Refused/ConstraintAddedMeanwhile", false},
	{"rows that are gone are not missed, Postgres", "internal/sink/postgres/upsert.go", `"current_setting('weir.gone') = 'false'"`, `"current_setting('weir.gone') <> ''"`,
		postgres, "TestFlush_RowsGone", false},
	{"what fails without a row rejects it, Postgres", "internal/sink/postgres/errors.go", `		return e.Routine == "ExecWithCheckOptions" || `, `		return true || e.Routine == "" || `,
		postgres, "TestRefused_NotByARow", false},
	{"statements are not tried without rows, Postgres", "internal/sink/postgres/refused.go", `if err := c.probe(); err != nil {`, `if err := error(nil); err != nil {`,
		postgres, "TestRefused_NotByARow", false},
	{"the row that an error shows is not looked for, Postgres", "internal/sink/postgres/blame.go", `	if at < 0 || of == table {`, `	if at = -1; at < 0 || of == table {`,
		postgres, "TestRefused_ManyOfSeveralTables", false},
	{"sets are swept by several writers at once, Postgres", "internal/sink/postgres/nested.go", `		if p.set && p.plan != nil && p.plan.acts.sweeps > 0 {`, `		if p.set && p.plan != nil && p.plan.acts.sweeps < 0 {`,
		postgres, "TestWriters_OneSet", false},
	{"flushes that are written piecewise wait for nobody, Postgres", "internal/sink/postgres/transaction.go", `= a.piecewise && p.b.Table.HasConstraints || a`, `= a.piecewise && a.d == nil || a`,
		postgres, "TestWriters_Piecewise", false},
	{"a MERGE in no order, Postgres", "internal/sink/postgres/merge.go", `" ORDER BY n)"`, `" ORDER BY random())"`,
		postgres, "TestFlush_RowsOfManySizes/1500", false},
	{"a MERGE of few rows takes them as they lie, Postgres", "internal/sink/postgres/part.go", `u.inOrder = r.stage.ordered`, `u.inOrder = true`,
		postgres, "TestFlush_RowsOfManySizes/1500", false},
	{"rows with other values are taken for repeated, Postgres", "internal/sink/postgres/repeated.go", `case !bytes.Equal(`, `case t == schema.JSON && !bytes.Equal(`,
		postgres, "TestFlush_Repeated/made", false},
	{"of the last key of a range that others lie in, one row is read of two, Postgres", "internal/sink/postgres/repeated.go", `FETCH FIRST %[5]d ROWS WITH TIES`, `LIMIT %[5]d`,
		postgres, "TestFlush_RepeatedBelow", false},
	{"rows that lie among others are looked for each time, Postgres", "internal/sink/postgres/repeated.go", `		t.incomparable = true
	}
	t.repeats`, `		t.incomparable = false
	}
	t.repeats`,
		postgres, "TestFlush_RepeatedAmongOthers", false},
	{"a row that is found twice is judged by one of the two, Postgres", "internal/sink/postgres/repeated.go", `= !found.found[at] && text.repeats(`, `= text.repeats(`,
		postgres, "TestFlush_RepeatedBelow", false},
	{"a table that was empty when it was vacuumed is scanned for each row, Postgres", "internal/sink/postgres/planner.go", `AND reltuples = 0\nLIMIT 1`, `AND reltuples < -1\nLIMIT 1`,
		postgres, "TestStatements", false},
	{"row-level security that comes during a run is not noticed, Postgres", "internal/sink/postgres/grow.go", `AND row_security_active(%[1]s::regclass) = %[5]t%[6]s`, `AND (row_security_active(%[1]s::regclass) IS NOT NULL OR %[5]t)%[6]s`,
		postgres, "TestRefused_HiddenRow", false},
	{"a flush whose key was taken is not sent again, Postgres", "internal/sink/postgres/cause.go", `{errTaken, a.isTaken(e)}`, `{errTaken, a.isTaken(e) && a.d == nil}`,
		postgres, "TestFlush_KeyTaken$", false},
	{"a flush whose key was taken waits for nobody, Postgres", "internal/sink/postgres/transaction.go", ` || a.tries[errTaken] > 0`, ` || a.tries[errTaken] > 1000`,
		postgres, "TestWriters$", false},
	{"versions of rows that exist are dropped, Postgres", "internal/sink/postgres/orphans.go", `AND NOT EXISTS (SELECT FROM`, `AND NOT NOT EXISTS (SELECT FROM`,
		postgres, "TestSuite$/Version/(Only)?VersionsOf", false},
	{"versions that another run has written are overwritten, Postgres", "internal/sink/postgres/version.go", `"v.xmin IS NOT DISTINCT FROM s.found"`, `"true"`,
		postgres, "TestWriters_OneRowWithVersions/column", false},
	{"writers with versions neither wait nor look for each other, Postgres", "internal/sink/postgres/version.go", `alone: p.alone(), names`, `alone: true, names`,
		postgres, "TestSuite$/Version/RunsAtOnce|TestWriters_OneRowWithVersions", false},
	{"a row that another run has written is overwritten by its version, Postgres", "internal/sink/postgres/merge.go", `" OR t.xmin = s.found OR `, `" OR true OR `,
		postgres, "TestWriters_OneRowWithVersions/row", false},
	{"a row is written that another run has written meanwhile, Postgres", "internal/sink/postgres/merge.go", `const hasState = "s.state IS NOT NULL"`, `const hasState = "true"`,
		postgres, "TestWriters_OneRowWithVersions/column", false},
	{"writers with versions take turns, Postgres", "internal/sink/postgres/version.go", `case p.a.piecewise, p.a.f.Rebuild, p.a.tries[errRaced]+p.a.tries[errGone] > 0:`, `case p != nil:`,
		postgres, "TestWriters_OtherRowsWithVersionsDoNotWait", false},
}

func main() {
	dir, err := os.MkdirTemp("", "weir-mutants-")
	if err == nil {
		err = errors.Join(run(dir, os.Args[1:]), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// atOnce is how many programs are built and tested at the same time: a test mostly waits.
const atOnce = 4

func run(dir string, names []string) error {
	programs, err := programsOf(dir, wanted(names))
	if err != nil {
		return err
	}
	var caught, all atomic.Int64
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, p := range programs {
		all.Add(int64(len(p.mutants)))
		group.Go(func() error {
			if err := p.build(); err != nil {
				return err
			}
			for _, m := range p.mutants {
				start := time.Now()
				by, err := p.caughtBy(m)
				switch {
				case err != nil:
					return fmt.Errorf("%s: %w", m.name, err)
				case by == "":
					fmt.Printf("SURVIVED  %s\n", m.name)
					continue
				}
				caught.Add(1)
				fmt.Printf("caught    %s (%.1f s)\n          by %s\n", m.name, time.Since(start).Seconds(), by)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d of %d mutants caught\n", caught.Load(), all.Load())
	if survived := all.Load() - caught.Load(); survived > 0 || all.Load() == 0 {
		return fmt.Errorf("%d mutants survived", survived)
	}
	return nil
}

// wanted returns the mutants of these names, all without any, but those whose tests take root,
// which is not there.
func wanted(names []string) (some []mutant) {
	for _, m := range mutants {
		switch {
		case len(names) > 0 && !slices.Contains(names, m.name):
		case m.root && os.Geteuid() != 0:
			fmt.Printf("NOT RUN   %s: its test takes root\n", m.name)
		default:
			some = append(some, m)
		}
	}
	return some
}

var (
	failed = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	reason = regexp.MustCompile(`(?m)^ *\w+\.go:\d+: (.*)`)
)

// caughtBy returns the first test that fails with the fault and why, "" where none does.
func (p *program) caughtBy(m mutant) (by string, err error) {
	out, passed, err := p.test(m.name, m.run)
	test := failed.FindSubmatch(out)
	switch {
	case passed || err != nil:
		return "", err
	case test == nil:
		return "a panic or the end of time", nil
	}
	by = string(test[1])
	if why := reason.FindSubmatch(out); why != nil {
		by += ": " + string(why[1][:min(len(why[1]), 90)])
	}
	return by, nil
}
