package torture

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testweir"
)

// run runs a case in a separate folder, and returns what is wrong.
func (b *bench) run(t testing.TB, c *randomCase) (err error) {
	b.n++
	r := &running{Folder: testweir.New(t, "t.db"), randomCase: c, counts: make([]counts, c.writers)}
	if c.postgres {
		schema := fmt.Sprint("s", b.n)
		r.To = b.url + "&search_path=" + schema
		b.Exec("CREATE SCHEMA " + schema)
		defer b.Exec("DROP SCHEMA " + schema + " CASCADE")
	}
	if err := r.all(); err != nil {
		return err
	}
	return r.spoil()
}

// running is a case in progress.
type running struct {
	*testweir.Folder
	*randomCase
	counts []counts // of each writer's last run
	extra  []string // flags of the next run
	blind  bool     // verify cannot predict the table, such as after the database rejected a delete

	types    map[string]string // of the table's columns, when it was last read
	fold     *foldtest.Table   // what the files hold so far
	mapped   mappedModel       // the same for the tables of a config file
	applied  map[string]int    // number of lines, by file
	accepted map[string]int    // number of accepted lines, by file
	bad      []string
}

// model folds the lines of the files that it has not folded yet.
func (r *running) model() (t *foldtest.Table, rejects []string) {
	switch {
	case r.mapping != nil && r.mapped.Model == nil:
		r.fromStart()
		r.mapped.Model = foldtest.NewModel(r.mapping, !r.postgres)
	case r.mapping == nil && r.fold == nil:
		r.fromStart()
		if r.table == nil {
			r.fold = foldtest.NewTable(r.rules, r.limits())
		} else {
			r.fold = foldtest.NewTable(r.rules, r.limits(), r.table.columnsOf(r.randomCase)...)
			r.fold.Violates = r.table.violates
		}
	}
	for w, files := range r.files {
		for p, lines := range files {
			name := r.file(w, p)
			for ; r.applied[name] < len(lines); r.applied[name]++ {
				line := lines[r.applied[name]]
				if err := r.apply(w, p, r.applied[name]); err != nil {
					r.bad = append(r.bad, fmt.Sprintf("%s:%d", name, r.applied[name]+1))
				} else if strings.TrimSpace(line) != "" {
					r.accepted[name]++
				}
			}
		}
	}
	slices.Sort(r.bad)
	return r.fold, r.bad
}

// apply folds a line of a file in the model.
func (r *running) apply(writer, part, i int) error {
	before := r.files[writer][part][:i]
	line := r.files[writer][part][i]
	if r.mapping == nil {
		return r.fold.Apply([]byte(line))
	}
	if r.stdin {
		before = slices.Concat(slices.Concat(r.files[writer][:part]...), before)
	}
	_, err := r.mapped.Apply(line, int64(len(before)+1), int64(len(strings.Join(append(before[:len(before):len(before)], ""), "\n"))))
	r.blind = r.blind || errors.Is(err, foldtest.ErrReferenced)
	return err
}

// fromStart folds all files again in the model, on top of its content.
func (r *running) fromStart() { r.applied, r.accepted, r.bad = map[string]int{}, map[string]int{}, nil }

// counts is what a run reports.
type counts struct {
	Lines, Inserted, Updated, Deleted int
	Rejected                          int `json:"rejected_lines"`
}

func (r *running) all() error {
	if r.table != nil {
		r.Exec(r.table.make(r.randomCase)...)
	}
	r.Write(configFile, r.config)
	r.write()
	if err := r.writersRun(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if err := r.count(); err != nil {
		return err
	}
	if r.stdin {
		return nil
	}
	for w := range r.writers { // again: nothing is left to do
		if r.late && w == 0 {
			continue
		}
		if err := r.sync(w, 0); err != nil {
			return fmt.Errorf("a second run: %w", err)
		}
		// A source whose lines were all rejected is read again: a line that had too many columns may now be accepted
		// without them.
		n := r.counts[w]
		if did := n.Inserted + n.Updated + n.Deleted; did > 0 && r.rules.MaxColumns >= 500 || n.Lines+did > 0 && r.allHavePositions() {
			return fmt.Errorf("a second run did something: %+v", r.counts[w])
		}
	}
	if len(r.appended) > 0 {
		if len(r.types) > 0 { // the table exists
			r.Exec(r.between...)
		}
		if r.postgres && strings.Contains(strings.Join(r.between, ""), "VIEW") {
			r.fold.Hold()
			r.blind = true // verify folds lines that are rejected because of the view
		}
		r.grow(r.appended)
		if err := r.sync(0, 0); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("after what was appended: %w", err)
		}
	}
	return r.secondLife()
}

// writersRun runs all writers on their files.
func (r *running) writersRun() error {
	if r.late {
		return r.lateRun()
	}
	var writers sync.WaitGroup
	errs := make([]error, r.writers)
	for w := range r.writers {
		writers.Go(func() { errs[w] = r.sync(w, r.kills) })
		if r.inTurn {
			writers.Wait()
		}
	}
	writers.Wait()
	return errors.Join(errs...)
}

