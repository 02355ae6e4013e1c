package sink

import (
	"cmp"
	"errors"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// A Refusal reports that the database rejects rows of a flush, because of a constraint, a trigger or a type.
type Refusal struct {
	Err error // the database's message
	// Table is the table that rejects, or -1 if the database does not say.
	Table int
	// Waits reports that other messages of the flush may remove the cause, such as a missing row that a foreign key
	// refers to.
	Waits bool
	// Slow reports that no row is rejected, but that writing this many rows exceeds the database's time limit. Fewer
	// may succeed. It is not set for a single row or message.
	Slow bool
}

func (e *Refusal) Error() string { return e.Err.Error() }
func (e *Refusal) Unwrap() error { return e.Err }

// A RowWriter writes rows of a flush in the open transaction.
type RowWriter interface {
	// Write writes all of the rows, indexed by table, or none. It upserts first, parents before children, and then
	// deletes, children before parents. If the rows are at fault, the error is a [Refusal]. together: they may be of
	// several messages. Foreign keys are then checked after all rows are written, where the database can.
	Write(rows [][]*fold.Row, together bool) error
}

// Searching is how far the search for the messages that the database rejects has come.
type Searching struct {
	Messages, Written, Rejected int
	Last                        *fold.Reject // the last message that was rejected; nil: none yet
}

// Search writes a flush whose rows the database rejects, and returns the messages at fault. batches are f's, as the
// driver writes them, and rows their rows.
//
// It writes the messages in feed order, in pieces that are halved at each rejection. A message that is rejected alone
// is a reject, unless it waits for another: then it is set aside, and with it all later messages of its rows. What was
// set aside is retried, first together, then in pieces, from the first to the last and from the last to the first in
// turn, as long as that helps. So the first message in the feed gets a unique value, unless it waits, messages may need
// later ones, and all rows of a message are written, or none.
func Search(f *Flush, batches []*fold.Batch, rows [][]*fold.Row, w RowWriter) ([]fold.Reject, error) {
	if slices.ContainsFunc(batches, func(b *fold.Batch) bool { return b.Rows() > 0 && !b.Table.HasConstraints }) {
		return nil, writeUnlogged(batches, rows, w)
	}
	todo := fold.Messages(batches)
	s := &search{f: f, batches: batches, w: w, state: Searching{Messages: len(todo)}}
	for n, size := 0, firstPiece; len(todo) > 0; n++ {
		s.backward = n > 1 && n%2 == 0 && !s.final
		aside, err := s.pass(todo, size)
		if err != nil {
			return nil, err
		}
		s.final = len(aside) == len(todo) && n > 0 // not even together: no message waits
		todo, size = aside, len(aside)
	}
	slices.SortFunc(s.rejects, func(x, y fold.Reject) int { return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Line, y.Line)) })
	return s.rejects, nil
}

// search is one call of Search.
type search struct {
	f        *Flush
	batches  []*fold.Batch
	w        RowWriter
	backward bool           // the pass goes from the last message to the first
	final    bool           // no message of the pass waits
	waiting  map[[2]int]int // by [fold.Single].Row: how many messages change a row that later ones must not overtake
	state    Searching
	rejects  []fold.Reject
}

