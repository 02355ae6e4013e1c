package sqlite

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// CountingVFS is the name of SQLite's own file system with its writes counted; see
// CountIO.
const CountingVFS = "weir-counting"

// IO counts what SQLite asks of the system.
type IO struct {
	Syncs   int64 // fsyncs of databases, logs and journals
	Written int64 // bytes
}

// counting is the state of the counting file system, which SQLite has one of in a
// process.
var counting struct {
	sync.Once
	syncs, written atomic.Int64
	mu             sync.Mutex
	plain          uintptr             // the file system that it stands before
	methods        map[uintptr]uintptr // of its files: SQLite's own table, to ours
	own            sync.Map            // the other way round
}

// CountIO makes CountingVFS known to SQLite, for databases that are opened with it,
// and returns what was counted since the process began.
func CountIO() IO {
	counting.Do(func() {
		tls := libc.NewTLS() // stays: so does what is registered
		counting.methods = map[uintptr]uintptr{}
		counting.plain = lib.Xsqlite3_vfs_find(tls, 0)
		p := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
		vfs := (*lib.Tsqlite3_vfs)(pointer(p))
		*vfs = *(*lib.Tsqlite3_vfs)(pointer(counting.plain))
		vfs.FzName, _ = libc.CString(CountingVFS)
		vfs.FxOpen = function(countedOpen)
		lib.Xsqlite3_vfs_register(tls, p, 0)
	})
	return IO{counting.syncs.Load(), counting.written.Load()}
}

// function is what C calls a Go function by.
func function(f any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&f))[1] }

// A file of SQLite's begins with a pointer to its methods.
type openFile struct{ methods uintptr }

func plainMethods(file uintptr) *lib.Tsqlite3_io_methods {
	p, _ := counting.own.Load((*openFile)(pointer(file)).methods)
	return (*lib.Tsqlite3_io_methods)(pointer(p.(uintptr)))
}

type (
	openFunc  = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	writeFunc = func(tls *libc.TLS, file, data uintptr, n int32, at int64) int32
	syncFunc  = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// call makes a Go function of what C calls it by.
func call[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ p uintptr }{p})) }

func countedOpen(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	plain := (*lib.Tsqlite3_vfs)(pointer(counting.plain))
	rc := call[openFunc](plain.FxOpen)(tls, vfs, name, file, flags, outFlags)
	f := (*openFile)(pointer(file))
	if rc != lib.SQLITE_OK || f.methods == 0 {
		return rc
	}
	counting.mu.Lock()
	defer counting.mu.Unlock()
	own, ok := counting.methods[f.methods]
	if !ok {
		own = libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		m := (*lib.Tsqlite3_io_methods)(pointer(own))
		*m = *(*lib.Tsqlite3_io_methods)(pointer(f.methods))
		m.FxWrite, m.FxSync = function(countedWrite), function(countedSync)
		counting.methods[f.methods] = own
		counting.own.Store(own, f.methods)
	}
	f.methods = own
	return rc
}

func countedWrite(tls *libc.TLS, file, data uintptr, n int32, at int64) int32 {
	counting.written.Add(int64(n))
	return call[writeFunc](plainMethods(file).FxWrite)(tls, file, data, n, at)
}

func countedSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	counting.syncs.Add(1)
	return call[syncFunc](plainMethods(file).FxSync)(tls, file, flags)
}
