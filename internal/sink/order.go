package sink

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/fold"
)

// inOrder writes the messages in feed order, in batches that end so as to find the rejected messages. A message that
// needs another row waits until all others are written; so do later messages for its rows.
func (p *bisection) inOrder() error {
	o := &ordered{p: p, why: map[rowKey]*Refusal{}}
	search := search[fold.Message]{try: o.write, single: o.single}
	if err := search.writeAll(fold.Messages(p.batches), true); err != nil {
		return err
	}
	p.bad = o.waiting()
	err := p.writeBad(o.held)
	slices.SortFunc(p.rejects, func(x, y fold.Reject) int { return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Line, y.Line)) })
	return err
}

// ordered is one call of inOrder.
type ordered struct {
	p    *bisection
	held []fold.Message      // waiting messages
	why  map[rowKey]*Refusal // why the rows wait
}

// write writes messages, except those for rows that wait.
func (o *ordered) write(of []fold.Message) error {
	free, held, why := of, []fold.Message(nil), map[rowKey]*Refusal(nil)
	if len(o.why) > 0 {
		free, why = make([]fold.Message, 0, len(of)), map[rowKey]*Refusal{}
		for _, m := range of {
			if w := o.waitsFor(m, why); w == nil {
				free = append(free, m)
			} else {
				held = append(held, m)
				for _, s := range m { // later messages for its other rows must not overtake it
					why[keyOf(s)] = w
				}
			}
		}
	}
	if len(free) > 0 {
		rows := fold.Merge(o.p.batches, free)
		if err := o.p.try(rows, false); err != nil {
			return o.about(err, rows, of)
		}
	}
	o.held = append(o.held, held...)
	maps.Copy(o.why, why)
	return nil
}

// waitsFor returns why a row of a message waits, or nil if none does.
func (o *ordered) waitsFor(m fold.Message, more map[rowKey]*Refusal) *Refusal {
	for _, s := range m {
		if w := cmp.Or(o.why[keyOf(s)], more[keyOf(s)]); w != nil {
			return w
		}
	}
	return nil
}

// about changes a Refusal of a row into one of the row's last message.
func (o *ordered) about(err error, rows [][]*fold.Row, of []fold.Message) error {
	var why *Refusal
	if !errors.As(err, &why) || why.At < 0 {
		return err
	}
	key, at := rowKey{why.Of, string(rows[why.Of][why.At].Key)}, len(of)-1
	for !slices.ContainsFunc(of[at], func(s fold.Single) bool { return keyOf(s) == key }) {
		at--
	}
	return &Refusal{Err: why.Err, Table: why.Table, Of: why.Of, At: at, Needs: why.Needs, Taken: why.Taken}
}

// single rejects a message, or makes its rows wait.
func (o *ordered) single(m fold.Message, why *Refusal) error {
	if why.Needs == "" {
		return o.p.reject(m, why)
	}
	o.held = append(o.held, m)
	for _, s := range m {
		o.why[keyOf(s)] = why
	}
	return nil
}

// waiting returns the rows of the waiting messages, with the rows that one message changes in one group.
func (o *ordered) waiting() (all []bad) {
	group := map[rowKey]rowKey{} // union-find: each row points to another in its group, the root to itself
	find := func(k rowKey) rowKey {
		for next, ok := group[k]; ok && next != k; next = group[k] {
			k = next
		}
		return k
	}
	for _, m := range o.held {
		to := find(keyOf(m[0]))
		group[to] = to
		for _, s := range m[1:] {
			group[find(keyOf(s))] = to
		}
	}
	at := map[rowKey]int{} // index into all, by group
	for table, rows := range fold.Merge(o.p.batches, o.held) {
		for _, r := range rows {
			key := rowKey{table, string(r.Key)}
			to := find(key)
			n, ok := at[to]
			if !ok {
				n = len(all)
				at[to] = n
				all = append(all, bad{make([][]*fold.Row, len(o.p.batches)), o.why[key]})
			}
			all[n].rows[table] = append(all[n].rows[table], r)
		}
	}
	return all
}
