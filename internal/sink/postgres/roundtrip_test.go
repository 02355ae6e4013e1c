package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testpg"
)

func TestFlush_IsOneRoundTrip(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	lines := func(value string) (all []string) {
		for i := range 1000 {
			all = append(all, fmt.Sprintf(`{"id":%d,"a":%q,"b":%d}`, i, value, i))
		}
		return append(all, "bad")
	}
	r.Flush(lines("first")...)
	r.Flush(lines("second")...) // the staging table is created
	for _, rows := range [][]string{lines("third"), lines("third"), {`{"id":5000,"a":"new"}`}, {`{"id":1,"op":"delete"}`}, {"bad"}, {}} {
		p.Cut(nil)
		r.Flush(rows...)
		if c := p.Count(); c.Answers != 1 {
			t.Errorf("a flush of %d lines was answered %d times: %+v", len(rows), c.Answers, c)
		}
	}
	// It also does not wait for the server within the query: everything is sent before the first reply arrives.
	p.Hold(func(m testpg.Message) bool { return m.Type == 'c' }) // CopyDone
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.Fold(lines("fourth")...)
	if _, err := r.Sink.Flush(ctx, r.Seal()); err != nil {
		t.Errorf("a flush waits for an answer before it has sent all: %v", err)
	}
}

// TestFlush_ManyTablesAreOneRoundTrip: a flush of several tables is one round trip, and two if some of them have
// versions: tables with foreign keys, rows with sets of two levels, and examples/orders/orders.yaml, whose keys the
// database generates.
func TestFlush_ManyTablesAreOneRoundTrip(t *testing.T) {
	type flusher interface {
		Flush(lines ...string) sink.Result
	}
	tables := func(versioned string) func(*database) flusher {
		return func(db *database) flusher {
			db.Exec(t, "CREATE TABLE a (id integer PRIMARY KEY, x text)")
			db.Exec(t, "CREATE TABLE b (id integer PRIMARY KEY, a integer REFERENCES a (id), x text)")
			return sinktest.BeginTables(t, db, []string{"a", "b", "c"}, func(table string, o *fold.Options) {
				if strings.Contains(versioned, table) {
					o.Version, o.Scope = "v", fold.ColumnScope
				}
			})
		}
	}
	nested := func(m *mapping.Mapping, version string) func(*database) flusher {
		m.Tables = slices.Clone(m.Tables)
		for i := range m.Tables {
			m.Tables[i].Version = paths.Path{}
		}
		if version != "" {
			m.Tables[0].Version = paths.Path{Base: paths.DefaultBase, Steps: []paths.Step{{Name: version, Index: -1}}, Text: version}
		}
		return func(db *database) flusher { return sinktest.BeginNested(t, db, m) }
	}
	orders := func() *mapping.Mapping {
		return readMapping(t, "../../../examples/orders/orders.yaml")
	}
	const (
		ofTables = `{"id":%d,"v":%d,"a.x":"x%[2]d","b.a":%[1]d,"b.x":"x%[2]d","c.x":"x%[2]d"}`
		ofShop   = `{"id":%d,"v":%d,"status":"s","items":[{"sku":"x","taxes":[{"code":"%[2]d"}]},{"sku":"%[2]d"}]}`
		ofOrders = `{"number":"A%d","updated_at":%d,"customer":{"id":%[1]d,"name":"c%[2]d"},"items":[{"sku":"x","qty":%[2]d,"taxes":[{"code":"v","amount":1}]},{"sku":"y%[2]d"},{"sku":"z"}]}`
	)
	for name, c := range map[string]struct {
		begin   func(*database) flusher
		line    string
		more    string // a message that deletes
		answers int
	}{
		"tables":                      {tables(""), ofTables, `{"id":0,"v":%d,"a.op":"delete","b.op":"delete","c.op":"delete"}`, 1},
		"tables, one with versions":   {tables("b"), ofTables, `{"id":0,"v":%d,"a.op":"delete","b.op":"delete","c.op":"delete"}`, 2},
		"tables, two with versions":   {tables("a c"), ofTables, `{"id":0,"v":%d,"a.op":"delete","b.op":"delete","c.op":"delete"}`, 2},
		"sets":                        {nested(sinktest.Shop(t), ""), ofShop, `{"id":0,"v":%d,"op":"delete"}`, 1},
		"sets, emptied":               {nested(sinktest.Shop(t), ""), ofShop, `{"id":0,"v":%d,"items":[]}`, 1},
		"sets with versions":          {nested(sinktest.Shop(t), "v"), ofShop, `{"id":0,"v":%d,"op":"delete"}`, 2},
		"sets with versions, emptied": {nested(sinktest.Shop(t), "v"), ofShop, `{"id":0,"v":%d,"items":[]}`, 2},
		"generated keys":              {nested(orders(), ""), ofOrders, "", 1},
		"generated keys, versions":    {nested(orders(), "updated_at"), ofOrders, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			db, p := throughProxy(t, testpg.New(t))
			f, v := c.begin(db), 0
			lines := func(n int) (all []string) {
				for i := range n {
					v++
					all = append(all, fmt.Sprintf(c.line, i, v))
				}
				return append(all, "bad")
			}
			f.Flush(lines(300)...)
			f.Flush(lines(300)...)
			for _, n := range []int{1, 300, 1000} {
				for _, more := range []string{"", c.more} {
					all := lines(n)
					if more != "" { // its row returns with the next flush
						v++
						all = append(all, fmt.Sprintf(more, v))
					}
					p.Cut(nil)
					f.Flush(all...)
					if got := p.Count(); got.Answers != c.answers {
						t.Errorf("a flush of %d messages was answered %d times, want %d: %+v", n, got.Answers, c.answers, got)
					}
				}
			}
		})
	}
}

// TestTables_AreTwoRoundTrips: however many tables there are, and whether weir's own exist or not.
func TestTables_AreTwoRoundTrips(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE theirs (id integer PRIMARY KEY)")
	names := []string{"theirs", "a", "b", "c"}
	for range 2 {
		s := sinktest.BeginTables(t, db, names)
		for n := range len(names) + 1 {
			var wanted []sink.TableKey
			for _, name := range names[:n] {
				wanted = append(wanted, sink.TableKey{Name: name, Key: []string{"id"}})
			}
			p.Cut(nil)
			if found, err := s.Sink.Tables(t.Context(), wanted...); err != nil || len(found) != n {
				t.Fatalf("%d of %d tables are found: %v", len(found), n, err)
			}
			if c := p.Count(); c.Answers != 2 {
				t.Errorf("the look at %d tables was answered %d times: %+v", n, c.Answers, c)
			}
		}
		s.Flush(`{"id":1,"a.x":1,"b.x":1,"c.x":1}`)
		s.End()
	}
}
