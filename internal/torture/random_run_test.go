package torture

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/foldtest"
)

// run runs a case in a place of its own, and tells what is wrong.
func (b *bench) run(c *randomCase) (err error) {
	b.n++
	dir := filepath.Join(b.dir, fmt.Sprint("n", b.n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &running{bench: b, randomCase: c, dir: dir, to: "t.db", counts: make([]counts, c.writers)}
	if c.postgres {
		schema := fmt.Sprint("s", b.n)
		r.to = b.url + "&search_path=" + schema
		if _, err := b.db.Exec("CREATE SCHEMA " + schema); err != nil {
			return err
		}
		defer func() {
			_, derr := b.db.Exec("DROP SCHEMA " + schema + " CASCADE")
			err = errors.Join(err, derr)
		}()
	}
	if err := r.all(); err != nil {
		return err
	}
	return r.spoil()
}

// running is a case that runs.
type running struct {
	*bench
	*randomCase
	dir, to string
	counts  []counts // of each writer's last run
	extra   []string // flags of the next run
	blind   bool     // verify cannot know the table

	types    map[string]string // of the table's columns, when it was read last
	fold     *foldtest.Table   // what the files hold so far
	mapped   mappedModel       // the same of a config file's tables
	applied  map[string]int    // lines of each file
	accepted map[string]int    // those that were no rejects
	bad      []string
}

// model folds what the files hold and it has not folded yet.
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

// apply has the model fold a line of a file.
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
	return err
}

// fromStart has the model fold all files again, over what it has.
func (r *running) fromStart() { r.applied, r.accepted, r.bad = map[string]int{}, map[string]int{}, nil }

// counts are what a run says that it did.
type counts struct{ Lines, Inserted, Updated, Deleted, Rejected int }

func (r *running) all() error {
	if r.table != nil {
		if err := r.exec(r.table.make(r.randomCase)...); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, configFile), []byte(r.config), 0o600); err != nil {
		return err
	}
	if err := r.write(); err != nil {
		return err
	}
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
	for w := range r.writers { // again: there is nothing to do
		if r.late && w == 0 {
			continue
		}
		if err := r.sync(w, 0); err != nil {
			return fmt.Errorf("a second run: %w", err)
		}
		// A source whose lines were all rejected is read again: one that had too many columns may now be taken without them.
		n := r.counts[w]
		if did := n.Inserted + n.Updated + n.Deleted; did > 0 && r.rules.MaxColumns >= 500 || n.Lines+did > 0 && r.allHavePositions() {
			return fmt.Errorf("a second run did something: %+v", r.counts[w])
		}
	}
	if len(r.appended) > 0 {
		if len(r.types) > 0 { // the table exists
			if err := r.exec(r.between...); err != nil {
				return err
			}
		}
		if r.postgres && strings.Contains(strings.Join(r.between, ""), "VIEW") {
			r.fold.Hold()
			r.blind = true // verify folds what the view has the program reject
		}
		if err := r.grow(r.appended); err != nil {
			return err
		}
		if err := r.sync(0, 0); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("after what was appended: %w", err)
		}
	}
	return r.secondLife()
}

// writersRun has all writers write their files.
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

// lateRun has the first writer begin before the second one and get its lines afterwards,
// in some pieces.
func (r *running) lateRun() error {
	c, out := r.command(r.args(0, r.to)...)
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	defer func() { _ = c.Process.Kill() }()
	time.Sleep(30 * time.Millisecond)
	err = r.sync(1, 0)
	lines := r.files[0][0]
	for n := 1 + len(lines)/3; len(lines) > 0; lines = lines[min(n, len(lines)):] {
		_, werr := in.Write([]byte(strings.Join(lines[:min(n, len(lines))], "\n") + "\n"))
		err = errors.Join(err, werr)
		time.Sleep(15 * time.Millisecond)
	}
	in.Close()
	_ = c.Wait()
	return errors.Join(err, r.ended(0, c.ProcessState.ExitCode(), out.String()))
}

// count compares what the runs say that they did with the fold.
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
			sum.Lines -= len(lines)
		}
	}
	again := sum.Lines > 0 && r.writers > 1 // one may read again what another's change to the table has made void
	if model != nil && sum.Inserted-sum.Deleted != rows || sum.Rejected != len(rejects) && !(again && sum.Rejected > len(rejects)) {
		return fmt.Errorf("the summary is wrong: %+v, and should be of %d rows and %d rejected lines", r.counts, rows, len(rejects))
	}
	return nil
}

func (r *running) exec(statements ...string) error {
	if len(statements) == 0 {
		return nil
	}
	db, err := r.open()
	if err != nil {
		return err
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (r *running) open() (*sql.DB, error) {
	if r.postgres {
		return sql.Open("pgx", r.to+"&timezone=UTC")
	}
	return sql.Open("sqlite", "file:"+filepath.Join(r.dir, r.to)+"?_pragma=busy_timeout(20000)")
}

// text is a file's.
func (c *randomCase) text(lines []string) []byte {
	text := strings.Join(lines, "\n")
	if last := lines[len(lines)-1]; !c.noEnd || foldtest.NewTable(c.rules, foldtest.Limits{}).Apply([]byte(last)) != nil {
		text += "\n"
	}
	return []byte(text)
}

func (r *running) write() error {
	for w, files := range r.files {
		for p, lines := range files {
			data := r.text(lines)
			var packed bytes.Buffer
			switch r.pack {
			case "gz":
				z := gzip.NewWriter(&packed)
				_, _ = z.Write(data)
				z.Close()
				data = packed.Bytes()
			case "zst":
				z, err := zstd.NewWriter(&packed)
				if err != nil {
					return err
				}
				_, _ = z.Write(data)
				z.Close()
				data = packed.Bytes()
			}
			if err := os.WriteFile(filepath.Join(r.dir, r.file(w, p)), data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// sync kills a number of runs of the program, and then runs it to its end.
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
		args := append(r.args(writer, r.to), r.extra...)
		if kills < r.kills { // the last one counts
			args = append(args, "--batch-rows", fmt.Sprint(1+rnd.IntN(20)))
		}
		code, out := r.weir(stdin, after, args...)
		switch {
		case code == -1 && kills > 0:
		default:
			return r.ended(writer, code, out)
		}
	}
}

// ended reads the summary of a run that has ended.
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

// command is a run of the program, and what it says.
func (r *running) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	c := exec.Command(filepath.Join(r.bench.dir, "weir"), args...)
	c.Dir = r.dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "WEIR_") {
			c.Env = append(c.Env, e)
		}
	}
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	return c, &text
}

// weir runs the program, and kills it after a time, 0 for never; then the exit code is -1.
func (r *running) weir(stdin []byte, after time.Duration, args ...string) (code int, out string) {
	c, text := r.command(args...)
	c.Stdin = bytes.NewReader(stdin)
	if err := c.Start(); err != nil {
		return 99, err.Error()
	}
	patience := 5 * time.Minute
	if after > 0 {
		patience = after
	}
	kill := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
	defer kill.Stop()
	_ = c.Wait()
	return c.ProcessState.ExitCode(), text.String()
}
