package mapping

import (
	"slices"

	"github.com/weirsync/weir/internal/mapping/paths"
)

// exclude reports whether no message can meet both conditions. spell normalizes a path.
func exclude(a, b paths.When, spell func(paths.Path) string) bool {
	if a == nil || b == nil {
		return false
	}
	for _, x := range a {
		for _, y := range b {
			if !slices.ContainsFunc(x, func(t paths.Test) bool {
				return slices.ContainsFunc(y, func(u paths.Test) bool {
					return spell(t.Path) == spell(u.Path) && disjoint(t, u)
				})
			}) {
				return false
			}
		}
	}
	return true
}

// disjoint reports whether no value can meet both tests.
func disjoint(a, b paths.Test) bool {
	switch {
	case a.Present == paths.MustBeAbsent || b.Present == paths.MustBeAbsent:
		return !meetsAbsent(a) || !meetsAbsent(b)
	case a.In == nil || b.In == nil || a.Not && b.Not:
		return false
	case a.Not:
		a, b = b, a
	}
	return !slices.ContainsFunc(a.In, func(v paths.Value) bool { return slices.Contains(b.In, v) != b.Not })
}

func meetsAbsent(t paths.Test) bool {
	return t.Present == paths.MustBeAbsent || t.Present == paths.AnyPresence && t.Not
}
