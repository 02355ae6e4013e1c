package ladder

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
)

// Config is what the ladder measures: the same messages written in seven ways, from a transaction per message to
// weir, and more of them by weir with several settings.
type Config struct {
	Source   string      // as on the command line; "" for a generated feed of flights with the key id
	Kind     source.Kind // of the source
	Key      string      // the key field
	Messages int         // maximum number of messages to read
	// For is the maximum duration of the first rung. What it has written by then is the work of all rungs.
	For time.Duration
	// Runs is the number of runs of each rung and setting.
	Runs int
	// Lag is the maximum age of the table for the advice.
	Lag time.Duration
	// Unsafe allows advice with a setting that can lose commits in a power cut.
	Unsafe bool
	// Log reports what is measured next.
	Log *slog.Logger
}

// A Result is the result of a measurement.
type Result struct {
	Database string    `json:"database"`
	Feed     string    `json:"feed"`
	Runs     int       `json:"runs"`
	Messages int       `json:"messages"` // used for the settings
	Work     int       `json:"messages_of_rungs"`
	IDs      int       `json:"ids"`
	Columns  int       `json:"columns"`
	Rungs    []Rung    `json:"rungs"`
	Sweep    []Setting `json:"sweep"`
	Advice   *Setting  `json:"advice"` // nil if no setting meets the requirements
	Wanted   string    `json:"wanted"`
}

// A Rung is one way to write the messages.
type Rung struct {
	Name    string     `json:"name"`
	Level   sink.Level `json:"synchronous"`
	Lost    string     `json:"lost_in_a_power_cut"`
	Speedup float64    `json:"speedup"` // relative to the first rung
	Cost
}

// A Setting is weir with one batch period and one level.
type Setting struct {
	Level   sink.Level    `json:"synchronous"`
	Period  time.Duration `json:"batch_period_ns"`
	Flushes int           `json:"flushes"` // in all runs
	Longest time.Duration `json:"longest_flush_ns"`
	Lag     time.Duration `json:"lag_ns"` // maximum: a period and the flush after it
	Lost    string        `json:"lost_in_a_power_cut"`
	Cost
}

// Run measures the ladder in db, and leaves db unchanged.
func Run(ctx context.Context, c Config, db Database) (r *Result, err error) {
	place, err := NewPlace(os.TempDir(), PlacePrefix, c.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.Remove()) }()
	feed := cmp.Or(c.Source, "a generated feed of flights")
	if c.Source == "" {
		c.Source, c.Kind = filepath.Join(place.Dir, "flights.jsonl"), file.Kind(file.Options{})
		if err := writeFlights(c.Source, c.Messages); err != nil {
			return nil, err
		}
	}
	s, err := c.sample(ctx, filepath.Join(place.Dir, "feed.jsonl"))
	if err != nil {
		return nil, err
	}
	r = &Result{Feed: feed, Runs: c.Runs, Messages: s.messages, IDs: s.ids, Columns: len(s.names), Wanted: c.wanted()}
	err = Within(ctx, db, c.Log, func(string) error {
		r.Database = db.Name()
		if err := c.climb(ctx, db, s, r); err != nil {
			return err
		}
		return c.sweep(ctx, db, s, r)
	})
	if err != nil {
		return nil, err
	}
	r.Advice = c.advise(r.Sweep)
	return r, nil
}

