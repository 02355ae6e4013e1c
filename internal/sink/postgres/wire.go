package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/tcp"
)

// A script is a string of statements that goes to the server in one message of the simple query protocol, so it takes
// one round trip however many statements it has.
type script struct {
	statements []statement
	done       int  // statements that the server had completed when the script was run: the number of the failed one
	planned    bool // it writes what a flush's parts plan to write
}

// A statement is a statement of a script, with how to handle it.
type statement struct {
	sql   string
	copy  copier // writes the rows of a COPY ... FROM STDIN
	part  *part  // the part whose rows it writes; nil: none
	tally tally
	each  func(row [][]byte)            // called with each row, which is valid for the call; nil: rows are kept
	means func(e *pgconn.PgError) error // converts an error that is not about rows; nil: none
}

// copier writes the lines of a COPY in text form.
type copier func(w *copyWriter) error

// put appends statements, and returns the index of the last one's result.
func (s *script) put(all ...statement) int {
	s.statements = append(s.statements, all...)
	return len(s.statements) - 1
}

// add appends a statement as put does.
func (s *script) add(format string, args ...any) int {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return s.put(statement{sql: format})
}

// addAll appends statements as put does.
func (s *script) addAll(all ...string) int {
	for _, sql := range all {
		s.put(statement{sql: sql})
	}
	return len(s.statements) - 1
}

// failed returns the statement that failed, or an empty one.
func (s *script) failed() (st statement) {
	if s.done < len(s.statements) {
		st = s.statements[s.done]
	}
	return st
}

func (s *script) String() string {
	var b strings.Builder
	for i := range s.statements {
		b.WriteString(s.statements[i].sql)
		b.WriteString(";\n")
	}
	return b.String()
}

// divisionByZero is the SQLSTATE of a demand that does not hold.
const divisionByZero = "22012"

// demand returns a statement that ends the transaction with err unless a condition holds. The condition uses no value
// of a message, and no type, trigger or function of the user's, so nothing else can make this statement divide by zero.
func demand(err error, format string, args ...any) statement {
	return statement{sql: fmt.Sprintf("SELECT 1 / ("+format+")::integer", args...), means: means(err, divisionByZero)}
}

// means returns a function that turns errors with these SQLSTATEs into err.
func means(err error, codes ...string) func(*pgconn.PgError) error {
	return func(e *pgconn.PgError) error {
		if slices.Contains(codes, e.Code) {
			return err
		}
		return e
	}
}

// result is the result of one statement: its tag, such as "INSERT 0 5", and its rows as text, with nil for NULL.
type result struct {
	tag  pgconn.CommandTag
	rows [][][]byte
}

// lostError reports that the connection broke, so the outcome of the statements is unknown.
type lostError struct{ err error }

func (e *lostError) Error() string { return "the connection broke: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// run sends a script and waits for the reply. The results belong to the statements that were completed, even if the
// error is not nil. The error is a [*pgconn.PgError], a [*lostError], after which the connection is closed, or an error
// from the caller's code.
//
// It does not use pgconn's CopyFrom, which keeps only the last statement's tag, and reports a COMMIT whose reply was
// lost as safe to resend.
func (c *client) run(ctx context.Context, s *script) ([]result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.conn == nil { // it broke in an earlier script of the same call
		return nil, &lostError{errors.New("it was lost again at once")}
	}
	conn, front := c.conn.Conn(), c.conn.Frontend()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			// The deadline could apply to the next script.
			c.drop()
		}
	}()
	running, done := sink.UntilStop(ctx, c.opt.Stop)
	defer done()
	unguard := tcp.Guard(running, conn)
	front.SendQuery(&pgproto3.Query{String: s.String()})
	// While it receives rows, the server may send so much that it stops reading if nobody reads its output.
	sent := make(chan error, 1)
	go func() { sent <- s.send(front, conn) }()
	results, err := c.receive(front, s.statements)
	s.done = len(results)
	if e, means := pgError(err), s.failed().means; e != nil && means != nil {
		err = means(e)
	}
	if failed := <-sent; failed != nil && c.conn != nil {
		c.drop()
		if err == nil {
			err = &lostError{failed}
		}
	}
	if unguard() && err != nil {
		err = &lostError{tcp.ErrGone}
	}
	return results, err
}

