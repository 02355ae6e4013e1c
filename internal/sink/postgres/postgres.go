// Package postgres is the driver for Postgres.
//
// A batch goes to the server as one string of statements with the rows behind
// it, and is answered at the COMMIT: one round trip, whatever its size. The
// string begins with the fence, copies the rows into a staging table, and brings
// the table up to date from there with one INSERT and one UPDATE that leave
// alone what does not change.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/tcp"
)

// Options are the settings of one database.
type Options struct {
	// Synchronous is Postgres' synchronous_commit for each flush: off, on, …
	Synchronous string
	// SyncAtEnd has Close wait until all that was committed is on disk.
	SyncAtEnd bool
	// ReadOnly writes nothing, and demands no server that can.
	ReadOnly bool
	// Warn tells the user something that does not stop the run.
	Warn func(format string, args ...any)
	// Debug tells what only those who look for it want to know.
	Debug func(format string, args ...any)
}

// DB is a [sink.Sink] for one database.
type DB struct {
	config *pgconn.Config
	opt    Options
	conn   *pgconn.PgConn // nil after it broke
	open   bool           // a transaction is
	job    string         // that was claimed
	held   bool           // its lock is this session's

	// Of the server, asked at each connection.
	version int64  // 150018
	current string // the schema that tables are made in
	schema  string // the same as an identifier; weir's own tables are there
	unicode bool   // its encoding holds every character
	// characters are those beyond ASCII that another encoding holds; nil where it is not known.
	characters map[rune]bool
	pooled     bool   // a pooler may give each transaction another session
	temp       bool   // it lets us make temporary tables
	ready      bool   // weir's tables are there
	versions   bool   // so is that of versions
	backend    string // the process at the other end, and when it began
	started    string

	// Of the table that is kept.
	table  relation
	key    []string // by the names that the feed uses
	stage  stage
	fresh  bool              // the last batch's rows were all new, so that the next one's may be
	names  []string          // the numbered columns of its versions then
	wrote  string            // the last flush that is known to be committed, "" for none
	tried  string            // the last flush that came
	last   sink.Result       // what that does, as far as an answer told
	warned string            // what the server warned of last
	stuck  map[string]string // columns of weir's that could not be widened, and why

	// Of the flush at hand: how often it was started again because the table or its
	// rows had changed.
	rereads, gone int
	// writing is a hash of all jobs, when the table that it empties was read.
	writing string
}

var _ sink.Sink = (*DB)(nil)

const (
	minVersion = 150000 // the oldest that is still supported, https://www.postgresql.org/support/versioning/
	maxColumns = 1590
	maxName    = 63   // bytes, NAMEDATALEN - 1
	maxKey     = 2600 // bytes; an index takes 2704 with all that is around them

	connectTimeout = 10 * time.Second
	closeTimeout   = 10 * time.Second
)

// Parse reads a connection string, which may be a URL or keywords and values;
// what it leaves open comes from PG* variables, .pgpass and service files, as
// pgconn reads them. The error does not hold the password.
func Parse(dsn string) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, wrongString(err)
	}
	// Of pgx, not of the server. Here every query goes by the simple protocol,
	// which all poolers let pass.
	for _, p := range []string{"default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity"} {
		delete(c.RuntimeParams, p)
	}
	if c.ConnectTimeout == 0 || c.ConnectTimeout > connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	c.DialFunc = tcp.Dialer(c.ConnectTimeout).DialContext
	c.RuntimeParams["client_encoding"] = "UTF8"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "weir"
	}
	return c, nil
}

// wrongString is an error of pgconn's without the connection string: not all places
// that can hold a password are known to it.
func wrongString(err error) error {
	bad, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok {
		return err
	}
	bad.ConnString = ""
	text := strings.TrimPrefix(bad.Error(), "cannot parse ``: ")
	for _, form := range []string{"URL", "keyword/value"} {
		if quoted := "failed to parse as " + form; strings.HasPrefix(text, quoted) {
			text = quoted
		}
	}
	return errors.New("the connection string: " + text)
}

