package testmirror

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

const examples = "../../../examples/debezium/"

// example returns a file of the example.
func example(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(examples + name)
	testcheck.NoError(t, err)
	return string(text)
}

// A service is a service of a compose file.
type service struct {
	Image       string
	User        string
	Build       map[string]string
	Command     []string
	Environment map[string]string
	Volumes     []string
	WorkingDir  string `yaml:"working_dir"`
	Restart     string
	Healthcheck struct {
		Test     []string
		Interval string
		Retries  int
	}
	DependsOn map[string]map[string]string `yaml:"depends_on"`
}

// compose returns the services of the example's compose file, which must have no other keys than these.
func compose(t testing.TB) map[string]service {
	t.Helper()
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	decoder := yaml.NewDecoder(strings.NewReader(example(t, "compose.yaml")))
	decoder.KnownFields(true)
	testcheck.NoError(t, decoder.Decode(&file))
	for name, s := range file.Services {
		if (s.Build == nil) != regexp.MustCompile(`^[a-z/]+:[a-z0-9.-]+$`).MatchString(s.Image) {
			t.Errorf("%s: image %q, build %q", name, s.Image, s.Build)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, declared := file.Volumes[from]; declared {
				continue
			}
			if _, err := os.Stat(examples + from); err != nil || !strings.HasPrefix(from, ".") {
				t.Errorf("%s: volume %s: %v", name, v, err)
			}
		}
		for other := range s.DependsOn {
			if _, ok := file.Services[other]; !ok {
				t.Errorf("%s depends on %s", name, other)
			}
		}
		for key := range s.Environment {
			if !regexp.MustCompile(`^(KAFKA|POSTGRES|MARIADB)_[A-Z_]+$`).MatchString(key) {
				t.Errorf("%s: %s", name, key)
			}
		}
	}
	return file.Services
}

// readme runs the README's psql command until it prints what the README shows.
func readme(t *testing.T, server *testpg.Server, urls map[string]string) {
	t.Helper()
	commands := regexp.MustCompile(`(?s)psql -U postgres (\w+) -c "([^"]+)"\n(.*?)\$ `).FindAllStringSubmatch(example(t, "README.md"), -1)
	if len(commands) != 3 {
		t.Fatalf("the README has %d commands", len(commands))
	}
	for _, c := range commands {
		testcheck.Until(t, func() string {
			out, err := server.Command("psql", urls[c[1]], "-c", c[2]).CombinedOutput()
			if err != nil || string(out) != c[3] {
				return fmt.Sprintf("%s: %v, is\n%swant\n%s", c[2], err, out, c[3])
			}
			return ""
		})
	}
}

// TestExample_Compose: the compose file is valid and names existing files. TestMirror runs its commands.
func TestExample_Compose(t *testing.T) {
	services := compose(t)
	for _, name := range []string{"postgres", "mariadb", "kafka", "plugins", "connect", "mirror-shop", "mirror-depot"} {
		if _, ok := services[name]; !ok {
			t.Errorf("no service %s", name)
		}
	}
	for _, file := range services["connect"].Command[1:] {
		if example(t, file) == "" {
			t.Errorf("%s is empty", file)
		}
	}
}
