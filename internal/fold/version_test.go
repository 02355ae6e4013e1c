package fold

import (
	"bytes"
	"slices"
	"testing"
)

func FuzzState(f *testing.F) {
	var s state
	s.live, s.tomb = []byte("20"), []byte("9")
	s.columns = [][]byte{nil, []byte("20"), []byte("20"), []byte("7"), nil}
	f.Add(s.encode(), uint8(5))
	f.Add([]byte{1, 1, '7', 1, 0}, uint8(0))
	f.Add([]byte{0, 0, 0, 200, 1, 0}, uint8(3))
	f.Fuzz(func(t *testing.T, raw []byte, columns uint8) {
		var was, is state
		if was.decode(raw, int(columns)) != nil {
			return
		}
		live, tomb, cells := bytes.Clone(was.live), bytes.Clone(was.tomb), make([][]byte, len(was.columns))
		for i := range cells {
			cells[i] = bytes.Clone(was.columns[i])
		}
		if err := is.decode(was.encode(), int(columns)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(is.live, live) || !bytes.Equal(is.tomb, tomb) || !slices.EqualFunc(is.columns, cells, bytes.Equal) {
			t.Errorf("%q %q %q became %q %q %q", live, tomb, cells, is.live, is.tomb, is.columns)
		}
	})
}
