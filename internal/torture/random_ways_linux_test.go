package torture

import (
	"compress/gzip"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestRandomWays runs the program on small feeds that come in every way: as folders of files that are rotated,
// on stdin, from senders, from a connection that breaks. Lines are too long, references keep rows from being
// deleted, signals come when a pipe is drained, tables are dropped, databases are restored. The tables, the number
// of rejected lines, exit codes and memory must be those of a plain model.
func TestRandomWays(t *testing.T) {
	n := times(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kind)
			if kind == "postgres" { // few locks: none is held for each file of a folder
				b.url = testpg.Start(t, "max_locks_per_transaction=10", "max_connections=20").URL("postgres")
				b.open(t)
			}
			sinktest.Seeds(t, uint64(10*n), func(t *testing.T, rnd *rand.Rand) {
				w := drawWay(rnd)
				if err := b.goes(w); err != nil {
					t.Fatalf("%v\n%v", err, w)
				}
			})
		})
	}
}

// A way is how a feed comes, and what happens meanwhile.
type way struct {
	from    string     // files, stdin, sender, feed
	rounds  [][]string // lines
	flags   []string
	maxLine int
	pack    bool   // a sender compresses
	empty   int    // files without lines
	rotated bool   // files are removed when they were read
	signal  bool   // a run over files is interrupted before the one that counts
	then    string // before the last round: "", dropped, restored
}

func (w *way) String() string {
	short := *w
	short.rounds = nil
	text := fmt.Sprintf("%+v", short)
	for _, lines := range w.rounds {
		text += "\n--- a round"
		for _, l := range lines {
			text += "\n" + l[:min(len(l), 80)]
		}
		if len(text) > 4000 {
			return text[:4000] + " ..."
		}
	}
	return text
}

func drawWay(rnd *rand.Rand) *way {
	w := &way{from: pick(rnd, []string{"files", "files", "stdin", "sender", "feed"}), maxLine: pick(rnd, []int{2 << 10, 20_000, 64_000, 1 << 20})}
	w.flags = []string{"--batch-rows", pick(rnd, []string{"1", "2", "7", "100000"}), "--max-line", fmt.Sprint(w.maxLine), "--buffer", "8MiB", "--batch-period", "20ms", "--synchronous", "off", "--retry-for", "5s"}
	w.pack, w.rotated, w.signal = rnd.IntN(2) == 0, rnd.IntN(2) == 0, rnd.IntN(3) == 0
	w.then = pick(rnd, []string{"", "dropped", "restored"})
	if w.from == "files" && rnd.IntN(4) == 0 {
		w.empty = 1500
	}
	many := rnd.IntN(8) == 0
	for range 3 {
		var lines []string
		for range 5 + rnd.IntN(60) {
			lines = append(lines, wayLine(rnd, w.maxLine))
		}
		if many && w.maxLine < 1<<20 {
			for range 1500 {
				lines = append(lines, fmt.Sprintf(`{"plane":"P1","s":"%s"}`, strings.Repeat("x", 70_000)))
			}
			many = false
		}
		w.rounds = append(w.rounds, append(lines, `{"plane":"P0","n":0}`))
	}
	return w
}

// wayLine is a plane, its removal, or a flight that names it; some are too long.
func wayLine(rnd *rand.Rand, maxLine int) string {
	plane := rnd.IntN(6)
	switch rnd.IntN(8) {
	case 0, 1:
		return fmt.Sprintf(`{"plane":"P%d","op":"D"}`, plane)
	case 2:
		return fmt.Sprintf(`{"flight":"F%d%d","reg":"P%[1]d"}`, plane, rnd.IntN(3))
	case 3:
		return fmt.Sprintf(`{"plane":"P%d","s":"%s"}`, plane, strings.Repeat("x", rnd.IntN(min(3*maxLine, 100_000))))
	}
	return fmt.Sprintf(`{"plane":"P%d","n":%d}`, plane, rnd.IntN(1000))
}

