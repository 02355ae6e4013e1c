package sink

import (
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
	// At is the index of the suspect row in rows[Of], or -1 if the database does not name one. Of is Table, or the
	// table whose rows contain Table's rows as a set.
	Of, At int
	// Needs names what the row requires from other rows of the flush's tables, such as the target of a foreign key; "":
	// nothing.
	Needs string
	// Taken reports that another row has a value that must be unique.
	Taken bool
	// Slow reports that no row is rejected, but that writing this many rows exceeds the database's time limit. Fewer
	// may succeed. A message is retried whole, and never rejected for being slow.
	Slow bool
}

func (e *Refusal) Error() string { return e.Err.Error() }
func (e *Refusal) Unwrap() error { return e.Err }

// A RowWriter writes rows of a flush in the open transaction.
type RowWriter interface {
	// Write writes all of the rows, indexed by table, or none. It upserts first, parents before children, and then
	// deletes, children before parents. If the rows are at fault, the error is a [Refusal]. together defers constraints
	// until all rows are written.
	Write(rows [][]*fold.Row, together bool) error
	// Mark sets the savepoint for Undo. It is called once.
	Mark() error
	// Undo rolls back everything written since Mark.
	Undo() error
}

// Sizes of the pieces of a batch.
const (
	// smallPiece is the minimum size of the pieces written around a rejected row.
	smallPiece = 64
	// maxTogether limits how many rows that need each other are searched for culprits by leaving some out: n rows take
	// up to 2n tries.
	maxTogether = 64
)

// Bisect writes the rows of a flush's batches in ever smaller pieces, until each piece that the database rejects is a
// single row, and returns the rejected messages. The changes of one message to several rows are all written, or none.
//
// Rejected rows are retried after the others, because they may need these; and all at once, because they may need each
// other. The remaining ones are written message by message, in the order of the feed.
//
// On a unique or exclusion violation Bisect rolls back everything and writes the messages again in the order of the
// feed, in smaller batches, because the first message has the right to the value. It does the same if a message changes
// several rows.
//
// rejected says that all rows were already written at once, and rejected.
func Bisect(batches []*fold.Batch, rows [][]*fold.Row, rejected bool, w RowWriter) ([]fold.Reject, error) {
	p := &bisection{batches: batches, w: w, rejected: rejected, logged: true}
	linked, only, tables := false, 0, 0
	for i, b := range batches {
		if b.Rows() > 0 {
			only, tables = i, tables+1
		}
		linked = linked || b.Linked
		p.logged = p.logged && (b.Rows() == 0 || b.Table.HasConstraints)
	}
	var err error
	switch {
	case tables == 0:
	case linked || tables > 1:
		err = p.asOne(rows)
	default:
		err = p.inPieces(only, rows[only])
	}
	if errors.Is(err, errInOrder) {
		if p.marked {
			if err := w.Undo(); err != nil {
				return nil, err
			}
		}
		p = &bisection{batches: batches, w: w, logged: p.logged, ordered: true}
		err = p.inOrder()
	}
	return p.rejects, err
}

// bisection is one call of Bisect.
type bisection struct {
	batches  []*fold.Batch
	w        RowWriter
	rejected bool // all rows were rejected at once; then do not retry one table's rows at once
	logged   bool // the batches have kept their messages
	marked   bool
	ordered  bool  // messages are written in feed order
	bad      []bad // rejected so far
	rejects  []fold.Reject
}

// bad holds rejected rows: one row, or the rows that one message changes.
type bad struct {
	rows [][]*fold.Row // by table
	why  *Refusal
}

// rowKey identifies a row among all tables.
type rowKey struct {
	table int
	key   string
}

// errInOrder restarts the bisection in feed order.
var errInOrder = errors.New("messages are to be written in their order")

// asOne writes all rows at once, even if they were rejected before: deferrable constraints may not have been deferred
// then. If the rows are only too many at once, and no table's rows were rejected, writing them message by message is
// unnecessary.
func (p *bisection) asOne(rows [][]*fold.Row) error {
	err := p.try(rows, false)
	var why *Refusal
	switch {
	case !errors.As(err, &why):
		return err
	case !p.logged && why.Slow && !p.related():
		for table, of := range rows {
			if err := p.inPieces(table, of); err != nil {
				return err
			}
		}
		return nil
	case !p.logged:
		return ErrUnlogged{Err: why.Err}
	}
	return errInOrder
}

