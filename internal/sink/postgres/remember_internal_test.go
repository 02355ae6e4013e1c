package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
)

// TestRemember_ConnectionIsGone: a flush may be committed just as its context ends, and the connection with it.
func TestRemember_ConnectionIsGone(t *testing.T) {
	d := &DB{client: &client{}}
	a := &attempt{d: d}
	a.parts = []*part{{a: a, t: &table{}, newer: []*fold.Row{{Key: []byte("1")}}, merge: &merge{versions: &versioned{states: [][]byte{{1}}}}}}
	a.remember([]result{{rows: [][][]byte{{[]byte("7")}}}})
	if d.conn = (&pgconn.PgConn{}); d.memory.conn == d.conn {
		t.Error("what another connection wrote is taken for this one's")
	}
}

// TestMemory_Size: the size of what is remembered stays below its limit, whatever the rows are like, and is 0 of nothing.
func TestMemory_Size(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	m := memory{states: map[rowName]*remembered{}}
	full := 0
	for range 20_000 {
		key := fmt.Sprintf("%0*d", 1+rnd.IntN(maxKey), rnd.IntN(20_000))
		m.put(rnd.IntN(2), []byte(key), bytes.Repeat([]byte{1}, 1+rnd.IntN(5000)))
		if m.size > maxRemembered {
			t.Fatalf("%d bytes", m.size)
		}
		if m.size > maxRemembered*9/10 {
			full++
		}
	}
	size := 0
	for name, r := range m.states {
		size += rememberedSize + len(name.key) + cap(r.state)
	}
	if size != m.size || full == 0 {
		t.Errorf("%d bytes are said to be %d; almost full %d times", size, m.size, full)
	}
	for name := range m.states {
		m.drop(name)
	}
	if m.size != 0 {
		t.Errorf("%d bytes of nothing", m.size)
	}
}
