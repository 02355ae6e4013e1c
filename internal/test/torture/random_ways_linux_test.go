package torture

import (
	"compress/gzip"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// TestRandomWays runs the program on small feeds from every kind of source: rotated and followed files in folders,
// stdin, senders, and feeds that disconnect and can or cannot be resumed. Lines are too long, foreign keys prevent
// deletes, signals come at any moment or after everything was read, tables are dropped, and databases are restored,
// during a run and between runs. The tables, the number of rejected lines, exit codes and memory must match a plain
// model.
func TestRandomWays(t *testing.T) {
	n := times(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var server *testpg.Server
			if kind == "postgres" { // few locks: not one per file of a folder
				server = testpg.Start(t, "max_locks_per_transaction=10", "max_connections=20")
			}
			sinktest.Seeds(t, 10*n, func(t *testing.T, rnd *rand.Rand) {
				w := drawWay(rnd)
				t.Cleanup(func() {
					if t.Failed() {
						t.Log(w)
					}
				})
				goes(t, server, w)
			})
		})
	}
}

// A way is how a feed arrives, and what happens meanwhile.
type way struct {
	// from is files, followed: files that grow and are rotated, in a folder that fills, stdin, sender, feed, or resumed:
	// a feed that sends what comes after a value.
	from    string
	rounds  [][]string // lines
	flags   []string
	maxLine int
	pack    bool          // streams are compressed
	empty   int           // number of files without lines
	rotated bool          // files are removed after they were read
	signal  string        // to a run: "", drained: after it has read everything that was sent; anytime
	moment  time.Duration // of a signal at any time
	breaks  int           // a feed that resumes ends the first connection of each round within the line after so many
	overlap bool          // a feed that resumes repeats the line with that value
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
	w := &way{from: pick(rnd, []string{"files", "files", "followed", "stdin", "sender", "feed", "resumed"}), maxLine: pick(rnd, []int{2 << 10, 20_000, 64_000, 1 << 20})}
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
	if w.from != "files" { // its batches are as large as memory allows
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
		add(`"flight":"F9","reg":"P9"}`) // so both tables exist
		add(`"plane":"P0","n":0}`)
		w.rounds = append(w.rounds, lines)
	}
	return w
}

// wayLine draws a plane, a plane's removal, or a flight that refers to a plane; some lines are too long.
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

// A wayModel applies lines to the two tables.
type wayModel struct {
	mappedModel
	lines   []string // that it has applied
	refused int
}

func newWayModel(m *mapping.Mapping) *wayModel {
	return &wayModel{mappedModel: mappedModel{Model: foldtest.NewModel(m, true)}}
}

func (m *wayModel) takes(w *way, lines ...string) {
	for _, l := range lines {
		m.lines = append(m.lines, l)
		if len(l) > w.maxLine {
			m.refused++
		} else if _, err := m.Apply(l, 0, 0); err != nil {
			m.refused++
		}
	}
}

// aWay is a way in progress.
type aWay struct {
	*testweir.Folder
	*way
	*wayModel
	mapping *mapping.Mapping
	server  *testpg.Server // nil for SQLite
	db      *sql.DB
}

func goes(t *testing.T, server *testpg.Server, w *way) {
	g := &aWay{Folder: testweir.New(t, "t.db"), server: server, way: w}
	if server != nil {
		g.To = server.Database(t)
	}
	g.Write("ways.yaml", waysFile)
	var err error
	g.mapping, err = mappingOf(g.Path("ways.yaml"))
	g.Check(err)
	g.wayModel = newWayModel(g.mapping)
	g.reopen()
	defer func() { g.db.Close() }()
	switch w.from {
	case "files":
		g.files()
	case "followed":
		g.followed()
	case "stdin":
		g.stdins()
	default:
		g.streams()
	}
}

// start starts a run.
func (g *aWay) start(source string, in *os.File, flags ...string) *testweir.Run {
	args := slices.Concat([]string{"sync", source, "--config", "ways.yaml", "--to", g.To, "-q"}, g.flags, flags)
	if in == nil {
		return g.Start(args...)
	}
	run := g.Command(append(args, "--job", "ways")...) // with a job, lines that were read before are skipped
	run.Stdin = in
	return run.Start()
}

// stops interrupts a run, and expects it to end accordingly.
func (g *aWay) stops(run *testweir.Run) {
	run.Signal(syscall.SIGTERM)
	g.ends(run, 143)
}

// ends checks the exit code of a run, and its peak memory.
func (g *aWay) ends(run *testweir.Run, want ...int) {
	g.Helper()
	defer time.AfterFunc(testcheck.Patience, run.Kill).Stop()
	const most = (8*3/2 + 64 + 16) << 20 // the buffer, the rest of weir, and what the tests' own program adds
	if used := run.Peak(); used > most {
		g.Fatalf("the run took %d bytes, and may take %d", used, most)
	}
	if code := run.Wait(); !slices.Contains(want, code) {
		g.Fatalf("the run ended with %d, not %v\n%s", code, want, run.Log())
	}
}

