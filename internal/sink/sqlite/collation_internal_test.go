package sqlite

import (
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
	lib "modernc.org/sqlite/lib"
)

// TestCollation: texts have the same form if and only if SQLite treats them as equal.
func TestCollation(t *testing.T) {
	c, err := openConn(":memory:", lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE)
	testcheck.NoError(t, err)
	defer c.close()
	texts := []string{"A", "a", "a ", " a", "É", "é", "A\x00b", "a\x00C", "a\x00bc", "", "\x00"}
	for _, name := range []collation{"BINARY", "NOCASE", "nocase", "RTRIM"} {
		for _, x := range texts {
			for _, y := range texts {
				rows, err := c.rows("SELECT " + literal(x) + " = " + literal(y) + " COLLATE " + name.String())
				testcheck.NoError(t, err)
				is := string(name.Form([]byte(x))) == string(name.Form([]byte(y)))
				if equal := string(rows[0][0]) == "1"; is != equal {
					t.Errorf("%s: %q and %q have one form: %t; to SQLite they are equal: %t", name, x, y, is, equal)
				}
			}
		}
	}
}
