package kafka

import (
	"cmp"
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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/tcp"
)

const (
	// All brokers together send at most 1/bufferShare of the buffer at a time, before decompression, within these
	// limits. One response of each broker waits in memory while another is read.
	bufferShare   = 16
	minFetchBytes = 256 << 10
	maxFetchBytes = 8 << 20
	// requestRetries is how often the client itself retries a request.
	requestRetries = 2
	// Waits before a request is retried: the first, and the longest.
	minWait     = 250 * time.Millisecond
	maxWait     = 10 * time.Second
	dialTimeout = 10 * time.Second
	// silentTries is how often a broker may close a connection before its first response to a request. It may be
	// stopping, or require a login.
	silentTries = 3
	// newTopics is how often weir checks for new topics that match a pattern, and for new partitions.
	newTopics = 10 * time.Second
)

// brokers sends all requests to a cluster other than fetches for lanes, with one client.
type brokers struct {
	spec        string
	cfg         *config
	connections connections // of all clients
	client      *kgo.Client
	admin       *kadm.Client // the same client
	answered    bool         // a call of retry succeeded; only one goroutine at a time retries
}

func newBrokers(spec string, cfg *config) (b *brokers, err error) {
	b = &brokers{spec: spec, cfg: cfg, connections: connections{opts: &cfg.common, reached: map[int32]bool{}, since: time.Now()}}
	if b.client, err = kgo.NewClient(b.options()...); err != nil {
		return nil, err
	}
	b.admin = kadm.NewClient(b.client)
	return b, nil
}

// connected reports whether any broker is reachable.
func (b *brokers) connected() bool {
	connected, _ := b.connections.state()
	return connected
}

// options returns the options of every client.
func (b *brokers) options() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(b.cfg.spec.Brokers...), kgo.ClientID("weir"), kgo.WithHooks(&b.connections), kgo.RequestRetries(requestRetries),
		kgo.DisableClientMetrics(), kgo.MetadataMaxAge(newTopics)}
	if b.cfg.spec.TLS {
		opts = append(opts, kgo.Dialer(b.dialTLS))
	}
	if m := mechanism(&b.cfg.kafka); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

// dialTLS connects to a broker. It rereads the certificate files each time, because they may be replaced.
func (b *brokers) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	config, err := b.cfg.common.TLS()
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
	return d.DialContext(ctx, network, addr)
}

// mechanism returns how a client authenticates; nil: it does not.
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
		return bearer(k.Login)
	}
	return nil
}

// bearer logs in by the token that it returns (RFC 7628).
type bearer func() (user, token string, err error)

func (bearer) Name() string { return "OAUTHBEARER" }

func (b bearer) Authenticate(context.Context, string) (sasl.Session, []byte, error) {
	_, token, err := b()
	return b, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), err
}

// Challenge implements [sasl.Session]. A broker that rejects the token answers with a reason.
func (bearer) Challenge(answer []byte) (done bool, next []byte, err error) {
	if len(answer) > 0 {
		return false, nil, loginError{fmt.Errorf("the broker does not take the token: %s", answer)}
	}
	return true, nil, nil
}

