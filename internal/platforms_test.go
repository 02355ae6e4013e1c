package internal_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramCompilesForOtherPlatforms type-checks the program for platforms that the tests do not run on. It reads
// only the declarations of dependencies, which takes a second instead of a minute.
func TestProgramCompilesForOtherPlatforms(t *testing.T) {
	for _, platform := range []string{"windows/amd64", "darwin/arm64", "freebsd/amd64"} {
		t.Run(platform, func(t *testing.T) {
			system, processor, _ := strings.Cut(platform, "/")
			checked := map[string]*types.Package{"unsafe": types.Unsafe}
			// GOFLAGS may hold -race, which needs cgo.
			for _, p := range packages(t, "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0", "GOFLAGS=") {
				if p.ImportPath != "unsafe" {
					checked[p.ImportPath] = p.check(t, types.SizesFor("gc", processor), checked)
				}
			}
		})
	}
}

// A pkg is a package of the program, as go list describes it.
type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // what an import means, if not what it says
	Module          struct{ Main bool }
}

// packages returns the program's packages, each after its imports.
func packages(t *testing.T, env ...string) (all []pkg) {
	t.Helper()
	list := exec.Command("go", "list", "-pgo=off", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "../cmd/weir")
	list.Env = append(os.Environ(), env...)
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// check type-checks a package whose imports were checked.
func (p *pkg) check(t *testing.T, sizes types.Sizes, checked map[string]*types.Package) *types.Package {
	t.Helper()
	positions := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(positions, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	c := types.Config{IgnoreFuncBodies: !p.Module.Main, Sizes: sizes, Error: func(err error) { t.Error(err) },
		Importer: importer(func(path string) *types.Package {
			if means, ok := p.ImportMap[path]; ok {
				path = means
			}
			return checked[path]
		})}
	done, _ := c.Check(p.ImportPath, positions, files, nil) // Error has the errors
	return done
}

type importer func(path string) *types.Package

func (f importer) Import(path string) (*types.Package, error) { return f(path), nil }
