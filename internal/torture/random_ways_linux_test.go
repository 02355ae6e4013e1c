package torture

import (
	"compress/gzip"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
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

// TestRandomWays runs the program on small feeds that come in every way: as folders of files that are rotated, on
// stdin, from senders, from a feed that breaks and that can be resumed or not. Lines are too long, references keep
// rows from being deleted, signals come at any moment and when all that was sent was read, tables are dropped,
// databases are restored, under a run and between runs. The tables, the number of rejected lines, exit codes and
// memory must be those of a plain model.
func TestRandomWays(t *testing.T) {
	n := times(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kind)
			if kind == "postgres" { // few locks: none is held for each file of a folder
				b.server = testpg.Start(t, "max_locks_per_transaction=10", "max_connections=20")
				b.url = b.server.URL("postgres")
				b.open(t)
			}
			sinktest.Seeds(t, uint64(10*n), func(t *testing.T, rnd *rand.Rand) {
				w := drawWay(rnd)
				if err := b.goes(t, w); err != nil {
					t.Fatalf("%v\n%v", err, w)
				}
			})
		})
	}
}

// A way is how a feed comes, and what happens meanwhile.
type way struct {
	from    string     // files, stdin, sender, feed, resumed: a feed that sends what comes after a value
	rounds  [][]string // lines
	flags   []string
	maxLine int
	pack    bool          // a stream is compressed
	empty   int           // files without lines
	rotated bool          // files are removed when they were read
	signal  string        // to a run: "", drained: when it has read all that was sent; anytime
	moment  time.Duration // of a signal at any time
	breaks  int           // a feed that resumes ends the first connection of each round in the line after so many
	overlap bool          // a feed that resumes sends the line with that value again
	then    string        // before the last round: "", dropped, restored
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
	w := &way{from: pick(rnd, []string{"files", "files", "stdin", "sender", "feed", "resumed"}), maxLine: pick(rnd, []int{2 << 10, 20_000, 64_000, 1 << 20})}
	w.flags = []string{"--batch-rows", pick(rnd, []string{"1", "2", "7", "100000"}), "--max-line", fmt.Sprint(w.maxLine), "--buffer", "8MiB", "--synchronous", "off", "--retry-for", "5s"}
	w.pack, w.rotated, w.overlap = rnd.IntN(2) == 0, rnd.IntN(2) == 0, rnd.IntN(3) == 0
	w.signal, w.moment = pick(rnd, []string{"", "", "drained", "anytime"}), time.Duration(rnd.IntN(150))*time.Millisecond
	if w.then = pick(rnd, []string{"", "restored"}); w.from == "files" && rnd.IntN(3) == 0 {
		w.then = "dropped"
	}
	if w.from == "resumed" {
		w.flags = append(w.flags, "--init", "from {{.resume}}", "--resume-field", "t")
		w.breaks = rnd.IntN(30)
	}
	if w.from != "files" { // whose batches are as large as memory allows
		w.flags = append(w.flags, "--batch-period", "20ms")
	} else if rnd.IntN(4) == 0 {
		w.empty = 1500
	}
	many, t := rnd.IntN(8) == 0 && w.maxLine < 1<<20, 0
	for range 3 {
		var lines []string
		add := func(format string, args ...any) {
			t++
			lines = append(lines, fmt.Sprintf(`{"t":%d,`, t)+fmt.Sprintf(format, args...))
		}
		for range 5 + rnd.IntN(60) {
			add("%s", wayLine(rnd, w.maxLine))
		}
		if many {
			for range 1500 {
				add(`"plane":"P1","s":"%s"}`, strings.Repeat("x", 70_000))
			}
			many = false
		}
		add(`"flight":"F9","reg":"P9"}`) // so there are both tables
		add(`"plane":"P0","n":0}`)
		w.rounds = append(w.rounds, lines)
	}
	return w
}