const waysFile = `tables:
  planes: {when: {plane: {present: true}}, key: plane, delete_when: op=D, columns: {plane: as text, n: as integer, s: as text}}
  flights: {when: {flight: {present: true}}, key: flight, columns: {flight: as text, reg: {from: reg, references: planes}}}
`

// A wayModel is what lines make of the two tables.
type wayModel struct {
	planes, flights map[string]string
	refused         int
}

func (m *wayModel) apply(w *way, lines []string) {
	for _, l := range lines {
		f := wayFields(l)
		plane, named := f["plane"], slices.Contains(slices.Collect(maps.Values(m.flights)), f["plane"])
		n, s, _ := strings.Cut(m.planes[plane], "|")
		switch {
		case len(l) > w.maxLine, f["op"] == "D" && named:
			m.refused++
		case f["op"] == "D":
			delete(m.planes, plane)
		case f["flight"] != "":
			if m.flights[f["flight"]] = f["reg"]; m.planes[f["reg"]] == "" {
				m.planes[f["reg"]] = "|0"
			}
		case f["n"] != "":
			m.planes[plane] = f["n"] + "|" + max(s, "0")
		default:
			m.planes[plane] = fmt.Sprintf("%s|%d", n, len(f["s"]))
		}
	}
}

// wayFields are the fields of a line that wayLine made.
func wayFields(line string) map[string]string {
	f := map[string]string{}
	for part := range strings.SplitSeq(strings.Trim(line, "{}"), ",") {
		name, value, _ := strings.Cut(part, ":")
		f[strings.Trim(name, `"`)] = strings.Trim(value, `"`)
	}
	return f
}

// aWay is a way that is gone.
type aWay struct {
	*running
	*way
	wayModel
	db   *sql.DB
	read []string // what stdin has had
}

func (b *bench) goes(w *way) (err error) {
	b.n++
	g := &aWay{running: &running{bench: b, randomCase: &randomCase{postgres: b.url != ""}, dir: filepath.Join(b.dir, fmt.Sprint("n", b.n)), to: "t.db"}, way: w, wayModel: wayModel{map[string]string{}, map[string]string{}, 0}}
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)
	if g.postgres {
		schema := fmt.Sprint("s", b.n)
		g.to = b.url + "&search_path=" + schema
		if _, err := b.db.Exec("CREATE SCHEMA " + schema); err != nil {
			return err
		}
		defer func() { _, _ = b.db.Exec("DROP SCHEMA " + schema + " CASCADE") }()
	}
	if err := os.WriteFile(filepath.Join(g.dir, "ways.yaml"), []byte(waysFile), 0o600); err != nil {
		return err
	}
	if g.db, err = g.open(); err != nil {
		return err
	}
	defer g.db.Close()
	switch w.from {
	case "files":
		return g.files()
	case "stdin":
		return g.stdins()
	case "sender":
		return g.sender()
	}
	return g.feed()
}

// start starts a run.
func (g *aWay) start(source string, in *os.File) (*exec.Cmd, fmt.Stringer, error) {
	c, out := g.command(append([]string{"sync", source, "--config", "ways.yaml", "--to", g.to, "-q"}, g.flags...)...)
	if in != nil { // with a job, lines that were read before are skipped
		c.Stdin, c.Args = in, append(c.Args, "--job", "ways")
	}
	return c, out, c.Start()
}

