// Package memory is a driver for databases that are in the memory of the process: a
// driver without SQL, which tests use.
//
// A database is a [state] that never changes: a flush works on a copy, which takes the
// state's place when it commits. So a transaction is whole, readers wait for nothing, and
// what fails leaves nothing behind.
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

// caps has as many columns as a table of Postgres, so that what is tried here can be done there.
var caps = sink.Caps{Columns: 1600, Limits: schema.Limits{Untyped: true, TextTypes: true, NoSchemas: true}}

// NewDriver returns a driver with databases of its own, by the names behind memory: in --to.
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

// server has the databases of one driver.
type server struct {
	mu        sync.Mutex
	databases map[string]*database
}

func newServer() *server { return &server{databases: map[string]*database{}} }

// database returns a database, or nil where there is none and none is to be made.
func (s *server) database(name string, makes bool) *database {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.databases[name] == nil && makes {
		s.databases[name] = &database{state: &state{}, claims: map[string]*jobClaim{}}
	}
	return s.databases[name]
}

// A database is one that several runs have open.
type database struct {
	writing sync.Mutex // held by a flush from its beginning to its end

	mu     sync.Mutex
	state  *state               // what is committed
	claims map[string]*jobClaim // by job
}

// committed returns what the database holds.
func (db *database) committed() *state {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.state
}

// change replaces the state by what do makes of a copy of it, if it succeeds.
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

// A lane is a source of a job, by the names under which its checkpoint is kept.
type lane struct{ job, name string }

// state is what a database holds: the tables, and what the others keep in tables of weir's.
type state struct {
	tables      map[string]*table
	writers     map[string][]string // by table: the jobs that have written to it, also to one that is gone
	checkpoints map[lane]sink.Checkpoint
	rejectFiles map[lane]sink.RejectFile // by job and path
	rejects     []sink.Kept
	rejected    int64 // lines, ever
}

// A row has the texts of its columns that are not NULL, by their names. A text is the same in
// every type that its column may be widened to.
type row map[string]string

type table struct {
	schema.Table
	rows     map[string]row // by [fold.Row.Key]; without a key by their numbers
	appended uint64         // the number of the last row without a key

	versioned []string           // the columns that have versions, see [fold.Resolver]
	versions  map[string]version // by key
}

// A version is what is kept beside a row.
type version struct {
	state []byte
	gone  time.Time // when the row was deleted; zero where it exists
}

func (s *state) clone() *state {
	return &state{tables: orNew(maps.Clone(s.tables)), writers: orNew(maps.Clone(s.writers)), checkpoints: orNew(maps.Clone(s.checkpoints)),
		rejectFiles: orNew(maps.Clone(s.rejectFiles)), rejects: slices.Clone(s.rejects), rejected: s.rejected}
}

func orNew[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	return m
}