// climb runs the rungs in turns. The first run of the first rung decides how many messages all others write.
func (c *Config) climb(ctx context.Context, db Database, s *sample, r *Result) error {
	runs := make([][]Timing, len(ways)+1)
	work := *s
	for turn := range c.Runs {
		for i, way := range ways {
			c.Log.Info(fmt.Sprintf("%s (%d of %d)", way.name, turn+1, c.Runs))
			var limit time.Duration
			if turn == 0 && i == 0 {
				limit = c.For
			}
			written, one, err := c.measure(ctx, db, &work, way, limit)
			if err != nil {
				// database/sql reports only that the transaction is over after ctx has ended it.
				return fmt.Errorf("%s: %w", way.name, cmp.Or(ctx.Err(), err))
			}
			runs[i] = append(runs[i], one)
			if limit > 0 {
				if work, err = s.first(written); err != nil {
					return err
				}
			}
		}
		c.Log.Info(fmt.Sprintf("weir (%d of %d)", turn+1, c.Runs))
		set, err := c.weir(ctx, db, &work, sink.Full, 0)
		if err != nil {
			return err
		}
		runs[len(ways)] = append(runs[len(ways)], set.Timing)
	}
	r.Work = work.messages
	for i, way := range ways {
		rung := Rung{Name: way.name, Level: way.level, Lost: way.lost, Cost: CostOf(runs[i])}
		if !way.all {
			rung.Lost += db.Lost(way.level)
		}
		r.Rungs = append(r.Rungs, rung)
	}
	r.Rungs = append(r.Rungs, Rung{Name: "weir", Level: sink.Full, Lost: db.Lost(sink.Full), Cost: CostOf(runs[len(ways)])})
	for i := range r.Rungs {
		r.Rungs[i].Speedup = r.Rungs[i].Rate.Median / r.Rungs[0].Rate.Median
	}
	return nil
}

// sweep runs weir with all settings, in turns.
func (c *Config) sweep(ctx context.Context, db Database, s *sample, r *Result) error {
	for _, level := range levels {
		for _, period := range periods {
			r.Sweep = append(r.Sweep, Setting{Level: level, Period: period, Lost: db.Lost(level)})
		}
	}
	runs := make([][]Timing, len(r.Sweep))
	for turn := range c.Runs {
		for i := range r.Sweep {
			set := &r.Sweep[i]
			c.Log.Info(fmt.Sprintf("weir, synchronous %s, batch period %s (%d of %d)", set.Level, set.Period, turn+1, c.Runs))
			one, err := c.weir(ctx, db, s, set.Level, set.Period)
			if err != nil {
				return err
			}
			runs[i] = append(runs[i], one.Timing)
			set.Flushes, set.Longest = set.Flushes+one.flushes, max(set.Longest, one.longest)
		}
	}
	for i := range r.Sweep {
		set := &r.Sweep[i]
		set.Cost, set.Lag = CostOf(runs[i]), set.Period+set.Longest
		if set.Level == sink.Normal && set.Lost != db.Lost(sink.Full) {
			set.Lost += ", which the next run reads again"
		}
	}
	return nil
}

var (
	levels  = []sink.Level{sink.Off, sink.Normal, sink.Full}
	periods = []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second}
)

func (c *Config) wanted() string {
	s := "a lag of at most " + c.Lag.String()
	if !c.Unsafe {
		s += ", and that a power cut takes nothing that was committed"
	}
	return s
}

const (
	near   = 0.9 // how much slower a safer setting may be and still be preferred
	enough = 10  // number of flushes from which the longest one is meaningful
)

// advise picks the fastest setting that meets the requirements; among settings of about the same speed, the one with
// the strictest level and then the shortest period.
func (c *Config) advise(sweep []Setting) *Setting {
	fits := func(s *Setting) bool {
		return s.Flushes >= enough && s.Lag <= c.Lag && (s.Lost == nothing || c.Unsafe && s.Level != sink.Off)
	}
	best := 0.0
	for i := range sweep {
		if fits(&sweep[i]) {
			best = max(best, sweep[i].Rate.Median)
		}
	}
	for l := len(levels) - 1; l >= 0; l-- {
		for i := range sweep {
			if s := &sweep[i]; s.Level == levels[l] && fits(s) && s.Rate.Median >= near*best {
				return s
			}
		}
	}
	return nil
}

// A sample is the part of the feed to write, as a file.
type sample struct {
	path     string
	messages int // number of messages in the file
	ids      int
	names    []string // of the fields; the key is the first
	numbers  *feed.Names
}