// ends demands the exit code of a run, and that its memory was bounded.
func (g *aWay) ends(c *exec.Cmd, out fmt.Stringer, want ...int) error {
	kill := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
	defer kill.Stop()
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	used := 0 // KiB; rusage would count what the test itself took at the fork
	for running := true; running; {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if _, text, ok := strings.Cut(string(status), "VmHWM:"); ok {
			_, _ = fmt.Sscan(text, &used)
		}
		select {
		case <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	const most = (8*3/2 + 64 + 16) << 10 // the buffer, what is beside it, and what the tests' own program adds
	if used > most {
		return fmt.Errorf("the run took %d MiB, and may take %d", used>>10, most>>10)
	}
	if code := c.ProcessState.ExitCode(); !slices.Contains(want, code) {
		return fmt.Errorf("the run ended with %d, not %v\n%s", code, want, out)
	}
	return nil
}

// differs tells how the database differs from the model, "" for not at all.
func (g *aWay) differs() string {
	have := wayModel{map[string]string{}, map[string]string{}, 0}
	for query, into := range map[string]map[string]string{"SELECT plane, concat(n, '|', coalesce(length(s), 0)) FROM planes": have.planes, "SELECT flight, reg FROM flights": have.flights} {
		rows, err := g.db.Query(query)
		if err != nil {
			continue // there is no such table
		}
		for rows.Next() {
			var key, value string
			_ = rows.Scan(&key, &value)
			into[key] = value
		}
		rows.Close()
	}
	_ = g.db.QueryRow("SELECT count(*) FROM weir_rejects").Scan(&have.refused)
	if maps.Equal(have.planes, g.planes) && maps.Equal(have.flights, g.flights) && have.refused == g.refused {
		return ""
	}
	return fmt.Sprintf("the database has\n%v\nand should have\n%v", have, g.wayModel)
}

func (g *aWay) same() error {
	if why := g.differs(); why != "" {
		return errors.New(why)
	}
	return nil
}

// becomes waits until the database is as the model says.
func (g *aWay) becomes() error {
	for end := time.Now().Add(20 * time.Second); g.differs() != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return g.same()
		}
	}
	return nil
}

// save and restore have the tables and checkpoints go back.
func (g *aWay) save() (err error) {
	for _, t := range []string{"planes", "flights", "weir_checkpoints", "weir_rejects"} {
		_, e := g.db.Exec("CREATE TABLE kept_" + t + " AS SELECT * FROM " + t)
		err = errors.Join(err, e)
	}
	return err
}

func (g *aWay) restore() error {
	tx, err := g.db.Begin()
	if err == nil && g.postgres { // a flush may be on its way
		_, err = tx.Exec("LOCK TABLE planes, flights, weir_rejects, weir_checkpoints")
	}
	for _, t := range []string{"flights", "planes", "weir_rejects", "weir_checkpoints"} {
		if err == nil {
			_, err = tx.Exec("DELETE FROM " + t)
		}
	}
	for _, t := range []string{"planes", "flights", "weir_checkpoints", "weir_rejects"} {
		if err == nil {
			_, err = tx.Exec("INSERT INTO " + t + map[bool]string{true: " OVERRIDING SYSTEM VALUE"}[g.postgres && t == "weir_rejects"] + " SELECT * FROM kept_" + t)
		}
	}
	return errors.Join(err, tx.Commit())
}

func (g *aWay) files() error {
	for i := range g.empty {
		if err := os.WriteFile(filepath.Join(g.dir, fmt.Sprintf("f9-%04d.jsonl", i)), nil, 0o600); err != nil {
			return err
		}
	}
	for i, lines := range g.rounds {
		for k, part := range slices.Collect(slices.Chunk(lines, 1+len(lines)/4)) {
			if err := os.WriteFile(filepath.Join(g.dir, fmt.Sprintf("f%d-%d.jsonl", i, k)), []byte(strings.Join(part, "\n")+"\n"), 0o600); err != nil {
				return err
			}
		}
		last := i == len(g.rounds)-1
		if last && g.then == "dropped" {
			if _, err := g.db.Exec("DROP TABLE flights"); err == nil {
				c, out, err := g.start("f*.jsonl", nil)
				return errors.Join(err, g.ends(c, out, 1))
			}
		}
		if g.apply(g.way, lines); g.signal {
			c, out, err := g.start("f*.jsonl", nil)
			time.Sleep(time.Duration(30+10*i) * time.Millisecond)
			_ = c.Process.Signal(syscall.SIGTERM)
			if err := errors.Join(err, g.ends(c, out, 0, 3, 143, -1)); err != nil {
				return err
			}
		}
		c, out, err := g.start("f*.jsonl", nil)
		if err := errors.Join(err, g.ends(c, out, 0, 3), g.same()); err != nil {
			return err
		}
		if g.rotated {
			for _, name := range must(filepath.Glob(filepath.Join(g.dir, "f[0-8]-*"))) {
				os.Remove(name)
			}
		}
	}
	return nil
}

