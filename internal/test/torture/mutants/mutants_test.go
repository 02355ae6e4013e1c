package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestPlace runs a program with no fault, with each of its faults, and with a fault that cannot be turned off.
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
	one := mutant{id: "mutant 0001", old: "c.n += i", new: "c.n -= i"}
	other := mutant{id: "mutant 0002", old: "return c.n, nil", new: "c.n *= 2\n\treturn"}
	third := mutant{id: "mutant 0003", old: "c.add(limit)", new: "c.add(5)"}
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
		text := apply(source, faults) + "\nvar " + current + " = \"" + noMutant + "\"\n"
		testcheck.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		if out, err := exec.Command("go", "build", "-o", path+".all", path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		testcheck.NoError(t, turnOn(on, path+".all", path+".on"))
		if out, err := exec.Command(path + ".on").CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("with %q on, it prints %s, %v; want %s", on, out, err, want)
		}
	}
	f(noMutant, "3", false, one, other, third)
	f(one.id, "-3", false, one, other, third)
	f(other.id, "6", false, one, other, third)
	f(third.id, "10", false, one, other, third)
	f(noMutant, "6", true, mutant{old: "limit = 3", new: "limit = 4"})
}

// TestMutants_HaveTheirPlace: otherwise a mutant whose code was changed or moved would only be noticed when all of
// them run.
func TestMutants_HaveTheirPlace(t *testing.T) {
	mutants, err := all()
	if err != nil || len(mutants) < 100 {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
	for _, m := range mutants {
		code, err := os.ReadFile(filepath.Join("../../../..", m.file))
		if n := strings.Count(string(code), m.old); n != 1 {
			t.Errorf("%s: %s has its text %d times (%v)", m.name, m.file, n, err)
		}
	}
}