// Open connects to a database.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	c, err := Parse(dsn)
	if err != nil {
		return nil, err
	}
	d := &DB{config: c, opt: o, stuck: map[string]string{}}
	return d, d.connect(ctx)
}

// connect makes a connection where there is none, and asks the server what it
// is.
func (d *DB) connect(ctx context.Context) (err error) {
	if d.conn != nil {
		return nil
	}
	if d.conn, err = pgconn.ConnectConfig(ctx, d.config); err != nil {
		d.conn = nil
		return d.explain(err)
	}
	defer func() {
		if err != nil {
			d.drop()
		}
	}()
	d.stage, d.open, d.held, d.unicode = stage{}, false, false, true
	session := fmt.Sprint(d.conn.PID())
	r, err := d.query(ctx,
		"SELECT pg_backend_pid(), current_setting('server_version_num'), current_setting('server_encoding'), current_schema(), current_database(), pg_is_in_recovery(),"+
			" has_database_privilege(current_database(), 'TEMP'), (SELECT extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()),"+
			" current_setting('synchronous_standby_names'), current_setting('default_transaction_read_only')",
		"SELECT to_regclass(quote_ident(current_schema()) || '.weir_meta') IS NOT NULL")
	if err != nil {
		return d.explain(err)
	}
	row := r[0].rows[0]
	pid := string(row[0])
	if d.version = number(row[1]); d.version < minVersion {
		return fmt.Errorf("the server at %s is Postgres %d; weir needs %d or later", d.where(), d.version/10000, minVersion/10000)
	}
	d.pooled = pid != session
	d.unicode = string(row[2]) == "UTF8" || string(row[2]) == "SQL_ASCII"
	d.temp = string(row[6]) == "t"
	if !d.pooled {
		if err := d.bury(ctx); err != nil {
			return err // the old session stays the one to end
		}
		d.backend, d.started = pid, string(row[7])
		if err := d.watch(ctx); err != nil {
			return err
		}
	}
	if row[3] == nil {
		return fmt.Errorf("database %s has none of the schemas in search_path: CREATE SCHEMA, or set search_path in the connection string", row[4])
	}
	d.current = string(row[3])
	d.schema = ident(d.current)
	d.ready = string(r[1].rows[0][0]) == "t"
	if string(row[5]) == "t" && !d.opt.ReadOnly {
		return &sink.Error{Class: sink.Transient, Reason: "readonly",
			Err: errors.New("the server is a standby, which takes no writes: name the primary, or all of them with target_session_attrs=read-write")}
	}
	if string(row[9]) == "on" && !d.opt.ReadOnly {
		return &sink.Error{Class: sink.Permanent, Reason: "readonly",
			Err: fmt.Errorf("default_transaction_read_only is on for this role or database, though the server at %s is no standby: ALTER ROLE … (or DATABASE …) SET default_transaction_read_only = off", d.where())}
	}
	if d.pooled && !d.opt.ReadOnly {
		if err := d.takesTransactions(ctx); err != nil {
			return err
		}
	}
	if err := d.readHeld(ctx); err != nil {
		return d.explain(err)
	}
	d.opt.Debug("Postgres %d at %s; staging table: %s", d.version/10000, d.where(), d.staging())
	if d.opt.Synchronous == "remote_apply" && len(row[8]) == 0 {
		d.opt.Debug("the server has no synchronous standby: --synchronous extra waits for its own disk alone, as full does")
	}
	if d.ready {
		if err := d.checkFormat(ctx); err != nil {
			return err
		}
	}
	// After a broken connection the lock may still be that session's; who writes
	// next is told by the fence.
	if err := d.hold(ctx); !errors.Is(err, sink.ErrBusy) {
		return err
	}
	d.opt.Debug("the lock of job %q is still held by another session", d.job)
	return nil
}

