package postgres

import (
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

// Claims are the [sink.Claims] of one job, held by the session's advisory locks. Behind a pooler, which shares
// sessions, only the fence separates two runs. It connects when necessary.
type Claims struct {
	sink.JobLedger

	mu sync.Mutex
	*client
	claimed map[lock]bool // claimed locks, and whether this session holds them
	waited  bool          // for the last flush of a previous run
}

// A lock is a lane's lock, or, without a lane, the job's, which all runs with lanes share.
type lock struct {
	lane   string
	shared bool
}

var _ sink.GroupClaims = (*Claims)(nil)

// OpenClaims returns the claims of a job.
func OpenClaims(_ context.Context, dsn, job string, o sink.Options) (sink.Claims, error) {
	c, err := newClient(dsn, o, false)
	if err != nil {
		return nil, err
	}
	claims := &Claims{client: c, claimed: map[lock]bool{}}
	claims.JobLedger = sink.JobLedger{Ledger: sink.Ledger{Query: claims.ask}, Job: job}
	return claims, nil
}

// A busy lock is retried: the server may not have noticed yet that a run was killed.
const (
	busyTries     = 5
	busyWait      = 100 * time.Millisecond
	flushWait     = "'5s'" // limit of the wait for the last flush of a previous run
	unlockTimeout = 2 * time.Second
)

// Take implements [sink.Claims].
func (c *Claims) Take(ctx context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	locks := []lock{{shared: true}}
	for _, l := range slices.Compact(slices.Sorted(slices.Values(lanes))) {
		locks = append(locks, lock{lane: l})
	}
	return c.take(ctx, locks, lanes)
}

// TakeJob implements [sink.Claims].
func (c *Claims) TakeJob(ctx context.Context) error {
	_, err := c.take(ctx, []lock{{}}, nil)
	return err
}

// take takes locks, and reads the lanes' checkpoints. It retries while one is busy.
func (c *Claims) take(ctx context.Context, locks []lock, lanes []string) (all []sink.Checkpoint, err error) {
	for n := 0; ; n++ {
		err = c.session(ctx, func() (err error) {
			if !c.waited && len(lanes) > 0 {
				if err := c.waitForFlushes(ctx, locks); err != nil {
					return err
				}
			}
			all, err = c.lock(ctx, locks, lanes)
			return err
		})
		if n == busyTries || !errors.As(err, new(sink.BusyError)) {
			return all, err
		}
		if stopped := backoff.Sleep(ctx, busyWait); stopped != nil {
			return nil, stopped
		}
	}
}

// session calls f with a connection, for one goroutine at a time, after it has asked whether weir's tables exist.
func (c *Claims) session(ctx context.Context, f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.connect(ctx); err != nil {
		return err
	}
	if !c.ready {
		if err := c.askReady(ctx); err != nil {
			return c.classified(err)
		}
	}
	return c.classified(f())
}

// classified classifies an error. An error without a class ends the session, with its locks.
func (c *Claims) classified(err error) error {
	if err != nil && !errors.As(err, new(*sink.Error)) && !errors.As(err, new(sink.BusyError)) {
		c.drop()
	}
	return c.sinkError(err)
}

// lock takes the locks that are missing, all or none, and reads the lanes' checkpoints.
func (c *Claims) lock(ctx context.Context, locks []lock, lanes []string) ([]sink.Checkpoint, error) {
	locks = slices.DeleteFunc(slices.Clone(locks), func(l lock) bool { return c.claimed[l] || c.pooled })
	s := &script{}
	// A statement that begins after the locks are taken sees what another run committed before it released them.
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY")
	s.addAll(c.locksSQL("pg_try_advisory_lock", locks))
	if c.ready && len(lanes) > 0 {
		s.addAll(c.dialect().CheckpointsSQL(c.Job, lanes))
	}
	s.add("COMMIT")
	r, err := c.run(ctx, s)
	if err != nil {
		return nil, err
	}
	locked := locks[:0:0]
	busy := error(nil)
	for i, row := range r[1].rows {
		if string(row[0]) == "t" {
			locked = append(locked, locks[i])
		} else if busy == nil {
			busy = sink.BusyError{Job: c.Job, Lane: locks[i].lane}
		}
	}
	if busy != nil {
		return nil, cmp.Or(c.unlock(ctx, locked), busy)
	}
	for _, l := range locked {
		c.claimed[l] = true
	}
	return sink.ReadCheckpoints(len(lanes), r[2].rows), nil
}

// unlock releases locks that the session holds.
func (c *Claims) unlock(ctx context.Context, locks []lock) error {
	if len(locks) == 0 || c.conn == nil {
		return nil
	}
	_, err := c.query(ctx, c.locksSQL("pg_advisory_unlock", locks))
	return err
}

// locksSQL calls a function for each lock, and returns its results.
func (c *Claims) locksSQL(function string, locks []lock) string {
	numbers, shared := make([]string, len(locks)), make([]string, len(locks))
	for i, l := range locks {
		of := []string{c.schema, c.Job}
		if l.lane != "" {
			of = append(of, l.lane)
		}
		numbers[i], shared[i] = strconv.FormatInt(lockNumber(of...), 10), strconv.FormatBool(l.shared)
	}
	return fmt.Sprintf("SELECT CASE WHEN shared THEN %s_shared(n) ELSE %[1]s(n) END FROM unnest('{%s}'::bigint[], '{%s}'::boolean[]) l (n, shared)",
		function, strings.Join(numbers, ","), strings.Join(shared, ","))
}

// waitForFlushes takes the locks and waits, for at most flushWait, until the job's flushes in progress have ended. A run
// that was killed releases its locks at once, but its last flush may still be in progress: the fence would end this run,
// and lines of stdin or of senders would be lost.
func (c *Claims) waitForFlushes(ctx context.Context, locks []lock) error {
	if _, err := c.lock(ctx, locks, nil); err != nil {
		return err
	}
	_, err := c.query(ctx, "BEGIN", "SET LOCAL lock_timeout = "+flushWait, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", c.flushLock(c.Job)), "COMMIT")
	if e := pgError(err); e != nil && e.Code == lockNotAvailable { // the fence decides
		err = c.rollback(ctx)
	}
	if err != nil {
		return err
	}
	c.waited = true
	return c.askReady(ctx) // a flush may have created weir's tables
}

// flushLock returns the number of the advisory lock that all flushes of a job share.
func (c *client) flushLock(job string) int64 { return lockNumber("flushes", c.schema, job) }

// Drop implements [sink.Claims].
func (c *Claims) Drop(ctx context.Context, lanes ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	var locks []lock
	for _, lane := range lanes {
		l := lock{lane: lane}
		if c.claimed[l] {
			locks = append(locks, l)
		}
		delete(c.claimed, l)
	}
	return c.classified(c.unlock(ctx, locks))
}

// Close implements [sink.Claims].
func (c *Claims) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.claimed)
	if c.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	// The session ends some time after this returns. Its locks are released now, unless the session is already gone.
	_, _ = c.query(ctx, "SELECT pg_advisory_unlock_all()")
	c.close(ctx)
	return nil
}