// differs returns a difference between the database and the model, "" if there is none.
func (g *aWay) differs() string {
	var faults []string
	for i := range g.mapping.Tables {
		t := &g.mapping.Tables[i]
		rows, _ := rowsOf(g.db, g.server != nil, t.Name) // the table may not exist
		faults = append(faults, g.differences(t, rows)...)
	}
	refused := 0
	_ = g.db.QueryRow("SELECT count(*) FROM weir_rejects").Scan(&refused)
	if refused != g.refused {
		faults = append(faults, fmt.Sprintf("%d lines are rejected, and should be %d", refused, g.refused))
	}
	text := strings.Join(faults, "\n")
	return text[:min(len(text), 4000)]
}

func (g *aWay) same() {
	g.Helper()
	if why := g.differs(); why != "" {
		g.Fatal(why)
	}
}

// becomes waits until the database equals the model.
func (g *aWay) becomes() {
	g.Helper()
	testcheck.Until(g, g.differs)
}

// follows applies lines to the model until it equals the database, which has some of them, from the first on.
func (g *aWay) follows(lines []string) (n int) {
	g.Helper()
	for ; g.differs() != ""; n++ {
		if n == len(lines) {
			g.same()
		}
		g.takes(g.way, lines[n])
	}
	return n
}

// keep copies the database while no run has it open, and putBack replaces the database with the copy.
func (g *aWay) keep() {
	if g.server == nil {
		g.Exec("VACUUM INTO '" + g.Path("kept.db") + "'")
		return
	}
	g.db.Close() // a template must have no connections
	g.admin("CREATE DATABASE kept_" + g.name() + " TEMPLATE " + g.name())
	g.reopen()
}

func (g *aWay) putBack() {
	g.db.Close()
	defer g.reopen()
	if g.server != nil {
		g.admin("DROP DATABASE "+g.name()+" WITH (FORCE)", "ALTER DATABASE kept_"+g.name()+" RENAME TO "+g.name())
		return
	}
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(g.Path(g.To + end)) // if there is one
	}
	g.Check(os.Rename(g.Path("kept.db"), g.Path(g.To)))
}

func (g *aWay) reopen() { g.db = g.Open(g.To, "rwc") }

// admin runs statements in another database of the server.
func (g *aWay) admin(statements ...string) { g.With(g.server.URL("postgres")).Exec(statements...) }

// name returns the name of the Postgres database.
func (g *aWay) name() string { return strings.TrimPrefix(must(url.Parse(g.To)).Path, "/") }

// save and restore restore tables and checkpoints to an earlier state under a run.
func (g *aWay) save() {
	for _, t := range []string{"planes", "flights", "weir_checkpoints", "weir_rejects"} {
		g.Exec("CREATE TABLE kept_" + t + " AS SELECT * FROM " + t)
	}
}

func (g *aWay) restore() {
	var all []string
	values := ""
	if g.server != nil { // a flush may be in progress
		all, values = append(all, "LOCK TABLE planes, flights, weir_rejects, weir_checkpoints"), " OVERRIDING SYSTEM VALUE"
	}
	all = append(all, "DELETE FROM flights", "DELETE FROM planes", "DELETE FROM weir_rejects", "DELETE FROM weir_checkpoints",
		"INSERT INTO planes SELECT * FROM kept_planes", "INSERT INTO flights SELECT * FROM kept_flights", "INSERT INTO weir_checkpoints SELECT * FROM kept_weir_checkpoints", "INSERT INTO weir_rejects"+values+" SELECT * FROM kept_weir_rejects")
	tx, err := g.db.Begin()
	g.Check(err)
	for _, s := range all {
		_, e := tx.Exec(s)
		err = errors.Join(err, e)
	}
	g.Check(errors.Join(err, tx.Commit()))
}