// takesTransactions asks a pooler for a transaction. One that lends a session for a
// statement alone ends the connection, which by itself would look like any that broke.
func (d *DB) takesTransactions(ctx context.Context) error {
	if _, err := d.query(ctx, "BEGIN"); pgError(err) != nil {
		return &sink.Error{Class: sink.Permanent, Reason: "error",
			Err: fmt.Errorf("the pooler at %s: %s (weir needs one that pools transactions or sessions)", d.where(), pgError(err).Message)}
	} else if err != nil {
		return d.explain(err)
	}
	return d.explain(d.rollback(ctx))
}

// readySQL is whether weir's tables are there.
func (d *DB) readySQL() string {
	return "to_regclass(" + d.literal(d.schema+".weir_meta") + ") IS NOT NULL"
}

func (d *DB) checkFormat(ctx context.Context) error {
	r, err := d.query(ctx, "SELECT value::int FROM "+d.schema+".weir_meta WHERE name = 'format'")
	if err != nil {
		return d.explain(err)
	}
	made := int64(0)
	if len(r[0].rows) > 0 {
		made = number(r[0].rows[0][0])
	}
	return sink.CheckFormat(made, "schema "+d.schema)
}

// bury ends the session of a connection that broke, which may not know it yet,
// and holds the locks of its last flush. That it was just committing does no
// harm: the fence tells. Where it may not be ended, the fence waits for it.
func (d *DB) bury(ctx context.Context) error {
	if d.backend == "" {
		return nil
	}
	const wait = 1000 // ms, until it has let its locks go
	_, err := d.query(ctx, fmt.Sprintf("SELECT pg_terminate_backend(pid, %d) FROM pg_stat_activity WHERE pid = %s AND extract(epoch FROM backend_start) = %s", wait, d.backend, d.started))
	if pgError(err) != nil {
		return nil
	}
	return d.explain(err)
}

// watch has the server notice by itself when this side is gone.
func (d *DB) watch(ctx context.Context) error {
	_, err := d.query(ctx, "SET tcp_keepalives_idle = 30", "SET tcp_keepalives_interval = 10", "SET tcp_keepalives_count = 3", "SET client_connection_check_interval = '10s'")
	if e := pgError(err); e != nil { // not every system has them
		d.opt.Debug("%s", e.Message)
		return nil
	}
	return d.explain(err)
}

// where names the server, without secrets.
func (d *DB) where() string {
	c := d.config
	return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)
}

// drop gives the connection up.
func (d *DB) drop() {
	if d.conn == nil {
		return
	}
	_ = d.conn.Conn().Close()
	d.conn, d.open = nil, false
}

// Caps implements [sink.Sink].
func (d *DB) Caps() sink.Caps { return sink.Caps{Name: "Postgres", Columns: maxColumns} }

// Close implements [sink.Sink].
func (d *DB) Close() error {
	if d.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if d.opt.SyncAtEnd && d.wrote != "" {
		// A commit that waits for the disk takes all before it along.
		_, err = d.query(ctx, "BEGIN", "SET LOCAL synchronous_commit = on", "UPDATE "+d.schema+".weir_meta SET value = value WHERE name = 'format'", "COMMIT")
	}
	if d.stage.kind == unlogged && d.stage.made && d.conn != nil {
		_, _ = d.query(ctx, "DROP TABLE IF EXISTS "+d.stageName())
	}
	if d.conn != nil {
		// The session ends some time after this returns; its lock ends now, or
		// with a session that is gone already.
		_ = d.release(ctx)
	}
	if d.conn != nil {
		_ = d.conn.Close(ctx)
		d.conn = nil
	}
	return d.explain(err)
}

