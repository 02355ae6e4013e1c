package sink

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/weirsync/weir/internal/fold"
)

// inOrder writes the batch's messages in the order of the feed, as batches that end where
// that finds the messages that are rejected. One that needs another row waits until all
// others are written, and so do those of its row that follow it.
func (p *bisection) inOrder() error {
	o := &ordered{p: p, why: map[string]*Refusal{}}
	if err := halve(slices.Collect(p.b.Singles()), true, o.write, o.single); err != nil {
		return err
	}
	for _, r := range p.b.Merge(o.held) {
		p.bad = append(p.bad, badRow{r, o.why[string(r.Key)]})
	}
	err := p.writeBad(slices.Values(o.held))
	slices.SortFunc(p.rejects, func(x, y fold.Reject) int { return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Line, y.Line)) })
	return err
}

// ordered is one call of inOrder.
type ordered struct {
	p    *bisection
	held []fold.Single       // what waits
	why  map[string]*Refusal // for what, by the keys of its rows
}

// write writes messages, but for those of rows that wait.
func (o *ordered) write(of []fold.Single) error {
	free, held := of, []fold.Single(nil)
	if len(o.why) > 0 {
		free = make([]fold.Single, 0, len(of))
		for _, s := range of {
			if o.why[string(s.Key())] == nil {
				free = append(free, s)
			} else {
				held = append(held, s)
			}
		}
	}
	if rows := o.p.b.Merge(free); len(rows) > 0 {
		if err := o.p.try(rows, false); err != nil {
			return o.about(err, rows, of)
		}
	}
	o.held = append(o.held, held...)
	return nil
}

// about has a refusal of one of the rows be about the last of its messages.
func (o *ordered) about(err error, rows []*fold.Row, of []fold.Single) error {
	var why *Refusal
	if !errors.As(err, &why) || why.At < 0 {
		return err
	}
	key, at := rows[why.At].Key, len(of)-1
	for !bytes.Equal(of[at].Key(), key) {
		at--
	}
	return &Refusal{Err: why.Err, At: at, Needs: why.Needs, Taken: why.Taken}
}

// single rejects a message, or has its row wait.
func (o *ordered) single(s fold.Single, why *Refusal) {
	if why.Needs == "" {
		o.p.reject(s, why)
		return
	}
	o.held, o.why[string(s.Key())] = append(o.held, s), why
}
