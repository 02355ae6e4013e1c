package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

var _ sink.GroupClaims = (*Claims)(nil)

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
