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
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/backoff"
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
	// fetchWait is how long a broker may wait with the answer to fetch.
	fetchWait = 1000 // milliseconds
)

// brokers are the cluster, as one client asks it for all but the records of lanes.
type brokers struct {
	spec        string
	cfg         *config
	connections connections // of all clients
	client      *kgo.Client
	admin       *kadm.Client // the same client
	answered    bool         // a call of retry was; only one goroutine at a time retries
}

func newBrokers(spec string, cfg *config) (b *brokers, err error) {
	b = &brokers{spec: spec, cfg: cfg, connections: connections{opts: &cfg.common, reached: map[int32]bool{}, since: time.Now()}}
	if b.client, err = kgo.NewClient(b.options()...); err != nil {
		return nil, err
	}
	b.admin = kadm.NewClient(b.client)
	return b, nil
}

func (b *brokers) close() { b.client.Close() }

// connected reports whether a broker can be reached.
func (b *brokers) connected() bool {
	connected, _ := b.connections.state()
	return connected
}

// options are those of all clients.
func (b *brokers) options() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(b.cfg.spec.Brokers...), kgo.ClientID("weir"), kgo.WithHooks(&b.connections), kgo.RequestRetries(requestRetries),
		kgo.DisableClientMetrics(), kgo.MetadataMaxAge(time.Minute)}
	if b.cfg.spec.TLS {
		c := b.cfg.common.TLS
		if c == nil {
			c = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		opts = append(opts, kgo.DialTLSConfig(c.Clone()))
	}
	if m := mechanism(&b.cfg.kafka); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

// fetchBytes is how much each of some brokers may send at a time.
func fetchBytes(buffer int64, brokers int) int32 {
	if buffer == 0 {
		return maxFetchBytes
	}
	return int32(min(max(buffer/bufferShare/int64(max(brokers, 1)), minFetchBytes), maxFetchBytes))
}

// retry calls again what fails for reasons that may pass.
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
		case isFatal(err) || !wasReached && isMisfit(err) || attempt >= silentTries && !b.answered && errors.As(err, new(*kgo.ErrFirstReadEOF)):
			return err
		case !wasReached && b.cfg.kafka.SASL != "" && errors.Is(err, io.EOF):
			return fmt.Errorf("%s: the broker ended the connection at the login: user, password or mechanism may be wrong", b.spec)
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

// errGone says that a partition begins behind an offset, or ends before it, or is of another topic of the same name.
var errGone = errors.New("the topic no longer has it")

// fetch asks the leader of a lane for its batches from an offset on, as they lie there: at
// least one whole batch, and else no more than some bytes. Records of transactions come in any state.
func (b *brokers) fetch(ctx context.Context, of *lane, offset int64, most int32) (*kmsg.FetchResponseTopicPartition, error) {
	meta, err := b.admin.Metadata(ctx, of.topic)
	if err != nil {
		return nil, err
	}
	topic := meta.Topics[of.topic]
	at := topic.Partitions[of.number]
	if err := errors.Join(topic.Err, at.Err); err != nil {
		return nil, err
	}
	if of.id != "" && topic.ID.String() != of.id {
		return nil, errGone
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = of.number, offset, most
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = of.topic, topic.ID, []kmsg.FetchRequestTopicPartition{p}
	r := kmsg.NewPtrFetchRequest()
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.Topics = fetchWait, 1, most, []kmsg.FetchRequestTopic{t}
	answer, err := r.RequestWith(ctx, b.client.Broker(int(at.Leader)))
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, err
	}
	if len(answer.Topics) == 0 || len(answer.Topics[0].Partitions) == 0 {
		return nil, kerr.UnknownServerError
	}
	got := &answer.Topics[0].Partitions[0]
	if errors.Is(kerr.ErrorForCode(got.ErrorCode), kerr.OffsetOutOfRange) {
		return nil, errGone
	}
	return got, kerr.ErrorForCode(got.ErrorCode)
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
