package sqlite

import (
	"bytes"
	"cmp"
	"strings"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// The C interface of SQLite as weir uses it. database/sql copies and boxes every value: without it, inserts are 2 to 3
// times as fast. It also does not expose what a flush needs (autocommit, extended codes).

// conn is one connection. One goroutine uses it at a time.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	stmts map[string]*stmt // by SQL; see prepare
	// variants are the statements of prepareVariant, by SQL; the SQL has variantsSQL bytes in total.
	variants    map[string]*stmt
	variantsSQL int
	bound       bindings
	inserted    *int64 // rows inserted so far, in C memory; see countInserts
}

// bindings is C memory for bound values. Go memory must not be bound: a pointer in C does not keep it alive, and a
// stack may move.
type bindings struct {
	tls     *libc.TLS
	mem     uintptr
	size    int // bytes of mem
	used    int
	retired []uintptr // former mem, from before it grew
}

// borrowed is an address in bindings, valid until the next release.
type borrowed uintptr

// hold copies v to C memory.
func (b *bindings) hold(v []byte) borrowed {
	if b.mem == 0 || b.used+len(v) > b.size {
		if b.mem != 0 {
			b.retired = append(b.retired, b.mem)
		}
		b.size, b.used = max(64<<10, 2*b.size, 2*len(v)), 0
		b.mem = libc.Xmalloc(b.tls, libc.Tsize_t(b.size))
	}
	p := b.mem + uintptr(b.used)
	copy(unsafe.Slice((*byte)(pointer(p)), len(v)), v)
	b.used += len(v)
	return borrowed(p)
}

// release frees the memory for other values. Statements with former values must not run before they are bound again.
func (b *bindings) release() {
	for _, p := range b.retired {
		libc.Xfree(b.tls, p)
	}
	b.retired, b.used = b.retired[:0], 0
}

func (b *bindings) free() {
	b.release()
	libc.Xfree(b.tls, b.mem)
	b.mem, b.size = 0, 0
}

// stmt is a prepared statement.
type stmt struct {
	c *conn
	p uintptr
}

// Error is an error with SQLite's extended result code.
type Error struct {
	Code  int32
	Msg   string // SQLite's message
	Doing string
}

func (e *Error) Error() string {
	if e.Doing == "" {
		return e.Msg
	}
	return e.Doing + ": " + e.Msg
}

// primary returns the code without its extension.
func (e *Error) primary() int32 { return e.Code & 0xff }

const slot = 8 // bytes; the size in which libc passes an argument or a pointer

// openConn opens the file at path (a literal path, not a URI). flags are SQLite's.
func openConn(path string, flags int32) (_ *conn, err error) {
	c := &conn{tls: libc.NewTLS(), stmts: map[string]*stmt{}, variants: map[string]*stmt{}}
	c.bound.tls = c.tls
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	err = c.with(path, func(name uintptr) error {
		out := libc.Xcalloc(c.tls, 1, slot)
		defer libc.Xfree(c.tls, out)
		rc := lib.Xsqlite3_open_v2(c.tls, name, out, flags|lib.SQLITE_OPEN_NOMUTEX|lib.SQLITE_OPEN_EXRESCODE, 0)
		c.db = *(*uintptr)(pointer(out))
		return c.check(rc)
	})
	if err != nil {
		return nil, err
	}
	c.countInserts()
	// With a double-quoted name, a typo is an error instead of a string. No statement may write to the schema table.
	return c, cmp.Or(c.set(lib.SQLITE_DBCONFIG_DQS_DML, 0), c.set(lib.SQLITE_DBCONFIG_DQS_DDL, 0),
		c.set(lib.SQLITE_DBCONFIG_DEFENSIVE, 1), c.defineShortest())
}

// with calls f with the address of a C string, which is valid until f returns.
func (c *conn) with(text string, f func(p uintptr) error) error {
	p, err := libc.CString(text)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, p)
	return f(p)
}

// set turns a setting of the connection on or off.
func (c *conn) set(op, on int32) error {
	va := libc.Xcalloc(c.tls, 2, slot)
	defer libc.Xfree(c.tls, va)
	return c.check(lib.Xsqlite3_db_config(c.tls, c.db, op, libc.VaList(va, on, uintptr(0))))
}

// pointer converts an address from C, which is never in Go's heap.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// close releases the connection and its statements.
func (c *conn) close() {
	if c.tls == nil {
		return
	}
	for _, set := range []map[string]*stmt{c.stmts, c.variants} {
		for _, s := range set {
			s.finalize()
		}
	}
	if c.db != 0 {
		lib.Xsqlite3_close_v2(c.tls, c.db)
	}
	c.bound.free()
	libc.Xfree(c.tls, uintptr(unsafe.Pointer(c.inserted)))
	c.tls.Close()
	c.tls, c.db, c.stmts, c.variants, c.inserted = nil, 0, nil, nil, nil
}

