// Package internal has tests for the whole tree.
package internal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirsync/weir/"

// allowed is what each package may import from the module and from other modules. Arrows point only downwards.
var allowed = map[string][]string{
	"cmd/weir":     {"internal/cli"},
	"docs/dev/man": {"internal/cli", "github.com/spf13/cobra", "github.com/spf13/cobra/doc"},
	"internal/cli": {"internal/mapping/envelope/firehose", "internal/feed", "internal/fold", "internal/mapping", "internal/fold/merge", "internal/status/metrics", "internal/pipeline", "internal/status", "internal/quantity", "internal/replay", "internal/fold/schema", "internal/service", "internal/sink",
		"internal/sink/postgres", "internal/sink/sqlite", "internal/source", "internal/settings", "internal/spool", "internal/status/web", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"},
	"bench/report": {},
	"bench/ladder": {"bench/report", "internal/feed", "internal/fold", "internal/pipeline", "internal/lockfile", "internal/mapping", "internal/status", "internal/quantity", "internal/sink", "internal/sink/postgres", "internal/sink/sqlite", "internal/source", "internal/source/file",
		"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/stdlib", "modernc.org/libc", "modernc.org/sqlite/lib"},
	"bench/stories": {"bench/ladder", "bench/report", "internal/fold", "internal/pipeline", "internal/test/latency", "internal/mapping", "internal/mapping/paths", "internal/test/pgserver", "internal/status", "internal/quantity", "internal/sink", "internal/sink/postgres", "internal/sink/sqlite", "internal/source/file", "internal/spool",
		"github.com/jackc/pgx/v5"},
	"internal/replay": {"internal/feed", "internal/source", "internal/source/file", "github.com/klauspost/compress/flate", "github.com/klauspost/compress/gzip", "github.com/klauspost/compress/zlib", "golang.org/x/time/rate"},
	"internal/settings": {"internal/mapping/cast", "internal/mapping/envelope", "internal/mapping/envelope/firehose", "internal/feed", "internal/fold", "internal/pipeline", "internal/mapping", "internal/memory", "internal/fold/merge", "internal/mapping/paths", "internal/quantity", "internal/fold/schema", "internal/sink", "internal/source", "internal/source/file", "internal/source/kafka", "internal/source/tcp", "internal/spool",
		"github.com/spf13/pflag", "go.yaml.in/yaml/v3"},
	"internal/service":    {},
	"internal/status/web": {"internal/fold", "internal/status", "internal/quantity"},
	"internal/status":     {"internal/feed", "internal/fold", "internal/quantity", "internal/sink"},
	"internal/status/metrics": {"internal/feed", "internal/sink", "internal/status", "github.com/prometheus/client_golang/prometheus",
		"github.com/prometheus/client_golang/prometheus/collectors", "github.com/prometheus/client_golang/prometheus/promhttp"},
	"internal/pipeline":      {"internal/mapping/envelope", "internal/feed", "internal/fold", "internal/mapping", "internal/quantity", "internal/status", "internal/fold/schema", "internal/sink", "internal/source", "internal/spool", "golang.org/x/sync/errgroup", "golang.org/x/time/rate"},
	"internal/sink/sinktest": {"internal/mapping/cast", "internal/mapping/envelope", "internal/feed", "internal/fold", "internal/test/foldtest", "internal/test/logtest", "internal/mapping", "internal/fold/merge", "internal/mapping/paths", "internal/fold/schema", "internal/sink", "internal/test/testcheck", "github.com/rogpeppe/go-internal/txtar"},
	"internal/sink/example":  {"internal/feed", "internal/fold", "internal/fold/merge", "internal/fold/schema", "internal/sink", "modernc.org/sqlite"},
	"internal/sink/sqlite": {"internal/backoff", "internal/feed", "internal/fold", "internal/lockfile", "internal/fold/merge", "internal/fold/schema", "internal/sink",
		"modernc.org/sqlite", "modernc.org/sqlite/lib", "modernc.org/libc"},
	"internal/sink/postgres": {"internal/backoff", "internal/feed", "internal/fold", "internal/fold/merge", "internal/fold/schema", "internal/sink", "internal/tcp",
		"github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/pgproto3"},
	"internal/test/foldtest":             {"internal/mapping/cast", "internal/mapping", "internal/mapping/paths"},
	"internal/test/logtest":              {},
	"internal/test/pgserver":             {"github.com/jackc/pgx/v5/pgconn"},
	"internal/test/testpg":               {"internal/test/latency", "internal/test/pgserver", "internal/test/testcheck", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/pgproto3"},
	"internal/lockfile":                  {"golang.org/x/sys/unix", "golang.org/x/sys/windows"},
	"internal/spool":                     {"internal/backoff", "internal/lockfile", "internal/quantity", "internal/source", "internal/status", "github.com/klauspost/compress/zstd"},
	"internal/sink":                      {"internal/backoff", "internal/feed", "internal/fold", "internal/fold/schema"},
	"internal/fold":                      {"internal/feed", "internal/fold/merge", "internal/fold/schema"},
	"internal/fold/merge":                {"internal/feed"},
	"internal/mapping":                   {"internal/mapping/cast", "internal/mapping/envelope", "internal/feed", "internal/fold", "internal/fold/merge", "internal/mapping/paths", "internal/fold/schema"},
	"internal/mapping/cast":              {"internal/feed", "internal/fold/schema"},
	"internal/mapping/paths":             {"internal/feed"},
	"internal/fold/schema":               {"internal/feed", "internal/fold/merge"},
	"internal/feed":                      {},
	"internal/backoff":                   {},
	"internal/test/latency":              {},
	"internal/memory":                    {"internal/quantity", "golang.org/x/sys/unix", "golang.org/x/sys/windows"},
	"internal/quantity":                  {},
	"internal/tcp":                       {"golang.org/x/sys/unix"},
	"internal/source":                    {},
	"internal/mapping/envelope":          {"internal/mapping/cast", "internal/feed", "internal/mapping/paths", "internal/fold/schema"},
	"internal/mapping/envelope/firehose": {"internal/source"},
	"internal/source/sourcetest":         {"internal/test/logtest", "internal/source", "internal/test/testcheck"},
	"internal/source/example":            {"internal/source", "internal/source/lines"},
	"internal/source/lines":              {"internal/feed", "internal/source", "github.com/klauspost/compress/flate", "github.com/klauspost/compress/gzip", "github.com/klauspost/compress/zlib", "github.com/klauspost/compress/zstd"},
	"internal/source/file":               {"internal/backoff", "internal/source", "internal/source/lines"},
	"internal/source/tcp":                {"internal/backoff", "internal/source", "internal/source/lines", "internal/tcp"},
	"internal/source/kafka": {"internal/backoff", "internal/feed", "internal/source", "internal/tcp", "github.com/twmb/franz-go/pkg/kadm", "github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/kmsg",
		"github.com/twmb/franz-go/pkg/sasl", "github.com/twmb/franz-go/pkg/sasl/plain", "github.com/twmb/franz-go/pkg/sasl/scram"},
	"internal/test/testkafka":       {"internal/test/pgserver", "internal/test/testcheck", "internal/test/testtls", "github.com/twmb/franz-go/pkg/kadm", "github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kfake", "github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/kmsg"},
	"internal/test/testmirror":      {},
	"internal/test/testcheck":       {"github.com/rogpeppe/go-internal/txtar"},
	"internal/test/testweir":        {"internal/cli", "internal/test/testcheck", "internal/test/testtls", "github.com/jackc/pgx/v5/stdlib", "github.com/klauspost/compress/gzip", "github.com/klauspost/compress/zstd", "github.com/rogpeppe/go-internal/testscript", "modernc.org/sqlite"},
	"internal/test/testtls":         {},
	"internal/test/bench":           {},
	"internal/test/bench/gen":       {"internal/test/bench"},
	"internal/test/bench/table":     {"internal/test/bench"},
	"internal/test/torture":         {},
	"internal/test/torture/mutants": {"internal/test/torture", "golang.org/x/sync/errgroup"},
	"internal":                      {},
}

func TestImportsRunDownwards(t *testing.T) {
	for _, line := range list(t, "-pgo=off", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "../...") {
		pkg, imports, _ := strings.Cut(strings.TrimPrefix(line, module), " ")
		rules, known := allowed[pkg]
		if !known {
			t.Errorf("%s is not in the table: what may it import?", pkg)
		}
		for _, i := range strings.Fields(imports) {
			if i = strings.TrimPrefix(i, module); strings.Contains(i, ".") || strings.HasPrefix(i, "internal/") {
				if strings.HasPrefix(i, "vendor/") || i == "unsafe" || slices.Contains(rules, i) {
					continue
				}
				t.Errorf("%s imports %s, which the table does not allow", pkg, i)
			}
		}
	}
}

// TestArchitectureShowsTheImports compares docs/dev/architecture.md with the program's packages: each must be above
// all that it imports.
func TestArchitectureShowsTheImports(t *testing.T) {
	imports, height := map[string][]string{}, map[string]int{}
	var levels [][]string
	for _, line := range list(t, "-pgo=off", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "../cmd/weir") { // imported packages come first
		pkg, all, _ := strings.Cut(line, " ")
		pkg, ours := strings.CutPrefix(pkg, module)
		if !ours {
			continue
		}
		for _, i := range strings.Fields(all) {
			if i, ours := strings.CutPrefix(i, module); ours {
				imports[pkg] = append(imports[pkg], strings.TrimPrefix(i, "internal/"))
				height[pkg] = max(height[pkg], height[i]+1)
			}
		}
		for len(levels) <= height[pkg] {
			levels = append(levels, nil)
		}
		levels[height[pkg]] = append(levels[height[pkg]], pkg)
	}
	var want strings.Builder
	for _, level := range slices.Backward(levels) {
		slices.Sort(level)
		for _, pkg := range level {
			name := strings.TrimPrefix(pkg, "internal/")
			if len(imports[pkg]) > 0 {
				name = fmt.Sprintf("%-14s ──▶ %s", name, strings.Join(imports[pkg], " "))
			}
			want.WriteString(name + "\n")
		}
		want.WriteString("\n")
	}
	page, err := os.ReadFile("../docs/dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if block := "```\n" + strings.TrimSuffix(want.String(), "\n") + "```\n"; !strings.Contains(string(page), block) {
		t.Errorf("docs/dev/architecture.md lacks this drawing of the imports:\n%s", block)
	}
}

// TestDriversAreNamedOnce: only one list of the commands names the kinds of databases.
func TestDriversAreNamedOnce(t *testing.T) {
	files, err := filepath.Glob("cli/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `/internal/sink/`) && f != filepath.Join("cli", "drivers.go") && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("%s names a driver: drivers.go is the place", f)
		}
	}
}

// TestProgramHasNoTestLibrary: the program does not include test helpers.
func TestProgramHasNoTestLibrary(t *testing.T) {
	for _, dep := range list(t, "-pgo=off", "-deps", "../cmd/weir") {
		for _, banned := range []string{"testing", "testscript", "testweir", "goleak", "rapid", "go-cmp", "go-json-experiment", "sinktest", "sink/example", "sourcetest", "source/example", "kfake", "internal/test/bench"} {
			if strings.Contains(dep, banned) && !strings.Contains(dep, "internal/testlog") {
				t.Errorf("cmd/weir depends on %s", dep)
			}
		}
	}
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
