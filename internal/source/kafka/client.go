package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/tcp"
)

const (
	// All brokers together send a bufferShare-th of the buffer at a time, before decompression, each
	// within limits. One answer of each waits in memory while another one is read.
	bufferShare   = 16
	minFetchBytes = 256 << 10
	maxFetchBytes = 8 << 20
	// requestRetries is how often the client itself sends a request again.
	requestRetries = 2
	// Waits before a request is sent again: the first, and the longest.
	minWait = 250 * time.Millisecond
	maxWait = 10 * time.Second
	// silentTries is how often a broker may end a connection before its first answer to a request: it
	// may be stopping, or want a login.
	silentTries = 3
)

// options are those of all clients.
func (s *Source) options() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(s.spec.Brokers...), kgo.ClientID("weir"), kgo.WithHooks(s.brokers), kgo.RequestRetries(requestRetries),
		kgo.DisableClientMetrics(), kgo.MetadataMaxAge(time.Minute)}
	if s.spec.TLS {
		c := s.opts.TLS
		if c == nil {
			c = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		opts = append(opts, kgo.DialTLSConfig(c.Clone()))
	}
	if m := mechanism(&s.kafka); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

// fetchBytes is how much a broker may send at a time.
func (s *Source) fetchBytes() int32 {
	if s.opts.Buffer == 0 {
		return maxFetchBytes
	}
	return int32(min(max(s.opts.Buffer/bufferShare/int64(max(s.nodes, 1)), minFetchBytes), maxFetchBytes))
}

// mechanism is how a client says who it is, nil for not at all.
func mechanism(k *Options) sasl.Mechanism {
	password := func(context.Context) (scram.Auth, error) {
		user, password, err := k.Login()
		return scram.Auth{User: user, Pass: password}, err
	}
	switch k.SASL {
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			user, password, err := k.Login()
			return plain.Auth{User: user, Pass: password}, err
		})
	case "scram-sha-256":
		return scram.Sha256(password)
	case "scram-sha-512":
		return scram.Sha512(password)
	case "oauthbearer":
		return bearer{oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			_, token, err := k.Login()
			return oauth.Auth{Token: token}, err
		})}
	}
	return nil
}

// bearer is a login by a token. A broker that does not take it answers with the reason.
type bearer struct{ sasl.Mechanism }

func (m bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, first, err := m.Mechanism.Authenticate(ctx, host)
	return bearerSession{s}, first, err
}

type bearerSession struct{ sasl.Session }

func (s bearerSession) Challenge(answer []byte) (done bool, next []byte, err error) {
	if done, next, err = s.Session.Challenge(answer); err != nil {
		err = loginError{fmt.Errorf("the broker does not take the token: %s", answer)}
	}
	return done, next, err
}

// brokers knows whether one of them can be reached.
type brokers struct {
	spec string
	opts *source.Options
	asks bool // for a login

	mu      sync.Mutex
	reached map[int32]bool // by number, those whose last connection was made
	met     bool           // one was reached
	served  bool           // one has answered a call
	since   time.Time      // when the last of them was lost
	err     error          // why
}

func newBrokers(spec string, o *source.Options, asks bool) *brokers {
	return &brokers{spec: spec, opts: o, asks: asks, reached: map[int32]bool{}, since: time.Now()}
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (b *brokers) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	was := len(b.reached)
	if err == nil {
		b.reached[meta.NodeID], b.met = true, true
		if meta.NodeID >= 0 { // a seed is asked for the others alone
			for id := range b.reached {
				if id < 0 {
					delete(b.reached, id)
				}
			}
		}
	} else {
		delete(b.reached, meta.NodeID)
		b.err = fmt.Errorf("%s: %w", net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), bare(err))
	}
	switch now := len(b.reached); {
	case was > 0 && now == 0:
		b.since = time.Now()
		b.opts.Log.Warn(fmt.Sprintf("no broker can be reached: %v; reconnecting", b.err))
		b.opts.Observer.Reconnect()
	case was == 0 && now > 0 && b.err != nil:
		b.opts.Log.Info("reconnected to Kafka")
		b.err = nil
	}
}

// wasReached reports whether a broker was reached ever.
func (b *brokers) wasReached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.met
}

// serves notes that a broker has answered a call.
func (b *brokers) serves() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served = true
}

// hasServed reports whether a broker has answered a call ever.
func (b *brokers) hasServed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served
}

// connected reports whether a broker can be reached.
func (b *brokers) connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.reached) > 0
}

// lost returns the error of a cluster that could not be reached for too long.
func (b *brokers) lost() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.reached) > 0 || b.err == nil {
		return nil
	}
	if isFatal(b.err) {
		return b.err
	}
	if time.Since(b.since) > b.opts.RetryFor {
		return fmt.Errorf("no broker could be reached: %w (tried for %s; --retry-for says how long)", b.err, b.opts.RetryFor)
	}
	return nil
}

// patiently calls again what fails for reasons that may pass.
func (b *brokers) patiently(ctx context.Context, call func() error) error {
	waits, begin := backoff.Backoff{Min: minWait, Max: maxWait}, time.Now()
	for attempt := 1; ; attempt++ {
		err := call()
		if err == nil {
			b.serves()
		}
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		err = fmt.Errorf("%s: %w", b.spec, bare(err))
		switch {
		case isFatal(err) || !b.wasReached() && isMisfit(err) || attempt >= silentTries && !b.hasServed() && errors.As(err, new(*kgo.ErrFirstReadEOF)):
			return err
		case !b.wasReached() && b.asks && errors.Is(err, io.EOF):
			return fmt.Errorf("%s: the broker ended the connection at the login: user, password or mechanism may be wrong", b.spec)
		}
		wait, ok := waits.Next(b.opts.RetryFor - time.Since(begin))
		if !ok {
			return fmt.Errorf("%w (tried for %s; --retry-for says how long)", err, b.opts.RetryFor)
		}
		b.opts.Log.Warn(fmt.Sprintf("%v; retrying in %s", err, wait.Round(10*time.Millisecond)), "attempt", attempt)
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// A fatalError stays, however often a call is tried.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// isFatal reports whether it is of no use to try again.
func isFatal(err error) bool {
	var broker *kerr.Error
	return errors.As(err, new(fatalError)) || isRefusal(err) || errors.As(err, &broker) && !broker.Retriable || errors.Is(err, kerr.UnknownTopicOrPartition)
}

// isRefusal reports whether one side does not trust the other.
func isRefusal(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		tcp.IsRefusal(err) || errors.Is(err, kerr.SaslAuthenticationFailed) || errors.As(err, new(loginError))
}

// isMisfit reports whether no broker has the name, or one seems to speak TLS or to ask for a login
// where we do not, or the other way round.
func isMisfit(err error) bool {
	var dns *net.DNSError
	return errors.As(err, new(*kgo.ErrFirstReadEOF)) || errors.As(err, &dns) && dns.IsNotFound
}

// A loginError is that of a user name, a password or a token that cannot be read.
type loginError struct{ error }

func (e loginError) Unwrap() error { return e.error }

// bare is an error without words of the client that say nothing.
func bare(err error) error {
	if text, ok := strings.CutPrefix(err.Error(), "unable to dial: "); ok {
		return &bareError{text, err}
	}
	return err
}

type bareError struct {
	text string
	err  error
}

func (e *bareError) Error() string { return e.text }
func (e *bareError) Unwrap() error { return e.err }
