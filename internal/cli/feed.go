package cli

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/envelope/firehose"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/tcp"
)

// feedOptions are the flags of sync for connections.
type feedOptions struct {
	feed      string
	events    string
	init      string
	resume    string
	idle      time.Duration
	keepalive string
	stale     int
	failure   string
	timeField string

	tlsCA, tlsCert, tlsKey, tlsServerName string
}

func (o *feedOptions) flags(f *pflag.FlagSet, enums *choices) {
	addChoice(enums, f, &o.feed, "feed", "", "a feed that weir knows: FlightAware's firehose (reads FH_USERNAME and FH_APIKEY)", firehose.Name)
	f.StringVar(&o.events, "feed-events", "", "the `EVENTS` to ask Firehose for, such as 'position flightplan'")
	f.StringVar(&o.init, "init", "", "first `LINE` to send, or @FILE: a template with {{.resume}}, {{env \"NAME\"}}, {{file \"PATH\"}}")
	f.StringVar(&o.resume, "resume-field", "", "`FIELD` whose last committed value is {{.resume}} when weir connects")
	f.DurationVar(&o.idle, "idle-timeout", 0, "reconnect when nothing arrives for this long, or disconnect a sender (default never)")
	f.StringVar(&o.keepalive, "keepalive-when", "", "`FIELD=VALUE`: a message with it is a keepalive, and skipped")
	addWhole(f, &o.stale, "stale-keepalives", 5, "reconnect after `N` keepalives in a row without a new resume value (0: never)")
	f.StringVar(&o.failure, "error-when", "", "`FIELD=VALUE`: a message with it stops the run, with its error_msg")
	f.StringVar(&o.timeField, "time-field", "", "the `FIELD` with the time of a message (seconds since 1970, or RFC 3339), to show the lag")
	f.StringVar(&o.tlsCA, "tls-ca", "", "a PEM `FILE` of the authorities to trust (default the system's); senders to tls-listen:// then need a certificate of one")
	f.StringVar(&o.tlsCert, "tls-cert", "", "a PEM `FILE` with the certificate to show (tls-listen:// needs one)")
	f.StringVar(&o.tlsKey, "tls-key", "", "a PEM `FILE` with the key of the certificate")
	f.StringVar(&o.tlsServerName, "tls-server-name", "", "the `NAME` that the certificate of a tls:// feed must be for (default the host)")
}

// preset fills in the options that a named feed needs and that the user left open, and gives
// its sources their port. A captured file of the feed needs no login.
func (o *feedOptions) preset(sources []string, compression string) {
	if o.feed != firehose.Name {
		return
	}
	for i, s := range sources {
		if sourceKinds.Traits(s).Dialed {
			o.init = cmp.Or(o.init, firehose.Init(compression, o.events))
		}
		u, err := url.Parse(s)
		if t := sourceKinds.Traits(s); err == nil && u.Host != "" && u.Port() == "" && (t.Dialed || t.Live) && !t.Records {
			sources[i] = u.Scheme + "://" + net.JoinHostPort(u.Hostname(), firehose.Port)
		}
	}
	o.resume = cmp.Or(o.resume, firehose.ResumeField)
	o.timeField = cmp.Or(o.timeField, firehose.ResumeField)
	o.keepalive = cmp.Or(o.keepalive, firehose.KeepaliveWhen)
	o.failure = cmp.Or(o.failure, firehose.ErrorWhen)
	o.idle = cmp.Or(o.idle, firehose.Idle)
}

// settings turns the options into those of the job and the source. env looks up a variable.
func (o *feedOptions) settings(env func(string) (string, bool), src *source.Options, conn *tcp.Options) (f job.Feed, err error) {
	match := func(flag, s string) job.Match {
		field, value, merr := fieldValue(flag, s)
		err = errors.Join(err, merr)
		return job.Match{Field: field, Value: value}
	}
	f = job.Feed{ResumeField: o.resume, Keepalive: match("keepalive-when", o.keepalive), StaleAfter: o.stale,
		Failure: match("error-when", o.failure), Words: firehose.ErrorField, TimeField: o.timeField}
	if o.idle < 0 {
		err = errors.Join(err, errors.New("--idle-timeout cannot be negative"))
	}
	conn.Idle = o.idle
	if o.init != "" {
		hello, terr := o.template(env)
		err = errors.Join(err, terr)
		f.Hello = hello
	}
	var terr error
	src.TLS, terr = o.tls()
	return f, errors.Join(err, terr)
}

// template is the first line of a connection. It is rendered once at the start, so that a
// variable that is not set is a fault of the command line.
func (o *feedOptions) template(env func(string) (string, bool)) (func(string) ([]byte, error), error) {
	text := o.init
	if path, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--init: %w", err)
		}
		text = string(b)
	}
	t, err := template.New("init").Option("missingkey=error").Funcs(template.FuncMap{
		"env": func(name string) (string, error) {
			v, ok := env(name)
			if !ok {
				return "", fmt.Errorf("environment variable %s is not set", name)
			}
			return v, nil
		},
		"file": func(path string) (string, error) {
			b, err := os.ReadFile(path)
			return strings.TrimSpace(string(b)), err
		},
	}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--init: %w", err)
	}
	render := func(resume string) ([]byte, error) {
		var b bytes.Buffer
		if err := t.Execute(&b, map[string]string{"resume": resume}); err != nil {
			if inner := errors.Unwrap(err); inner != nil {
				err = inner
			}
			return nil, fmt.Errorf("--init: %w", err)
		}
		return append(bytes.TrimRight(b.Bytes(), "\r\n"), '\n'), nil
	}
	_, err = render("")
	return render, err
}

func (o *feedOptions) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.tlsServerName}
	if o.tlsCA != "" {
		pem, err := os.ReadFile(o.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca: %s has no PEM certificate", o.tlsCA)
		}
		c.ClientCAs, c.ClientAuth = c.RootCAs, tls.RequireAndVerifyClientCert // of senders
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return nil, errors.New("--tls-cert and --tls-key are needed together")
	}
	if o.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