// pass writes messages in pieces, the first of a given size, and returns those that it set aside.
func (s *search) pass(todo []fold.Message, size int) (aside []fold.Message, err error) {
	s.waiting = map[[2]int]int{}
	if s.backward {
		s.mark(todo, 1)
	}
	for p := (pieces{of: len(todo), size: size}); p.at < p.of; {
		n := p.next()
		some := todo[p.at : p.at+n]
		if s.backward {
			some = todo[p.of-p.at-n : p.of-p.at]
			s.mark(some, -1)
		}
		piece, left := s.split(some)
		refused, err := s.write(piece)
		switch {
		case err != nil:
			return nil, err
		case refused == nil:
			s.state.Written += len(piece)
			p.written(n)
		case len(piece) > 1:
			p.failed(n, refused.Slow)
			if s.backward {
				s.mark(some, 1)
			}
			continue
		default:
			p.rejected(n)
			if refused.Waits && !s.final {
				left = some
			} else {
				s.reject(piece[0], refused)
			}
		}
		if !s.backward {
			s.mark(left, 1)
		}
		aside = append(aside, left...)
		if err := s.f.tellSearching(s.state); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(aside, fold.Message.Compare)
	return aside, nil
}

// split separates messages to write from later messages of rows that wait, which must not overtake the earlier ones.
func (s *search) split(some []fold.Message) (piece, held []fold.Message) {
	for _, m := range some {
		if slices.ContainsFunc(m, func(c fold.Single) bool { return s.waiting[c.Row()] > 0 }) {
			held = append(held, m)
			s.mark(held[len(held)-1:], 1)
		} else {
			piece = append(piece, m)
		}
	}
	s.mark(held, -1)
	return piece, held
}

// mark adds to how many messages change a row that later ones must not overtake.
func (s *search) mark(some []fold.Message, n int) {
	for _, m := range some {
		for _, c := range m {
			s.waiting[c.Row()] += n
		}
	}
}

// write writes messages, or returns why the database rejects them.
func (s *search) write(piece []fold.Message) (refused *Refusal, err error) {
	if len(piece) == 0 {
		return nil, nil
	}
	if err = s.w.Write(fold.Merge(s.batches, piece), len(piece) > 1); errors.As(err, &refused) {
		return refused, nil
	}
	return nil, err
}

func (s *search) reject(m fold.Message, why *Refusal) {
	table, detail := why.Table, why.Error()
	switch {
	case len(s.batches) == 1:
		table = 0
	case table >= 0:
		detail = fold.InTable(s.batches[table].Table.Name, detail)
	}
	s.rejects = append(s.rejects, fold.Reject{Place: m.Place(), Table: table, Reason: feed.Database, Detail: detail, Text: slices.Clone(m.Text())})
	s.state.Rejected, s.state.Last = len(s.rejects), &s.rejects[len(s.rejects)-1]
}

// firstPiece is how many messages a search writes first.
const firstPiece = 64

// pieces are the sizes of a search's pieces. After a rejected message the next piece has an eighth of the messages that
// were written since the one before it; then pieces grow by a quarter. So if rejected messages lie far apart, most
// others are written once; and if they lie side by side, each takes one try.
type pieces struct {
	of, at  int // number of messages, and of those that are done
	size    int
	end     int // if after at: the messages from at to here are rejected together
	success int // messages written since the last rejected one
}

// next returns how many messages to write.
func (p *pieces) next() int {
	if p.at < p.end {
		return (p.end - p.at + 1) / 2
	}
	return min(p.size, p.of-p.at)
}

// written records that the next n messages are written.
func (p *pieces) written(n int) { p.at, p.success, p.size = p.at+n, p.success+n, p.size+(p.size+3)/4 }

// failed records that the next n messages are not written, because the database rejects one, or is too slow.
func (p *pieces) failed(n int, slow bool) {
	if p.end = p.at + n; slow {
		p.end, p.size = 0, n/2
	}
}

// rejected records that one of the next n messages is rejected alone.
func (p *pieces) rejected(n int) { p.at, p.size, p.success = p.at+n, max(1, p.success/8), 0 }

// writeUnlogged writes rows whose messages were not kept, and which may be too many at once for the database's time
// limit. If it rejects one, the messages are needed.
func writeUnlogged(batches []*fold.Batch, rows [][]*fold.Row, w RowWriter) error {
	mayNeedOthers := func(b *fold.Batch) bool {
		return b.Child != nil || len(b.Table.Refs)+len(b.Table.ForeignKeys)+len(b.Table.Referrers) > 0
	}
	var why *Refusal
	if err := w.Write(rows, true); !errors.As(err, &why) {
		return err
	} else if !why.Slow || slices.ContainsFunc(batches, mayNeedOthers) {
		return UnloggedError{Err: why.Err}
	}
	for _, half := range halves(rows) {
		if err := writeUnlogged(batches, half, w); err != nil {
			return err
		}
	}
	return nil
}

// halves splits the rows of each table into two pieces.
func halves(rows [][]*fold.Row) (all [][][]*fold.Row) {
	for table, of := range rows {
		for half := range slices.Chunk(of, max(1, (len(of)+1)/2)) {
			piece := make([][]*fold.Row, len(rows))
			piece[table] = half
			all = append(all, piece)
		}
	}
	return all
}
