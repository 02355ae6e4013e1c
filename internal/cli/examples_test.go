package cli_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

// strictly decodes the documents of a YAML file and rejects unknown fields.
func strictly[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader([]byte(read(t, path))))
	d.KnownFields(true)
	for {
		var one T
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if testcheck.NoError(t, err); t.Failed() {
			return nil
		}
		all = append(all, one)
	}
}

// A compose has the part of the Compose specification that the examples use.
type compose struct {
	Services map[string]struct {
		Image           string
		Command         []string
		Environment     map[string]string
		Volumes, Ports  []string
		ReadOnly        bool   `yaml:"read_only"`
		StopGracePeriod string `yaml:"stop_grace_period"`
		Restart         string
		DependsOn       []string `yaml:"depends_on"`
		Healthcheck     struct {
			Test     []string
			Interval string
			Retries  int
		}
	}
	Volumes map[string]struct{}
}

// The services of examples/kafka are where its weir.yml expects them. The Kafka image without settings is at
// localhost:9092. TestDocs_Commands runs the README against Apache Kafka.
func TestExamples_Kafka(t *testing.T) {
	const folder = "../../examples/kafka/"
	services := strictly[compose](t, folder+"compose.yaml")[0].Services
	config := strictly[struct {
		Source, Group, To string
		SessionTimeout    string `yaml:"session_timeout"`
	}](t, folder+"weir.yml")[0]
	if k := services["kafka"]; !slices.Equal(k.Ports, []string{"127.0.0.1:9092:9092"}) || len(k.Environment) > 0 || config.Source != "kafka://localhost:9092/flights" {
		t.Errorf("the topic is %s, and the broker %+v", config.Source, k)
	}
	p := services["postgres"]
	port, _ := strings.CutSuffix(strings.TrimPrefix(p.Ports[0], "127.0.0.1:"), ":5432")
	if want := "postgres://postgres:" + p.Environment["POSTGRES_PASSWORD"] + "@localhost:" + port + "/" + p.Environment["POSTGRES_DB"]; config.To != want {
		t.Errorf("the database is %s, want %s", config.To, want)
	}
}

// The commands of examples/live-prometheus work on this machine instead of in containers, and Prometheus accepts its
// configuration.
func TestExamples_LivePrometheus(t *testing.T) {
	const folder = "../../examples/live-prometheus/"
	c := strictly[compose](t, folder+"compose.yaml")[0]
	f := testweir.New(t, "flights.db")
	run := func(service string, with ...string) *testweir.Run {
		of := c.Services[service]
		for _, mounted := range of.Volumes {
			host, _, _ := strings.Cut(mounted, ":")
			if strings.HasPrefix(host, ".") {
				_ = read(t, folder+host+"/flights.jsonl.gz")
			} else if _, ok := c.Volumes[host]; !ok {
				t.Errorf("%s: there is no volume %s", service, host)
			}
		}
		args := slices.Clone(of.Command)
		for i := range args {
			args[i] = strings.NewReplacer(with...).Replace(args[i])
		}
		return f.Start(args...)
	}
	testdata, err := filepath.Abs("../../testdata")
	testcheck.NoError(t, err)
	feed := run("feed", "/feed", testdata, "0.0.0.0:7001", "127.0.0.1:0")
	weir := run("weir", "feed:7001", feed.Serves(), "0.0.0.0:9461", "127.0.0.1:0")
	f.Until("rows", func() bool { return strings.Contains(weir.Get("/metrics"), `weir_connected{weir_job="flights"} 1`) })
	f.Becomes("1", "SELECT count(*) > 10 FROM flights")
	weir.Interrupt()

	rules := f.Path("alerts.yml")
	f.Write("alerts.yml", read(t, "../../contrib/alerts.yml"))
	f.Write("prometheus.yml", read(t, folder+"prometheus.yml"))
	if mounts := strings.Join(c.Services["prometheus"].Volumes, " "); !strings.Contains(mounts, "../../contrib/alerts.yml:/etc/prometheus/alerts.yml") {
		t.Errorf("the rules are not mounted: %s", mounts)
	}
	if testcheck.On() {
		takes(t, "promtool", "check", "config", filepath.Join(filepath.Dir(rules), "prometheus.yml"))
	}
}