func (g *aWay) files() {
	for i := range g.empty {
		g.Write(fmt.Sprintf("f9-%04d.jsonl", i), "")
	}
	var kept []string
	for i, lines := range g.rounds {
		for k, part := range slices.Collect(slices.Chunk(lines, 1+len(lines)/4)) {
			g.Write(fmt.Sprintf("f%d-%d.jsonl", i, k), strings.Join(part, "\n")+"\n")
		}
		switch last := i == len(g.rounds)-1; {
		case last && g.then == "dropped":
			g.Exec("DROP TABLE flights")
			g.ends(g.start("f*.jsonl", nil), 1)
			return
		case last && g.then == "restored":
			if g.putBack(); g.rotated { // the lines between are lost
				g.wayModel = newWayModel(g.mapping)
				g.takes(g.way, kept...)
			}
		}
		g.takes(g.way, lines...)
		if g.signal != "" {
			run := g.start("f*.jsonl", nil)
			time.Sleep(g.moment)
			run.Signal(syscall.SIGTERM)
			g.ends(run, 0, 3, 143, -1)
		}
		g.ends(g.start("f*.jsonl", nil), 0, 3)
		if g.same(); i == 0 && g.then == "restored" {
			kept = slices.Clone(g.lines)
			g.keep()
		}
		if g.rotated {
			for _, name := range must(filepath.Glob(g.Path("f[0-8]-*"))) {
				os.Remove(name)
			}
		}
	}
}

// followed follows a folder. In each round a file is added, grows, and is rotated while its program still writes to it.
// The run ends then, and the next one reads what it had not reached.
func (g *aWay) followed() {
	add := func(name string, lines []string) {
		f := must(os.OpenFile(g.Path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
		_, err := io.WriteString(f, strings.Join(lines, "\n")+"\n")
		g.Check(errors.Join(err, f.Close()))
	}
	for i, lines := range g.rounds {
		parts := split(lines, 4)
		name := fmt.Sprintf("f%d.jsonl", i)
		add(name, parts[0])
		run := g.start("f*.jsonl", nil, "--follow", "--rotate-wait", "1h")
		g.takes(g.way, parts[0]...)
		g.becomes()
		if i == 0 { // a file appears while the run lives
			name = "f-new.jsonl"
			parts[1] = append([]string{`{"t":0,"plane":"P0","n":1}`}, parts[1]...) // if all lines of a source are rejected, the next run reads it again
		}
		add(name, parts[1])
		g.takes(g.way, parts[1]...)
		g.becomes()
		g.Check(os.Rename(g.Path(name), g.Path(name+".1")))
		add(name, parts[3])
		add(name+".1", parts[2])
		g.takes(g.way, parts[2]...)
		g.becomes()
		if g.signal == "anytime" {
			run.Kill()
		} else {
			g.stops(run)
		}
		run = g.start("f*.jsonl", nil, "--follow", "--rotate-wait", "10ms")
		g.takes(g.way, parts[3]...)
		g.becomes()
		run.Signal(syscall.SIGTERM)
		g.ends(run, 143, -1) // if the lines changed nothing, it may not handle signals yet
	}
}

func must[T any](v T, _ error) T { return v }

// stdins pipes the feed from its start to each run, and interrupts the run: the lines that it has taken from the pipe
// are written, and the next run skips them.
func (g *aWay) stdins() {
	feed, applied := "", 0 // number of bytes whose lines the model has
	for i, lines := range g.rounds {
		last := i == len(g.rounds)-1
		if last && g.then == "restored" {
			g.putBack()
		}
		feed += strings.Join(lines, "\n") + "\n"
		in, w, err := os.Pipe()
		g.Check(err)
		run := g.start("-", in)
		wrote := make(chan int)
		_ = w.SetWriteDeadline(time.Now().Add(testcheck.Patience))
		go func() { n, _ := io.WriteString(w, feed); wrote <- n }()
		n := 0
		if g.signal == "anytime" && !last { // the run may not handle signals yet
			time.Sleep(g.moment)
			run.Signal(syscall.SIGTERM)
			g.ends(run, 143, -1)
			_ = w.SetWriteDeadline(time.Now())
			n = <-wrote
		} else {
			n = <-wrote
			g.Until("all is read", func() bool { return inPipe(in) == 0 })
			g.stops(run)
		}
		read := n - inPipe(in)
		in.Close()
		w.Close()
		if whole := strings.LastIndexByte(feed[:read], '\n') + 1; whole > applied {
			g.takes(g.way, strings.Split(feed[applied:whole-1], "\n")...)
			applied = whole
		}
		if g.same(); i == 0 && g.then == "restored" {
			g.keep()
		}
	}
}

// inPipe returns the number of bytes that are still in the pipe.
func inPipe(f *os.File) int { return must(unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)) }

// A wayStream is a run that reads from connections.
type wayStream struct {
	*aWay
	run  *testweir.Run
	from string
	l    *net.TCPListener // of a feed
	conn net.Conn
	pack *gzip.Writer // nil without compression
}

// streams sends each round over a separate connection.
func (g *aWay) streams() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Check(err)
	defer l.Close()
	s := &wayStream{aWay: g, from: "tcp://" + l.Addr().String(), l: l.(*net.TCPListener)}
	if g.from == "sender" {
		l.Close() // the run listens there
		s.from = "tcp-listen://" + l.Addr().String()
	}
	defer func() { s.close() }()
	s.run = g.start(s.from, nil)
	var sent []string
	for i, lines := range g.rounds {
		sent = append(sent, lines...)
		if g.then == "restored" && i == len(g.rounds)-1 {
			if g.restore(); g.from != "resumed" {
				s.loses(lines[len(lines)-3:])
				return
			}
		}
		if i == 1 && g.signal != "" {
			if n := s.interrupt(sent[:len(sent)-len(lines)], lines[:len(lines)/2]); g.from == "resumed" {
				lines = lines[n:]
			}
		}
		if g.takes(g.way, lines...); g.from == "resumed" {
			s.resumes(sent)
		} else {
			g.Check(errors.Join(s.connect(), s.send(lines)))
		}
		if g.from == "sender" {
			s.close()
		}
		if g.becomes(); i == 0 && g.then == "restored" {
			g.save()
		}
		s.close()
	}
	g.stops(s.run)
}