// wayLine is a plane, its removal, or a flight that names it; some are too long.
func wayLine(rnd *rand.Rand, maxLine int) string {
	plane := rnd.IntN(6)
	switch rnd.IntN(8) {
	case 0, 1:
		return fmt.Sprintf(`"plane":"P%d","op":"D"}`, plane)
	case 2:
		return fmt.Sprintf(`"flight":"F%d","reg":"P%d"}`, rnd.IntN(6), plane)
	case 3:
		return fmt.Sprintf(`"plane":"P%d","s":"%s"}`, plane, strings.Repeat("x", rnd.IntN(min(3*maxLine, 100_000))))
	}
	return fmt.Sprintf(`"plane":"P%d","n":%d}`, plane, rnd.IntN(1000))
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

func newWayModel() *wayModel { return &wayModel{map[string]string{}, map[string]string{}, 0} }

func (m *wayModel) takes(w *way, lines ...string) {
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
	*wayModel
	db *sql.DB
}

func (b *bench) goes(t *testing.T, w *way) (err error) {
	g := &aWay{running: &running{bench: b, randomCase: &randomCase{postgres: b.server != nil}, dir: t.TempDir(), to: "t.db"}, way: w, wayModel: newWayModel()}
	if g.postgres {
		g.to = b.server.Database(t)
	}
	if err := os.WriteFile(filepath.Join(g.dir, "ways.yaml"), []byte(waysFile), 0o600); err != nil {
		return err
	}
	if g.db, err = g.open(); err != nil {
		return err
	}
	defer func() { g.db.Close() }()
	switch w.from {
	case "files":
		return g.files()
	case "stdin":
		return g.stdins()
	}
	return g.streams()
}

// A wayRun is a run of the program.
type wayRun struct {
	*exec.Cmd
	out fmt.Stringer
}

// start starts a run.
func (g *aWay) start(source string, in *os.File) (wayRun, error) {
	c, out := g.command(append([]string{"sync", source, "--config", "ways.yaml", "--to", g.to, "-q"}, g.flags...)...)
	if in != nil { // with a job, lines that were read before are skipped
		c.Stdin, c.Args = in, append(c.Args, "--job", "ways")
	}
	return wayRun{c, out}, c.Start()
}

// stops interrupts a run and demands that it end as it should.
func (g *aWay) stops(run wayRun) error {
	_ = run.Process.Signal(syscall.SIGTERM)
	return g.ends(run, 143)
}

// ends demands the exit code of a run, and that its memory was bounded.
func (g *aWay) ends(c wayRun, want ...int) error {
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
		return fmt.Errorf("the run ended with %d, not %v\n%s", code, want, c.out)
	}
	return nil
}

// differs tells how the database differs from the model, "" for not at all.
func (g *aWay) differs() string {
	have := newWayModel()
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
	return fmt.Sprintf("the database has\n%v\nand should have\n%v", *have, *g.wayModel)
}

func (g *aWay) same() error {
	if why := g.differs(); why != "" {
		return errors.New(why)
	}
	return nil
}

// becomes waits until the database is as the model says.
func (g *aWay) becomes() error {
	_ = until(func() bool { return g.differs() == "" })
	return g.same()
}

// follows has the model take lines until the database is as it says: it has a part of them, from the first on.
func (g *aWay) follows(lines []string) (n int, err error) {
	for ; g.differs() != ""; n++ {
		if n == len(lines) {
			return n, fmt.Errorf("the lines of a run that was interrupted: %w", g.same())
		}
		g.takes(g.way, lines[n])
	}
	return n, nil
}

// keep makes a copy of the database while no run has it open, and putBack has it take the database's place.
func (g *aWay) keep() error {
	if !g.postgres {
		_, err := g.db.Exec("VACUUM INTO ?", filepath.Join(g.dir, "kept.db"))
		return err
	}
	g.db.Close() // a template has no connections
	_, err := g.bench.db.Exec("CREATE DATABASE kept_" + g.name() + " TEMPLATE " + g.name())
	return errors.Join(err, g.reopen())
}

func (g *aWay) putBack() (err error) {
	g.db.Close()
	if g.postgres {
		for _, s := range []string{"DROP DATABASE " + g.name() + " WITH (FORCE)", "ALTER DATABASE kept_" + g.name() + " RENAME TO " + g.name()} {
			_, e := g.bench.db.Exec(s)
			err = errors.Join(err, e)
		}
		return errors.Join(err, g.reopen())
	}
	at := filepath.Join(g.dir, g.to)
	for _, end := range []string{"-wal", "-shm"} {
		if e := os.Remove(at + end); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, os.Rename(filepath.Join(g.dir, "kept.db"), at), g.reopen())
}

func (g *aWay) reopen() (err error) {
	g.db, err = g.open()
	return err
}

// name is the Postgres database's.
func (g *aWay) name() string { return strings.TrimPrefix(must(url.Parse(g.to)).Path, "/") }

