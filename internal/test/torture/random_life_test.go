package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/test/foldtest"
)

// A life is what happens to a table and its checkpoints after everything was read.
type life struct {
	kind  string         // "" for nothing
	rules foldtest.Rules // for "other settings"
	way   string         // how the run deals with it: accept, from-start, rebuild
	lines []string       // of "a replaced file", or appended after settings were accepted
}

// drawLife draws a life for a case that is otherwise complete.
func (c *randomCase) drawLife(rnd *rand.Rand, s *feedSource) {
	if c.stdin || c.late || rnd.IntN(3) != 0 {
		return
	}
	l := &c.life
	if l.kind = pick(rnd, []string{"other settings", "a missing table", "another table", "a missing column", "a replaced file", "from the start"}); c.merges {
		if c.writers == 2 { // a rebuild by one writer removes the other's rows
			l.kind = ""
			return
		}
		l.kind = pick(rnd, []string{"a missing table", "another table"}) // nothing else can be read again, because that would add twice
	}
	l.lines = s.lines(len(s.version))
	if l.kind != "other settings" {
		return
	}
	l.way = pick(rnd, []string{"accept", "from-start", "rebuild"})
	l.rules = c.rules
	r := &l.rules
	switch k := rnd.IntN(6); {
	case k == 0 && r.DeleteField == "" && !r.FillOnly:
		r.DeleteField, r.DeleteValue = "op", "delete"
	case k == 0 && r.DeleteField != "":
		r.DeleteField, r.DeleteValue = "", ""
	case k == 1 && r.Version == "":
		r.FillOnly = !r.FillOnly
		r.DeleteField, r.DeleteValue = "", ""
	case k == 2 && r.Version != "":
		r.Version, r.RowScope = "", false
	case k == 3:
		r.Columns = map[string]string{"": "ignore", "ignore": "add", "reject": "add", "add": "ignore"}[r.Columns]
	case k == 4 && len(r.Key) == 2 && c.table == nil:
		r.Key = r.Key[:1]
	default:
		r.KeepNull = !r.KeepNull
	}
}

// secondLife applies the life, and checks its consequences.
func (r *running) secondLife() error {
	l := r.life
	if r.writers == 2 && l.kind != "a missing table" || !r.allHavePositions() {
		return nil
	}
	switch l.kind {
	case "other settings":
		return r.otherSettings(l)
	case "a missing table", "another table":
		return r.missingTable(l.kind == "another table")
	case "a missing column":
		return r.missingColumn()
	case "a replaced file":
		return r.replacedFile(l.lines)
	case "from the start":
		return r.again("--restart=reread")
	}
	return nil
}

// allHavePositions reports whether each source has an accepted line.
func (r *running) allHavePositions() bool {
	r.model()
	for w, files := range r.files {
		for p := range files {
			if r.accepted[r.file(w, p)] == 0 {
				return false
			}
		}
	}
	return true
}

// expect runs the program, and expects an exit code and an unchanged table.
func (r *running) expect(want int, args ...string) error {
	if code, out := r.weir(nil, 0, append(r.args(0, r.To), args...)...); code != want {
		return fmt.Errorf("%s: the run ended with %d, not %d\n%s", strings.Join(args, " "), code, want, out)
	}
	return nil
}

// syncWith runs a writer with an additional flag.
func (r *running) syncWith(flag string, writer int) error {
	r.extra = []string{flag}
	defer func() { r.extra = nil }()
	return r.sync(writer, 0)
}

