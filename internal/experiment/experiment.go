// Package experiment measures on the user's own disk, database and data what weir makes of the
// figures that people quote: each experiment writes beside the user's tables, and leaves nothing
// behind.
package experiment
