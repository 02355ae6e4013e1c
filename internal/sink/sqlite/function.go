package sqlite

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
)

// shortest returns SQL for the text of a column's number. SQLite's printf has no format for the fewest digits that
// identify a double.
func shortest(col string) string { return "weir_shortest(" + col + ")" }

// defineShortest registers the function with the connection.
func (c *conn) defineShortest() error {
	const flags = lib.SQLITE_UTF8 | lib.SQLITE_DETERMINISTIC | lib.SQLITE_DIRECTONLY
	return c.with("weir_shortest", func(name uintptr) error {
		return c.check(lib.Xsqlite3_create_function(c.tls, c.db, name, 1, flags, 0, function(callShortest), 0, 0))
	})
}

// countInserts makes SQLite count the rows that it inserts into tables with a rowid: an upsert does not tell.
func (c *conn) countInserts() {
	n := libc.Xcalloc(c.tls, 1, slot)
	c.inserted = (*int64)(pointer(n))
	lib.Xsqlite3_update_hook(c.tls, c.db, function(countInsert), n)
}

func countInsert(_ *libc.TLS, n uintptr, op int32, _, _ uintptr, _ int64) {
	if op == lib.SQLITE_INSERT {
		*(*int64)(pointer(n))++
	}
}

func callShortest(tls *libc.TLS, ctx uintptr, _ int32, argv uintptr) {
	var buf [32]byte
	text := feed.AppendReal(buf[:0], lib.Xsqlite3_value_double(tls, *(*uintptr)(pointer(argv))))
	p := libc.Xmalloc(tls, libc.Tsize_t(len(text)))
	defer libc.Xfree(tls, p)
	copy(unsafe.Slice((*byte)(pointer(p)), len(text)), text)
	lib.Xsqlite3_result_text(tls, ctx, p, int32(len(text)), lib.SQLITE_TRANSIENT)
}

// function returns a C function pointer for a Go function.
func function(f any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&f))[1] }