func (c *conn) fail(rc int32, doing string) error {
	e := &Error{Code: rc, Doing: doing}
	if c.db != 0 {
		e.Msg = libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db))
	}
	if e.Msg == "" || e.Msg == "not an error" {
		e.Msg = libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))
	}
	return e
}

// check returns the error of a result code.
func (c *conn) check(rc int32) error {
	if rc == lib.SQLITE_OK {
		return nil
	}
	return c.fail(rc, "")
}

// autocommit reports whether no transaction is open: some errors end one.
func (c *conn) autocommit() bool { return lib.Xsqlite3_get_autocommit(c.tls, c.db) != 0 }

// changes returns how many rows the last writing statement wrote.
func (c *conn) changes() int32 { return lib.Xsqlite3_changes(c.tls, c.db) }

// checkDeferred returns the error that COMMIT would return now because of a deferred foreign key.
func (c *conn) checkDeferred() error {
	out := libc.Xcalloc(c.tls, 2, slot)
	defer libc.Xfree(c.tls, out)
	lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_DEFERRED_FKS, out, out+slot, 0)
	if *(*int32)(pointer(out)) == 0 {
		return nil
	}
	return &Error{Code: lib.SQLITE_CONSTRAINT_FOREIGNKEY, Msg: "FOREIGN KEY constraint failed"}
}

// preparing describes, in errors, preparing a statement that is reused: no row is blamed for it.
const preparing = "preparing a statement"

// prepareNew prepares one statement. doing says what for, in errors.
func (c *conn) prepareNew(sql, doing string) (*stmt, error) {
	out := libc.Xcalloc(c.tls, 1, slot)
	defer libc.Xfree(c.tls, out)
	err := c.with(sql, func(text uintptr) error {
		if rc := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, 0, out, 0); rc != lib.SQLITE_OK {
			return c.fail(rc, doing)
		}
		return nil
	})
	return &stmt{c, *(*uintptr)(pointer(out))}, err
}

const (
	// maxStmts limits the statements that prepare keeps across a tidy. One takes a few kilobytes.
	maxStmts = 200
	// maxSQL limits the statements that prepareVariant keeps, by bytes of SQL. A statement takes about ten times as
	// much memory, and a feed can use very many combinations of columns. minVariants are kept however long they are:
	// rows of wide tables need several in turn.
	maxSQL      = 128 << 10
	minVariants = 16
)

// prepare returns the statement for sql, prepared once. It stays until tidy.
func (c *conn) prepare(sql string) (*stmt, error) {
	if s, ok := c.stmts[sql]; ok {
		return s, nil
	}
	s, err := c.prepareNew(sql, preparing)
	if err == nil {
		c.stmts[sql] = s
	}
	return s, err
}

// prepareVariant is prepare for a statement with many variants. Preparing others may finalize it; see maxSQL.
func (c *conn) prepareVariant(sql string) (*stmt, error) {
	if s, ok := c.variants[sql]; ok {
		return s, nil
	}
	for old, s := range c.variants { // any one
		if c.variantsSQL+len(sql) <= maxSQL || len(c.variants) < minVariants {
			break
		}
		s.finalize()
		delete(c.variants, old)
		c.variantsSQL -= len(old)
	}
	s, err := c.prepareNew(sql, preparing)
	if err == nil {
		c.variants[sql], c.variantsSQL = s, c.variantsSQL+len(sql)
	}
	return s, err
}

// tidy drops the statements of prepare if there are many, as when a table often gets a new column.
func (c *conn) tidy() {
	if len(c.stmts) < maxStmts {
		return
	}
	for _, s := range c.stmts {
		s.finalize()
	}
	clear(c.stmts)
}

// undoOnError calls f. If f fails, it undoes what f did, unless the transaction has ended anyway.
func (c *conn) undoOnError(f func() error) error {
	if err := c.exec("SAVEPOINT weir"); err != nil {
		return err
	}
	err := f()
	if c.autocommit() {
		return err
	}
	if err != nil {
		if undo := c.exec("ROLLBACK TO weir"); undo != nil {
			return undo
		}
	}
	if release := c.exec("RELEASE weir"); release != nil {
		return release
	}
	return err
}

func (c *conn) exec(sql string, args ...value) error {
	return c.query(sql, func(*stmt) error { return nil }, args...)
}

