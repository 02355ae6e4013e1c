package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/status/metrics"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

// takes checks that a program of .ci/needs accepts arguments.
func takes(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(testcheck.Tool(t, program), args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The alerts of contrib fire when they should, and only then.
func TestContrib_Alerts(t *testing.T) {
	takes(t, "promtool", "test", "rules", "../../contrib/alerts_test.yml")
}

// Prometheus accepts contrib's configuration. It scrapes --metrics-addr :9461, under the job name that the alerts use.
func TestContrib_Prometheus(t *testing.T) {
	takes(t, "promtool", "check", "config", "../../contrib/prometheus.yml")
	for _, line := range []string{"job_name: weir\n", "targets: ['127.0.0.1:9461']"} {
		if !strings.Contains(read(t, "../../contrib/prometheus.yml"), line) {
			t.Errorf("it has no %s", line)
		}
	}
}

// exposed returns all metrics of a run, while it lasts and in the file, with their labels.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	p := status.New("t")
	p.Describe(status.Run{Job: "j", BySource: true, SpoolLimit: 1})
	reg := metrics.New(p)
	for source, kind := range map[string]status.Kind{"a": status.Dialed, "b": status.Listening, "c": status.Partition} {
		l := p.Open(source, kind)
		defer l.Close()
		if kind == status.Partition {
			l.Partition("topic", "0", func() int64 { return 1 }, func() bool { return true })
		}
		l.Read(1, 1, true, time.Now())
	}
	p.Note(status.Ignored, "f", 1)
	reg.Database("weir_sqlite_wal_bytes", "Size.", func() int64 { return 1 })
	p.DatabaseProbed(1, nil)
	file := filepath.Join(t.TempDir(), "weir.prom")
	testcheck.NoError(t, reg.WriteFile(file, 0, true))
	w := httptest.NewRecorder()
	reg.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	names := map[string][]string{}
	label := regexp.MustCompile(`(\w+)="`)
	for _, m := range regexp.MustCompile(`(?m)^(\w+)(\{.*\})? `).FindAllStringSubmatch(w.Body.String()+read(t, file), -1) {
		names[m[1]] = []string{"instance"} // a label that Prometheus adds
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			names[m[1]] = append(names[m[1]], l[1])
		}
	}
	return names
}

// named matches the names of metrics in an expression or a page.
var named = regexp.MustCompile(`\b(weir|process)_[a-z_]+`)

// The alerts, their test, the dashboard and docs/monitoring.md only name existing metrics, and the page has all of
// weir's.
func TestContrib_MetricsExist(t *testing.T) {
	have := exposed(t)
	others := []string{"weir_job", "weir_rejects"} // a label and a table
	uses := func(file string) []string {
		names := named.FindAllString(read(t, "../../"+file), -1)
		if len(names) < 10 {
			t.Errorf("did not exercise: %s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if have[name] == nil && have[name+"_count"] == nil && !slices.Contains(others, name) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		return names
	}
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "grafana/weir.json"} {
		uses("contrib/" + file)
	}
	documented := uses("docs/monitoring.md")
	part := regexp.MustCompile("_(bucket|sum|count)$")
	for name := range have {
		if name = part.ReplaceAllString(name, ""); strings.HasPrefix(name, "weir_") && !slices.Contains(documented, name) {
			t.Errorf("docs/monitoring.md lacks %s", name)
		}
	}
}

// A dashboard has the fields that Grafana needs.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ Type, UID string }
		GridPos                  struct{ H, W, X, Y int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ RefID, Expr, LegendFormat string }
	}
}

// Grafana can show the dashboard: each panel has a position, a unit, and expressions that Prometheus accepts, and the
// labels in their legends exist.
func TestContrib_Dashboard(t *testing.T) {
	var d dashboard
	testcheck.NoError(t, json.Unmarshal([]byte(read(t, "../../contrib/grafana/weir.json")), &d))
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 30 {
		t.Errorf("%+v", d)
	}
	have := exposed(t)
	variables := []string{"__rate_interval"}
	var rows, expressions []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" {
			expressions = append(expressions, named.FindString(v.Definition))
		}
	}
	places, ids := map[[2]int]string{}, map[int]bool{}
	legend, by, variable := regexp.MustCompile(`{{(\w+)}}`), regexp.MustCompile(`by \((.*?)\)`), regexp.MustCompile(`\$(\w+)`)
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: the id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := places[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s is over %q, or beyond the edge", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if p.FieldConfig.Defaults.Unit == "" || p.Description == "" || p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s lacks a unit, a description, the data source or expressions", p.Title)
		}
		for _, target := range p.Targets {
			labels := have[named.FindString(target.Expr)]
			if m := by.FindStringSubmatch(target.Expr); m != nil {
				labels = strings.Split(m[1], ", ")
			}
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s: %s has no label %s", p.Title, target.Expr, m[1])
				}
			}
			for _, m := range variable.FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, m[1]) {
					t.Errorf("%s: there is no variable $%s", p.Title, m[1])
				}
			}
			expressions = append(expressions, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
		}
	}
	if want := "Live Backfill Kafka Database"; strings.Join(rows, " ") != want || !slices.Contains(variables, "datasource") {
		t.Errorf("rows %q, want %s; variables %q", rows, want, variables)
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, e := range expressions {
		rules += fmt.Sprintf("  - {record: expression_%d, expr: %q}\n", i, e)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	testcheck.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	takes(t, "promtool", "check", "rules", file)
}

// systemd accepts the unit, which has no more rights than it needs.
func TestContrib_Unit(t *testing.T) {
	analyze := testcheck.Tool(t, "systemd-analyze")
	l := testweir.New(t, "")
	for _, name := range []string{"weir@.service", "weir-failed@.service"} {
		unit := strings.ReplaceAll(read(t, "../../contrib/"+name), "/usr/bin/weir", l.Path("weir"))
		l.Write(name, unit)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", l.Path("weir@air.service"), l.Path("weir-failed@air.service")).CombinedOutput()
	lines := strings.SplitAfter(string(out), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "'RestartMode'") }) // only since version 254
	if out := strings.Join(lines, ""); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	takes(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", l.Path("weir@.service")) // maximum exposure, of 100
}
