package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/weirsync/weir/internal/test/torture"
)

// A program is the test binary of a package with all faults that its tests must notice: building a binary for each
// takes longer than the tests. Each function with faults has one more body per fault, which runs in the copy of the
// binary in which the mutant's ID replaces noMutant. Tests start the programs that they need from that copy.
type program struct {
	pkg     string
	mutants []mutant
	faults  []fault
	dir     string
}

func (p *program) binary() string { return filepath.Join(p.dir, "test") }

// current is the variable with the ID of the active mutant, and noMutant its value in a program. IDs have the same
// length.
const (
	current  = "currentMutant"
	noMutant = "mutant none"
)

// programsOf groups mutants, the largest group first. A mutant outside of functions has its own program.
func programsOf(dir string, mutants []mutant) (programs []*program, err error) {
	of := map[string]*program{}
	for i := range mutants {
		m := &mutants[i]
		m.id = fmt.Sprintf("mutant %04d", i)
		source, err := os.ReadFile(m.file)
		if err != nil {
			return nil, err
		}
		f, err := m.place(string(source))
		if err != nil {
			return nil, err
		}
		key := m.pkg
		if f.always {
			key = m.name
		}
		p := of[key]
		if p == nil {
			p = &program{pkg: m.pkg, dir: filepath.Join(dir, fmt.Sprint(len(programs)))}
			of[key], programs = p, append(programs, p)
		}
		p.mutants, p.faults = append(p.mutants, *m), append(p.faults, f)
	}
	slices.SortStableFunc(programs, func(a, b *program) int { return cmp.Compare(len(b.mutants), len(a.mutants)) })
	return programs, nil
}

// A fault replaces a part of a file's text.
type fault struct {
	file, pkg string // name in the package clause
	at, end   int    // of the part
	text      string
	always    bool // it cannot be turned on and off
}

// place finds the mutant's part in a file's text.
func (m *mutant) place(source string) (f fault, err error) {
	if n := strings.Count(source, m.old); n != 1 {
		return f, fmt.Errorf("%s: %q is %d times in %s", m.name, m.old, n, m.file)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, m.file, source, parser.SkipObjectResolution)
	if err != nil {
		return f, err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	at := strings.Index(source, m.old)
	end := at + len(m.old)
	for _, d := range parsed.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || d.Body == nil || at <= offset(d.Body.Lbrace) || end > offset(d.Body.Rbrace) {
			continue
		}
		begin := offset(d.Body.Lbrace) + 1
		body := source[begin:at] + m.new + source[end:offset(d.Body.Rbrace)]
		other := fmt.Sprintf("func() {%s}(); return", body)
		if r := d.Type.Results; r != nil {
			other = fmt.Sprintf("return func() %s {%s}()", source[offset(r.Pos()):offset(r.End())], body)
		}
		return fault{m.file, parsed.Name.Name, begin, begin, fmt.Sprintf("\nif %s == %q { %s }\n", current, m.id, other), false}, nil
	}
	return fault{m.file, parsed.Name.Name, at, end, m.new, true}, nil
}

// apply returns a file's text with its faults.
func apply(source string, faults []fault) string {
	slices.SortStableFunc(faults, func(a, b fault) int { return cmp.Compare(b.at, a.at) }) // last one first
	for _, f := range faults {
		source = source[:f.at] + f.text + source[f.end:]
	}
	return source
}

// build builds the program.
func (p *program) build() error {
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return err
	}
	byFile := map[string][]fault{}
	for _, f := range p.faults {
		byFile[f.file] = append(byFile[f.file], f)
	}
	instead := map[string]string{} // texts of replaced files
	for file, faults := range byFile {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		instead[file] = apply(string(source), faults)
		instead[filepath.Join(filepath.Dir(file), "current_mutant.go")] = fmt.Sprintf("package %s\nvar %s = %q\n", faults[0].pkg, current, noMutant)
	}
	config, err := torture.Overlay(p.dir, instead)
	if err != nil {
		return err
	}
	if out, err := exec.Command("go", "test", "-c", "-o", p.binary(), "-overlay", config, "-vet=off", "-ldflags=-s -w", p.pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not build with its mutants: %w\n%s", p.pkg, err, out)
	}
	return nil
}

// passes checks that a test passes without a fault.
func (p *program) passes() error {
	out, passed, err := p.test(noMutant, p.mutants[0].run)
	if err == nil && !passed {
		err = fmt.Errorf("%s fails without a mutant:\n%s", p.pkg, out)
	}
	return err
}

// test runs tests with a mutant.
func (p *program) test(id, run string) (out []byte, passed bool, err error) {
	binary := filepath.Join(p.dir, id)
	if err := turnOn(id, p.binary(), binary); err != nil {
		return nil, false, err
	}
	c := exec.Command(binary, "-test.failfast", "-test.timeout=90s", "-test.paniconexit0", "-test.run", run)
	c.Dir = p.pkg
	out, err = c.CombinedOutput()
	if errors.As(err, new(*exec.ExitError)) {
		return out, false, os.Remove(binary)
	}
	return out, err == nil, errors.Join(err, os.Remove(binary))
}

// turnOn copies a program with a mutant turned on.
func turnOn(id, from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	for at := bytes.Index(text, []byte(noMutant)); id != noMutant && at >= 0; at = bytes.Index(text, []byte(noMutant)) {
		copy(text[at:], id)
	}
	syscall.ForkLock.RLock() // a process that starts now would inherit the file, and a file that is open for writing cannot be executed
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(to, text, 0o700)
}
