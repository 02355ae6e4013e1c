package kafka

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
)

const (
	scheme      = "kafka"
	tlsScheme   = "kafka+tls"
	defaultPort = "9092"
)

// A Spec is a parsed kafka://BROKER,…/TOPIC,….
type Spec struct {
	TLS     bool
	Brokers []string       // with ports
	Topics  []string       // nil if there is a Pattern
	Pattern *regexp.Regexp // for topic names
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Is reports whether a spec is for Kafka, or a name is one of its partitions.
func Is(spec string) bool {
	begins, _, ok := strings.Cut(spec, "://")
	return ok && (begins == scheme || begins == tlsScheme)
}

// IsTopic reports whether a name is valid for a topic.
func IsTopic(name string) bool { return topicName.MatchString(name) }

// ParseSpec parses a spec.
func ParseSpec(spec string) (s Spec, err error) {
	begins, rest, _ := strings.Cut(spec, "://")
	s.TLS = begins == tlsScheme
	brokers, topics, ok := strings.Cut(rest, "/")
	if !ok || brokers == "" || topics == "" {
		return s, fmt.Errorf("%s: not of the form %s://broker:9092,…/topic,…", spec, begins)
	}
	for b := range strings.SplitSeq(brokers, ",") {
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			host, port = strings.Trim(b, "[]"), defaultPort
		}
		if host == "" || port == "" || strings.ContainsAny(b, " ?#") {
			return s, fmt.Errorf("%s: %q is no broker, such as host:9092", spec, b)
		}
		s.Brokers = append(s.Brokers, net.JoinHostPort(host, port))
	}
	if pattern, is := strings.CutPrefix(topics, "~"); is {
		if s.Pattern, err = regexp.Compile(pattern); err != nil {
			return s, fmt.Errorf("%s: %w", spec, err)
		}
		return s, nil
	}
	for t := range strings.SplitSeq(topics, ",") {
		if !IsTopic(t) || slices.Contains(s.Topics, t) {
			return s, fmt.Errorf("%s: %q is no name of a topic, or appears twice; a pattern begins with ~", spec, t)
		}
		s.Topics = append(s.Topics, t)
	}
	return s, nil
}
