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
// It writes the messages in feed order, in pieces that are halved when they are rejected. A message that is rejected
// alone is a reject, unless it waits for another: then it is set aside, and with it all later messages of its rows. What
// was set aside is retried, first together, then in halves, as long as that helps. So the first message in the feed gets
// a unique value, messages may need later ones, and all rows of a message are written, or none.
func Search(f *Flush, batches []*fold.Batch, rows [][]*fold.Row, w RowWriter) ([]fold.Reject, error) {
	if slices.ContainsFunc(batches, func(b *fold.Batch) bool { return b.Rows() > 0 && !b.Table.HasConstraints }) {
		return nil, writeUnlogged(batches, rows, w)
	}
	all := fold.Messages(batches)
	s := &search{f: f, batches: batches, w: w, waiting: map[[2]int]int{}, most: len(all), state: Searching{Messages: len(all)}}
	aside, err := s.pass(all)
	if err == nil {
		aside, err = s.settle(aside)
	}
	if s.final = true; err == nil {
		_, err = s.pass(aside)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.rejects, func(x, y fold.Reject) int { return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Line, y.Line)) })
	return s.rejects, nil
}

// search is one call of Search.
type search struct {
	f       *Flush
	batches []*fold.Batch
	w       RowWriter
	waiting map[[2]int]int // by [fold.Single].Row: how many messages that are set aside change it
	final   bool           // no message waits any more
	most    int            // messages that the database writes in time
	alone   int            // how many messages were rejected alone
	success int            // messages written since
	state   Searching
	rejects []fold.Reject
}

// firstPiece is how many messages a pass writes first.
const firstPiece = 64

// pass writes messages in pieces, and returns those that it set aside. Pieces grow by a quarter; after one with a message
// that is rejected alone, the next has an eighth of the messages that were written since. So if such messages lie far
// apart, most others are written once; and if they lie side by side, each takes one try.
func (s *search) pass(todo []fold.Message) (aside []fold.Message, err error) {
	for size := firstPiece; len(todo) > 0; {
		n, alone := min(size, s.most, len(todo)), s.alone
		left, err := s.settle(todo[:n])
		if err != nil {
			return nil, err
		}
		s.mark(left, 1)
		aside, todo = append(aside, left...), todo[n:]
		if size += (size + 3) / 4; s.alone > alone {
			size = max(1, s.success/8)
		}
	}
	s.mark(aside, -1)
	return aside, nil
}

// settle writes messages: together, or else in halves, the first half again after the second has written something. It
// returns those that wait; the messages of each row keep their order.
func (s *search) settle(todo []fold.Message) (left []fold.Message, err error) {
	piece, held := s.split(todo)
	for len(piece) > 0 {
		refused, err := s.write(piece)
		switch {
		case err != nil:
			return nil, err
		case refused == nil:
			return held, nil
		case len(piece) == 1 && refused.Waits && !s.final:
			return slices.Concat(piece, held), nil
		case len(piece) == 1:
			s.reject(piece[0], refused)
			return held, s.f.tellSearching(s.state)
		}
		half := (len(piece) + 1) / 2
		if refused.Slow {
			s.most = half
		}
		first, err := s.settle(piece[:half])
		if err != nil {
			return nil, err
		}
		written := s.state.Written
		s.mark(first, 1)
		second, err := s.settle(piece[half:])
		s.mark(first, -1)
		if err != nil {
			return nil, err
		}
		piece = slices.Concat(first, second)
		if len(first) == 0 || s.state.Written == written {
			break
		}
	}
	return slices.Concat(piece, held), nil
}

// split separates messages to write from later messages of rows that wait, which must not overtake the earlier ones.
func (s *search) split(all []fold.Message) (piece, held []fold.Message) {
	if len(s.waiting) == 0 {
		return all, nil
	}
	for _, m := range all {
		if slices.ContainsFunc(m, func(c fold.Single) bool { return s.waiting[c.Row()] > 0 }) {
			s.mark([]fold.Message{m}, 1)
			held = append(held, m)
		} else {
			piece = append(piece, m)
		}
	}
	s.mark(held, -1)
	return piece, held
}

// mark adds to how many messages that are set aside change a row.
func (s *search) mark(aside []fold.Message, n int) {
	for _, m := range aside {
		for _, c := range m {
			k := c.Row()
			if s.waiting[k] += n; s.waiting[k] == 0 {
				delete(s.waiting, k)
			}
		}
	}
}

// write writes messages, or returns why the database rejects them.
func (s *search) write(piece []fold.Message) (refused *Refusal, err error) {
	err = s.w.Write(fold.Merge(s.batches, piece), len(piece) > 1)
	switch {
	case err == nil:
		s.state.Written, s.success = s.state.Written+len(piece), s.success+len(piece)
		return nil, s.f.tellSearching(s.state)
	case !errors.As(err, &refused):
		return nil, err
	case len(piece) == 1:
		s.alone, s.success = s.alone+1, 0
	}
	return refused, nil
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

// writeUnlogged writes rows whose messages were not kept, and which may be too many at once for the database's time
// limit. If it rejects one, the messages are needed.
func writeUnlogged(batches []*fold.Batch, rows [][]*fold.Row, w RowWriter) error {
	var why *Refusal
	if err := w.Write(rows, true); !errors.As(err, &why) {
		return err
	} else if !why.Slow || slices.ContainsFunc(batches, needsOthers) {
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

// needsOthers reports whether rows of a batch's table may need rows of other tables.
func needsOthers(b *fold.Batch) bool {
	return b.Child != nil || len(b.Table.Refs)+len(b.Table.ForeignKeys)+len(b.Table.Referrers) > 0
}
