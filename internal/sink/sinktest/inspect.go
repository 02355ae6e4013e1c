package sinktest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// opening returns the driver's options.
func opening(t *testing.T) sink.Options {
	return sink.Options{Level: sink.Off, Log: logtest.New(t)}
}

// driver returns a database's driver, and the database, with a suffix to its name, as the driver parses it.
func driver(t *testing.T, db Database, suffix string) (sink.Driver, string) {
	t.Helper()
	d, to := db.Driver()
	dest, ok, err := d.Parse(to + suffix)
	if err != nil || !ok {
		t.Fatalf("the driver does not take %s: %v", to+suffix, err)
	}
	return d, dest
}

// inspect opens a database for reading, as weir status does.
func inspect(t *testing.T, db Database) sink.Inspector {
	t.Helper()
	d, dest := driver(t, db, "")
	i, err := d.Reader(t.Context(), dest, opening(t))
	if errors.As(err, new(sink.LacksError)) {
		t.Skip(err)
	}
	testcheck.NoError(t, err)
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

// inspectorTests: what [sink.Inspector] reads.
var inspectorTests = []test{
	{"StatusListsLanes", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a", "b"}}.Begin(t, db)
		r.In("b").Flush(`{"id":1}`, `bad`)
		r.lanes = r.lanes[:1]
		r.In("a").Flush(`{"id":2}`)
		r.sibling("u").Flush(`{"id":1}`)
		Setup{Job: "unnamed", Unnamed: true}.unclaimed(t, db).Flush(`{"id":3}`)
		st, err := inspect(t, db).Status(t.Context())
		testcheck.NoError(t, err)
		var got []string
		for _, j := range st.Jobs {
			got = append(got, fmt.Sprintf("%s|%s|%s|%d", j.Job, strings.Join(j.Tables, ", "), j.Source, j.Line))
			if ago := time.Since(j.Updated); ago < -time.Minute || ago > time.Minute {
				t.Errorf("the last commit of %q was at %v", j.Source, j.Updated)
			}
		}
		// A job without named lanes is listed by itself.
		if want := []string{job + "|t, u|a|1", job + "|t, u|b|2", job + "|t, u|u.jsonl|1", "unnamed|t||0"}; !slices.Equal(got, want) {
			t.Errorf("the status is %q, want %q", got, want)
		}
		if len(st.Rejects) != 1 || st.Rejects[0].Job != job || st.Rejects[0].Count != 1 {
			t.Errorf("the rejects are %v", st.Rejects)
		}
	}},
	{"AJobWithoutCheckpointsHasNoTime", func(t *testing.T, db Database) {
		Begin(t, db).Flush(`{"id":1}`)
		theirs(t, db, "DELETE FROM weir_checkpoints")
		if st, err := inspect(t, db).Status(t.Context()); err != nil || len(st.Jobs) != 1 || !st.Jobs[0].Updated.IsZero() {
			t.Errorf("the jobs are %+v, %v", st.Jobs, err)
		}
	}},
	{"FullNameIsOfOneTable", func(t *testing.T, db Database) {
		r := Begin(t, db)
		i := inspect(t, db)
		name := func(of string) string {
			t.Helper()
			got, err := sink.Table(t.Context(), i.Tables, of, []string{"id"})
			if err != nil || got.FullName == "" {
				t.Errorf("the full name of %s is %q, %v", of, got.FullName, err)
			}
			return got.FullName
		}
		missing := name(table)
		r.Flush(`{"id":1}`)
		if got, other := name(table), name("other"); got != missing || got == other {
			t.Errorf("the table has the full name %q, another one %q, and before it was made it had %q", got, other, missing)
		}
	}},
	{"RejectsOfOneJobOrAll", func(t *testing.T, db Database) {
		Begin(t, db).Flush(`{"id":1}`, "not \xff UTF-8", `it's "bad"`, `{"a":1}`)
		BeginJob(t, db, "it's other").Flush(`theirs \`)
		var many []string // more than a driver reads at a time
		for n := range 2500 {
			many = append(many, fmt.Sprintf("bad %d", n))
		}
		many = append(many, "not \xff UTF-8")
		BeginJob(t, db, "many").Flush(many...)
		i := inspect(t, db)
		ours := []string{from + "|2|9|not \xff UTF-8", from + `|3|21|it's "bad"`, from + `|4|32|{"a":1}`}
		all := slices.Concat(ours, []string{from + `|1|0|theirs \`}, kept(many))
		for job, want := range map[string][]string{job: ours, "": all, "nobody": nil} {
			if got := rejects(t, i, job); !slices.Equal(got, want) {
				t.Errorf("the rejects of %q are %q", job, got[:min(10, len(got))])
			}
		}
		for name, want := range map[string]int64{job: 3, "it's other": 1, "many": 2501, "nobody": 0} {
			if n, err := i.StoredRejects(t.Context(), name); n != want || err != nil {
				t.Errorf("%q: %d are kept, %v; want %d", name, n, err, want)
			}
		}
		st, err := i.Status(t.Context())
		want := []sink.RejectCount{{Job: job, Reason: string(feed.NotJSON), Count: 2}, {Job: job, Reason: string(feed.BadKey), Count: 1}, {Job: "it's other", Reason: string(feed.NotJSON), Count: 1}, {Job: "many", Reason: string(feed.NotJSON), Count: 2501}}
		if err != nil || !slices.Equal(st.Rejects, want) {
			t.Errorf("the counts are %v (%v), want %v", st.Rejects, err, want)
		}
		calls := 0
		err = i.Rejects(t.Context(), "", func(k sink.Kept) error {
			if ago := time.Since(k.Time); k.Job != job || !strings.Contains(k.Reason, ": ") || ago < -time.Minute || ago > time.Minute {
				t.Errorf("a reject is %+v", k)
			}
			calls++
			return errStop
		})
		if !errors.Is(err, errStop) || calls != 1 {
			t.Errorf("after an error %d more calls came: %v", calls-1, err)
		}
	}},
	{"RejectsAreDroppedByJobAndReason", func(t *testing.T, db Database) {
		r := BeginJob(t, db, "many")
		r.Flush("bad", `{"x":1}`, "bad again")
		BeginJob(t, db, "another").Flush("other", `{"x":2}`)
		for _, drop := range []struct {
			job, reason string
			dropped     int64
			left        []string
		}{
			{"many", "not", 0, []string{"many|bad", `many|{"x":1}`, "many|bad again", "another|other", `another|{"x":2}`}},
			{"many", "not_json", 2, []string{`many|{"x":1}`, "another|other", `another|{"x":2}`}},
			{"", "not_json", 1, []string{`many|{"x":1}`, `another|{"x":2}`}},
			{"another", "", 1, []string{`many|{"x":1}`}},
			{"", "", 1, nil},
			{"", "", 0, nil},
		} {
			n, err := part[sink.RejectDropper](r).DropRejects(t.Context(), drop.job, drop.reason)
			if testcheck.NoError(t, err); n != drop.dropped {
				t.Errorf("%q, %q: %d are dropped", drop.job, drop.reason, n)
			}
			Expect(t, db, "SELECT job, raw FROM weir_rejects ORDER BY id", drop.left...)
		}
	}},
	{"LaterRejectsAreNotListed", func(t *testing.T, db Database) {
		r := BeginJob(t, db, "many")
		r.Flush(slices.Repeat([]string{"bad"}, 1500)...) // more than a driver reads at a time
		n := 0
		if err := inspect(t, db).Rejects(t.Context(), "", func(sink.Kept) error {
			if n++; n == 1 {
				r.Flush("bad again")
			}
			return nil
		}); err != nil || n != 1500 {
			t.Errorf("%d rejects were listed: %v", n, err)
		}
	}},
	{"SampleHasRowsWithTheirNulls", func(t *testing.T, db Database) {
		r := BeginTable(t, db, "it's", "id")
		// A column may have the table's name, or any name in a driver's SQL.
		r.Flush(`{"id":1,"t":"x","it's":"y"}`, `{"id":2,"n":2.5}`, `{"id":3,"t":null}`, `{"id":4,"op":"delete"}`)
		i := inspect(t, db)
		all := []string{`{"id":1,"t":"x","it's":"y","n":null}`, `{"id":2,"t":null,"it's":null,"n":2.5}`, `{"id":3,"t":null,"it's":null,"n":null}`}
		for _, n := range []int{0, 2, 9} {
			got, total, err := i.Sample(t.Context(), "it's", n)
			slices.Sort(got)
			if err != nil || total != 3 || len(got) != min(n, 3) || slices.ContainsFunc(got, func(row string) bool { return !slices.Contains(all, row) }) {
				t.Errorf("%d rows of the sample are %q of %d, %v", n, got, total, err)
			}
		}
		if _, _, err := i.Sample(t.Context(), "missing", 1); err == nil || !strings.Contains(err.Error(), "missing") {
			t.Errorf("a sample of a table that is missing: %v", err)
		}
	}},
	{"OthersAreRowsThatTheFeedDoesNotName", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":"1","a":"x"}`, `{"id":"2"}`, `{"id":"zz, z","a":"y"}`, `{"id":"4"}`, `{"id":"é"}`)
		i := inspect(t, db)
		others := func(most int, lines ...string) (keys []string) {
			t.Helper()
			if err := i.Others(t.Context(), sealed(t, i, []string{"id"}, nil, lines...), func(key string) bool {
				keys = append(keys, key)
				return len(keys) < most
			}); err != nil {
				t.Fatal(err)
			}
			slices.Sort(keys)
			return keys
		}
		// A removed row that exists is a difference; no other row is.
		if got, want := others(10, `{"id":1,"a":"w"}`, `{"id":4,"op":"delete"}`, `{"id":7}`), []string{"2", "zz, z", "é"}; !slices.Equal(got, want) {
			t.Errorf("the others are %q, want %q", got, want)
		}
		if got := others(1, `{"id":1}`, `{"id":2}`, `{"id":4}`); len(got) != 1 {
			t.Errorf("one of the others is %q", got)
		}
		if got := others(10, `{"id":1}`, `{"id":2}`, `{"id":4}`, `{"id":"zz, z"}`, `{"id":"é"}`); got != nil {
			t.Errorf("of all rows the others are %q", got)
		}
		var many []string
		for n := range 500 { // more than a driver reads at a time
			many = append(many, fmt.Sprintf(`{"id":"n%d"}`, n))
		}
		r.Flush(many...)
		if got := slices.Compact(others(1000, many[7], `{"id":"é"}`)); len(got) != 503 {
			t.Errorf("of 505 rows %d are others, want 503", len(got))
		}
	}},
	{"OnlyWhatIsCommittedIsRead", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`, `bad`)
		i := inspect(t, db)
		look := func(jobs, kept int, total int64, differing int) {
			t.Helper()
			st, err := i.Status(t.Context())
			_, rows, err2 := i.Sample(t.Context(), table, 0)
			testcheck.NoError(t, errors.Join(err, err2))
			if got := differences(t, i, 10, nil, `{"id":1,"a":"x"}`); len(st.Jobs) != jobs || len(rejects(t, i, "")) != kept || rows != total || len(got) != differing {
				t.Errorf("%d jobs, %d rows, the differences %q, and the rejects %q", len(st.Jobs), rows, got, rejects(t, i, ""))
			}
		}
		r.FlushAs(func(f *sink.Flush) { f.BeforeCommit = func([]fold.Reject) error { look(1, 1, 1, 0); return nil } }, `{"id":1,"a":"y"}`, `{"id":2}`, `worse`)
		look(1, 2, 2, 1)
		BeginJob(t, db, "another").Flush(`{"id":3}`)
		look(2, 2, 3, 1)
	}},
}

// kept returns the rejects of unreadable lines, in the format of the function rejects.
func kept(lines []string) (shown []string) {
	offset := 0
	for i, text := range lines {
		shown = append(shown, fmt.Sprintf("%s|%d|%d|%s", from, i+1, offset, text))
		offset += len(text) + 1
	}
	return shown
}

// rejects returns the stored rejected lines of a job, with their places.
func rejects(t *testing.T, i sink.Inspector, job string) (all []string) {
	t.Helper()
	if err := i.Rejects(t.Context(), job, func(k sink.Kept) error {
		all = append(all, fmt.Sprintf("%s|%d|%d|%s", k.Source, k.Line, k.Offset, k.Text))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// sealed folds lines into a batch for the table as an inspector finds it.
func sealed(t *testing.T, i sink.Inspector, key []string, merges map[string]merge.Function, lines ...string) *fold.Batch {
	t.Helper()
	known, err := sink.Table(t.Context(), i.Tables, table, key)
	testcheck.NoError(t, err)
	f := NewFolder(known, fold.Options{Key: key, Rules: fold.Rules{Merge: merges, UnknownFields: fold.AddUnknown, MaxColumns: 500}, Limits: i.Caps().Limits, Log: logtest.New(t)}, "op=delete")
	b := &fold.Batch{}
	for _, line := range lines {
		testcheck.NoError(t, f.Fold(b, []byte(line), fold.Place{}))
	}
	f.Seal(b)
	b.MakeAbsolute()
	return b
}

// differences compares the table with the fold of lines, as weir verify does, and returns at most that many
// differences.
func differences(t *testing.T, i sink.Inspector, most int, merges map[string]merge.Function, lines ...string) (found []string) {
	t.Helper()
	b := sealed(t, i, []string{"id"}, merges, lines...)
	err := i.Compare(t.Context(), b, func(d sink.Difference) bool {
		raw := b.Value(d.Row, b.Table.Key[0])
		text := string(feed.TextOf(raw))
		switch d.Kind {
		case sink.Missing:
			text += " is missing"
		case sink.Removed:
			text += " exists"
		default:
			text += " differs in " + b.Table.Columns[d.Column].Name + ": " + d.Have
		}
		found = append(found, text)
		return len(found) < most
	})
	testcheck.NoError(t, err)
	return found
}

// driverTests: how a [sink.Driver] opens databases.
var driverTests = []test{
	{"OpensWhatItNames", func(t *testing.T, db Database) {
		d, dest := driver(t, db, "")
		s, err := d.Open(t.Context(), dest, opening(t))
		testcheck.NoError(t, err)
		c, err := d.OpenClaims(t.Context(), dest, job, opening(t))
		testcheck.NoError(t, err)
		if s.Caps().Columns == 0 || d.Caps.Columns == 0 || d.Name == "" || d.Usage == "" {
			t.Errorf("the driver says %+v, the database %+v", d, s.Caps())
		}
		if missing, err := sink.Table(t.Context(), s.Tables, table, []string{"id"}); err != nil || missing.Exists || missing.Name != table {
			t.Errorf("a table that is missing is %+v, %v", missing, err)
		}
		r := Setup{}.run(t, s, c)
		testcheck.NoError(t, errors.Join(r.take(), r.read()))
		r.Fold(`{"id":1,"col":"x"}`)
		f := r.Seal()
		if plan := strings.Join(d.Plan(&f.Batches[0].Table), "\n"); !strings.Contains(plan, table) || !strings.Contains(plan, "col") {
			t.Errorf("the plan is %q", plan)
		}
		r.again(f)
		Expect(t, db, "SELECT id, col FROM t", "1|x")
		for range 2 { // closing again does no harm
			r.End()
		}
		i := inspect(t, db)
		if _, total, err := i.Sample(t.Context(), table, 0); err != nil || total != 1 {
			t.Errorf("%d rows, %v", total, err)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}},
	{"TakesItsOwnDatabasesAlone", func(t *testing.T, db Database) {
		d, _ := driver(t, db, "")
		if _, ok, _ := d.Parse("nosuch://database"); ok {
			t.Error("the driver takes what is none of its databases")
		}
	}},
	{"ADatabaseThatIsMissing", func(t *testing.T, db Database) {
		need(t, db, Creatable)
		d, dest := driver(t, db, "-missing")
		for range 2 { // reading does not create it
			if _, err := d.Inspect(t.Context(), dest, opening(t)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("reading a database that is missing: %v", err)
			}
		}
		s, err := d.Open(t.Context(), dest, opening(t))
		testcheck.NoError(t, err)
		i, err := d.Inspect(t.Context(), dest, opening(t))
		testcheck.NoError(t, err)
		if err := errors.Join(i.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}},
	{"AnotherFormatIsRefused", func(t *testing.T, db Database) {
		need(t, db, Shared)
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.End()
		d, dest := driver(t, db, "")
		take := func() error {
			c, err := d.OpenClaims(t.Context(), dest, job, opening(t))
			if err == nil {
				_, err = c.Take(t.Context(), from)
				err = errors.Join(err, c.Close())
			}
			return err
		}
		for _, value := range []int{999, 2} {
			db.Exec(t, fmt.Sprintf("UPDATE weir_meta SET value = '%d' WHERE name = 'format'", value))
			_, open := d.Open(t.Context(), dest, opening(t))
			_, read := d.Inspect(t.Context(), dest, opening(t))
			for name, err := range map[string]error{"Open": open, "Inspect": read, "Take": take()} {
				if err == nil || !strings.Contains(err.Error(), "another version of weir") {
					t.Errorf("%s takes a database of format %d: %v", name, value, err)
				}
			}
		}
		db.Exec(t, fmt.Sprintf("UPDATE weir_meta SET value = '%d' WHERE name = 'format'", sink.Format))
		Begin(t, db).Flush(`{"id":1,"b":"y"}`)
		Expect(t, db, "SELECT id, a, b FROM t", "1|x|y")
	}},
}