// Claim implements [sink.Sink]. A job is held by an advisory lock of the
// session. Behind a pooler sessions are shared, and only the fence tells two
// runs apart.
func (d *DB) Claim(ctx context.Context, job, source string) (cp sink.Checkpoint, err error) {
	d.wrote, d.tried = "", ""
	if err := d.connect(ctx); err != nil {
		return cp, err
	}
	if job != d.job {
		if err := d.release(ctx); err != nil {
			return cp, err
		}
		d.job = job
		err := d.hold(ctx)
		// The server may not have seen yet that a run was killed.
		for tries := 0; errors.Is(err, sink.ErrBusy) && tries < 5; tries++ {
			time.Sleep(100 * time.Millisecond)
			err = d.hold(ctx)
		}
		if err != nil {
			d.job = ""
			return cp, err
		}
	}
	if job == "" {
		return cp, nil
	}
	if !d.ready { // a run that was killed may have made them since we asked, with its last flush
		r, err := d.query(ctx, "SELECT "+d.readySQL())
		if err != nil {
			return cp, d.explain(err)
		}
		if d.ready = string(r[0].rows[0][0]) == "t"; !d.ready {
			return cp, nil
		}
	}
	r, err := d.query(ctx, fmt.Sprintf(`SELECT j.seq, coalesce(j.rejects, ''), coalesce(c.line, 0), coalesce(c."offset", 0), coalesce(c.mark, ''), `+micros("c.updated")+
		", coalesce(c.rejected, 0), coalesce(c.settings, ''), coalesce(c.tableid, ''), coalesce(j.tbl, '') FROM %s.weir_jobs j LEFT JOIN %[1]s.weir_checkpoints c ON c.job = j.job AND c.source = %s WHERE j.job = %s", d.schema, d.literal(source), d.literal(job)))
	if err != nil {
		return cp, d.explain(err)
	}
	for _, row := range r[0].rows {
		cp.Seq, cp.Rejects, cp.Line, cp.Offset, cp.Mark = number(row[0]), string(row[1]), number(row[2]), number(row[3]), string(row[4])
		cp.Rejected, cp.Settings, cp.TableID, cp.Table = number(row[6]), string(row[7]), string(row[8]), string(row[9])
		if row[5] != nil {
			cp.Committed = time.UnixMicro(number(row[5])).UTC()
		}
	}
	return cp, nil
}

// hold takes the lock of the job that was claimed, if there is one.
func (d *DB) hold(ctx context.Context) error {
	if d.job == "" || d.pooled {
		return nil
	}
	r, err := d.query(ctx, "SET application_name = "+d.literal("weir/"+d.job), fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", d.lockKey()))
	switch {
	case err != nil:
		return d.explain(err)
	case string(r[1].rows[0][0]) != "t":
		return sink.ErrBusy
	}
	d.held = true
	return nil
}

func (d *DB) release(ctx context.Context) error {
	if !d.held {
		d.job = ""
		return nil
	}
	_, err := d.query(ctx, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", d.lockKey()))
	d.job, d.held = "", false
	return d.explain(err)
}

// lockKey is the number that the job's lock has in its database.
func (d *DB) lockKey() int64 { return lockNumber(d.schema, d.job) }

func lockNumber(of ...string) int64 {
	h := fnv.New64a()
	h.Write([]byte("weir\x00" + strings.Join(of, "\x00")))
	return int64(h.Sum64())
}

// number reads an integer of the server's; anything else is 0.
func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}

// explain gives an error of the server's, or of the way to it, its class and
// words for people.
func (d *DB) explain(err error) error {
	if err == nil {
		return nil
	}
	var known *sink.Error
	if errors.As(err, &known) {
		return err
	}
	e := pgError(err)
	if e == nil {
		var connect *pgconn.ConnectError
		var lost *lostError
		if errors.As(err, &connect) || errors.As(err, &lost) {
			return &sink.Error{Class: sink.Transient, Reason: "connection", Err: oneLine(err)}
		}
		return err
	}
	class, reason, hint := classify(e)
	if hint != "" {
		hint = " (" + hint + ")"
	}
	text := e.Message
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if isFatal(e) || class == sink.Transient && reason == "readonly" {
		d.drop()
	}
	return &sink.Error{Class: class, Reason: reason, Err: fmt.Errorf("%s: %s (SQLSTATE %s)%s", d.where(), text, e.Code, hint)}
}

// oneLine has each thing that an error of several lines says once, in one line: a
// connection is tried at several addresses, and with TLS and without.
func oneLine(err error) error {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) == 1 {
		return err
	}
	var said []string
	for _, l := range lines[1:] {
		if l = strings.TrimSpace(l); !slices.Contains(said, l) {
			said = append(said, l)
		}
	}
	return errors.New(strings.TrimSpace(lines[0]) + " " + strings.Join(said, "; "))
}