// lateRun starts the first writer before the second one, and gives it its lines afterwards, in several parts.
func (r *running) lateRun() error {
	run := r.Command(r.args(0, r.To)...)
	in, err := run.StdinPipe()
	r.Check(err)
	run.Start()
	time.Sleep(30 * time.Millisecond)
	err = r.sync(1, 0)
	lines := r.files[0][0]
	for n := 1 + len(lines)/3; len(lines) > 0; lines = lines[min(n, len(lines)):] {
		_, werr := in.Write([]byte(strings.Join(lines[:min(n, len(lines))], "\n") + "\n"))
		err = errors.Join(err, werr)
		time.Sleep(15 * time.Millisecond)
	}
	in.Close()
	return errors.Join(err, r.ended(0, run.Wait(), run.Log()+run.Out()))
}

// count compares what the runs report with the fold.
func (r *running) count() error {
	if r.kills > 0 {
		return nil
	}
	model, rejects := r.model()
	rows := 0
	if model != nil {
		rows = len(model.Rows())
	}
	sum := counts{}
	for _, n := range r.counts {
		sum.Inserted += n.Inserted
		sum.Deleted += n.Deleted
		sum.Rejected += n.Rejected
		sum.Lines += n.Lines
	}
	for _, files := range r.files {
		for _, lines := range files {
			sum.Lines -= len(r.groups(lines))
		}
	}
	again := sum.Lines > 0 && r.writers > 1 // a writer reads again what the other's change to the table has made void
	if model != nil && sum.Inserted-sum.Deleted != rows || sum.Rejected != len(rejects) && !(again && sum.Rejected > len(rejects)) {
		return fmt.Errorf("the summary is wrong: %+v, and should be of %d rows and %d rejected lines", r.counts, rows, len(rejects))
	}
	return nil
}

// open opens the database.
func (r *running) open() *sql.DB {
	if r.postgres {
		return r.Open(r.To+"&timezone=UTC", "rwc")
	}
	return r.Open(r.To, "rwc")
}

// text returns the content of a file.
func (c *randomCase) text(lines []string) []byte {
	var written []string
	for _, g := range c.groups(lines) {
		if line := strings.Join(g, ", "); c.isMessage(g[0]) {
			written = append(written, "["+line+"]")
		} else {
			written = append(written, line)
		}
	}
	text := strings.Join(written, "\n")
	if last := lines[len(lines)-1]; !c.noEnd || foldtest.NewTable(c.rules, foldtest.Limits{}).Apply([]byte(last)) != nil {
		text += "\n"
	}
	return []byte(text)
}

// groups returns the messages of each line: up to three, if they are arrays.
func (c *randomCase) groups(lines []string) (groups [][]string) {
	for i, line := range lines {
		if i%3 > 0 && c.isMessage(line) && c.isMessage(lines[i-1]) {
			groups[len(groups)-1] = append(groups[len(groups)-1], line)
		} else {
			groups = append(groups, lines[i:i+1:i+1])
		}
	}
	return groups
}

// isMessage reports whether a line may be an element of an array: it is valid by itself.
func (c *randomCase) isMessage(line string) bool {
	return c.arrays && strings.TrimSpace(line) != "" && foldtest.NewTable(c.rules, foldtest.Limits{}).Apply([]byte(line)) == nil
}

// write writes the files.
func (r *running) write() {
	for w, files := range r.files {
		for p, lines := range files {
			r.Write(r.file(w, p), string(r.text(lines)))
		}
	}
}

// sync kills a number of runs of the program, and then lets one finish.
func (r *running) sync(writer, kills int) error {
	rnd := rand.New(rand.NewPCG(uint64(r.killIn), uint64(writer)))
	for ; ; kills-- {
		var stdin []byte
		if r.stdin {
			stdin = r.text(slices.Concat(r.files[writer]...))
		}
		after := time.Duration(0)
		if kills > 0 {
			after = 1 + time.Duration(rnd.Int64N(int64(r.killIn)))
		}
		args := append(r.args(writer, r.To), r.extra...)
		if kills < r.kills { // the last one counts
			args = append(args, "--batch-rows", fmt.Sprint(1+rnd.IntN(20)))
		}
		code, out := r.weir(stdin, after, args...)
		if code != -1 || kills == 0 {
			return r.ended(writer, code, out)
		}
	}
}

// ended parses the summary of a run that has ended.
func (r *running) ended(writer, code int, out string) error {
	if code != 0 && code != 3 {
		return fmt.Errorf("the run ended with %d\n%s", code, out)
	}
	n := counts{}
	if err := json.Unmarshal([]byte(out[strings.LastIndexByte("\n"+out[:len(out)-1], '\n'):]), &n); err != nil {
		return fmt.Errorf("the summary: %w\n%s", err, out)
	}
	if n.Rejected > 0 != (code == 3) {
		return fmt.Errorf("exit %d, and yet\n%s", code, out)
	}
	r.counts[writer] = n
	return nil
}

// weir runs the program, and kills it after a time, 0 for never. The exit code of a killed run is -1.
func (r *running) weir(stdin []byte, after time.Duration, args ...string) (code int, out string) {
	run := r.Command(args...)
	run.Stdin = bytes.NewReader(stdin)
	run.Start()
	if after > 0 {
		defer time.AfterFunc(after, run.Kill).Stop()
	}
	code = run.Wait()
	return code, run.Log() + run.Out()
}
