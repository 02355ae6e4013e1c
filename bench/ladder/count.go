package ladder

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// counting is the state of the VFS that counts, of which a process has one. It wraps SQLite's own and is the default
// once countIO was called, so weir opens its files with it, too.
var counting struct {
	sync.Once
	syncs, written atomic.Int64
	mu             sync.Mutex
	plain          uintptr             // the wrapped VFS
	methods        map[uintptr]uintptr // method tables of its files: SQLite's own, to ours
	own            sync.Map            // the inverse
}

// SQLiteUsage returns the syncs and the bytes written of all of SQLite in this process since the first call of countIO.
func SQLiteUsage() Usage {
	countIO()
	return Usage{Syncs: counting.syncs.Load(), Written: counting.written.Load()}
}

// countIO begins to count in databases that are opened from now on.
func countIO() {
	counting.Do(func() {
		tls := libc.NewTLS() // never closed, like the registration
		counting.methods = map[uintptr]uintptr{}
		counting.plain = lib.Xsqlite3_vfs_find(tls, 0)
		p := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
		vfs := (*lib.Tsqlite3_vfs)(pointer(p))
		*vfs = *(*lib.Tsqlite3_vfs)(pointer(counting.plain))
		vfs.FzName, _ = libc.CString("weir-counting")
		vfs.FxOpen = function(countedOpen)
		lib.Xsqlite3_vfs_register(tls, p, 1)
	})
}

// pointer returns an address of C's memory as a pointer.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// function returns a C function pointer for a Go function.
func function(f any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&f))[1] }

// An openFile is a file of SQLite's, which begins with a pointer to its methods.
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

// call returns a Go function for a C function pointer.
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
