package postgres

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/sink"
)

// Claims are the [sink.Claims] of one job. A lane is held by an advisory lock of the session,
// and by a shared one of the job, of which the whole job is held exclusively. Behind a
// pooler, which shares sessions, only the fence tells two runs apart. The connection is
// made when it is needed.
type Claims struct {
	sink.JobLedger

	mu sync.Mutex
	*client
	lanes  map[string]bool // that were taken, and whether this session has the lock
	shared bool            // this session has the job's lock as one of several
	whole  bool            // the job was taken
	waited bool            // for the last flush of a run before
}

var _ sink.GroupClaims = (*Claims)(nil)

// OpenClaims returns the claims of a job.
func OpenClaims(_ context.Context, dsn, job string, o sink.Options) (*Claims, error) {
	c, err := newClient(dsn, o, false)
	if err != nil {
		return nil, err
	}
	claims := &Claims{client: c, lanes: map[string]bool{}}
	claims.JobLedger = sink.JobLedger{Ask: claims.ask, Job: job}
	return claims, nil
}

// A busy lock is retried: the server may not have noticed yet that a run was killed.
const (
	busyTries = 5
	busyWait  = 100 * time.Millisecond
	flushWait = 5 * time.Second // at most, for the last flush of a run before
)

func whileBusy(ctx context.Context, try func() error) error {
	err := try()
	for n := 0; errors.As(err, new(sink.BusyError)) && n < busyTries; n++ {
		if stopped := backoff.Sleep(ctx, busyWait); stopped != nil {
			return stopped
		}
		err = try()
	}
	return err
}

// Take implements [sink.Claims].
func (c *Claims) Take(ctx context.Context, lanes ...string) (all []sink.Checkpoint, err error) {
	err = whileBusy(ctx, func() error { all, err = c.take(ctx, lanes); return err })
	return all, err
}