// classify tells what may be done about an error of the server's
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func classify(e *pgconn.PgError) (class sink.Class, reason, hint string) {
	switch e.Code {
	case "25006":
		return sink.Transient, "readonly", "the server takes no writes; after a failover name all servers, with target_session_attrs=read-write"
	case "40P01":
		return sink.Transient, "deadlock", ""
	case "40001", "40003":
		return sink.Transient, "serialization", ""
	case "55P03":
		return sink.Transient, "locked", "another session holds a lock on the table"
	case "57014":
		return sink.Transient, "timeout", "the server's statement_timeout, or somebody's cancel; a smaller --batch-rows takes less time"
	case "25P03", "25P04":
		return sink.Transient, "timeout", "the server's idle_in_transaction_session_timeout or transaction_timeout"
	case "53300":
		return sink.Transient, "connections", ""
	case "53100":
		return sink.Permanent, "full", "free some space and run weir again: it goes on where it stopped"
	case "55000", "57P04":
		return sink.Permanent, "error", ""
	case "42501":
		return sink.Permanent, "permission", grant(e)
	case "28P01", "28000":
		return sink.Permanent, "login", "the password may stand in PGPASSWORD or ~/.pgpass"
	}
	switch e.Code[:2] {
	case "08", "57":
		return sink.Transient, "connection", ""
	case "53":
		return sink.Transient, "resources", ""
	case "58":
		return sink.Unknown, "io", ""
	}
	return sink.Permanent, "error", ""
}

// grant is the statement that gives what was missing.
func grant(e *pgconn.PgError) string {
	_, thing, _ := strings.Cut(e.Message, "permission denied for ")
	kind, name, ok := strings.Cut(thing, " ")
	switch {
	case strings.HasPrefix(e.Message, "must be owner of "):
		return "GRANT the owner's role TO the user that weir connects as, or have the owner change it"
	case !ok:
		return "GRANT what is missing"
	case kind == "schema":
		return "GRANT USAGE, CREATE ON SCHEMA " + name + " TO the user that weir connects as"
	case kind == "table":
		return "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE " + name + " TO the user that weir connects as, and TRUNCATE for --rebuild"
	case kind == "sequence":
		return "GRANT USAGE ON SEQUENCE " + name + " TO the user that weir connects as"
	case kind == "database":
		return "GRANT TEMP ON DATABASE " + name + " TO the user that weir connects as"
	}
	return "GRANT what is missing on " + thing
}

// isRefusal reports whether an error may be about rows: triggers and types may raise any
// code. Not about rows are what passes, what a damaged or full disk says, and a missing
// privilege, which a GRANT mends for all of them.
func isRefusal(e *pgconn.PgError) bool {
	if e == nil {
		return false
	}
	switch class, reason, _ := classify(e); {
	case class != sink.Permanent, reason == "full", reason == "login", e.Code == "XX001", e.Code == "XX002":
		return false
	case reason == "permission":
		return e.Routine == "ExecWithCheckOptions" || e.Routine == "exec_stmt_raise" // a policy, a trigger's RAISE
	}
	return true
}

// isStale reports whether an error says that the table is not what weir knows.
func isStale(e *pgconn.PgError) bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case "42P01", "42703", "42804", "42883", "42P10", "42P07", "42701", "42710", "26000", "0A000", "XX000", "3F000":
		return true
	}
	return e.Code == "23505" && strings.HasPrefix(e.ConstraintName, "pg_")
}

// systemColumns are in every table.
var systemColumns = []string{"tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"}

// newTable is a table that is not in this database yet.
func (d *DB) newTable(name string) schema.Table {
	t := NewTable(name)
	t.Characters = d.characters
	t.HasConstraints = !d.unicode // only the server knows which characters it has
	return t
}

// NewTable is a table that is not there yet.
func NewTable(name string) schema.Table {
	return schema.Table{Name: name, NoNUL: true, MaxName: maxName, MaxKey: maxKey, Reserved: systemColumns}
}