// related reports whether one table's rows need another's.
func (p *bisection) related() bool {
	return slices.ContainsFunc(p.batches, func(b *fold.Batch) bool {
		return b.Child != nil || len(b.Table.Refs)+len(b.Table.ForeignKeys)+len(b.Table.Referrers) > 0
	})
}

// inPieces writes one table's rows, in any order of their messages.
func (p *bisection) inPieces(table int, rows []*fold.Row) error {
	of := func(rows []*fold.Row) [][]*fold.Row {
		all := make([][]*fold.Row, len(p.batches))
		all[table] = rows
		return all
	}
	search := search[*fold.Row]{
		try: func(rows []*fold.Row) error { return p.try(of(rows), false) },
		single: func(r *fold.Row, why *Refusal) error {
			p.bad = append(p.bad, bad{of([]*fold.Row{r}), why})
			return nil
		}}
	if p.rejected { // otherwise before the first piece that is rejected
		if err := p.mark(); err != nil {
			return err
		}
	}
	err := search.writeAll(rows, p.rejected)
	if err != nil || len(p.bad) == 0 {
		return err
	}
	return p.writeBad(fold.Messages(p.batches))
}

// try writes rows.
func (p *bisection) try(rows [][]*fold.Row, together bool) error {
	err := p.w.Write(rows, together)
	var why *Refusal
	if !errors.As(err, &why) {
		return err
	}
	if why.Of < 0 || why.At >= len(rows[why.Of]) {
		why.At = -1 // the guess names no row
	}
	switch {
	case !p.logged && (count(rows) == 1 || why.Taken):
		return ErrUnlogged{Err: why.Err}
	case p.ordered:
		return err
	case why.Taken:
		return errInOrder
	}
	if failed := p.mark(); failed != nil {
		return failed
	}
	return err
}

// mark sets the savepoint on its first call, before anything is written.
func (p *bisection) mark() error {
	if p.marked {
		return nil
	}
	p.marked = true
	return p.w.Mark()
}

func count(rows [][]*fold.Row) (n int) {
	for _, of := range rows {
		n += len(of)
	}
	return n
}