// connect connects if necessary, and takes the locks of the previous connection again. If another session holds one
// now, the fence decides.
func (c *Claims) connect(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	made, err := c.client.connect(ctx)
	if err != nil || !made || c.pooled {
		return err
	}
	locks := slices.Collect(maps.Keys(c.claimed))
	r, err := c.query(ctx, "SET application_name = "+literal("weir/"+c.Job), c.locksSQL("pg_try_advisory_lock", locks))
	if err != nil {
		return c.classified(err)
	}
	for i, l := range locks {
		c.claimed[l] = string(r[1].rows[i][0]) == "t"
	}
	return nil
}

// ask implements [sink.Ledger].Query.
func (c *Claims) ask(ctx context.Context, sql func(sink.Dialect) string) (rows [][][]byte, err error) {
	err = c.session(ctx, func() error {
		if !c.ready {
			return nil
		}
		r, err := c.query(ctx, sql(c.dialect()))
		if err == nil {
			rows = r[0].rows
		}
		return err
	})
	return rows, err
}

// lockNumber returns the number of an advisory lock.
func lockNumber(of ...string) int64 {
	h := fnv.New64a()
	h.Write([]byte("weir\x00" + strings.Join(of, "\x00")))
	return int64(h.Sum64())
}

// takeOverWait is how long a claim waits at a time for the former owner's flush. A session that is waiting for its
// client then is ended: the client may be stopped.
const takeOverWait = "5s"

