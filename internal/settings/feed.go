package settings

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
	"slices"
	"strings"
	"text/template"

	"github.com/weirsync/weir/internal/mapping/envelope/firehose"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/source"
)

// withPreset returns the feed settings, with the defaults of --feed for those that are not set. It also adds the
// default port to URLs in sources, in place. A captured file of the feed needs no login.
func (b *builder) withPreset(sources []string) Feed {
	f := b.Feed
	if f.Name != firehose.Name {
		return f
	}
	for i, s := range sources {
		t := Sources.Type(s)
		if t == source.Dialed {
			f.Init = cmp.Or(f.Init, firehose.Init(b.Source.Compression, f.Events))
		}
		if u, err := url.Parse(s); err == nil && u.Host != "" && u.Port() == "" && t.Live() && t != source.Partition {
			sources[i] = u.Scheme + "://" + net.JoinHostPort(u.Hostname(), firehose.Port)
		}
	}
	f.ResumeField = cmp.Or(f.ResumeField, firehose.ResumeField)
	f.TimeField = cmp.Or(f.TimeField, firehose.ResumeField)
	f.KeepaliveWhen = cmp.Or(f.KeepaliveWhen, firehose.KeepaliveWhen)
	f.ErrorWhen = cmp.Or(f.ErrorWhen, firehose.ErrorWhen)
	if !b.Setting("idle-timeout").IsSet() { // else it may be never
		f.IdleTimeout = firehose.Idle
	}
	return f
}

func (b *builder) feed(o *Feed) pipeline.Feed {
	match := func(name, text string) (m pipeline.Match) {
		if text != "" {
			var err error
			if m.Field, m.Value, err = paths.CutCondition(text); err != nil {
				b.fault(name, "--"+name+" %q: %v", text, err)
			}
		}
		return m
	}
	f := pipeline.Feed{ResumeField: o.ResumeField, Keepalive: match("keepalive-when", o.KeepaliveWhen), StaleAfter: o.StaleKeepalives,
		Failure: match("error-when", o.ErrorWhen), Words: firehose.ErrorField, TimeField: o.TimeField}
	if o.Init != "" {
		var err error
		if f.Hello, err = b.env.template(o.Init); err != nil {
			b.fault("init", "--init: %v", err)
		}
	}
	return f
}

// template returns a function that renders the first line of a connection. The text is also rendered once at the start,
// so an unset variable is a usage error. Files are read again for each connection.
func (e *Env) template(text string) (func(string) ([]byte, error), error) {
	functions := template.FuncMap{
		"env": func(name string) (string, error) {
			if e.FileOnly {
				return "", nil
			}
			v, ok := e.Lookup(name)
			if !ok {
				return "", fmt.Errorf("environment variable %s is not set", name)
			}
			return v, nil
		},
		"file": func(path string) (string, error) {
			b, err := os.ReadFile(path)
			return strings.TrimSpace(string(b)), err
		},
	}
	render := func(resume string) ([]byte, error) {
		text := text
		if path, ok := strings.CutPrefix(text, "@"); ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		t, err := template.New("init").Option("missingkey=error").Funcs(functions).Parse(text)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, map[string]string{"resume": resume}); err != nil {
			if inner := errors.Unwrap(err); inner != nil {
				err = inner
			}
			return nil, err
		}
		return append(bytes.TrimRight(b.Bytes(), "\r\n"), '\n'), nil
	}
	_, err := render("")
	return render, err
}

// tls returns a function that builds the TLS configuration of a connection. It reads the files each time, because they
// may be replaced.
func (b *builder) tls(sources []string) func() (*tls.Config, error) {
	o := b.Feed
	if i := slices.IndexFunc(sources, func(name string) bool { return strings.HasPrefix(name, "tls-listen://") }); i >= 0 && o.TLSCert+o.TLSKey == "" && !b.env.FileOnly { // otherwise a flag may set it
		b.fault("tls-cert", "%s needs --tls-cert and --tls-key", sources[i])
	}
	b.faultIf(o.TLSCert == "" && o.TLSKey != "", "tls-key", "--tls-key and --tls-cert are needed together")
	b.faultIf(o.TLSCert != "" && o.TLSKey == "", "tls-cert", "--tls-cert and --tls-key are needed together")
	if at, _, err := o.tls(); err != nil {
		b.fault(at, "--"+at+": %v", err)
	}
	return func() (*tls.Config, error) {
		at, c, err := o.tls()
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", at, err)
		}
		return c, nil
	}
}

// tls returns the TLS configuration of a connection, or an error and its setting.
func (o *Feed) tls() (at string, c *tls.Config, err error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.TLSServerName}
	if o.TLSCA != "" {
		pem, err := os.ReadFile(o.TLSCA)
		if err != nil {
			return "tls-ca", nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return "tls-ca", nil, fmt.Errorf("%s has no PEM certificate", o.TLSCA)
		}
		c.ClientCAs, c.ClientAuth = c.RootCAs, tls.RequireAndVerifyClientCert // of senders
	}
	if o.TLSCert != "" && o.TLSKey != "" {
		own, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
		if err != nil {
			return "tls-cert", nil, err
		}
		c.Certificates = []tls.Certificate{own}
	}
	return "", c, nil
}