// save and restore have the tables and checkpoints go back under a run.
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
	kept := newWayModel()
	for i, lines := range g.rounds {
		for k, part := range slices.Collect(slices.Chunk(lines, 1+len(lines)/4)) {
			if err := os.WriteFile(filepath.Join(g.dir, fmt.Sprintf("f%d-%d.jsonl", i, k)), []byte(strings.Join(part, "\n")+"\n"), 0o600); err != nil {
				return err
			}
		}
		switch last := i == len(g.rounds)-1; {
		case last && g.then == "dropped":
			_, err := g.db.Exec("DROP TABLE flights")
			run, e := g.start("f*.jsonl", nil)
			return errors.Join(err, e, g.ends(run, 1))
		case last && g.then == "restored":
			if err := g.putBack(); err != nil {
				return err
			}
			if g.rotated { // nobody has the lines between
				g.wayModel = kept
			}
		}
		g.takes(g.way, lines...)
		if g.signal != "" {
			run, err := g.start("f*.jsonl", nil)
			time.Sleep(g.moment)
			_ = run.Process.Signal(syscall.SIGTERM)
			if err := errors.Join(err, g.ends(run, 0, 3, 143, -1)); err != nil {
				return err
			}
		}
		run, err := g.start("f*.jsonl", nil)
		if err := errors.Join(err, g.ends(run, 0, 3), g.same()); err != nil {
			return err
		}
		if i == 0 && g.then == "restored" {
			kept = &wayModel{maps.Clone(g.planes), maps.Clone(g.flights), g.refused}
			if err := g.keep(); err != nil {
				return err
			}
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

// stdins pipes the feed from its start to each run, and interrupts it: the lines that it has taken out of the pipe
// are written, and the next run skips them.
func (g *aWay) stdins() error {
	feed, applied := "", 0 // bytes of it whose lines the model has
	for i, lines := range g.rounds {
		last := i == len(g.rounds)-1
		if last && g.then == "restored" {
			if err := g.putBack(); err != nil {
				return err
			}
		}
		feed += strings.Join(lines, "\n") + "\n"
		in, w, err := os.Pipe()
		if err != nil {
			return err
		}
		run, err := g.start("-", in)
		if err != nil {
			return err
		}
		wrote := make(chan int)
		_ = w.SetWriteDeadline(time.Now().Add(time.Minute))
		go func() { n, _ := io.WriteString(w, feed); wrote <- n }()
		n := 0
		if anytime := g.signal == "anytime" && !last; anytime {
			time.Sleep(g.moment)
			err = g.interrupted(run)
			_ = w.SetWriteDeadline(time.Now())
			n = <-wrote
		} else {
			n = <-wrote
			err = errors.Join(until(func() bool { return inPipe(in) == 0 }), g.stops(run))
		}
		read := n - inPipe(in)
		in.Close()
		w.Close()
		if whole := strings.LastIndexByte(feed[:read], '\n') + 1; whole > applied {
			g.takes(g.way, strings.Split(feed[applied:whole-1], "\n")...)
			applied = whole
		}
		if err = errors.Join(err, g.same()); err == nil && i == 0 && g.then == "restored" {
			err = g.keep()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// interrupted interrupts a run that may not have begun to listen to signals.
func (g *aWay) interrupted(run wayRun) error {
	_ = run.Process.Signal(syscall.SIGTERM)
	return g.ends(run, 143, -1)
}

// inPipe is how many bytes nobody has read yet.
func inPipe(f *os.File) int { return must(unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)) }

// until waits for a condition.
func until(holds func() bool) error {
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("waited for too long")
		}
	}
	return nil
}

// A wayStream is a run that reads what is sent by connections.
type wayStream struct {
	*aWay
	run  wayRun
	from string
	l    *net.TCPListener // of a feed
	conn net.Conn
	pack *gzip.Writer // nil where nothing is compressed
}

// streams sends each round by a connection of its own.
func (g *aWay) streams() (err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	s := &wayStream{aWay: g, from: "tcp://" + l.Addr().String(), l: l.(*net.TCPListener)}
	if g.from == "sender" {
		l.Close() // the run listens there
		s.from = "tcp-listen://" + l.Addr().String()
	}
	defer func() { s.close() }()
	if s.run, err = g.start(s.from, nil); err != nil {
		return err
	}
	var sent []string
	for i := 0; i < len(g.rounds) && err == nil; i++ {
		lines := g.rounds[i]
		sent = append(sent, lines...)
		if g.then == "restored" && i == len(g.rounds)-1 {
			if err = g.restore(); err == nil && g.from != "resumed" {
				return s.loses(lines[len(lines)-3:])
			}
		}
		if i == 1 && g.signal != "" && err == nil {
			var n int
			if n, err = s.interrupt(sent[:len(sent)-len(lines)], lines[:len(lines)/2]); g.from == "resumed" {
				lines = lines[n:]
			}
		}
		g.takes(g.way, lines...)
		if g.from == "resumed" {
			err = errors.Join(err, s.resumes(sent))
		} else {
			err = errors.Join(err, s.connect(), s.send(lines))
		}
		if g.from == "sender" {
			s.close()
		}
		if err = errors.Join(err, g.becomes()); err == nil && i == 0 && g.then == "restored" {
			err = g.save()
		}
		s.close()
	}
	return errors.Join(err, g.stops(s.run))
}

// interrupt interrupts the run after some lines and begins another one. It returns how many the model has taken.
func (s *wayStream) interrupt(before, lines []string) (n int, err error) {
	if s.way.from == "resumed" {
		_, err = s.serve(slices.Concat(before, lines), 20*time.Second, 0)
	} else {
		err = errors.Join(s.connect(), s.send(lines))
	}
	if s.signal == "drained" {
		err = errors.Join(err, until(s.drained))
	} else {
		time.Sleep(s.moment / 8)
	}
	if err = errors.Join(err, s.stops(s.run)); err != nil {
		return 0, err
	}
	s.close()
	if s.signal == "drained" {
		n = len(lines)
		s.takes(s.way, lines...)
		err = s.same()
	} else {
		n, err = s.follows(lines)
	}
	if err == nil {
		s.run, err = s.start(s.from, nil)
	}
	return n, err
}

// resumes serves a feed, until the database has all of it, to connections that ask for what comes after a value.
func (s *wayStream) resumes(sent []string) error {
	breaks := s.breaks
	return until(func() bool {
		served, err := s.serve(sent, 10*time.Millisecond, breaks)
		if served && err == nil {
			breaks = 0
		}
		return s.differs() == ""
	})
}

// serve serves a connection, if one comes, lines after the value that it asks for; after some of them, 0 for all, the
// connection breaks within a line.
func (s *wayStream) serve(sent []string, patience time.Duration, breaks int) (served bool, err error) {
	_ = s.l.SetDeadline(time.Now().Add(patience))
	if err := s.connect(); err != nil {
		return false, err
	}
	after := 0
	if _, err := fmt.Fscanf(s.conn, "from %d\n", &after); err != nil && err.Error() != "unexpected newline" {
		return true, err
	}
	if s.overlap && after > 0 && !strings.Contains(sent[after-1], `"op"`) { // a delete that was refused may be kept twice
		after--
	}
	if sent = sent[after:]; breaks == 0 || breaks >= len(sent) {
		return true, s.send(sent)
	}
	err = s.send(sent[:breaks])
	s.write(sent[breaks][:len(sent[breaks])/2])
	_ = s.conn.(*net.TCPConn).SetLinger(0)
	s.conn.Close()
	return true, err
}

// connect has the next connection.
func (s *wayStream) connect() (err error) {
	s.close()
	if s.way.from == "sender" {
		err = until(func() bool { s.conn, err = net.Dial("tcp", s.l.Addr().String()); return err == nil })
	} else {
		s.conn, err = s.l.Accept()
	}
	if s.pack = nil; err == nil && s.way.pack {
		s.pack = gzip.NewWriter(s.conn)
	}
	return err
}

func (s *wayStream) close() {
	if s.conn == nil {
		return
	}
	if s.pack != nil {
		s.pack.Close()
	}
	s.conn.Close()
	s.conn = nil
}

// send sends lines, as far as the run takes them.
func (s *wayStream) send(lines []string) error {
	return s.write(strings.Join(lines, "\n") + "\n")
}

func (s *wayStream) write(text string) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(time.Minute))
	if s.pack == nil {
		_, err := io.WriteString(s.conn, text)
		return err
	}
	_, err := io.WriteString(s.pack, text)
	return errors.Join(err, s.pack.Flush())
}

// drained reports whether the run has read all that was sent.
func (s *wayStream) drained() bool {
	port := fmt.Sprintf(":%04X", s.l.Addr().(*net.TCPAddr).Port)
	for line := range strings.Lines(string(must(os.ReadFile("/proc/net/tcp")))) {
		if f := strings.Fields(line); (strings.HasSuffix(f[1], port) || strings.HasSuffix(f[2], port)) && f[4] != "00000000:00000000" {
			return false
		}
	}
	return true
}

// loses demands that a run end, and say so, if the database went back and what it read cannot be read again.
func (s *wayStream) loses(lines []string) error {
	_ = s.l.SetDeadline(time.Now().Add(10 * time.Second))
	if s.connect() == nil { // else a flush that was on its way has told
		_ = s.send(lines)
	}
	end := time.AfterFunc(10*time.Second, func() { _ = s.run.Process.Signal(syscall.SIGTERM) })
	defer end.Stop()
	return s.ends(s.run, 1)
}