// writeBad retries the bad rows as long as that helps, and then writes their messages, which are among messages, one by
// one.
func (p *bisection) writeBad(messages []fold.Message) error {
	for before := len(p.bad) + 1; len(p.bad) > 0 && len(p.bad) < before; {
		before = len(p.bad)
		if err := p.retryDependent(); err != nil {
			return err
		}
		if err := p.retryEach(); err != nil {
			return err
		}
	}
	if len(p.bad) == 0 {
		return nil
	}
	rejected := map[rowKey]bool{}
	for _, b := range p.bad {
		for table, rows := range b.rows {
			for _, r := range rows {
				rejected[rowKey{table, string(r.Key)}] = true
			}
		}
	}
	for _, m := range messages {
		if !rejected[keyOf(m[0])] {
			continue
		}
		err := p.try(fold.Merge(p.batches, []fold.Message{m}), false)
		var why *Refusal
		if errors.As(err, &why) {
			err = p.reject(m, why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func keyOf(s fold.Single) rowKey { return rowKey{s.Table, string(s.Key())} }

// reject rejects a message. If the message was only too slow, it returns an error instead.
func (p *bisection) reject(m fold.Message, why *Refusal) error {
	if why.Slow {
		return why.Err
	}
	table, detail := why.Table, why.Error()
	switch {
	case len(p.batches) == 1:
		table = 0
	case table >= 0:
		detail = fold.InTable(p.batches[table].Table.Name, detail)
	}
	p.rejects = append(p.rejects, fold.Reject{Place: m.Place(), Table: table, Reason: feed.Database, Detail: detail, Text: slices.Clone(m.Text())})
	return nil
}

// A search writes pieces until each rejected piece is a single item.
type search[T any] struct {
	try    func([]T) error         // writes items; At of its Refusal is an index into them
	single func(T, *Refusal) error // handles a rejected item
	bad    int                     // rejected items
	failed int                     // pieces that were rejected, or were too slow
	misled int                     // times that a Refusal named an item that is not rejected
}

// writeAll writes any number of items. rejected says that writing all of them at once was rejected: then it starts with
// pieces.
func (s *search[T]) writeAll(of []T, rejected bool) error {
	if !rejected {
		err := s.try(of)
		var why *Refusal
		switch {
		case !errors.As(err, &why):
			return err
		case len(of) <= smallPiece:
			return s.writeAround(of, why)
		}
	} else if len(of) <= smallPiece {
		return s.writeHalves(of, true)
	}
	return s.writePieces(of, smallPiece)
}

// writePieces writes pieces. Their size grows by a quarter after a success and halves after a failure, so about one in
// four fails if rejected items lie far apart, or if the database limits how many it takes at a time. Items that are not
// rejected are written about once.
func (s *search[T]) writePieces(of []T, size int) error {
	for len(of) > 0 {
		n, before := min(len(of), size), s.failed
		if err := s.write(of[:n], false); err != nil {
			return err
		}
		if of = of[n:]; s.failed == before {
			size += size / 4
		} else {
			size = max(smallPiece, size/2)
		}
	}
	return nil
}

// write writes one piece. rejected says that the piece is known to be rejected.
func (s *search[T]) write(of []T, rejected bool) error {
	if len(of) == 0 {
		return nil
	}
	if rejected && len(of) > 1 {
		return s.writeHalves(of, true)
	}
	err := s.try(of)
	var why *Refusal
	if errors.As(err, &why) {
		return s.writeAround(of, why)
	}
	return err
}

// writeAround writes the rest of a rejected piece.
func (s *search[T]) writeAround(of []T, why *Refusal) error {
	s.failed++
	switch {
	case len(of) == 1:
		s.bad++
		return s.single(of[0], why)
	case why.At < 0 || s.misled > s.bad:
		return s.writeHalves(of, true)
	}
	if err := s.writePieces(of[:why.At], max(smallPiece, len(of)/2)); err != nil { // it need not be the first rejected item
		return err
	}
	before := s.bad
	if err := s.write(of[why.At:why.At+1], false); err != nil {
		return err
	}
	if s.bad == before {
		s.misled++
	}
	return s.writePieces(of[why.At+1:], max(smallPiece, len(of)/2)) // near a rejected item there may be more
}

// writeHalves writes a piece in two halves.
func (s *search[T]) writeHalves(of []T, rejected bool) error {
	half, before := len(of)/2, s.bad
	if err := s.write(of[:half], false); err != nil {
		return err
	}
	// If the first half succeeded, the second is what was rejected.
	return s.write(of[half:], rejected && s.bad == before)
}

// retryDependent retries the bad rows that need others; rows with the same need are written at once.
func (p *bisection) retryDependent() error {
	needs := map[string][]bad{}
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
		if err := p.retryTogether(needs[need]); err != nil {
			return err
		}
	}
	return nil
}

// retryTogether writes bad rows at once. If adjacent ones make that fail, it leaves them out.
func (p *bisection) retryTogether(of []bad) error {
	if ok, err := p.tryTogether(of); ok || err != nil {
		return err
	}
	if len(of) <= maxTogether {
		for size := len(of) / 2; size > 0; size /= 2 {
			for from := 0; from < len(of); from += size {
				to := min(from+size, len(of))
				if ok, err := p.tryTogether(slices.Concat(of[:from], of[to:])); err != nil {
					return err
				} else if ok {
					return p.retryTogether(of[from:to])
				}
			}
		}
	}
	p.bad = append(p.bad, of...)
	return nil
}

// tryTogether writes bad rows at once, and reports whether that succeeded.
func (p *bisection) tryTogether(of []bad) (bool, error) {
	if len(of) < 2 {
		return false, nil
	}
	rows := make([][]*fold.Row, len(p.batches))
	for _, b := range of {
		for table := range rows {
			rows[table] = append(rows[table], b.rows[table]...)
		}
	}
	err := p.try(rows, true)
	if errors.As(err, new(*Refusal)) {
		return false, nil
	}
	return err == nil, err
}

// retryEach writes the bad rows one by one, from the last: earlier ones may have been rejected because they need a
// later one.
func (p *bisection) retryEach() error {
	before := p.bad
	p.bad = nil
	for _, b := range slices.Backward(before) {
		err := p.try(b.rows, false)
		if errors.As(err, &b.why) {
			p.bad = append(p.bad, b)
		} else if err != nil {
			return err
		}
	}
	return nil
}