// send sends the statements and, without waiting for the server's request, the rows of their COPYs. After an error, the
// server ignores the rest.
func (s *script) send(front *pgproto3.Frontend, conn io.Writer) error {
	if err := front.Flush(); err != nil {
		return err
	}
	w := &copyWriter{to: conn}
	for i := range s.statements {
		feed := s.statements[i].copy
		if feed == nil {
			continue
		}
		if err := feed(w); err != nil {
			return err
		}
		if err := w.close(); err != nil {
			return err
		}
	}
	return nil
}

// receive reads the results of a script's statements.
func (c *client) receive(front *pgproto3.Frontend, statements []statement) (results []result, err error) {
	var refused *pgconn.PgError
	var now result
	for {
		m, err := front.Receive()
		if err != nil {
			c.drop()
			if isFatal(refused) {
				return results, refused
			}
			return results, &lostError{err}
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			if each := statements[len(results)].each; each != nil {
				each(m.Values)
				break
			}
			row := make([][]byte, len(m.Values))
			for i, v := range m.Values {
				if v != nil {
					row[i] = append([]byte{}, v...)
				}
			}
			now.rows = append(now.rows, row)
		case *pgproto3.CommandComplete:
			now.tag = pgconn.NewCommandTag(string(m.CommandTag))
			results, now = append(results, now), result{}
		case *pgproto3.ErrorResponse:
			refused = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			c.open = m.TxStatus != 'I'
			if refused != nil {
				return results, refused
			}
			return results, nil
		}
	}
}

// isFatal reports whether an error ends the session. A pooler sends only the severity that is meant for people, in
// English.
func isFatal(e *pgconn.PgError) bool {
	if e == nil {
		return false
	}
	severity := cmp.Or(e.SeverityUnlocalized, e.Severity)
	return severity == "FATAL" || severity == "PANIC"
}

// query runs statements that return rows, and returns each one's result.
func (c *client) query(ctx context.Context, statements ...string) ([]result, error) {
	s := &script{}
	s.addAll(statements...)
	return c.run(ctx, s)
}

// copyWriter frames the lines of a COPY.
type copyWriter struct {
	to  io.Writer
	buf []byte
}

const (
	copyHeader = 5 // a message's type and length
	copyChunk  = 64 << 10
)

// line returns the buffer to append a line to; the caller passes it back to done.
func (w *copyWriter) line() []byte {
	if len(w.buf) == 0 {
		w.buf = append(w.buf, 'd', 0, 0, 0, 0)
	}
	return w.buf
}

func (w *copyWriter) done(buf []byte) error {
	w.buf = buf
	if len(w.buf) < copyChunk {
		return nil
	}
	return w.flush()
}

func (w *copyWriter) flush() error {
	if len(w.buf) <= copyHeader {
		return nil
	}
	binary.BigEndian.PutUint32(w.buf[1:], uint32(len(w.buf)-1))
	_, err := w.to.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *copyWriter) close() error {
	if err := w.flush(); err != nil {
		return err
	}
	_, err := w.to.Write([]byte{'c', 0, 0, 0, 4})
	return err
}

// pgError returns the server's error in err, or nil.
func pgError(err error) *pgconn.PgError {
	e, _ := errors.AsType[*pgconn.PgError](err)
	return e
}

// ident returns a quoted identifier. A name has no NUL: the fold rejects such fields.
func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal returns a string literal, whatever standard_conforming_strings is.
func literal(s string) string { return quote(storable(s)) }

// quote is literal for a text that is storable.
func quote(s string) string {
	if strings.IndexByte(s, '\\') >= 0 {
		return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// storable returns a text that the server accepts: without NUL and invalid UTF-8.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", `\u0000`) // as in JSON: checkpoints are JSON
}

// appendCopyText appends a value in a COPY's text format. Every backslash is escaped, because \. alone on a line would
// silently end the COPY.
func appendCopyText(dst, s []byte) []byte {
	from := 0
	for i, c := range s {
		var e byte
		switch c {
		case '\\':
			e = '\\'
		case '\n':
			e = 'n'
		case '\r':
			e = 'r'
		case '\t':
			e = 't'
		default:
			continue
		}
		dst = append(append(dst, s[from:i]...), '\\', e)
		from = i + 1
	}
	return append(dst, s[from:]...)
}
