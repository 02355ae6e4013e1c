package sqlite_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestExplain_Classes: errors are classified by their codes.
func TestExplain_Classes(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "t.db"), sqlite.Options{})
	for reason, codes := range map[string][]int32{
		"locked":    {lib.SQLITE_BUSY, lib.SQLITE_BUSY_RECOVERY, lib.SQLITE_BUSY_SNAPSHOT, lib.SQLITE_LOCKED, lib.SQLITE_LOCKED_SHAREDCACHE, lib.SQLITE_PROTOCOL},
		"io":        {lib.SQLITE_IOERR, lib.SQLITE_IOERR_FSYNC, lib.SQLITE_IOERR_DIR_FSYNC, lib.SQLITE_IOERR_WRITE, lib.SQLITE_IOERR_READ, lib.SQLITE_IOERR_SHMMAP},
		"disk_full": {lib.SQLITE_FULL, lib.SQLITE_IOERR_SHMSIZE}, "readonly": {lib.SQLITE_READONLY, lib.SQLITE_READONLY_DBMOVED, lib.SQLITE_READONLY_DIRECTORY},
		"notadb": {lib.SQLITE_NOTADB}, "corrupt": {lib.SQLITE_CORRUPT, lib.SQLITE_CORRUPT_INDEX}, "cantopen": {lib.SQLITE_CANTOPEN},
		"error": {lib.SQLITE_ERROR, lib.SQLITE_CONSTRAINT_CHECK},
	} {
		class := map[string]sink.Class{"locked": sink.Transient, "disk_full": sink.Transient, "io": sink.Unknown}[reason]
		for _, code := range codes {
			inner := &sqlite.Error{Code: code, Msg: "its own words"}
			err := d.Explain(fmt.Errorf("while testing: %w", inner))
			var e *sink.Error
			if !errors.As(err, &e) || e.Class != class || e.Reason != reason || !errors.Is(err, inner) || !strings.Contains(err.Error(), "its own words") || !strings.Contains(err.Error(), d.Path()) {
				t.Errorf("code %d is %+v: %v; want class %d and reason %s", code, e, err, class, reason)
			}
		}
	}
	for _, err := range []error{nil, os.ErrClosed} {
		if got := d.Explain(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// TestOpen_PathsToTheLetter: no character of a path has a special meaning.
func TestOpen_PathsToTheLetter(t *testing.T) {
	for _, name := range []string{"we?ird.db", "we%20ird%2F.db", "we#ird.db", "a b.db", "日本 é.db", "x.db?mode=ro", "file:x.db", ":memory:", "semi;colon&and=equals.db", "-dash", "new\nline.db", "%", "sqlite:x"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			d := open(t, path, sqlite.Options{})
			mustSteps(t, d, 3).mustNext(t, 2)
			claims := openClaims(t, path, "steps")
			if cps, err := claims.Take(t.Context(), stepsSource); err != nil || cps[0].Seq != 2 {
				t.Errorf("the checkpoint is %+v, %v", cps, err)
			}
			testcheck.NoError(t, errors.Join(claims.Close(), d.Close()))
			entries, err := os.ReadDir(dir)
			testcheck.NoError(t, err)
			for _, e := range entries {
				if !slices.Contains([]string{name, name + "-wal", name + "-shm", name + "-weir"}, e.Name()) {
					t.Errorf("there is also %q", e.Name())
				}
			}
			if n := checkSteps(t, newFile(t, path)); n != 2 {
				t.Errorf("%d flushes are in the file, want 2", n)
			}
		})
	}
}

// TestFlush_FileWentAway: SQLite continues to write into a deleted file and reports success; weir does not.
func TestFlush_FileWentAway(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"deleted": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".moved") },
		"replaced by a copy": func(path string) error {
			content, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".copy", content, 0o644), os.Rename(path+".copy", path))
		},
		"replaced by an empty file": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o644)) },
	} {
		for _, mode := range []string{"wal", "delete"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "t.db")
				if mode == "delete" {
					f := newFile(t, path)
					f.Exec(t, "CREATE TABLE theirs (a)")
					f.db.Close()
				}
				retries := 0
				s := mustSteps(t, sinktest.Retry(open(t, path, sqlite.Options{}), time.Hour, func(*sink.Error) { retries++ }), 10)
				s.mustNext(t, 3)
				testcheck.NoError(t, change(path))
				before, statErr := os.Stat(path)
				for range 2 { // and again
					_, err := s.next(t.Context())
					if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "under the run") {
						t.Errorf("the flush into a file that is not there any more ended with %v", err)
					}
				}
				if retries > 0 {
					t.Errorf("it was tried again %d times", retries)
				}
				after, err := os.Stat(path)
				if (err == nil) != (statErr == nil) || err == nil && (!os.SameFile(before, after) || before.Size() != after.Size()) {
					t.Errorf("the file at the path was touched: %v, %v", after, err)
				}
			})
		}
	}
}