// execAll runs statements one after the other; each string may hold several.
func (c *conn) execAll(statements ...string) error {
	return c.with(strings.Join(statements, ";\n"), func(text uintptr) error { return c.check(lib.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0)) })
}

// query runs one statement and calls row for each row.
func (c *conn) query(sql string, row func(*stmt) error, args ...value) error {
	s, err := c.prepareNew(sql, "")
	if err != nil {
		return err
	}
	defer s.finalize()
	defer c.bound.release()
	if err := s.bindValues(args); err != nil {
		return err
	}
	for {
		more, err := s.step()
		if err != nil || !more {
			return err
		}
		if err := row(s); err != nil {
			return err
		}
	}
}

// scalar returns the only column of a query's only row; NULL if there is no row.
func (c *conn) scalar(sql string, args ...value) (v value, err error) {
	v = null
	err = c.query(sql, func(s *stmt) error { v = s.value(0); return nil }, args...)
	return v, err
}

// rows returns a query's rows; a NULL cell is nil.
func (c *conn) rows(sql string) (rows [][][]byte, err error) {
	err = c.query(sql, func(s *stmt) error {
		row := make([][]byte, s.columns())
		for i := range row {
			if !s.null(i) {
				row[i] = bytes.Clone(s.bytes(i))
			}
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

func (s *stmt) finalize() { lib.Xsqlite3_finalize(s.c.tls, s.p) }

// step advances the statement to its next row, and reports whether there is one. It resets a statement that fails.
func (s *stmt) step() (bool, error) {
	switch rc := lib.Xsqlite3_step(s.c.tls, s.p); rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		err := s.c.fail(rc, "")
		s.reset()
		return false, err
	}
}

// run steps a statement that returns no rows, and resets it.
func (s *stmt) run() error {
	if _, err := s.step(); err != nil {
		return err
	}
	s.reset()
	return nil
}

// runWith runs a statement that returns no rows, with arguments.
func (s *stmt) runWith(args ...value) error {
	defer s.c.bound.release()
	if err := s.bindValues(args); err != nil {
		return err
	}
	return s.run()
}

// snapshot calls f in a transaction: all its reads see the same state of the database.
func (c *conn) snapshot(f func() error) error {
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	err := f()
	if c.autocommit() { // an error ended the transaction
		return err
	}
	if end := c.exec("COMMIT"); err == nil {
		err = end
	}
	return err
}

// clear binds NULL to all parameters of an INSERT. Other statements might have to be planned again after it.
func (s *stmt) clear() { lib.Xsqlite3_clear_bindings(s.c.tls, s.p) }

func (s *stmt) reset() { lib.Xsqlite3_reset(s.c.tls, s.p) }

// bindFrom binds the value in column col of another statement's row.
func (s *stmt) bindFrom(i int, from *stmt, col int) error {
	return s.c.check(lib.Xsqlite3_bind_value(s.c.tls, s.p, int32(i), lib.Xsqlite3_column_value(s.c.tls, from.p, int32(col))))
}

// columns returns the number of columns in the statement's rows.
func (s *stmt) columns() int { return int(lib.Xsqlite3_column_count(s.c.tls, s.p)) }

func (s *stmt) name(col int) string {
	return libc.GoString(lib.Xsqlite3_column_name(s.c.tls, s.p, int32(col)))
}

func (s *stmt) null(col int) bool { return s.kind(col) == lib.SQLITE_NULL }

func (s *stmt) kind(col int) int32 { return lib.Xsqlite3_column_type(s.c.tls, s.p, int32(col)) }

func (s *stmt) int(col int) int64 {
	return lib.Xsqlite3_column_int64(s.c.tls, s.p, int32(col))
}

func (s *stmt) real(col int) float64 { return lib.Xsqlite3_column_double(s.c.tls, s.p, int32(col)) }

// bytes returns a column's text in UTF-8, valid until the next step.
func (s *stmt) bytes(col int) []byte {
	p := lib.Xsqlite3_column_text(s.c.tls, s.p, int32(col))
	return unsafe.Slice((*byte)(pointer(p)), lib.Xsqlite3_column_bytes(s.c.tls, s.p, int32(col)))
}

// blob returns a column's blob, valid until the next step. Reading it as text would convert it from the file's
// encoding, which may be UTF-16.
func (s *stmt) blob(col int) []byte {
	p := lib.Xsqlite3_column_blob(s.c.tls, s.p, int32(col))
	return unsafe.Slice((*byte)(pointer(p)), lib.Xsqlite3_column_bytes(s.c.tls, s.p, int32(col)))
}

func (s *stmt) text(col int) string { return string(s.bytes(col)) }