// again reads all sources from their start.
func (r *running) again(flag string) error {
	r.fromStart()
	whole := r.kills == 0 && slices.Contains(r.flags, "100000") && !slices.Contains(r.flags, "--batch-period") && len(r.files[0]) == 1 && len(r.appended) == 0 &&
		r.writers == 1 && r.life.kind == "from the start" && !r.rules.FillOnly && r.table == nil && r.mapping == nil
	for w := range r.writers {
		if err := r.syncWith(flag, w); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	if n := r.counts[0]; whole && n.Inserted+n.Updated+n.Deleted > 0 {
		return fmt.Errorf("%s wrote rows that were right: %+v", flag, n)
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	for w := range r.writers {
		if err := r.sync(w, 0); err != nil {
			return fmt.Errorf("after %s: %w", flag, err)
		}
	}
	return nil
}

func (r *running) otherSettings(l life) error {
	if len(r.between) > 0 && len(l.rules.Key) != len(r.rules.Key) {
		return nil // a view prevents the table from being recreated
	}
	key, fill := len(l.rules.Key) != len(r.rules.Key), l.rules.FillOnly != r.rules.FillOnly
	next := *r.randomCase
	next.rules, next.keys = l.rules, next.keys[:len(l.rules.Key)]
	now := r.randomCase
	r.randomCase = &next
	if err := r.expect(2); err != nil {
		return fmt.Errorf("other settings: %w", err)
	}
	refused := l.way == "accept" && key || l.way == "from-start" && (key || fill) || l.way == "rebuild" && r.table != nil
	if refused {
		if code, out := r.weir(nil, 0, append(r.args(0, r.To), map[string]string{"accept": "--accept-settings"}[l.way]+map[string]string{"from-start": "--restart=reread", "rebuild": "--restart=rebuild"}[l.way])...); code != 1 && code != 2 {
			return fmt.Errorf("other settings: %s ended with %d, not 1 or 2\n%s", l.way, code, out)
		}
		r.randomCase = now
		return r.check()
	}
	r.blind = true // verify folds with only the new settings
	r.model()
	if r.fold.Rules = l.rules; r.postgres { // Postgres has no column that has only nulls
		for _, column := range r.fold.Columns {
			if r.table == nil && r.fold.Type(column.Name) == "" {
				r.fold.Drop(column.Name)
			}
		}
	}
	switch l.way {
	case "accept":
		if err := r.syncWith("--accept-settings", 0); err != nil {
			return fmt.Errorf("other settings: %w", err)
		}
		if r.pack == "" && !r.noEnd {
			r.grow(l.lines)
		}
		if err := r.sync(0, 0); err != nil {
			return fmt.Errorf("other settings, accepted: %w", err)
		}
		return r.check()
	case "from-start":
		return r.again("--restart=reread")
	}
	if r.fold.Empty(); key { // then the table is recreated
		r.fold = nil
	}
	r.blind = l.rules.Columns != now.rules.Columns || l.rules.MaxColumns != now.rules.MaxColumns // its columns stay
	return r.again("--restart=rebuild")
}

// grow appends lines to the first writer's last file.
func (r *running) grow(lines []string) {
	last := len(r.files[0]) - 1
	r.replace(slices.Concat(r.files[0][last], lines))
}

// replace overwrites that file with other lines.
func (r *running) replace(lines []string) {
	next := *r.randomCase
	next.files = slices.Clone(next.files)
	next.files[0] = slices.Clone(next.files[0])
	next.files[0][len(next.files[0])-1] = lines
	r.randomCase = &next
	r.write()
}

func (r *running) missingTable(another bool) error {
	if r.table != nil {
		return nil
	}
	drop := "DROP TABLE t"
	if r.postgres {
		drop += " CASCADE"
	}
	r.Exec(drop)
	code := 1
	if another {
		if (len(r.rules.Merge) > 0 || r.rules.RowScope) && r.rules.Columns != "add" {
			code = 2 // it lacks the columns to merge, or the version's
		}
		r.Exec("CREATE TABLE t (" + strings.Join(r.rules.Key, " TEXT, ") + " TEXT, PRIMARY KEY (" + strings.Join(r.rules.Key, ", ") + "))")
	}
	if err := r.expect(code); err != nil {
		return fmt.Errorf("a table that is missing or another one: %w", err)
	}
	if another {
		r.Exec(drop)
	}
	if err := r.expect(1, "--accept-settings"); err != nil {
		return err
	}
	r.model()
	r.fold = nil
	if r.merges {
		return r.again("--restart=rebuild")
	}
	return r.again("--restart=reread")
}

func (r *running) missingColumn() error {
	if r.table != nil || r.rules.Version != "" || len(r.between) > 0 {
		return nil
	}
	db := r.open()
	_, columns, err := r.read(db)
	db.Close()
	columns = slices.DeleteFunc(columns, func(c string) bool { return slices.Contains(r.rules.Key, c) })
	if err != nil || len(columns) == 0 {
		return err
	}
	slices.Sort(columns)
	r.Exec("ALTER TABLE t DROP COLUMN " + quote(columns[0]))
	if err := r.expect(1); err != nil {
		return fmt.Errorf("the column %q is missing: %w", columns[0], err)
	}
	r.model()
	r.fold.Drop(columns[0])
	r.blind = true
	return r.again("--restart=reread")
}

func (r *running) replacedFile(lines []string) error {
	last := len(r.files[0]) - 1
	if r.files[0][last][0] == lines[0] {
		return nil
	}
	r.model()
	r.replace(lines)
	if err := r.expect(1); err != nil {
		return fmt.Errorf("a replaced file: %w", err)
	}
	r.blind = true
	return r.again("--restart=reread")
}