func (c *Claims) take(ctx context.Context, lanes []string) ([]sink.Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	var wanted []string
	for _, l := range lanes {
		if !c.lanes[l] {
			wanted = append(wanted, l)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	// What another run has committed before its locks were released is seen by a statement
	// that begins later.
	s := &script{}
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY")
	locks := s.add("%s", c.lockSQL(wanted))
	flushing := s.add("%s", c.flushingSQL())
	if c.ready && len(lanes) > 0 {
		s.add("%s", c.dialect().CheckpointsSQL(c.Job, lanes))
	}
	s.add("COMMIT")
	r, err := c.run(ctx, s)
	if err != nil {
		c.drop() // with what it locked before it failed
		return nil, c.sinkError(err)
	}
	if busy := slices.IndexFunc(r[locks].rows, isFalse); busy >= 0 {
		e := sink.BusyError{Job: c.Job}
		if busy > 0 {
			e.Lane = wanted[busy-1]
		}
		return nil, cmp.Or(c.unlock(ctx, wanted, r[locks].rows), error(e))
	}
	c.took(wanted, r[locks].rows)
	if len(lanes) == 0 {
		return nil, nil
	}
	if c.ready && (c.waited || len(r[flushing].rows) == 0) {
		c.waited = true
		return sink.ReadCheckpoints(len(lanes), r[flushing+1].rows), nil
	}
	if !c.waited {
		if err := c.waitForFlushes(ctx, r[flushing].rows); err != nil {
			return nil, err
		}
		c.waited = true
	}
	// A run that was killed may have made weir's tables since, with its last flush.
	if err := c.askReady(ctx); err != nil || !c.ready {
		return make([]sink.Checkpoint, len(lanes)), err
	}
	again, err := c.query(ctx, c.dialect().CheckpointsSQL(c.Job, lanes))
	if err != nil {
		c.drop()
		return nil, c.sinkError(err)
	}
	return sink.ReadCheckpoints(len(lanes), again[0].rows), nil
}

// flushingSQL names the transactions of the job's other sessions. A run that was killed
// leaves its locks at once, but its last flush may still be under way.
func (c *Claims) flushingSQL() string {
	return "SELECT pid || ' ' || extract(epoch FROM xact_start) FROM pg_stat_activity WHERE application_name = " + literal("weir/"+c.Job) +
		" AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
}

// waitForFlushes waits, at most for flushWait, until the transactions have ended that
// flushingSQL has named.
func (c *Claims) waitForFlushes(ctx context.Context, named [][][]byte) error {
	waits := backoff.Backoff{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	for end := time.Now().Add(flushWait); len(named) > 0; {
		wait, ok := waits.Next(time.Until(end))
		if !ok {
			return nil // the fence decides
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
		r, err := c.query(ctx, c.flushingSQL())
		if err != nil {
			c.drop()
			return c.sinkError(err)
		}
		named = slices.DeleteFunc(named, func(was [][]byte) bool {
			return !slices.ContainsFunc(r[0].rows, func(now [][]byte) bool { return bytes.Equal(was[0], now[0]) })
		})
	}
	return nil
}

// lockSQL tries to lock lanes. Its rows tell whether it could: the first one of the job's
// lock, which all runs share that have lanes, the others of the lanes.
func (c *Claims) lockSQL(lanes []string) string {
	job := "true"
	if !c.shared {
		job = "pg_try_advisory_lock_shared(" + c.jobKey() + ")"
	}
	lane := "pg_try_advisory_lock(key)"
	if c.pooled {
		job, lane = "true", "true"
	}
	return fmt.Sprintf("SELECT %s UNION ALL SELECT %s FROM %s", job, lane, c.keys(lanes))
}

// took notes which locks the session has by the answer to [Claims.lockSQL].
func (c *Claims) took(lanes []string, locked [][][]byte) {
	c.shared = !isFalse(locked[0])
	for i, l := range lanes {
		if c.lanes[l] = !isFalse(locked[i+1]); !c.lanes[l] {
			c.opt.Log.Debug(fmt.Sprintf("another session holds %s of job %q by now", l, c.Job))
		}
	}
}

// unlock releases what [Claims.lockSQL] has locked by its answer.
func (c *Claims) unlock(ctx context.Context, lanes []string, locked [][][]byte) error {
	var held []string
	for i, l := range lanes {
		if !isFalse(locked[i+1]) {
			held = append(held, l)
		}
	}
	return c.release(ctx, held, !c.shared && !isFalse(locked[0]))
}

// release releases the locks of lanes, and the job's shared one.
func (c *Claims) release(ctx context.Context, lanes []string, shared bool) error {
	if c.pooled || c.conn == nil || len(lanes) == 0 && !shared {
		return nil
	}
	job := "true"
	if shared {
		job = "pg_advisory_unlock_shared(" + c.jobKey() + ")"
	}
	_, err := c.query(ctx, fmt.Sprintf("SELECT %s UNION ALL SELECT pg_advisory_unlock(key) FROM %s", job, c.keys(lanes)))
	if err != nil {
		c.drop()
	}
	return c.sinkError(err)
}

// Drop implements [sink.Claims].
func (c *Claims) Drop(ctx context.Context, lanes ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	var held []string
	for _, l := range lanes {
		if c.lanes[l] {
			held = append(held, l)
		}
		delete(c.lanes, l)
	}
	return c.release(ctx, held, false)
}

// TakeJob implements [sink.Claims].
func (c *Claims) TakeJob(ctx context.Context) error {
	return whileBusy(ctx, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.connect(ctx); err != nil || c.whole || c.pooled {
			return err
		}
		r, err := c.query(ctx, "SELECT pg_try_advisory_lock("+c.jobKey()+")")
		if err != nil {
			c.drop()
			return c.sinkError(err)
		}
		if isFalse(r[0].rows[0]) {
			return sink.BusyError{Job: c.Job}
		}
		c.whole = true
		return nil
	})
}

// Close implements [sink.Claims].
func (c *Claims) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes, c.shared, c.whole = map[string]bool{}, false, false
	if c.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// The session ends some time after this returns; its locks end now, or with a session
	// that is gone already.
	_, _ = c.query(ctx, "SELECT pg_advisory_unlock_all()")
	c.close(ctx)
	return nil
}

// connect makes a connection where there is none, and takes the locks again that were held
// by the one before. Where another session has one now, the fence decides.
func (c *Claims) connect(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	made, err := c.client.connect(ctx)
	if err != nil || !made || c.pooled {
		return err
	}
	lanes := slices.Collect(maps.Keys(c.lanes))
	statements := []string{"SET application_name = " + literal("weir/"+c.Job)}
	if c.whole {
		statements = append(statements, "SELECT pg_try_advisory_lock("+c.jobKey()+")")
	}
	taken := c.shared || len(lanes) > 0
	c.shared = false
	if taken {
		statements = append(statements, c.lockSQL(lanes))
	}
	r, err := c.query(ctx, statements...)
	if err != nil {
		c.drop()
		return c.sinkError(err)
	}
	if taken {
		c.took(lanes, r[len(r)-1].rows)
	}
	return nil
}

// ask is a [sink.Ledger].
func (c *Claims) ask(ctx context.Context, sql func(sink.Dialect) string) ([][][]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	if !c.ready {
		if err := c.askReady(ctx); err != nil || !c.ready {
			return nil, err
		}
	}
	r, err := c.query(ctx, sql(c.dialect()))
	if err != nil {
		c.drop()
		return nil, c.sinkError(err)
	}
	return r[0].rows, nil
}

// jobKey and keys are the numbers that the locks have in the database.
func (c *Claims) jobKey() string { return fmt.Sprintf("'%d'", lockNumber(c.schema, c.Job)) }

func (c *Claims) keys(lanes []string) string {
	keys := make([]string, len(lanes))
	for i, l := range lanes {
		keys[i] = strconv.FormatInt(lockNumber(c.schema, c.Job, l), 10)
	}
	return "unnest('{" + strings.Join(keys, ",") + "}'::bigint[]) key"
}

func lockNumber(of ...string) int64 {
	h := fnv.New64a()
	h.Write([]byte("weir\x00" + strings.Join(of, "\x00")))
	return int64(h.Sum64())
}

// isFalse reports whether the first cell of a row is not true.
func isFalse(row [][]byte) bool { return string(row[0]) != "t" }

// takeOverWait is how long a claim waits at a time for a flush of the former owner that is under
// way. A session that has waited for its client meanwhile is ended: the client may be stopped.
const takeOverWait = "5s"

// Database implements [sink.GroupClaims].
func (c *Claims) Database(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.connect(ctx); err != nil {
		return "", err
	}
	mark := literal(sink.DatabaseMark)
	rows, err := c.write(ctx, fmt.Sprintf("INSERT INTO %s.weir_meta (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING", c.schema, mark, literal(rand.Text())),
		fmt.Sprintf("SELECT value FROM %s.weir_meta WHERE name = %s", c.schema, mark))
	if err != nil {
		return "", err
	}
	return string(rows[0][0]), nil
}

// Begin implements [sink.GroupClaims].
func (c *Claims) Begin(ctx context.Context, run string, lanes []sink.Lane) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.connect(ctx); err != nil || len(lanes) == 0 {
		return err
	}
	values := make([]string, len(lanes))
	for i := range lanes {
		cp := &lanes[i].Checkpoint
		values[i] = fmt.Sprintf("(%s, %s, 1, %s, %d, %d, %s, 0, now())", literal(c.Job), literal(lanes[i].Source), literal(run), cp.Line, cp.Offset, literal(cp.Mark))
	}
	_, err := c.write(ctx, fmt.Sprintf(`INSERT INTO %s.weir_checkpoints (job, source, seq, run, line, "offset", mark, rejected, updated) VALUES %s ON CONFLICT DO NOTHING`,
		c.schema, strings.Join(values, ", ")))
	return err
}

// write runs statements in a transaction that makes weir's tables where they are missing, and returns
// the rows of the last one.
func (c *Claims) write(ctx context.Context, statements ...string) ([][][]byte, error) {
	s := &script{}
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED")
	s.add("SET LOCAL client_min_messages = warning")
	if !c.ready {
		statements = slices.Concat(c.dialect().Ledger(), statements)
	}
	last := 0
	for _, q := range statements {
		last = s.add("%s", q)
	}
	s.add("COMMIT")
	r, err := c.run(ctx, s)
	if err != nil {
		c.drop()
		if isStale(pgError(err)) {
			err = &sink.Error{Class: sink.Transient, Reason: "locked", Err: fmt.Errorf("another run makes weir's tables: %w", err)}
		}
		return nil, c.sinkError(err)
	}
	c.ready = true
	return r[last].rows, nil
}

// writerSQL is the run that wrote a checkpoint: TakeOver puts its own name and a space before it, which the
// next flush replaces.
const writerSQL = "regexp_replace(c.run, '^.* ', '')"

// TakeOver implements [sink.GroupClaims]. The row of a lane is its lock: a flush has it from its
// fence to its end. A second call with a name finds it, and changes nothing.
func (c *Claims) TakeOver(ctx context.Context, run string, lanes ...string) ([]sink.Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.connect(ctx); err != nil || len(lanes) == 0 {
		return nil, err
	}
	names := make([]string, len(lanes))
	for i, l := range lanes {
		names[i] = literal(l)
	}
	of := fmt.Sprintf("c.job = %s AND c.source IN (%s)", literal(c.Job), strings.Join(names, ", "))
	s := &script{}
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED")
	s.add("SET LOCAL lock_timeout = '%s'", takeOverWait)
	s.add("SET LOCAL synchronous_commit = on") // what the run reads from here rests on it
	s.add("%s ORDER BY c.source FOR NO KEY UPDATE OF c", c.dialect().CheckpointsSQL(c.Job, lanes))
	s.add("UPDATE %s.weir_checkpoints c SET seq = seq + 1, run = %s || ' ' || %s WHERE %s AND split_part(run, ' ', 1) <> %[2]s", c.schema, literal(run), writerSQL, of)
	found := s.add("%s", c.dialect().CheckpointsSQL(c.Job, lanes))
	s.add("COMMIT")
	r, err := c.run(ctx, s)
	if e := pgError(err); e != nil && e.Code == lockNotAvailable {
		return nil, cmp.Or(c.endStopped(ctx, of), c.sinkError(err))
	} else if err != nil {
		c.drop()
		return nil, c.sinkError(err)
	}
	return sink.ReadCheckpoints(len(lanes), r[found].rows), nil
}

// endStopped ends the sessions of the job that have changed checkpoints, have not committed, and
// wait for their clients: a member that was stopped in the middle of a flush. If it lives on, its
// flush finds that it is fenced.
func (c *Claims) endStopped(ctx context.Context, of string) error {
	if err := c.rollback(ctx); err != nil {
		c.drop()
		return c.sinkError(err)
	}
	r, err := c.query(ctx, fmt.Sprintf("SELECT a.pid, pg_terminate_backend(a.pid) FROM %s.weir_checkpoints c"+
		" JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = c.xmax AND l.mode = 'ExclusiveLock' AND l.granted"+
		" JOIN pg_stat_activity a ON a.pid = l.pid WHERE %s AND a.application_name = %s AND a.wait_event_type = 'Client' AND a.state_change < now() - interval '%s'",
		c.schema, of, literal("weir/"+c.Job), takeOverWait))
	if err != nil {
		c.drop()
		return c.sinkError(err)
	}
	for _, row := range r[0].rows {
		c.opt.Log.Warn(fmt.Sprintf("ended session %s, which held the checkpoint of a partition that this member has now: its weir has stopped in the middle of a flush", row[0]))
	}
	return nil
}
