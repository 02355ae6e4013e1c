package postgres

import (
	"strings"

	"github.com/weirsync/weir/internal/schema"
)

// widened is SQL for a column's values as another type. The digits of a double are those
// of its shortest text: Postgres' own cast to numeric keeps 15 of them.
func widened(col string, from, to schema.Type) string {
	switch {
	case from == schema.Real && to == schema.Number:
		return "CASE WHEN " + bordering(col) + " THEN " + shortest(col) + " ELSE " + col + "::text::numeric END"
	case from == schema.Real && to == schema.Text:
		digits := "rtrim(abs(" + shortest(col) + ")::text, '0')"
		text := "CASE WHEN " + col + " < 0 THEN '-' ELSE '' END || rtrim(left(" + digits + ", 1) || '.' || substr(" + digits + ", 2), '.')" +
			" || 'e+' || length(abs(" + shortest(col) + ")::text) - 1"
		return "CASE WHEN " + bordering(col) + " THEN " + text + " ELSE " + col + "::text END"
	}
	return col + "::" + declare(&schema.Column{Type: to})
}

// bordering is SQL for whether a double is one of those whose shortest decimal may lie on
// the border between it and the next double. Such a decimal reads back as the double whose
// last bit is 0. Go and SQLite's readers print it (1e23), Postgres the next longer one
// (9.999999999999999e+22). Smaller doubles have borders of 17 digits and more, and for
// larger ones the 54 bits of a border would have to hold more than 23 factors of 5.
func bordering(col string) string {
	return "abs(" + col + ") BETWEEN 9007199254740992 AND 1e39"
}

// shortest is SQL for the number that the shortest text of a bordering double stands for.
// Between the double and its border no number has fewer digits than what Postgres prints,
// so that one with a digit less is next to that, above or below.
func shortest(col string) string {
	text := col + "::text" // d.ddde+dd
	number := text + "::numeric"
	// How many of the digits before the point are zeros where a digit less is printed.
	zeros := "(split_part(" + text + ", 'e', 2)::int - length(split_part(split_part(" + text + ", 'e', 1), '.', 2)) + 1)"
	below := "trunc(" + number + ", -" + zeros + ")"
	above := "(" + below + " + sign(" + number + ") * trunc(power(10::numeric, " + zeros + ")))"
	return strings.Join([]string{"CASE " + col, "WHEN " + below + "::float8 THEN " + below, "WHEN " + above + "::float8 THEN " + above, "ELSE " + number + " END"}, " ")
}
