package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/tcp"
)

// A client has one connection to the server.
type client struct {
	dsn     string
	config  *pgconn.Config // dsn as parsed for the last connection attempt
	opt     sink.Options
	reads   bool           // only reads, so any server will do
	conn    *pgconn.PgConn // nil before the first connection, and after it broke
	open    bool           // a transaction is open
	refused time.Time      // since when the server has rejected our login; zero if it does not
	server
	ready    bool // weir's tables exist
	versions bool // weir_versions exists
}

// A server is what each connection finds out about its server.
type server struct {
	version int64         // 150018
	current string        // the schema for new tables
	schema  string        // current as a quoted identifier; weir's own tables are there
	pooled  bool          // a pooler may give each transaction another session
	idle    time.Duration // how long a transaction may be idle before it ends the session; 0: forever
	backend string        // the server process, and when it started
	started string
}

const connectTimeout = 10 * time.Second

func newClient(dsn string, o sink.Options, reads bool) (*client, error) {
	config, err := Parse(dsn)
	if err != nil {
		return nil, err
	}
	return &client{dsn: dsn, config: config, opt: o, reads: reads}, nil
}

// Parse parses a connection string, a URL or keywords and values. pgconn adds PG* variables, .pgpass and service files,
// as they are now. The error does not contain the password.
func Parse(dsn string) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, wrongString(err)
	}
	if strings.Contains(c.Host, "@") { // part of a password would be printed
		return nil, errors.New("the connection string: a password with @ has %40 instead")
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

// wrongString returns pgconn's error without the connection string, because pgconn does not redact every place that can
// hold a password.
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

// connect connects if necessary, and inspects the server. made reports whether it connected.
func (c *client) connect(ctx context.Context) (made bool, err error) {
	if c.conn != nil {
		return false, nil
	}
	if err := c.dial(ctx); err != nil {
		return false, err
	}
	if err := c.inspect(ctx); err != nil {
		c.drop()
		return false, c.sinkError(err)
	}
	return true, nil
}

// dial connects. It rereads the password, service and certificate files each time, because they may have been replaced.
func (c *client) dial(ctx context.Context) error {
	config, err := Parse(c.dsn)
	if err != nil {
		class := sink.Permanent
		if c.mayBeReplaced() {
			class = sink.Transient
		}
		return &sink.Error{Class: class, Reason: "login", Err: err}
	}
	c.config = config
	connecting, done := sink.UntilStop(ctx, c.opt.Stop)
	defer done()
	conn, err := pgconn.ConnectConfig(connecting, config)
	if err != nil {
		return c.sinkError(err)
	}
	c.conn, c.refused = conn, time.Time{}
	return nil
}

// mayBeReplaced reports whether to retry after a login or certificate was rejected: the server accepted it before, and
// it may just be being replaced.
func (c *client) mayBeReplaced() bool {
	if c.refused.IsZero() {
		c.refused = time.Now()
	}
	return c.version > 0 && time.Since(c.refused) < backoff.Replacement
}

// A serverRow is the row of serverSQL.
type serverRow struct {
	PID, Started       string
	Version            int64
	Encoding, Database string
	Schema             string // "" if no schema in the search path exists
	Standby, ReadOnly  bool
	Idle               int64 // ms
}

const serverSQL = `SELECT row_to_json(x) FROM (
  SELECT pg_backend_pid()::text AS pid, (SELECT extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid())::text AS started,
    current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding,
    current_database() AS database, current_schema() AS schema, pg_is_in_recovery() AS standby,
    current_setting('default_transaction_read_only') = 'on' AS readonly,
    (SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout') AS idle) x`

// inspect finds out the server's properties.
func (c *client) inspect(ctx context.Context) error {
	c.open = false
	session := fmt.Sprint(c.conn.PID())
	r, err := c.query(ctx, serverSQL)
	if err != nil {
		return err
	}
	var row serverRow
	if err := json.Unmarshal(r[0].rows[0][0], &row); err != nil {
		return err
	}
	if c.version = row.Version; isOld(c.version) {
		return fmt.Errorf("the server at %s is Postgres %d.%d; weir needs 15.5, 16.1 or later: a MERGE of older ones misses rows that others are writing",
			c.where(), c.version/10000, c.version%10000)
	}
	if row.Encoding != "UTF8" && row.Encoding != "SQL_ASCII" {
		return &sink.Error{Class: sink.Permanent, Reason: "error",
			Err: fmt.Errorf("database %s has the encoding %s, which lacks characters that a feed may have: make one by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", row.Database, row.Encoding)}
	}
	c.pooled = row.PID != session
	c.idle = time.Duration(row.Idle) * time.Millisecond
	if !c.pooled {
		if err := c.terminateStaleBackend(ctx); err != nil {
			return err // the old session is still the one to end
		}
		c.backend, c.started = row.PID, row.Started
		if err := c.watch(ctx); err != nil {
			return err
		}
	}
	if row.Schema == "" {
		return fmt.Errorf("database %s has none of the schemas in search_path: CREATE SCHEMA, or set search_path in the connection string", row.Database)
	}
	c.current, c.schema = row.Schema, ident(row.Schema)
	if !c.reads {
		if err := c.mayWrite(&row); err != nil {
			return err
		}
	}
	if err := c.askReady(ctx); err != nil || !c.ready {
		return err
	}
	return c.checkFormat(ctx)
}

// isOld reports whether a server is older than 15.5 or 16.1. There, a MERGE that has waited for another session's
// UPDATE may consider the row missing, and then misses the delete.
func isOld(version int64) bool { return version < 150005 || version == 160000 }

// mayWrite returns an error if the server does not accept weir's flushes.
func (c *client) mayWrite(row *serverRow) error {
	switch {
	case row.Standby:
		return &sink.Error{Class: sink.Transient, Reason: "readonly",
			Err: errors.New("the server is a standby, which takes no writes: name the primary, or all of them with target_session_attrs=read-write")}
	case row.ReadOnly:
		return &sink.Error{Class: sink.Permanent, Reason: "readonly",
			Err: fmt.Errorf("default_transaction_read_only is on for this role or database, though the server at %s is no standby: ALTER ROLE … (or DATABASE …) SET default_transaction_read_only = off", c.where())}
	}
	return nil
}

// askReady asks whether weir's tables exist: another run may have created them since.
func (c *client) askReady(ctx context.Context) error {
	r, err := c.query(ctx, "SELECT "+c.readySQL())
	if err != nil {
		return c.sinkError(err)
	}
	c.takeReady(r[0].rows[0])
	return nil
}

// readySQL returns SQL for takeReady's input: whether weir's tables exist, and whether weir_versions does.
func (c *client) readySQL() string {
	return fmt.Sprintf("to_regclass(%s || '.weir_meta') IS NOT NULL, to_regclass(%[1]s || '.weir_versions') IS NOT NULL", literal(c.schema))
}

// takeReady records which of weir's tables exist.
func (c *client) takeReady(row [][]byte) {
	c.ready, c.versions = string(row[0]) == "t", string(row[1]) == "t"
}

func (c *client) checkFormat(ctx context.Context) error {
	r, err := c.query(ctx, c.dialect().FormatSQL())
	if e := pgError(err); e != nil && e.Code == "42501" && !c.reads {
		return nil // [DB.Tables] names all GRANTs
	}
	if err != nil {
		return c.sinkError(err)
	}
	return sink.CheckFormat(r[0].rows, "schema "+c.schema)
}

// terminateStaleBackend terminates the server process of a broken connection, which may still hold its locks. If it was
// just committing, the fence will show whether it did. If weir may not terminate it, the fence waits for it.
func (c *client) terminateStaleBackend(ctx context.Context) error {
	if c.backend == "" {
		return nil
	}
	const wait = 1000 // ms to wait until it has released its locks
	_, err := c.query(ctx, fmt.Sprintf("SELECT pg_terminate_backend(pid, %d) FROM pg_stat_activity WHERE pid = %s AND extract(epoch FROM backend_start) = %s", wait, c.backend, c.started))
	if pgError(err) != nil { // this role may not terminate it
		return nil
	}
	return c.sinkError(err)
}

// watch asks the server to detect a dead client, and to end no session for being idle: a session that only holds locks
// is idle.
func (c *client) watch(ctx context.Context) error {
	_, err := c.query(ctx, "SET idle_session_timeout = 0", "SET tcp_keepalives_idle = 30", "SET tcp_keepalives_interval = 10", "SET tcp_keepalives_count = 3", "SET client_connection_check_interval = '10s'")
	if e := pgError(err); e != nil { // some operating systems do not have them
		c.opt.Log.Debug(e.Message)
		return nil
	}
	return c.sinkError(err)
}

// where names the server, without secrets: of several, the first.
func (c *client) where() string {
	return fmt.Sprintf("%s:%d/%s", c.config.Host, c.config.Port, c.config.Database)
}

func (c *client) drop() {
	if c.conn == nil {
		return
	}
	_ = c.conn.Conn().Close()
	c.conn, c.open = nil, false
}

func (c *client) close(ctx context.Context) {
	if c.conn != nil {
		_ = c.conn.Close(ctx)
		c.conn, c.open = nil, false
	}
}

// rollback ends a failed transaction.
func (c *client) rollback(ctx context.Context) error {
	if !c.open {
		return nil
	}
	_, err := c.query(ctx, "ROLLBACK")
	return err
}
