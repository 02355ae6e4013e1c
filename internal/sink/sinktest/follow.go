package sinktest

import (
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
)

// VersionedShop is the merged shop whose messages have versions.
func VersionedShop(t *testing.T, scope fold.Scope) *mapping.Mapping {
	t.Helper()
	m := MergedShop(t)
	inVersions(m, scope)
	return m
}

// inVersions has the messages of a shop have versions, which its rows show.
func inVersions(m *mapping.Mapping, scope fold.Scope) {
	m.Tables[0].Version, m.Tables[0].Scope = path("$.v"), scope
	for i := range m.Tables {
		m.Tables[i].Columns = append(m.Tables[i].Columns, columns("v: $.v as integer")...)
	}
}

// followTests: a delete of a row with versions counts as one of each row that belongs to it.
var followTests = []test{
	{"ADeleteCountsForEachChild", func(t *testing.T, db Database) {
		m := VersionedShop(t, fold.ColumnScope)
		n := BeginNested(t, db, m, false)
		const old = `{"id":1,"v":3,"status":"old","items":[{"sku":"x","qty":3,"taxes":[{"code":"a","amount":3}]},{"sku":"y","qty":3}]}`
		n.Flush(old)
		n.Flush(`{"id":1,"v":7,"items":[{"sku":"y","taxes":[{"code":"b"}]}]}`, `{"id":2,"v":7,"items":[{"sku":"x","qty":7}]}`)
		// The row outlives it, and so do those rows below it that have newer messages.
		Counts(t, n.Flush(`{"id":1,"v":5,"op":"delete"}`), 0, 2, 1, 2)
		shopIs(t, db, rows{"1|NULL", "2|NULL"}, rows{"1|y|NULL", "2|x|7"}, rows{"1|y|b|NULL"})
		n.End()
		n = BeginNested(t, db, m, false) // knows what is kept
		n.Flush(`{"id":1,"v":4,"items":[{"sku":"y","qty":4},{"sku":"z","taxes":[{"code":"c"}]}]}`, old)
		shopIs(t, db, rows{"1|NULL", "2|NULL"}, rows{"1|y|NULL", "2|x|7"}, rows{"1|y|b|NULL"})
		n.Flush(`{"id":1,"v":6,"items":[{"sku":"y","qty":6},{"sku":"z"}]}`, `{"id":2,"v":8,"op":"delete"}`)
		shopIs(t, db, rows{"1|NULL"}, rows{"1|y|6", "1|z|NULL"}, rows{"1|y|b|NULL"})
		n.Flush(`{"id":2,"v":6,"items":[{"sku":"x","qty":6},{"sku":"z"}]}`)
		n.Flush(`{"id":2,"v":9,"items":[{"sku":"z"}]}`)
		shopIs(t, db, rows{"1|NULL", "2|NULL"}, rows{"1|y|6", "1|z|NULL", "2|z|NULL"}, rows{"1|y|b|NULL"})
	}},
	{"ADeleteCountsForEachChild_RowScope", func(t *testing.T, db Database) {
		n := BeginNested(t, db, VersionedShop(t, fold.RowScope), false)
		n.Flush(`{"id":1,"v":3,"items":[{"sku":"x","qty":3,"taxes":[{"code":"a"}]},{"sku":"y","qty":3}]}`)
		n.Flush(`{"id":1,"v":7,"items":[{"sku":"y","taxes":[{"code":"b"}]}]}`)
		n.Flush(`{"id":1,"v":5,"op":"delete"}`)
		shopIs(t, db, rows{"1|NULL"}, rows{"1|y|3"}, rows{"1|y|b|NULL"})
		n.Flush(`{"id":1,"v":9,"op":"delete"}`)
		shopIs(t, db, nil, nil, nil)
		n.Flush(`{"id":1,"v":1,"items":[{"sku":"x"}]}`)
		shopIs(t, db, rows{"1|NULL"}, rows{"1|x|NULL"}, nil)
	}},
	{"ADeleteByGeneratedKeys", func(t *testing.T, db Database) {
		m := VersionedShop(t, fold.ColumnScope)
		m.Tables[0].ID, m.Tables[1].ID, m.Tables[1].Parent = "oid", "iid", nil
		n := BeginNested(t, db, m, false)
		n.Flush(`{"id":1,"v":3,"items":[{"sku":"x","taxes":[{"code":"a"}]},{"sku":"y","taxes":[{"code":"a"}]}]}`, `{"id":2,"v":3,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
		n.Flush(`{"id":1,"v":7,"items":[{"sku":"y","taxes":[{"code":"b"}]}]}`)
		n.Flush(`{"id":1,"v":5,"op":"delete"}`)
		Expect(t, db, "SELECT id, sku, code FROM orders o JOIN items i ON i.oid = o.oid LEFT JOIN taxes t ON t.iid = i.iid ORDER BY id, sku, code", "1|y|b", "2|x|a")
		n.End()
		n = BeginNested(t, db, m, false) // knows what is kept
		n.Flush(`{"id":1,"v":6,"items":[{"sku":"y","v":1}]}`, `{"id":1,"v":4,"items":[{"sku":"x"}]}`)
		Expect(t, db, "SELECT i.v, sku FROM orders o JOIN items i ON i.oid = o.oid WHERE id = 1", "7|y")
	}},
	{"ARejectedElementRejectsItsMessage", func(t *testing.T, db Database) {
		m := VersionedShop(t, fold.ColumnScope)
		n := BeginNested(t, db, m, false)
		n.Flush(`{"id":1,"v":3,"items":[{"sku":"x","qty":3,"taxes":[{"code":"a","amount":3}]},{"sku":"y","qty":3}]}`, `{"id":9,"v":1,"items":[{"sku":"x","taxes":[{"code":"a","amount":1}]}]}`)
		n.End()
		theirs(t, db, "CREATE UNIQUE INDEX one ON taxes (amount)")
		n = BeginNested(t, db, m, false)
		n.Flush(`{"id":1,"v":7,"items":[{"sku":"y","taxes":[{"code":"b","amount":7}]}]}`, `{"id":1,"v":5,"op":"delete"}`, `{"id":1,"v":9,"status":"bad","items":[{"sku":"z","taxes":[{"code":"b","amount":1}]}]}`,
			`{"id":1,"v":4,"items":[{"sku":"x","taxes":[{"code":"a","amount":3}]}]}`, `{"id":1,"v":6,"items":[{"sku":"w"}]}`)
		shopIs(t, db, rows{"1|NULL", "9|NULL"}, rows{"1|w|NULL", "1|y|NULL", "9|x|NULL"}, rows{"1|y|b|7", "9|x|a|1"})
		Expect(t, db, "SELECT line FROM weir_rejects", "5")
	}},
	{"ADeleteOfChildrenOfTheSameFlush", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE orders (id BIGINT PRIMARY KEY, status TEXT CHECK (status <> 'bad'), v BIGINT)")
		n := BeginNested(t, db, VersionedShop(t, fold.ColumnScope), false)
		n.Flush(`{"id":1,"v":3,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`, `{"id":2,"v":1,"status":"bad"}`, `{"id":1,"v":7}`, `{"id":1,"v":5,"op":"delete"}`)
		shopIs(t, db, rows{"1|NULL"}, nil, nil)
		Expect(t, db, "SELECT line FROM weir_rejects", "2")
	}},
}
