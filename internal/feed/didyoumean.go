package feed

import (
	"fmt"
	"strings"
)

// DidYouMean returns what an error adds about a mistyped name: the most similar of names, or "".
func DidYouMean(name string, names []string) string {
	nearest, meant := 3, ""
	for _, n := range names {
		d := distance(name, n)
		if d < nearest && 2*d <= len(strings.TrimPrefix(strings.TrimPrefix(n, "--"), "WEIR_")) {
			nearest, meant = d, fmt.Sprintf("; did you mean %q?", n)
		}
	}
	return meant
}

// distance returns how many letters must be added, removed, changed, or swapped with the next one to turn a into b.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
