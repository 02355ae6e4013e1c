package pipeline

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestChanges_Envelope: a preset with another meaning is a changed setting, even under the same name.
func TestChanges_Envelope(t *testing.T) {
	f := func(was, is, want string) {
		t.Helper()
		words, rebuild, _ := changes(&settings{Keys: map[string]string{"envelope": was}}, &settings{Keys: map[string]string{"envelope": is}}, true)
		if !slices.Equal(words, []string{want}) || !rebuild {
			t.Errorf("%q: %v", words, rebuild)
		}
	}
	f("debezium sha256:1", "debezium sha256:2", "--envelope has changed")
	f("debezium sha256:1", "maxwell sha256:2", `--envelope was "debezium" and is "maxwell"`)
	f("", "maxwell sha256:2", `--envelope was not set and is "maxwell"`)
}

// TestReader_PanicOfHandingOver: the run ends with an error, and the set is not written.
func TestReader_PanicOfHandingOver(t *testing.T) {
	for name, e := range map[string]*event{
		"when no more comes": nil,
		"for one who waits":  {lane: &lane{}, of: source.Event{Kind: source.Barrier, Reached: func(source.Point) {}}, ready: make(chan struct{}, 1)},
		"after an error":     {lane: &lane{}, of: source.Event{Kind: source.Data}, Block: &source.Block{}, failed: io.ErrUnexpectedEOF, ready: make(chan struct{}, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			full, free := make(chan *set, 1), make(chan *set, 2)
			s := &set{Set: fold.NewSet(1)} // it cannot be sealed, because the run does not have its table
			s.Reject(fold.Reject{})
			free <- s
			c, p := &Config{}, status.New()
			testcheck.NoError(t, c.Map(&mapping.Mapping{Tables: []mapping.Table{{Name: "t", Key: []string{"id"}}}}, nil, schema.Limits{}))
			r := newRun(c, nil, nil, p)
			f := &batchBuilder{full: full, free: free, limits: limitsOf(c, false), tables: &tables{run: r, mapper: c.plan.NewMapper()}, settings: &settings{}, open: map[*lane]bool{}}
			rd := &reader{run: r, tables: f.tables, builder: f, scans: &scanPool{events: make(chan *event, 1)}}
			if e != nil {
				e.ready <- struct{}{}
				rd.scans.events <- e
			}
			close(rd.scans.events)
			err := rd.fill(t.Context(), t.Context())
			if err = errors.Join(err, rd.failed); !errors.As(err, new(*source.PanicError)) || len(full) > 0 {
				t.Errorf("%v, sets to write: %d", err, len(full))
			}
		})
	}
}