// open opens the feed.
func (c *Config) open(ctx context.Context) (source.Source, error) {
	if c.Kind.Type(c.Source) == source.Partition {
		return nil, errors.New("the ladder does not read Kafka, only files and connections: name a file with messages of the topic")
	}
	name, err := c.Kind.NameOf(c.Source)
	if err != nil {
		return nil, err
	}
	return c.Kind.Open(ctx, []string{name}, source.Options{Log: c.Log})
}

// nextBlock returns the next block of a source whose lanes are read from the start.
func nextBlock(ctx context.Context, from source.Source) (*source.Block, error) {
	for {
		e, err := from.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case e.Kind == source.Data:
			return e.Block, nil
		case e.Kind == source.Opened:
			_, err = e.Begin(ctx, source.Point{})
		case e.Kind == source.Closing:
			err = e.Err
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
	}
}

// sample copies the beginning of the feed to a file, without lines that are not messages with a key.
func (c *Config) sample(ctx context.Context, path string) (s *sample, err error) {
	stream, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	s = &sample{path: path, names: []string{c.Key}, numbers: &feed.Names{}}
	p := newParser(s, c.Key)
	ids := map[string]bool{}
	for s.messages < c.Messages {
		b, err := nextBlock(ctx, stream)
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(b.Data) {
			if s.messages == c.Messages || b.Oversize > 0 || !p.parse(bytes.TrimSuffix(line, []byte{'\n'})) {
				continue
			}
			s.messages++
			ids[p.id] = true
			if _, err := w.Write(line); err != nil {
				return nil, err
			}
		}
		b.Release()
	}
	if s.messages == 0 {
		return nil, fmt.Errorf("%s has no message with the key field %q (--key)", c.Source, c.Key)
	}
	s.ids = len(ids)
	return s, w.Flush()
}

// first returns a sample of the first n messages, in a file next to this one.
func (s *sample) first(n int) (part sample, err error) {
	part = *s
	part.path, part.messages = s.path+".first", n
	from, err := os.Open(s.path)
	if err != nil {
		return part, err
	}
	defer from.Close()
	to, err := os.Create(part.path)
	if err != nil {
		return part, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	lines := bufio.NewReaderSize(from, 1<<20)
	w := bufio.NewWriterSize(to, 1<<20)
	for n > 0 {
		line, err := lines.ReadSlice('\n')
		if _, werr := w.Write(line); werr != nil {
			return part, werr
		}
		switch err {
		case nil:
			n--
		case bufio.ErrBufferFull: // the rest of the line follows
		case io.EOF:
			return part, w.Flush()
		default:
			return part, err
		}
	}
	return part, w.Flush()
}

// A parser splits lines into what a simple program needs: an id and the texts of the columns.
type parser struct {
	s      *sample
	scan   *feed.Scanner
	key    string
	byName map[string]int
	fields []feed.Field

	id  string
	set []cell // without the key
}

type cell struct {
	col  int
	text sql.NullString
}

func newParser(s *sample, key string) *parser {
	p := &parser{s: s, scan: feed.NewScanner(s.numbers), key: key, byName: map[string]int{}}
	for i, n := range s.names {
		p.byName[n] = i
	}
	return p
}

// parse parses a line and reports whether it is a message. It adds new columns to the sample's.
func (p *parser) parse(line []byte) bool {
	fields, err := p.scan.Append(p.fields[:0], line)
	if p.fields = fields; err != nil {
		return false
	}
	p.id, p.set = "", p.set[:0]
	for i := range fields {
		f := &fields[i]
		name := p.scan.Name(f)
		text := string(feed.AppendText(nil, f.Value, f.Kind))
		if name == p.key {
			if f.Kind != feed.Null && f.Kind != feed.JSON {
				p.id = text
			}
			continue
		}
		col, ok := p.byName[name]
		if !ok {
			col = len(p.s.names)
			p.s.names = append(p.s.names, name)
			p.byName[name] = col
		}
		p.set = append(p.set, cell{col, sql.NullString{String: text, Valid: f.Kind != feed.Null}})
	}
	return p.id != ""
}