// A manifest has the parts of Kubernetes' Deployment, StatefulSet, Service, ConfigMap and Secret that the examples use.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   metadata
	Spec       struct {
		Replicas            int
		Strategy            struct{ Type string }
		ServiceName         string `yaml:"serviceName"`
		PodManagementPolicy string `yaml:"podManagementPolicy"`
		Selector            any
		ClusterIP           string `yaml:"clusterIP"`
		Ports               []port
		Template            struct {
			Metadata metadata
			Spec     pod
		}
	}
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
}

type metadata struct {
	Name                string
	Labels, Annotations map[string]string
}

type port struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
	Port          int
}

type pod struct {
	AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		RunAsUser      int                   `yaml:"runAsUser"`
		FSGroup        int                   `yaml:"fsGroup"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		}
	}
}

type container struct {
	Name, Image     string
	Args            []string
	Env             []struct{ Name, Value string }
	Ports           []port
	LivenessProbe   probe `yaml:"livenessProbe"`
	ReadinessProbe  probe `yaml:"readinessProbe"`
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet       struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds int                         `yaml:"periodSeconds"`
}

// The Kubernetes examples only use fields of its API, refer to existing objects, and weir accepts their configuration.
func TestExamples_Kubernetes(t *testing.T) {
	f := testweir.New(t, "")
	for _, file := range []string{"one.yaml", "group.yaml"} {
		objects := map[string]manifest{} // by kind
		for _, m := range strictly[manifest](t, "../../examples/kubernetes/"+file) {
			objects[m.Kind] = m
		}
		workload, api := objects["Deployment"], "apps/v1"
		if file == "group.yaml" {
			workload = objects["StatefulSet"]
			service := objects["Service"]
			selector, _ := service.Spec.Selector.(map[string]any)
			if service.Metadata.Name != workload.Spec.ServiceName || service.Spec.ClusterIP != "None" || selector["app"] != workload.Spec.Template.Metadata.Labels["app"] {
				t.Errorf("%s: the members have no service: %+v", file, service)
			}
		}
		in := workload.Spec.Template.Spec
		c := in.Containers[0]
		if workload.APIVersion != api || in.TerminationGracePeriodSeconds < 60 || !in.SecurityContext.RunAsNonRoot || !c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("%s: %+v", file, in)
		}
		for path, p := range map[string]probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if p.HTTPGet.Path != path || p.HTTPGet.Port != c.Ports[0].Name {
				t.Errorf("%s: %+v is no probe of %s", file, p, path)
			}
		}
		name := objects["ConfigMap"].Metadata.Name
		if in.Volumes[0].ConfigMap.Name != name || in.Volumes[1].Secret.SecretName != objects["Secret"].Metadata.Name || c.VolumeMounts[0].Name != in.Volumes[0].Name || c.VolumeMounts[1].Name != in.Volumes[1].Name {
			t.Errorf("%s: a volume is missing", file)
		}
		for _, e := range c.Env {
			if secret, ok := strings.CutPrefix(e.Value, c.VolumeMounts[1].MountPath+"/"); ok && objects["Secret"].StringData[secret] == "" {
				t.Errorf("%s: there is no secret %s", file, secret)
			}
		}
		config := c.VolumeMounts[0].MountPath + "/weir.yml"
		if !slices.Equal(c.Args, []string{"sync", "--config", config}) {
			t.Errorf("%s: the container does %q", file, c.Args)
		}
		f.Write("weir.yml", objects["ConfigMap"].Data["weir.yml"])
		f.Start("config", "check", "weir.yml").Exit(0)
		if text := objects["ConfigMap"].Data["weir.yml"]; !strings.Contains(text, "metrics_addr: 0.0.0.0:9461\n") || c.Ports[0].ContainerPort != 9461 {
			t.Errorf("%s: the probes do not reach the run", file)
		}
	}
}
