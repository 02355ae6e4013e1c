// Command mutants puts one fault at a time into weir's code, and checks that a test fails: go run
// ./internal/test/torture/mutants [NAME...]. A mutant that survives, or whose code no longer exists, is an error. With
// NAMEs it prints the output of their tests.
package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// faults has the mutants, separated by empty lines: faults/sink/sqlite.txt has those that the tests of
// internal/sink/sqlite must notice.
//
//	its name
//	the file with the code, and the tests that must notice it; then root, if these must run as root
//	-the code, a part of a line or several lines
//	+what replaces it
//
//go:embed faults
var faults embed.FS

// A mutant is a fault: in a file, old becomes new.
type mutant struct {
	id                   string // all ids have the same length
	name, file, old, new string
	pkg, run             string // the tests that must notice it
	root                 bool   // they need root
}

// all returns the mutants of the folder.
func all() (mutants []mutant, err error) {
	err = fs.WalkDir(faults, "faults", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := faults.ReadFile(path)
		if err != nil {
			return err
		}
		pkg := "./internal/" + strings.TrimSuffix(strings.TrimPrefix(path, "faults/"), ".txt")
		for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			lines := strings.Split(part, "\n")
			m := mutant{name: lines[0], pkg: pkg}
			if len(lines) < 3 || len(strings.Fields(lines[1])) < 2 {
				return fmt.Errorf("%s: %q is no mutant", path, part)
			}
			place := strings.Fields(lines[1])
			m.file, m.run, m.root = place[0], place[1], slices.Contains(place[2:], "root")
			var old, new []string
			for _, line := range lines[2:] {
				if code, ok := strings.CutPrefix(line, "-"); ok {
					old = append(old, code)
				} else {
					new = append(new, strings.TrimPrefix(line, "+"))
				}
			}
			m.old, m.new = strings.Join(old, "\n"), strings.Join(new, "\n")
			mutants = append(mutants, m)
		}
		return nil
	})
	return mutants, err
}

func main() {
	dir, err := os.MkdirTemp("", "weir-mutants-")
	if err == nil {
		err = errors.Join(run(dir, os.Args[1:]), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// atOnce is the number of mutants that are tested at the same time: a test mostly waits.
const atOnce = 4

// run tests the mutants at once, then those that survived a second time, alone: some faults show only if a test is
// quick enough to come between two events.
func run(dir string, names []string) error {
	some, err := wanted(names)
	if err != nil {
		return err
	}
	programs, err := programsOf(dir, some)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var again []func() (caught bool, err error)
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, p := range programs {
		if err := p.build(); err != nil {
			return errors.Join(err, group.Wait())
		}
		if !p.faults[0].always {
			group.Go(p.passes)
		}
		for _, m := range p.mutants {
			try := func() (bool, error) { return p.try(m, len(names) > 0) }
			group.Go(func() error {
				caught, err := try()
				if !caught {
					mu.Lock()
					defer mu.Unlock()
					again = append(again, try)
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	survived := 0
	for _, try := range again {
		caught, err := try()
		if err != nil {
			return err
		}
		if !caught {
			survived++
		}
	}
	fmt.Printf("%d of %d mutants caught, %d at the second try\n", len(some)-survived, len(some), len(again)-survived)
	if survived > 0 || len(some) == 0 {
		return fmt.Errorf("%d mutants survived", survived)
	}
	return nil
}

// try reports whether a test fails with the fault, and prints which; with output, also what the tests print.
func (p *program) try(m mutant, output bool) (caught bool, err error) {
	start := time.Now()
	by, out, err := p.caughtBy(m)
	if output {
		fmt.Printf("%s", out)
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("%s: %w", m.name, err)
	case by == "":
		fmt.Printf("SURVIVED  %s\n", m.name)
		return false, nil
	}
	fmt.Printf("caught    %s (%.1f s)\n          by %s\n", m.name, time.Since(start).Seconds(), by)
	return true, nil
}

// wanted returns the mutants with these names, or all if there are none, without mutants whose tests need root if
// this process is not root.
func wanted(names []string) (some []mutant, err error) {
	mutants, err := all()
	for _, m := range mutants {
		switch {
		case len(names) > 0 && !slices.Contains(names, m.name):
		case m.root && os.Geteuid() != 0:
			fmt.Printf("NOT RUN   %s: its test takes root\n", m.name)
		default:
			some = append(some, m)
		}
	}
	return some, err
}

var (
	failed = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	reason = regexp.MustCompile(`(?m)^ *\w+\.go:\d+: (.*)`)
)

// caughtBy returns the first test that fails with the fault and why, "" if none does, and the output of the tests.
func (p *program) caughtBy(m mutant) (by string, out []byte, err error) {
	out, passed, err := p.test(m.id, m.run)
	test := failed.FindSubmatch(out)
	switch {
	case passed || err != nil:
		return "", out, err
	case test == nil:
		return "a panic or the end of time", out, nil
	}
	by = string(test[1])
	if why := reason.FindSubmatch(out); why != nil {
		by += ": " + string(why[1][:min(len(why[1]), 90)])
	}
	return by, out, nil
}
