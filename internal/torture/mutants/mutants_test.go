package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlace has a program run with none of its faults, with each, and with one that cannot be turned off.
func TestPlace(t *testing.T) {
	const source = `package main

import "fmt"

const limit = 3

type counter struct{ n int }

func (c *counter) add(by int) (sum int, err error) {
	for i := range by {
		c.n += i
	}
	return c.n, nil
}

func main() {
	c := &counter{}
	c.add(limit)
	fmt.Print(c.n)
}
`
	one := mutant{name: "a", old: "c.n += i", new: "c.n -= i"}
	other := mutant{name: "b", old: "return c.n, nil", new: "c.n *= 2\n\treturn"}
	third := mutant{name: "c", old: "c.add(limit)", new: "c.add(5)"}
	f := func(on, want string, always bool, mutants ...mutant) {
		t.Helper()
		var faults []fault
		for _, m := range mutants {
			at, err := m.place(source)
			if err != nil || at.always != always {
				t.Fatalf("%v, %v", at, err)
			}
			faults = append(faults, at)
		}
		path := filepath.Join(t.TempDir(), "main.go")
		text := apply(source, faults) + "\nvar " + current + " = \"" + on + "\"\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "run", path).CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("with %q on, it prints %s, %v; want %s", on, out, err, want)
		}
	}
	f("", "3", false, one, other, third)
	f("a", "-3", false, one, other, third)
	f("b", "6", false, one, other, third)
	f("c", "10", false, one, other, third)
	f("", "6", true, mutant{old: "limit = 3", new: "limit = 4"})
}

// TestMutants_HaveTheirPlace: a mutant whose code was changed or moved would be noticed only
// when all of them run.
func TestMutants_HaveTheirPlace(t *testing.T) {
	mutants, err := all()
	if err != nil || len(mutants) < 100 {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
	for _, m := range mutants {
		code, err := os.ReadFile(filepath.Join("../../..", m.file))
		if n := strings.Count(string(code), m.old); n != 1 {
			t.Errorf("%s: %s has its text %d times (%v)", m.name, m.file, n, err)
		}
	}
}
