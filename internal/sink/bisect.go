package sink

import (
	"errors"
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
}

func (e *Refusal) Error() string { return e.Err.Error() }
func (e *Refusal) Unwrap() error { return e.Err }

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
// single, and returns their messages. write writes rows in the open transaction, or
// leaves no trace of them; its error is a [Refusal] where it is about the rows. together
// asks it to let constraints wait until the piece is written.
//
// Rows that are rejected are written again when the others are, for a value may have
// moved from one row to another; and all at once, for they may need each other. What is
// left then is written message by message, in the order of the feed.
func Bisect(b *fold.Batch, rows []*fold.Row, write func(rows []*fold.Row, together bool) error) ([]fold.Reject, error) {
	p := &bisection{b: b, try: write}
	if err := p.write(rows, false); err != nil {
		return nil, err
	}
	for before := len(rows) + 1; len(p.bad) > 0 && len(p.bad) < before; {
		before = len(p.bad)
		if err := p.together(); err != nil {
			return nil, err
		}
		if err := p.again(); err != nil {
			return nil, err
		}
	}
	return p.messages()
}

// bisection is one call of Bisect.
type bisection struct {
	b   *fold.Batch
	try func(rows []*fold.Row, together bool) error
	bad []badRow // rejected so far
}

type badRow struct {
	row *fold.Row
	why *Refusal
}

// write writes rows, and halves them where they are rejected. rejected says that
// they are known to be.
func (p *bisection) write(rows []*fold.Row, rejected bool) error {
	if !rejected || len(rows) == 1 {
		err := p.try(rows, false)
		var why *Refusal
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &why):
			return err
		case len(rows) == 1 && !p.b.Table.Judged:
			return ErrUnlogged{Err: why.Err}
		case len(rows) == 1:
			p.bad = append(p.bad, badRow{rows[0], why})
			return nil
		case why.At >= 0:
			return p.around(rows, why.At)
		}
		rejected = true
	}
	half, before := len(rows)/2, len(p.bad)
	if err := p.write(rows[:half], false); err != nil {
		return err
	}
	// Where the first half was right, the second is what was rejected.
	return p.write(rows[half:], rejected && len(p.bad) == before)
}

// around writes the rows about one that is rejected.
func (p *bisection) around(rows []*fold.Row, at int) error {
	for _, part := range [][]*fold.Row{rows[:at], rows[at : at+1], rows[at+1:]} {
		for chunk := range slices.Chunk(part, smallPiece) {
			if err := p.write(chunk, false); err != nil {
				return err
			}
		}
	}
	return nil
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
	err := p.try(rowsOf(bad), true)
	var why *Refusal
	if errors.As(err, &why) {
		return false, nil
	}
	return err == nil, err
}

// again writes the bad rows one by one. It begins with the last, as a chain of moves is
// undone from its end.
func (p *bisection) again() error {
	bad := p.bad
	p.bad = nil
	for _, r := range slices.Backward(bad) {
		if err := p.write([]*fold.Row{r.row}, false); err != nil {
			return err
		}
	}
	return nil
}

// messages writes the bad rows message by message, and returns those that are rejected.
func (p *bisection) messages() (rejects []fold.Reject, err error) {
	if len(p.bad) == 0 {
		return nil, nil
	}
	for m := range p.b.Singles(rowsOf(p.bad)) {
		err := p.try([]*fold.Row{&m.Row}, false)
		var why *Refusal
		switch {
		case errors.As(err, &why):
			rejects = append(rejects, fold.Reject{Place: m.Place, Reason: feed.Database, Detail: why.Error(), Text: slices.Clone(m.Text)})
		case err != nil:
			return rejects, err
		}
	}
	return rejects, nil
}

func rowsOf(bad []badRow) []*fold.Row {
	rows := make([]*fold.Row, len(bad))
	for i := range bad {
		rows[i] = bad[i].row
	}
	return rows
}
