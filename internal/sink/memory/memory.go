// Package memory is a driver for databases in the memory of the process. It has no SQL, and is for tests.
//
// A database is an immutable [state]. A flush works on a copy, which replaces the state at commit. So transactions are
// atomic, readers never wait, and failures leave nothing behind.
package memory

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// caps allows as many columns as Postgres, so tests that pass here work there.
var caps = sink.Caps{Columns: 1600, Limits: schema.Limits{Untyped: true, TextTypes: true, NoSchemas: true}}

// NewDriver returns a driver with its own databases. Their names follow memory: in --to.
func NewDriver() sink.Driver { return newServer().driver() }

func (s *server) driver() sink.Driver {
	return sink.Driver{
		Name:  "memory",
		Usage: "memory:NAME",
		Parse: func(to string) (dest string, ok bool, err error) {
			if dest, ok = strings.CutPrefix(to, "memory:"); ok && dest == "" {
				err = fmt.Errorf("%q names no database; such as memory:flights", to)
			}
			return dest, ok, err
		},
		Files: func(string) []string { return nil },
		Caps:  caps,
		Plan:  plan,
		Open: func(_ context.Context, dest string, _ sink.Options) (sink.Sink, error) {
			return &conn{db: s.database(dest, true), seen: map[string]string{}}, nil
		},
		OpenClaims: func(_ context.Context, dest, job string, _ sink.Options) (sink.Claims, error) {
			return &claims{db: s.database(dest, true), job: job}, nil
		},
		Inspect: func(_ context.Context, dest string, _ sink.Options) (sink.Inspector, error) {
			db := s.database(dest, false)
			if db == nil {
				return nil, fmt.Errorf("no database is called %q: %w", dest, fs.ErrNotExist)
			}
			return &conn{db: db, seen: map[string]string{}}, nil
		},
	}
}

// server holds the databases of one driver.
type server struct {
	mu        sync.Mutex
	databases map[string]*database
}

func newServer() *server { return &server{databases: map[string]*database{}} }

// database returns a database. If there is none, it creates one if makes is set, and otherwise returns nil.
func (s *server) database(name string, makes bool) *database {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.databases[name] == nil && makes {
		s.databases[name] = &database{state: &state{}, claims: map[string]*jobClaim{}}
	}
	return s.databases[name]
}

// A database may be opened by several runs.
type database struct {
	writing sync.Mutex // held for a whole flush

	mu     sync.Mutex
	state  *state               // the committed state
	claims map[string]*jobClaim // by job
}

// committed returns the committed state.
func (db *database) committed() *state {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.state
}

// change calls do with a copy of the state, and commits the copy if do succeeds.
func (db *database) change(do func(*state) error) error {
	db.writing.Lock()
	defer db.writing.Unlock()
	s := db.committed().clone()
	if err := do(s); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.state = s
	return nil
}

// A lane is a job's source, by the names under which its checkpoint is stored.
type lane struct{ job, name string }

// state is the content of a database: the tables, and what other drivers store in weir's own tables.
type state struct {
	tables      map[string]*table
	writers     map[string][]string // by table, even if dropped: the jobs that have written to it
	checkpoints map[lane]sink.Checkpoint
	rejects     []sink.Kept
	rejected    int64 // lines, ever
}

// A row has the texts of its non-NULL columns, by name. Widening a column does not change the texts.
type row map[string]string

type table struct {
	schema.Table
	rows     map[string]row // by [fold.Row.Key]; without a key, by number
	appended uint64         // number of the last row without a key

	versioned []string           // the columns with versions, see [fold.Resolver]
	versions  map[string]version // by key
}

// A version is the stored state of a row's versions.
type version struct {
	state []byte
	gone  time.Time // when the row was deleted; zero if it exists
}

func (s *state) clone() *state {
	return &state{tables: orNew(maps.Clone(s.tables)), writers: orNew(maps.Clone(s.writers)), checkpoints: orNew(maps.Clone(s.checkpoints)),
		rejects: slices.Clone(s.rejects), rejected: s.rejected}
}

func orNew[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	return m
}