// Database implements [sink.GroupClaims].
func (c *Claims) Database(ctx context.Context) (id string, err error) {
	err = c.session(ctx, func() error {
		mark := literal(sink.DatabaseMark)
		rows, err := c.write(ctx, fmt.Sprintf("INSERT INTO %s.weir_meta (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING", c.schema, mark, literal(rand.Text())),
			fmt.Sprintf("SELECT value FROM %s.weir_meta WHERE name = %s", c.schema, mark))
		if err == nil {
			id = string(rows[0][0])
		}
		return err
	})
	return id, err
}

// Begin implements [sink.GroupClaims].
func (c *Claims) Begin(ctx context.Context, run string, lanes []sink.Lane) error {
	begun := slices.Clone(lanes)
	for i := range begun {
		begun[i].Checkpoint.Seq = 1
	}
	return c.session(ctx, func() (err error) {
		if len(begun) > 0 {
			_, err = c.write(ctx, c.dialect().BeginLanes(c.Job, run, begun))
		}
		return err
	})
}

// write runs statements in a transaction that creates weir's tables if they are missing, and returns the rows of the
// last one.
func (c *Claims) write(ctx context.Context, statements ...string) ([][][]byte, error) {
	s := &script{}
	s.begin("on")
	if !c.ready {
		s.addAll(c.dialect().Create()...)
	}
	last := s.addAll(statements...)
	s.add("COMMIT")
	r, err := c.run(ctx, s)
	if isStale(pgError(err)) {
		c.drop()
		return nil, &sink.Error{Class: sink.Transient, Reason: "locked", Err: fmt.Errorf("another run makes weir's tables: %w", err)}
	} else if err != nil {
		return nil, err
	}
	c.ready = true
	return r[last].rows, nil
}

// writerSQL is SQL for the run that wrote a checkpoint. TakeOver puts its own name and a space before it, which the
// next flush replaces.
const writerSQL = "regexp_replace(c.run, '^.* ', '')"

// TakeOver implements [sink.GroupClaims]. A lane's row is its lock, which a flush holds from its fence to its end. A
// second call with the same name finds the name, and changes nothing.
func (c *Claims) TakeOver(ctx context.Context, run string, lanes ...string) (all []sink.Checkpoint, err error) {
	names := make([]string, len(lanes))
	for i, l := range lanes {
		names[i] = literal(l)
	}
	of := fmt.Sprintf("c.job = %s AND c.source IN (%s)", literal(c.Job), strings.Join(names, ", "))
	err = c.session(ctx, func() error {
		if len(lanes) == 0 {
			return nil
		}
		checkpoints := c.dialect().CheckpointsSQL(c.Job, lanes)
		s := &script{}
		s.begin("on") // the run relies on what it reads from here on
		s.add("SET LOCAL lock_timeout = '%s'", takeOverWait)
		s.addAll(checkpoints + " ORDER BY c.source FOR NO KEY UPDATE OF c")
		s.add("UPDATE %s.weir_checkpoints c SET seq = seq + 1, run = %s || ' ' || %s WHERE %s AND split_part(run, ' ', 1) <> %[2]s", c.schema, literal(run), writerSQL, of)
		found := s.addAll(checkpoints)
		s.add("COMMIT")
		r, err := c.run(ctx, s)
		if e := pgError(err); e != nil && e.Code == lockNotAvailable {
			return cmp.Or(c.endStopped(ctx, of), c.sinkError(err))
		} else if err != nil {
			return err
		}
		all = sink.ReadCheckpoints(len(lanes), r[found].rows)
		return nil
	})
	return all, err
}

// endStopped ends sessions of the job that have changed checkpoints, have not committed, and wait for their clients: a
// member was stopped in the middle of a flush. If it resumes, its flush finds that it is fenced.
func (c *Claims) endStopped(ctx context.Context, of string) error {
	if err := c.rollback(ctx); err != nil {
		return err
	}
	r, err := c.query(ctx, fmt.Sprintf("SELECT a.pid, pg_terminate_backend(a.pid) FROM %s.weir_checkpoints c"+
		" JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = c.xmax AND l.mode = 'ExclusiveLock' AND l.granted"+
		" JOIN pg_stat_activity a ON a.pid = l.pid WHERE %s AND a.application_name = %s AND a.wait_event_type = 'Client' AND a.state_change < now() - interval '%s'",
		c.schema, of, literal("weir/"+c.Job), takeOverWait))
	if err != nil {
		return err
	}
	for _, row := range r[0].rows {
		c.opt.Log.Warn(fmt.Sprintf("ended session %s, which held the checkpoint of a partition that this member has now: its weir has stopped in the middle of a flush", row[0]))
	}
	return nil
}
