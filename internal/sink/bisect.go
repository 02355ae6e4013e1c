package sink

import (
	"errors"
	"iter"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// A Refusal says that the database rejects rows of a batch, by a constraint, a trigger
// or a type.
type Refusal struct {
	Err error // in the database's own words
	At  int   // which of the rows it is about, from 0; -1 where the database does not say
	// Needs names what it wants of other rows of the table, such as one that a foreign
	// key refers to; "" is nothing.
	Needs string
	// Taken says that another row has a value that only one may have.
	Taken bool
}

func (e *Refusal) Error() string { return e.Err.Error() }
func (e *Refusal) Unwrap() error { return e.Err }

// A RowWriter writes rows of a batch in the open transaction.
type RowWriter interface {
	// Write writes rows, or leaves no trace of them. Its error is a [Refusal] where it is
	// about the rows. together asks it to let constraints wait until all are written.
	Write(rows []*fold.Row, together bool) error
	// Mark begins what Undo takes back. It is called once.
	Mark() error
	// Undo leaves no trace of what was written since Mark.
	Undo() error
}

// Bounds of the pieces of a batch.
const (
	// smallPiece is how many rows are written at a time around a row that is rejected:
	// where one is bad, more may be, and not all of the rest is to be sent for each.
	smallPiece = 4096
	// maxTogether is of how many rows that need others some are left out, to see whether
	// the rest is right: it takes up to twice as many tries.
	maxTogether = 64
)

// Bisect writes rows of a batch in pieces until those that the database rejects are
// single, and returns their messages.
//
// Rows that are rejected are written again when the others are, for they may need these;
// and all at once, for they may need each other. What is left then is written message by
// message, in the order of the feed.
//
// Which of two rows gets a value that only one may have depends on their order. So, when
// such a value is taken, nothing of the batch stays: it is written as smaller batches,
// which end where that finds the messages that are rejected.
func Bisect(b *fold.Batch, rows []*fold.Row, w RowWriter) ([]fold.Reject, error) {
	p := &bisection{b: b, w: w}
	err := p.inPieces(rows)
	if errors.Is(err, errTaken) {
		if p.marked {
			if err := w.Undo(); err != nil {
				return nil, err
			}
		}
		p = &bisection{b: b, w: w, ordered: true}
		err = p.inOrder()
	}
	return p.rejects, err
}

// bisection is one call of Bisect.
type bisection struct {
	b       *fold.Batch
	w       RowWriter
	marked  bool
	ordered bool     // the messages are written in their order
	bad     []badRow // rejected so far
	rejects []fold.Reject
}

type badRow struct {
	row *fold.Row
	why *Refusal
}

// errTaken ends what does not write messages in their order.
var errTaken = errors.New("a value is taken that only one row may have")

// inPieces writes rows whatever the order of their messages.
func (p *bisection) inPieces(rows []*fold.Row) error {
	if err := p.write(rows); err != nil {
		return err
	}
	return p.writeBad(p.b.Singles())
}

// try writes rows.
func (p *bisection) try(rows []*fold.Row, together bool) error {
	err := p.w.Write(rows, together)
	var why *Refusal
	switch {
	case !errors.As(err, &why):
		return err
	case !p.b.Table.HasConstraints && (len(rows) == 1 || why.Taken):
		return ErrUnlogged{Err: why.Err}
	case p.ordered:
		return err
	case why.Taken:
		return errTaken
	case !p.marked: // nothing is written yet
		p.marked = true
		if err := p.w.Mark(); err != nil {
			return err
		}
	}
	return err
}

// write writes rows, and collects those that are rejected.
func (p *bisection) write(rows []*fold.Row) error {
	return halve(rows, false,
		func(rows []*fold.Row) error { return p.try(rows, false) },
		func(r *fold.Row, why *Refusal) { p.bad = append(p.bad, badRow{r, why}) })
}

// writeBad writes the bad rows again, as long as that helps, and then their messages, which
// are some of those given, one by one.
func (p *bisection) writeBad(messages iter.Seq[fold.Single]) error {
	for before := len(p.bad) + 1; len(p.bad) > 0 && len(p.bad) < before; {
		before = len(p.bad)
		if err := p.together(); err != nil {
			return err
		}
		if err := p.again(); err != nil {
			return err
		}
	}
	if len(p.bad) == 0 {
		return nil
	}
	bad := map[string]bool{}
	for _, r := range p.bad {
		bad[string(r.row.Key)] = true
	}
	for s := range messages {
		if !bad[string(s.Key())] {
			continue
		}
		err := p.try(p.b.Merge([]fold.Single{s}), false)
		var why *Refusal
		if errors.As(err, &why) {
			p.reject(s, why)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (p *bisection) reject(s fold.Single, why *Refusal) {
	p.rejects = append(p.rejects, fold.Reject{Place: s.Place(), Reason: feed.Database, Detail: why.Error(), Text: slices.Clone(s.Text())})
}

// halve writes pieces until what is rejected of them is single. try writes one; the
// Refusal that it returns is about the At-th of it. rejected says that all of it is known
// to be rejected at once.
func halve[T any](all []T, rejected bool, try func([]T) error, single func(T, *Refusal)) error {
	bad := 0
	var write func(of []T, rejected bool) error
	write = func(of []T, rejected bool) error {
		if !rejected || len(of) == 1 {
			err := try(of)
			var why *Refusal
			switch {
			case err == nil:
				return nil
			case !errors.As(err, &why):
				return err
			case len(of) == 1:
				bad++
				single(of[0], why)
				return nil
			case why.At >= 0: // write what is around it
				for _, part := range [][]T{of[:why.At], of[why.At : why.At+1], of[why.At+1:]} {
					for chunk := range slices.Chunk(part, smallPiece) {
						if err := write(chunk, false); err != nil {
							return err
						}
					}
				}
				return nil
			}
			rejected = true
		}
		half, before := len(of)/2, bad
		if err := write(of[:half], false); err != nil {
			return err
		}
		// Where the first half was right, the second is what was rejected.
		return write(of[half:], rejected && bad == before)
	}
	return write(all, rejected)
}

// together writes the bad rows that need others, those with the same need at once.
func (p *bisection) together() error {
	needs := map[string][]badRow{}
	var order []string
	alone := p.bad[:0:0]
	for _, r := range p.bad {
		need := r.why.Needs
		switch {
		case need == "":
			alone = append(alone, r)
			continue
		case needs[need] == nil:
			order = append(order, need)
		}
		needs[need] = append(needs[need], r)
	}
	p.bad = alone
	for _, need := range order {
		if err := p.all(needs[need]); err != nil {
			return err
		}
	}
	return nil
}

// all writes bad rows at once, or, where some that lie side by side spoil it, without these.
func (p *bisection) all(bad []badRow) error {
	if ok, err := p.right(bad); ok || err != nil {
		return err
	}
	if len(bad) <= maxTogether {
		for size := len(bad) / 2; size > 0; size /= 2 {
			for from := 0; from < len(bad); from += size {
				to := min(from+size, len(bad))
				if ok, err := p.right(slices.Concat(bad[:from], bad[to:])); err != nil {
					return err
				} else if ok {
					return p.all(bad[from:to])
				}
			}
		}
	}
	p.bad = append(p.bad, bad...)
	return nil
}

// right writes bad rows at once, if they are right together.
func (p *bisection) right(bad []badRow) (bool, error) {
	if len(bad) < 2 {
		return false, nil
	}
	rows := make([]*fold.Row, len(bad))
	for i := range bad {
		rows[i] = bad[i].row
	}
	err := p.try(rows, true)
	var why *Refusal
	if errors.As(err, &why) {
		return false, nil
	}
	return err == nil, err
}

// again writes the bad rows one by one. It begins with the last: those before it may have
// been rejected for want of it.
func (p *bisection) again() error {
	bad := p.bad
	p.bad = nil
	for _, r := range slices.Backward(bad) {
		if err := p.write([]*fold.Row{r.row}); err != nil {
			return err
		}
	}
	return nil
}