// interrupt interrupts the run after some lines, and starts another one. It returns the number of lines that the
// model has applied.
func (s *wayStream) interrupt(before, lines []string) (n int) {
	if s.way.from == "resumed" {
		_, err := s.serve(slices.Concat(before, lines), testcheck.Patience, 0)
		s.Check(err)
	} else {
		s.Check(errors.Join(s.connect(), s.send(lines)))
	}
	if s.signal == "drained" {
		s.Until("all is read", s.drained)
	} else {
		time.Sleep(s.moment / 8)
	}
	s.stops(s.run)
	if s.close(); s.signal == "drained" {
		n = len(lines)
		s.takes(s.way, lines...)
		s.same()
	} else {
		n = s.follows(lines)
	}
	s.run = s.start(s.from, nil)
	return n
}

// resumes serves a feed to connections that request what comes after a value, until the database has all of it.
func (s *wayStream) resumes(sent []string) {
	breaks := s.breaks
	s.Until("all is in the database", func() bool {
		served, err := s.serve(sent, 10*time.Millisecond, breaks)
		if served && err == nil {
			breaks = 0
		}
		return s.differs() == ""
	})
}

// serve serves the next connection, if there is one, with the lines after the value that it requests. After breaks
// lines, 0 for all, the connection breaks within a line.
func (s *wayStream) serve(sent []string, patience time.Duration, breaks int) (served bool, err error) {
	_ = s.l.SetDeadline(time.Now().Add(patience))
	if err := s.connect(); err != nil {
		return false, err
	}
	after := 0
	if _, err := fmt.Fscanf(s.conn, "from %d\n", &after); err != nil && err.Error() != "unexpected newline" {
		return true, err
	}
	if s.overlap && after > 0 && !strings.Contains(sent[after-1], `"op"`) { // a rejected delete may be kept twice
		after--
	}
	if sent = sent[after:]; breaks == 0 || breaks >= len(sent) {
		return true, s.send(sent)
	}
	err = s.send(sent[:breaks])
	_ = s.write(sent[breaks][:len(sent[breaks])/2])
	_ = s.conn.(*net.TCPConn).SetLinger(0)
	s.conn.Close()
	return true, err
}

// connect waits for the next connection.
func (s *wayStream) connect() (err error) {
	if s.close(); s.way.from == "sender" {
		s.Until("a connection", func() bool { s.conn, err = net.Dial("tcp", s.l.Addr().String()); return err == nil || s.run.Ended() })
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

// send sends lines, as far as the run reads them.
func (s *wayStream) send(lines []string) error { return s.write(strings.Join(lines, "\n") + "\n") }

func (s *wayStream) write(text string) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(testcheck.Patience))
	if s.pack == nil {
		_, err := io.WriteString(s.conn, text)
		return err
	}
	_, err := io.WriteString(s.pack, text)
	return errors.Join(err, s.pack.Flush())
}

// drained reports whether the run has read everything that was sent.
func (s *wayStream) drained() bool {
	port := fmt.Sprintf(":%04X", s.l.Addr().(*net.TCPAddr).Port)
	for line := range strings.Lines(string(must(os.ReadFile("/proc/net/tcp")))) {
		if f := strings.Fields(line); (strings.HasSuffix(f[1], port) || strings.HasSuffix(f[2], port)) && f[4] != "00000000:00000000" {
			return false
		}
	}
	return true
}

// loses expects a run to end with an error if the database was restored to an earlier state and what it read cannot
// be read again. If a flush in progress has reported that already, the run does not connect again.
func (s *wayStream) loses(lines []string) {
	for !s.run.Ended() {
		_ = s.l.SetDeadline(time.Now().Add(100 * time.Millisecond))
		if s.connect() == nil {
			_ = s.send(lines)
			break
		}
	}
	s.ends(s.run, 1)
}