func must[T any](v T, _ error) T { return v }

// stdins interrupts each run when it has drained its pipe: what was read is written, and the next run skips it.
func (g *aWay) stdins() error {
	for _, lines := range g.rounds {
		g.read = append(g.read, lines...)
		g.apply(g.way, lines)
		in, w, err := os.Pipe()
		if err != nil {
			return err
		}
		c, out, err := g.start("-", in)
		if err != nil {
			return err
		}
		in.Close()
		if _, err := io.WriteString(w, strings.Join(g.read, "\n")+"\n"); err != nil {
			return errors.Join(err, g.ends(c, out, 143))
		}
		for n := 1; n > 0 && err == nil; time.Sleep(time.Millisecond) {
			n, err = unix.IoctlGetInt(int(w.Fd()), unix.TIOCINQ)
		}
		_ = c.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, g.ends(c, out, 143), g.same())
		w.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// address is a free one.
func address() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (g *aWay) sender() error {
	at := address()
	c, out, err := g.start("tcp-listen://"+at, nil)
	if err != nil {
		return err
	}
	for _, lines := range g.rounds {
		g.apply(g.way, lines)
		conn, err := net.Dial("tcp", at)
		for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); conn, err = net.Dial("tcp", at) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			return errors.Join(err, g.ends(c, out, 143))
		}
		var to io.WriteCloser = conn
		if g.pack {
			to = gzip.NewWriter(conn)
		}
		_, err = io.WriteString(to, strings.Join(lines, "\n")+"\n")
		to.Close()
		conn.Close()
		if err := errors.Join(err, g.becomes()); err != nil {
			_ = c.Process.Signal(syscall.SIGTERM)
			return errors.Join(err, g.ends(c, out, 143))
		}
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	return g.ends(c, out, 143)
}

// feed serves a feed that cannot be resumed. If the database goes back, the run ends and says so: lines are lost.
func (g *aWay) feed() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, out, err := g.start("tcp://"+l.Addr().String(), nil)
	if err != nil {
		return err
	}
	stop := time.AfterFunc(2*time.Minute, func() { l.Close(); _ = c.Process.Kill() })
	defer stop.Stop()
	for i, lines := range g.rounds {
		lost := i == len(g.rounds)-1 && g.then == "restored"
		if lost {
			if err := g.restore(); err != nil {
				return err
			}
			lines = lines[len(lines)-3:]
			_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second))
		}
		conn, err := l.Accept()
		if err != nil && lost { // a flush that was on its way has told
			_ = c.Process.Signal(syscall.SIGTERM)
			return g.ends(c, out, 1)
		}
		if err != nil {
			return errors.Join(err, g.ends(c, out, 143))
		}
		_, err = io.WriteString(conn, strings.Join(lines, "\n")+"\n")
		if lost {
			defer conn.Close()
			end := time.AfterFunc(10*time.Second, func() { _ = c.Process.Signal(syscall.SIGTERM) })
			defer end.Stop()
			return errors.Join(err, g.ends(c, out, 1))
		}
		g.apply(g.way, lines)
		if err = errors.Join(err, g.becomes()); err == nil && i == 0 && g.then == "restored" {
			err = g.save()
		}
		conn.Close()
		if err != nil {
			_ = c.Process.Signal(syscall.SIGTERM)
			return errors.Join(err, g.ends(c, out, 143))
		}
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	return g.ends(c, out, 143)
}