// TestOpen_JournalModeAndSynchronous: weir sets WAL in files that it creates, keeps the mode of others, and keeps the
// promise of each level in both.
func TestOpen_JournalModeAndSynchronous(t *testing.T) {
	const off, normal, full, extra = 0, 1, 2, 3
	for _, test := range []struct {
		mode  string
		level sink.Level
		want  int64
	}{
		{"new", sink.Off, off}, {"new", sink.Normal, normal}, {"new", sink.Full, full}, {"new", sink.Extra, extra},
		{"wal", sink.Off, off}, {"wal", sink.Normal, normal}, {"wal", sink.Full, full}, {"wal", sink.Extra, extra},
		{"delete", sink.Off, off}, {"delete", sink.Normal, normal}, {"delete", sink.Full, extra}, {"delete", sink.Extra, extra},
	} {
		path := filepath.Join(t.TempDir(), "t.db")
		f := newFile(t, path)
		want := "wal"
		if test.mode != "new" {
			f.Exec(t, "PRAGMA journal_mode="+test.mode)
			f.Exec(t, "CREATE TABLE theirs (a)")
			want = test.mode
		}
		d := open(t, path, sqlite.Options{Options: sink.Options{Level: test.level}})
		s := mustSteps(t, d, 3)
		s.mustNext(t, 2)
		if n, err := d.Pragma("synchronous"); n != test.want || err != nil {
			t.Errorf("%s, %s: synchronous is %d, want %d (%v)", test.mode, test.level, n, test.want, err)
		}
		if n, err := d.Pragma("foreign_keys"); n != 1 || err != nil {
			t.Errorf("foreign_keys is %d, %v", n, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		sinktest.Expect(t, f, "PRAGMA journal_mode", want)
	}
}

// TestClaims_HotJournal: a transaction that another program left unfinished is rolled back before checkpoints are read.
func TestClaims_HotJournal(t *testing.T) {
	dir := t.TempDir()
	f := newFile(t, filepath.Join(dir, "t.db"))
	f.Exec(t, "CREATE TABLE theirs (a)")
	mustSteps(t, f.Open(t), 3).mustNext(t, 2)
	f.db.SetMaxOpenConns(1)
	f.Exec(t, "PRAGMA cache_size = 1")
	f.Exec(t, "BEGIN IMMEDIATE")
	f.Exec(t, "UPDATE weir_checkpoints SET seq = 99")
	f.Exec(t, "INSERT INTO theirs SELECT zeroblob(1000) FROM (WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n)")
	crashed := filepath.Join(dir, "crashed.db")
	for _, suffix := range []string{"", "-journal"} {
		content, err := os.ReadFile(f.path + suffix)
		testcheck.NoError(t, err)
		write(t, crashed+suffix, string(content))
	}
	f.Exec(t, "ROLLBACK")
	if info, err := os.Stat(crashed); err != nil || info.Size() < 1<<20 {
		t.Fatalf("did not exercise: the crashed file has %v bytes (%v)", info.Size(), err)
	}
	if cps, err := openClaims(t, crashed, "steps").Take(t.Context(), stepsSource); err != nil || cps[0].Seq != 2 {
		t.Errorf("the checkpoint is %+v, %v", cps, err)
	}
}

// TestFlush_UTF16: a file in UTF-16 preserves every text.
func TestFlush_UTF16(t *testing.T) {
	for _, encoding := range []string{"UTF-16le", "UTF-16be"} {
		f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
		f.db.SetMaxOpenConns(1)
		f.Exec(t, "PRAGMA encoding='"+encoding+"'")
		f.Exec(t, "CREATE TABLE theirs (a)")
		for range 2 {
			r := sinktest.Begin(t, f, versioned(fold.ColumnScope))
			for _, line := range []string{`{"id":"日本","v":2,"a":"Zürich 😀","j":{"ü":["é"]},"n":1}`, `{"id":"x","v":2,"a":""}`,
				`{"id":"日本","v":3,"b":"\ud83d\ude00","n":"two"}`, `{"id":"日本","v":1,"a":"old"}`, "not \xff UTF-8"} {
				r.Flush(line)
			}
			r.End()
		}
		sinktest.Expect(t, f, "SELECT id, a, j, n, b FROM t ORDER BY id", "x||NULL|NULL|NULL", `日本|Zürich 😀|{"ü":["é"]}|two|😀`)
		sinktest.Expect(t, f, "SELECT DISTINCT hex(raw) FROM weir_rejects", fmt.Sprintf("%X", "not \xff UTF-8"))
		sinktest.Expect(t, f, "PRAGMA encoding", encoding)
	}
}

// TestFlush_RebuildKeepsWhatOthersAdded: widening copies the table; its indexes, columns and values still exist
// afterwards, and views still work.
func TestFlush_RebuildKeepsWhatOthersAdded(t *testing.T) {
	f := tempFile(t)
	r := sinktest.Begin(t, f)
	for i := range 500 {
		r.Fold(fmt.Sprintf(`{"id":%d,"n":%d,"r":%d.5,"b":%v,"s":"s%d"}`, i, i, i, i%2 == 0, i))
	}
	r.Flush()
	r.End()
	for _, sql := range []string{
		"CREATE INDEX by_n ON t (n)", `CREATE INDEX "odd ""name" ON t (s, n DESC) WHERE n > 10`, "CREATE INDEX by_expression ON t (lower(s))",
		"CREATE VIEW v AS SELECT id, n FROM t WHERE n IS NOT NULL", "ALTER TABLE t ADD COLUMN theirs TEXT", "UPDATE t SET theirs = 'x' || id",
		"DELETE FROM t WHERE id BETWEEN 100 AND 199", // so rowids change
	} {
		f.Exec(t, sql)
	}
	indexes := "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
	before := sinktest.Rows(t, f, indexes)
	sinktest.Begin(t, f).Flush(`{"id":0,"n":"text","r":"text","b":"text"}`, `{"id":100,"n":9223372036854775808}`)
	sinktest.Expect(t, f, indexes, before...)
	sinktest.Expect(t, f, `SELECT count(*) FROM t WHERE n = CAST(id AS TEXT) AND r = id || '.5' AND b = CASE id % 2 WHEN 0 THEN 'true' ELSE 'false' END AND s = 's' || id AND theirs = 'x' || id`, "399")
	sinktest.Expect(t, f, "SELECT id, n, r, b, s, theirs FROM t WHERE id IN (0, 100) ORDER BY id", "0|text|text|text|s0|x0", "100|9223372036854775808|NULL|NULL|NULL|NULL")
	sinktest.Expect(t, f, "SELECT count(*) FROM v", "401")
	sinktest.Expect(t, f, "PRAGMA integrity_check", "ok")
	sinktest.Expect(t, f, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'weir_new%'", "0")
}

// TestOpen_RefusedFiles: each is refused at once, and left unchanged.
func TestOpen_RefusedFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, sock := filepath.Join(dir, "fifo"), filepath.Join(dir, "s")
	testcheck.NoError(t, syscall.Mkfifo(fifo, 0o600))
	socket, err := net.Listen("unix", sock)
	testcheck.NoError(t, err)
	defer socket.Close()
	for _, name := range []string{fifo, sock, "/dev/zero", dir} {
		for _, readOnly := range []bool{false, true} {
			d, err := sqlite.Open(t.Context(), name, sqlite.Options{Options: sink.Options{Level: sink.Full, Log: logtest.New(t)}, ReadOnly: readOnly})
			if err == nil {
				d.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestOpen_Link: a lock is next to the file to which links lead, for all its names.
func TestOpen_Link(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o700), os.Mkdir(filepath.Join(dir, "c"), 0o700), os.Symlink("a/b", filepath.Join(dir, "folder")),
		os.Symlink("../../c/next.db", filepath.Join(dir, "a/b/link.db")), os.Symlink("t.db", filepath.Join(dir, "c/next.db")), os.WriteFile(filepath.Join(dir, "c/t.db"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	first := open(t, filepath.Join(dir, "folder/link.db"), sqlite.Options{})
	if want, err := filepath.EvalSymlinks(filepath.Join(dir, "c")); err != nil || first.Path() != filepath.Join(want, "t.db") {
		t.Fatalf("%v: the file is %s", err, first.Path())
	}
	_, err := openClaims(t, filepath.Join(dir, "folder/link.db"), "job").Take(t.Context(), "s")
	testcheck.NoError(t, err)
	for _, name := range []string{"folder/link.db", "c/next.db", "c/t.db"} {
		if _, err := openClaims(t, filepath.Join(dir, name), "job").Take(t.Context(), "s"); !errors.As(err, new(sink.BusyError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDB_ReconnectsAfterAFailedCommit: whichever call comes first after the file is reopened.
func TestDB_ReconnectsAfterAFailedCommit(t *testing.T) {
	for name, ask := range map[string]func(*sqlite.DB) error{
		"Tables": func(d *sqlite.DB) error { _, err := d.Tables(t.Context(), sink.TableKey{Name: "t"}); return err },
		"Forget": func(d *sqlite.DB) error { _, err := d.Forget(t.Context(), "job"); return err },
	} {
		d := open(t, filepath.Join(t.TempDir(), "t.db"), sqlite.Options{})
		d.Disconnect()
		if err := ask(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
