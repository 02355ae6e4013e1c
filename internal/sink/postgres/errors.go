package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/tcp"
)

// sinkError classifies an error of the server or of the connection, and adds advice.
func (c *client) sinkError(err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(*sink.Error)) || errors.As(err, new(sink.UnloggedError)) || errors.As(err, new(sink.ChangedError)) {
		return err // even if its cause is an error of the server
	}
	e := pgError(err)
	var connect *pgconn.ConnectError
	if e == nil {
		var lost *lostError
		switch {
		case errors.As(err, new(cause)): // others keep changing the rows or the table
			return &sink.Error{Class: sink.Transient, Reason: "serialization", Err: err}
		case errors.As(err, &connect) && c.isHopeless(err) && !c.mayBeReplaced():
			return &sink.Error{Class: sink.Permanent, Reason: "connection", Err: fmt.Errorf("%w (not retried: check the host, sslmode and the certificates)", oneLine(err))}
		case errors.As(err, &connect):
			return &sink.Error{Class: sink.Transient, Reason: "connection", Err: oneLine(err)}
		case errors.As(err, &lost):
			return &sink.Error{Class: sink.Transient, Reason: "connection", Err: fmt.Errorf("%s: %w", c.where(), oneLine(err))}
		}
		return err
	}
	class, reason, hint := classify(e)
	if reason == "login" && errors.As(err, &connect) && c.mayBeReplaced() {
		class = sink.Transient
	}
	if hint != "" {
		hint = " (" + hint + ")"
	}
	if isFatal(e) || class == sink.Transient && reason == "readonly" {
		c.drop()
	}
	return &sink.Error{Class: class, Reason: reason, Err: fmt.Errorf("%s: %s%s", c.where(), words(e), hint)}
}

// oneLine joins an error's lines into one, without repetitions: a connection is tried at several addresses, with and
// without TLS.
func oneLine(err error) error {
	lines := strings.Split(err.Error(), "\n\t")
	if len(lines) == 1 {
		return err
	}
	return errors.New(lines[0] + " " + strings.Join(slices.Compact(lines[1:]), "; "))
}

// SQLSTATEs that need more than their class.
const (
	uniqueViolation  = "23505"
	deadlockDetected = "40P01"
	lockNotAvailable = "55P03"
	queryCanceled    = "57014" // by statement_timeout, or by a user

	configurationLimitExceeded = "53400" // such as temp_file_limit
	undefinedFile              = "58P01"
	duplicateFile              = "58P02"
)

// states are the server's errors by SQLSTATE or its class
// (https://www.postgresql.org/docs/current/errcodes-appendix.html). All others are permanent.
var states = map[string]struct {
	class        sink.Class
	reason, hint string
}{
	"25006":          {sink.Transient, "readonly", "the server takes no writes; after a failover name all servers, with target_session_attrs=read-write"},
	deadlockDetected: {sink.Transient, "deadlock", ""},
	"40001":          {sink.Transient, "serialization", ""},
	"40003":          {sink.Transient, "serialization", ""},
	lockNotAvailable: {sink.Transient, "locked", "another session holds a lock on the table"},
	queryCanceled:    {sink.Transient, "timeout", "the server's statement_timeout, or somebody's cancel; a smaller --batch-rows takes less time"},
	"3B001":          {sink.Transient, "timeout", ""}, // a statement before a piece's savepoint was canceled
	"25P03":          {sink.Transient, "timeout", "the server's idle_in_transaction_session_timeout or transaction_timeout"},
	"25P04":          {sink.Transient, "timeout", "the server's idle_in_transaction_session_timeout or transaction_timeout"},
	"53200":          {sink.Transient, "resources", "where its shared memory is meant, raise max_locks_per_transaction: each source of a job holds a lock"},
	"53300":          {sink.Transient, "connections", ""},
	"53100":          {sink.Transient, sink.DiskFull, "free some space"},
	"57P04":          {sink.Permanent, "error", ""},
	"42501":          {sink.Permanent, "permission", ""},
	"28P01":          {sink.Permanent, "login", "the password comes from --to, PGPASSWORD or ~/.pgpass (or PGPASSFILE); the file is read at each connection"},
	"28000":          {sink.Permanent, "login", ""},
	"08":             {sink.Transient, "connection", ""},
	"57":             {sink.Transient, "connection", ""},
	"53":             {sink.Transient, "resources", ""},
	"58":             {sink.Unknown, "io", ""},
}

// classify returns the class, the reason and advice for a server error.
func classify(e *pgconn.PgError) (class sink.Class, reason, hint string) {
	for _, code := range []string{e.Code, e.Code[:2]} {
		if s, ok := states[code]; ok {
			return s.class, s.reason, s.hint
		}
	}
	return sink.Permanent, "error", ""
}

// ownTables are weir's tables in every database that weir has written to.
const ownTables = "weir_checkpoints, weir_jobs, weir_meta, weir_rejects"

// isHopeless reports whether no connection is possible with these settings: the server has no TLS, its certificate is
// not trusted, it rejects ours, or the host is unknown when the run begins.
func (c *client) isHopeless(err error) bool {
	switch e := err.(type) {
	case nil:
		return false
	case *net.DNSError:
		return e.IsNotFound && c.version == 0
	case *tls.CertificateVerificationError:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !c.isHopeless(err) })
	case *net.OpError:
		return tcp.IsRefusal(e)
	case interface{ Unwrap() error }:
		return c.isHopeless(e.Unwrap())
	}
	return err.Error() == "server refused TLS connection" // pgconn has no type for it
}

// isRefusal reports whether an error may concern rows: triggers and types may raise any code. Not about rows are
// temporary errors, a damaged or full disk, and a missing privilege, for which a GRANT fixes all rows.
func isRefusal(e *pgconn.PgError) bool {
	if e == nil {
		return false
	}
	switch class, reason, _ := classify(e); {
	case isRaised(e):
		return true
	case class != sink.Permanent, reason == "login", reason == "permission", e.Code == "XX001", e.Code == "XX002":
		return false
	}
	return true
}

// isRaised reports whether a user's function has raised the error, which may have any SQLSTATE, or failed for a missing
// feature or privilege. The error then has a Where.
func isRaised(e *pgconn.PgError) bool {
	switch {
	case e == nil:
		return false
	case e.Routine == "exec_stmt_raise":
		return true
	}
	return e.Where != "" && slices.Contains([]string{configurationLimitExceeded, undefinedFile, duplicateFile}, e.Code)
}

// isStale reports whether an error means that the table is not as weir knows it.
func isStale(e *pgconn.PgError) bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case "42P01", "42703", "42804", "42883", "42P10", "42P07", "42701", "42710", "26000", "0A000", "XX000", "3F000":
		return true
	}
	return e.Code == uniqueViolation && e.SchemaName == "pg_catalog"
}