// retry retries a call that fails for a temporary reason.
func (b *brokers) retry(ctx context.Context, call func() error) error {
	o := &b.cfg.common
	waits, begin := backoff.Backoff{Min: minWait, Max: maxWait}, time.Now()
	for attempt := 1; ; attempt++ {
		err := call()
		b.answered = b.answered || err == nil
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		err = fmt.Errorf("%s: %w", b.spec, bare(err))
		_, wasReached := b.connections.state()
		switch {
		case errors.Is(err, kerr.IllegalSaslState):
			return fmt.Errorf("%s: the broker takes no login here: leave --sasl out, or name the port that takes one", b.spec)
		case isFatal(err) && !b.connections.mayBeReplaced(err):
			return err
		case errors.As(err, new(*kgo.ErrFirstReadEOF)) && (!wasReached || attempt >= silentTries && !b.answered):
			return err // only one side uses TLS or a login
		case !wasReached && b.cfg.kafka.SASL != "" && errors.Is(err, io.EOF):
			return fmt.Errorf("%s: the broker ended the connection at the login: user, password or mechanism may be wrong, or it takes no login there (leave --sasl out)", b.spec)
		}
		wait, ok := waits.Next(o.RetryFor - time.Since(begin))
		if !ok {
			return fmt.Errorf("%w (tried for %s; --retry-for says how long)", err, o.RetryFor)
		}
		o.Log.Warn(fmt.Sprintf("%v; retrying in %s", err, wait.Round(10*time.Millisecond)), "attempt", attempt)
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// connections tracks which brokers are reachable. The clients' goroutines update it.
type connections struct {
	opts *source.Options

	mu         sync.Mutex
	reached    map[int32]bool // by node number: whether the last connection attempt succeeded
	wasReached bool           // a broker was reachable at least once
	since      time.Time      // when the last one was lost
	err        error          // why
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (c *connections) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was, again := len(c.reached), c.wasReached
	if err == nil {
		c.reached[meta.NodeID], c.wasReached = true, true
		if meta.NodeID >= 0 { // a seed is only asked for the other brokers
			for id := range c.reached {
				if id < 0 {
					delete(c.reached, id)
				}
			}
		}
	} else {
		delete(c.reached, meta.NodeID)
		c.err = fmt.Errorf("%s: %w", net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), bare(err))
	}
	switch now := len(c.reached); {
	case was > 0 && now == 0:
		c.since = time.Now()
		c.opts.Log.Warn(fmt.Sprintf("no broker can be reached: %v; reconnecting", c.err))
	case was == 0 && now > 0 && c.err != nil:
		c.opts.Log.Info("reconnected to Kafka")
		if c.err = nil; again {
			c.opts.Observer.Reconnected()
		}
	}
}

// state reports whether any broker is reachable, and whether one ever was.
func (c *connections) state() (connected, wasReached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reached) > 0, c.wasReached
}

// unreachable returns an error if the cluster was unreachable for too long.
func (c *connections) unreachable() error {
	c.mu.Lock()
	reached, err, since := len(c.reached) > 0, c.err, c.since
	c.mu.Unlock()
	switch {
	case reached || err == nil:
		return nil
	case isFatal(err) && !c.mayBeReplaced(err):
		return err
	case time.Since(since) > c.opts.RetryFor:
		return fmt.Errorf("no broker could be reached: %w (tried for %s; --retry-for says how long)", err, c.opts.RetryFor)
	}
	return nil
}

// mayBeReplaced reports whether to retry after a rejected login: it worked before, and a password, token or certificate
// may just be being replaced.
func (c *connections) mayBeReplaced(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return isRefusal(err) && c.wasReached && (len(c.reached) > 0 || time.Since(c.since) < backoff.Replacement)
}

// batchAt asks the leader of a lane for the stored batch with an offset. The next ones may follow it in the answer.
func (b *brokers) batchAt(ctx context.Context, of *lane, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	meta, err := b.admin.Metadata(ctx, of.topic)
	if err != nil {
		return nil, err
	}
	topic := meta.Topics[of.topic]
	at := topic.Partitions[of.number]
	if err := errors.Join(topic.Err, at.Err); err != nil {
		return nil, err
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = of.number, offset, minFetchBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = of.topic, topic.ID, []kmsg.FetchRequestTopicPartition{p}
	r := kmsg.NewPtrFetchRequest()
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.Topics = 1000, 1, minFetchBytes, []kmsg.FetchRequestTopic{t}
	answer, err := r.RequestWith(ctx, b.client.Broker(int(at.Leader)))
	if err != nil {
		return nil, err
	}
	if len(answer.Topics) == 0 || len(answer.Topics[0].Partitions) == 0 {
		return nil, cmp.Or(kerr.ErrorForCode(answer.ErrorCode), error(kerr.UnknownServerError))
	}
	got := &answer.Topics[0].Partitions[0]
	return got, kerr.ErrorForCode(got.ErrorCode)
}

// A fatalError is permanent: retrying does not help.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// A loginError reports that a broker rejected a token.
type loginError struct{ error }

// isFatal reports whether a retry is useless.
func isFatal(err error) bool {
	var broker *kerr.Error
	return isRefusal(err) || errors.As(err, new(fatalError)) || errors.As(err, &broker) && !broker.Retriable || errors.Is(err, kerr.UnknownTopicOrPartition)
}

// isRefusal reports whether one side does not trust the other.
func isRefusal(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		tcp.IsRefusal(err) || errors.Is(err, kerr.SaslAuthenticationFailed) || errors.As(err, new(loginError))
}

// bare removes the client's prefixes that carry no information from an error.
func bare(err error) error {
	for strings.HasPrefix(err.Error(), "unable to dial: ") && errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}
