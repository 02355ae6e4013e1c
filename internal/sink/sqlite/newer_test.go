package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// TestFlush_ManyVersions: rows with versions, which are resolved together where several are written, among rows
// of other states, rows without one, and rows that were removed by hand, come out as if few were written
// at a time, with the same states, and are counted so.
func TestFlush_ManyVersions(t *testing.T) {
	for _, scope := range []fold.Scope{fold.ColumnScope, fold.RowScope} {
		t.Run(string(scope), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(len(scope))))
			const all = `{"id":-1,"v":1,"a":"x","b":"x","c":"x"}`
			together, apart := openVersioned(t, scope), openVersioned(t, scope)
			together.flush(all)
			apart.flush(all)
			var last []string
			for range 10 {
				var lines []string
				from, step, rows := r.IntN(600), 1+r.IntN(4), []int{200, 2000}[r.IntN(2)]
				chance := []int{0, 10, 300}[r.IntN(3)] // of a message that is unlike most
				for id := from; id < from+rows; id += step {
					switch {
					case r.IntN(1000) < chance:
						lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%d,"op":"delete"}`, id, r.IntN(30)))
					case r.IntN(1000) < chance:
						lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%d,"a":null}`, id, r.IntN(30)))
					default:
						lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%d,%q:"x%d"}`, id, r.IntN(30), []string{"a", "b", "c"}[r.IntN(3)], r.IntN(3)))
					}
				}
				if r.IntN(4) == 0 {
					lines = last // of which nothing is newer
				}
				last = lines
				var alone sink.Counts
				for few := range slices.Chunk(lines, 10) {
					c := apart.flush(few...)
					alone = sink.Counts{Inserted: alone.Inserted + c.Inserted, Updated: alone.Updated + c.Updated, Deleted: alone.Deleted + c.Deleted, Unchanged: alone.Unchanged + c.Unchanged}
				}
				if c := together.flush(lines...); c != alone {
					t.Errorf("%+v together, %+v one by one", c, alone)
				}
				query := "SELECT id, quote(v), quote(a), quote(b), quote(c), NULL FROM t"
				if scope == fold.ColumnScope {
					query += " UNION ALL SELECT CAST(key AS text), hex(state), gone IS NULL, NULL, NULL, 's' FROM weir_versions"
				}
				if got, want := together.rows(query), apart.rows(query); got != want {
					t.Fatalf("together\n%s\none by one\n%s", got, want)
				}
				sql := fmt.Sprintf([]string{"DELETE FROM t WHERE id %% 7 = %d", "UPDATE t SET a = 'theirs' WHERE id %% 13 = %d",
					"INSERT INTO t (id, b) SELECT max(id) + 1 + %d, 'theirs' FROM t"}[r.IntN(3)], r.IntN(7))
				together.file.Exec(t, sql)
				apart.file.Exec(t, sql)
			}
		})
	}
}

// TestFlush_GoneLong: rows that were removed by hand get the long values of older messages one by one: together they
// would take much memory.
func TestFlush_GoneLong(t *testing.T) {
	const rows, size = 300, 20 << 10
	f := openVersioned(t, fold.ColumnScope)
	var newer, older []string
	for id := range rows {
		newer = append(newer, fmt.Sprintf(`{"id":%d,"v":9,"a":"new"}`, id))
		older = append(older, fmt.Sprintf(`{"id":%d,"v":3,"a":"%0*d"}`, id, size, id))
	}
	f.flush(newer...)
	f.file.Exec(t, "DELETE FROM t")
	if c := f.flush(older...); c != (sink.Counts{Inserted: rows}) {
		t.Errorf("%+v, want all inserted", c)
	}
	if got, want := f.rows("SELECT count(*), min(length(a)), sum(a) FROM t"), fmt.Sprint(rows, size, rows*(rows-1)/2); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := f.db.BoundMemory(); n > 4*size {
		t.Errorf("%d bytes of memory for values that are bound", n)
	}
}

// TestFlush_LongKeys: states whose keys are long are not written many at a time, which would take much memory.
func TestFlush_LongKeys(t *testing.T) {
	const rows, size = 200, 40 << 10
	f := openVersioned(t, fold.ColumnScope)
	var lines []string
	for id := range rows {
		lines = append(lines, fmt.Sprintf(`{"id":"k%0*d","v":9,"a":"x"}`, size, id))
	}
	f.flush(lines...)
	if got, want := f.rows("SELECT (SELECT count(*) FROM t), count(*) FROM weir_versions"), fmt.Sprint(rows, rows); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := f.db.BoundMemory(); n > 1<<20 {
		t.Errorf("%d bytes of memory for values that are bound", n)
	}
}

// versionedFile is a file and a run that writes messages with versions into its table t.
type versionedFile struct {
	t      *testing.T
	file   *file
	db     *sqlite.DB
	folder *fold.Folder
	seq    int64
}

func openVersioned(t *testing.T, scope fold.Scope) *versionedFile {
	path := filepath.Join(t.TempDir(), "t.db")
	v := &versionedFile{t: t, file: newFile(t, path), db: open(t, path, sqlite.Options{Synchronous: sink.Off})}
	table, err := sink.Table(t.Context(), v.db.Tables, "t", []string{"id"})
	if err != nil {
		t.Fatal(err)
	}
	v.folder = fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 10, Limits: v.db.Caps().Limits,
		Version: "v", Scope: scope, DeleteField: "op", DeleteValue: "delete", Log: logtest.New(t)})
	return v
}

// flush writes messages.
func (v *versionedFile) flush(lines ...string) sink.Counts {
	var batch fold.Batch
	for _, line := range lines {
		if err := v.folder.Fold(&batch, []byte(line), fold.Place{}); err != nil {
			v.t.Fatal(err)
		}
	}
	v.folder.Seal(&batch)
	v.seq++
	res, err := v.db.Flush(v.t.Context(), &sink.Flush{Batches: []*fold.Batch{&batch}, Job: "j", Run: "r", Tombstones: 1 << 50, Lanes: lanesAt("s", v.seq)})
	if err != nil {
		v.t.Fatal(err)
	}
	return res.Total()
}

func (v *versionedFile) rows(query string) string {
	var lines []string
	for _, row := range v.file.Query(v.t, query) {
		lines = append(lines, fmt.Sprint(row...))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
