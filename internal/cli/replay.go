package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/mapping/envelope/firehose"
	"github.com/weirsync/weir/internal/replay"
	"github.com/weirsync/weir/internal/settings"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	replay.Server
	to, speed, rate string
	init            string
	cert, key       string
}

func (o *replayOptions) flags(f *pflag.FlagSet, sp *settings.Spec) {
	f.StringVar(&o.to, "to", "-", "`OUT`: stdout (-), tcp-listen://host:port or tls-listen://host:port; port 0 is any that is free")
	f.StringVar(&o.speed, "speed", "1x", "how many `TIMES` as fast as recorded, or max")
	f.StringVar(&o.rate, "rate", "", "send lines at this `RATE`, such as 150/s, instead of the recorded pace")
	sp.AddFlags(f, "config")
	f.Lookup("config").Usage += "; replay takes feed, time_field and resume_field"
	f.BoolVar(&o.Loop, "loop", false, "start again at the end")
	f.BoolVar(&o.Stamp, "stamp", false, "set the time field to the time at which a line is sent, to measure a lag")
	f.Var(settings.NewValue(&o.DropAfter, `word:"never" unset:""`), "drop-after", "close each connection after this time, within a line")
	sp.AddFlags(f, "feed", "time-field", "resume-field")
	f.Lookup("feed").Usage = "play a feed that weir knows: FlightAware's firehose"
	f.Lookup("time-field").Usage = "the `FIELD` with the time of a line: seconds since 1970, or RFC 3339"
	f.Lookup("resume-field").Usage = "the `FIELD` that a client resumes from"
	f.StringVar(&o.init, "init", "", "a `REGEXP` that the first line of a client must match")
	f.Var(settings.NewValue(&o.Compression, `words:"gzip zlib deflate" unset:""`), "compression", "of what is sent (default none)")
	f.StringVar(&o.cert, "tls-cert", "", "a PEM `FILE` with the certificate of tls-listen://")
	f.StringVar(&o.key, "tls-key", "", "a PEM `FILE` with its key")
	f.SortFlags = false
}

func (e *env) replayCommand() *cobra.Command {
	o, sp := &replayOptions{}, e.newSpec()
	c := &cobra.Command{
		Use:   "replay FILE... [--to OUT]",
		Short: "Serve captured files as a live feed",
		Long: `Send the lines of captured files (plain, gzip, zstd) to stdout, or to each
client that connects to OUT: tcp-listen://host:port, or tls-listen://host:port
with --tls-cert and --tls-key. With --time-field they are sent at the recorded
pace, --speed times as fast; or at a --rate; or as fast as clients read.

--init is a regular expression that the client's first line must match. Its
groups "resume" and "compression" say from where (--resume-field) and how to
send. A slow client delays only itself. --drop-after tests whether it reconnects.

Exit codes: 0 done, or stopped by a signal, 1 failed, 2 wrong usage.`,
		Example: `  weir replay flights.jsonl.gz --time-field pitr --speed 10x
  weir replay flights.jsonl.gz --rate 150/s --to tcp-listen://127.0.0.1:4000
  weir replay flights.jsonl.gz --feed firehose --speed 20x --loop --to tls-listen://:1501 --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := e.load(c, sp); err != nil {
				return err
			}
			return e.replay(c.Context(), o, sp, args)
		},
	}
	o.flags(c.Flags(), sp)
	return c
}

func (e *env) replay(ctx context.Context, o *replayOptions, sp *settings.Spec, args []string) error {
	if err := o.plan(sp, args); err != nil {
		return err
	}
	o.Log = e.log
	if o.to == "-" {
		return stopped(ctx, replay.Send(ctx, o.Config, e.stdout, o.Compression, ""))
	}
	l, err := listen(ctx, o.to, o.cert, o.key)
	if err != nil {
		return err
	}
	o.Log.Info(fmt.Sprintf("serving at %s", l.Addr()))
	return o.Serve(ctx, l)
}

// plan checks the options, reports all faults at once, and completes the server's options.
func (o *replayOptions) plan(sp *settings.Spec, args []string) error {
	o.TimeField, o.ResumeField = sp.Feed.TimeField, sp.Feed.ResumeField
	if sp.Feed.Name == firehose.Name {
		o.TimeField, o.ResumeField, o.init = cmp.Or(o.TimeField, firehose.ResumeField), cmp.Or(o.ResumeField, firehose.ResumeField), cmp.Or(o.init, firehose.InitPattern)
	}
	var filesErr, speedErr error
	var rate settings.Rate
	o.Files, filesErr = sp.Expand(args)
	o.Speed, speedErr = readSpeed(o.speed)
	rateErr := rate.UnmarshalText([]byte(o.rate))
	if o.Rate = float64(rate); rateErr != nil {
		rateErr = fmt.Errorf("--rate: %w", rateErr)
	}
	usage := errors.Join(speedErr, rateErr)
	isTLS := strings.HasPrefix(o.to, "tls-listen://")
	for _, fault := range []struct {
		wrong bool
		text  string
	}{
		{o.Loop && o.TimeField == "" && o.rate == "", "--loop needs --time-field or --rate"},
		{o.speed != "1x" && o.TimeField == "", "--speed needs --time-field: the times of the lines are the recorded pace"},
		{o.cert+o.key != "" && !isTLS, "--tls-cert and --tls-key are for --to tls-listen://"},
		{isTLS && (o.cert == "" || o.key == ""), "--to " + o.to + " needs --tls-cert and --tls-key"},
	} {
		if fault.wrong {
			usage = errors.Join(usage, errors.New(fault.text))
		}
	}
	if o.init != "" {
		var err error
		if o.Init, err = regexp.Compile(o.init); err != nil {
			usage = errors.Join(usage, errors.New("--init is not a regular expression")) // it may contain a password
		}
	}
	if usage != nil {
		usage = settings.Usage(usage)
	}
	return errors.Join(usage, filesErr)
}

// stopped makes the end by a signal a success.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func listen(ctx context.Context, to, cert, key string) (net.Listener, error) {
	scheme, addr, _ := strings.Cut(to, "://")
	if scheme != "tcp-listen" && scheme != "tls-listen" {
		return nil, usagef("--to %s: must be -, tcp-listen://host:port or tls-listen://host:port", to)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil || scheme == "tcp-listen" {
		return l, err
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}), nil
}

func readSpeed(s string) (float64, error) {
	if s == "max" {
		return math.Inf(1), nil
	}
	x, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
	if err != nil || x <= 0 || math.IsNaN(x) {
		return 0, fmt.Errorf("--speed %s: must be a factor such as 10x, or max", s)
	}
	return x, nil
}
