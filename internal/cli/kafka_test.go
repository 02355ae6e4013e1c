package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
	"github.com/weirsync/weir/internal/test/testweir"
)

// TestScripts_Kafka runs the scripts in testdata/script/kafka with Kafka's stand-in and with Apache Kafka, and with
// each kind of database, as TestScripts_Both does. They also have the conditions [broker], for Apache Kafka, and
// [slow], for Apache Kafka outside make kafka, and the commands
//
//	kafka PARTITIONS TOPIC…           start a broker with these topics; its URL is $KAFKA, its address $BROKER, its cluster $CLUSTER,
//	                                  an unused group $GROUP
//	topic PARTITIONS NAME [SET=VAL…]  create a topic
//	remove TOPIC                      delete a topic
//	partition TOPIC                   add a partition to a topic
//	produce [-from FILE] [-at TIME] [-h NAME=TEXT]… [-codec NAME] [-times N] [-batches N] [-pad N | -noise N] TOPIC/PARTITION TEXT…
//	                                  append records: VALUE, KEY|VALUE, or KEY| without a value; N times per batch,
//	                                  N batches; %d is the number, %s are N equal (-pad) or random (-noise) bytes
//	transaction TOPIC[:PRODUCER] commit|abort|open TEXT…
//	                                  append records in the producer's open transaction, or a new one, and end it
//	settled TOPIC OFFSET              wait until all transactions up to OFFSET have ended
//	trim TOPIC/PARTITION OFFSET       remove the records before OFFSET
//	broker up|down                    stop the broker, start it again
//	reads CODE TOPICS …               weir sync $KAFKA/TOPICS --to $TO --table t --until-end …, to its end
//	reading NAME TOPICS …             the same without --until-end, in the background
//	rejected JOB OFFSET REASON…       check the rows of a job in weir_rejects
//	asked                             wait until unled has answered a fetch
//	damage TOPIC TEXT TIMES HOW       damage the batch with TEXT: its checksum, codec or header; -1 each time
//	secure TOPIC…                     start a broker at $SECURE with TLS and the login u, p; the first topic has {"id":1}
//	rotate PASSWORD TOPIC MESSAGE     restart it with that password and the current cert.pem, and send a message
//	token VAR SECONDS                 set VAR to an OAUTHBEARER token that expires in SECONDS
//	commit GROUP OFFSET…              commit the group's offsets of the partitions of t
//	committed GROUP OFFSET…           check them
//	retain TOPIC OFFSET               let retention remove the records before OFFSET
//	compacted TOPIC OFFSET            wait until a topic whose last record has OFFSET is compacted
//	hangs                             answer no more requests
//	unled                             answer the next fetch as a broker that is not the leader
//	truncated OFFSET                  elect a leader whose log ends before the records that were read
//	joins N                           wait for N requests to join a group since the last such command
//	forbid GROUP                      deny everybody the use of it
//	member NAME …                     begin reading t in the group weir-t, and wait until it has joined
//	belongs NAME true|false           check whether it is a member
//	expel NAME                        remove it from the group
//	fill N                            append N records to each partition of t, of which one in five is rejected
//	applied …                         read t to its end, and check that each record was applied once
func TestScripts_Kafka(t *testing.T) {
	t.Parallel()
	testkafka.Each(t, func(t *testing.T, start testkafka.Starter) {
		broker := strings.HasSuffix(t.Name(), "broker")
		if broker {
			testcheck.Only(t)
		}
		intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
			t.Parallel()
			on := map[string]bool{"broker": broker, "slow": broker && testkafka.Slow(), "postgres": strings.HasSuffix(t.Name(), "postgres")}
			scripts(t, testscript.Params{Dir: scriptFolder + "kafka"}, on, func(s *script, _ *testscript.Env) { s.startKafka, s.database = start, to })
		})
	})
}

// kafka is the Kafka state of a script.
type kafka struct {
	startKafka testkafka.Starter
	*topic
	producers map[string]*kgo.Client // for transactions, by name
	open      map[string]bool        // whose transaction is open
	asks      atomic.Int64           // fetches that unled has answered
	members   map[string]string      // member IDs by run name
	joining   atomic.Int64           // requests to join a group, since joins
	secured   *testkafka.Cluster     // of the command secure
}

func init() {
	for name, command := range map[string]func(*script, *testscript.TestScript, []string){
		"kafka": startKafka, "topic": makeTopic, "remove": func(s *script, _ *testscript.TestScript, args []string) { s.c.DeleteTopics(args...) },
		"partition": func(s *script, _ *testscript.TestScript, args []string) { s.c.AddPartition(args[0]) },
		"produce":   produce, "transaction": transaction, "settled": settled, "trim": trim, "broker": upOrDown, "reads": reads, "reading": reading, "rejected": rejected,
		"asked": func(s *script, _ *testscript.TestScript, _ []string) {
			s.Until("a request", func() bool { return s.asks.Load() > 0 })
		},
		"secure": secure, "rotate": rotate, "token": token, "damage": damage, "commit": commit, "committed": committed, "retain": retain, "joins": joins, "member": member, "expel": expel, "fill": fill,
		"compacted": compacted, "unled": unled, "hangs": hangs, "truncated": truncated,
		"forbid": func(s *script, _ *testscript.TestScript, args []string) {
			s.c.Fault(kfake.Fault{Group: args[0], TopLevel: true, Err: kerr.GroupAuthorizationFailed, Count: -1})
		},
		"belongs": func(s *script, _ *testscript.TestScript, args []string) {
			if got := slices.Contains(s.c.Members("weir-t"), s.members[args[0]]); fmt.Sprint(got) != args[1] {
				s.Errorf("%s is a member: %v", args[0], got)
			}
		},
		"applied": func(s *script, ts *testscript.TestScript, args []string) {
			s.applied(s.With(ts.Getenv("TO")), args...)
		},
	} {
		commands[name] = command
	}
}

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

// place returns the topic and partition in TOPIC/PARTITION; without a partition it is 0.
func place(ts *testscript.TestScript, text string) (topic string, partition int32) {
	topic, p, found := strings.Cut(text, "/")
	if found {
		partition = int32(number(ts, p))
	}
	return topic, partition
}

func startKafka(s *script, ts *testscript.TestScript, args []string) {
	partitions := number(ts, args[0])
	s.topic = newTopic(s.startKafka(s, int32(partitions), args[1:]...), partitions)
	s.members, s.producers, s.open = map[string]string{}, map[string]*kgo.Client{}, map[string]bool{}
	ts.Setenv("BROKER", s.c.Addr())
	ts.Setenv("KAFKA", "kafka://"+s.c.Addr())
	ts.Setenv("CLUSTER", s.c.ID())
	ts.Setenv("GROUP", fmt.Sprint("g", time.Now().UnixNano()))
	ts.Setenv("TO", s.database(s))
	if !s.c.Real() {
		s.c.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.c.KeepControl()
			s.joining.Add(1)
			return nil, nil, false
		})
	} else {
		addr, folder := s.c.TLS()
		ts.Setenv("TLS", addr)
		ts.Setenv("SASL", s.c.SASL())
		ts.Setenv("CERTS", folder)
	}
	var err error
	s.Program, err = exec.LookPath("weir")
	ts.Check(err)
}

func makeTopic(s *script, ts *testscript.TestScript, args []string) {
	settings := map[string]string{}
	for _, a := range args[2:] {
		name, value, _ := strings.Cut(a, "=")
		settings[name] = value
	}
	s.c.CreateTopics(int32(number(ts, args[0])), settings, args[1])
}

func produce(s *script, ts *testscript.TestScript, args []string) {
	var like kgo.Record
	var lines []string
	times, batches, fill, opts := 1, 1, "", []kgo.Opt{kgo.ProducerBatchMaxBytes(64 << 20)}
	for ; strings.HasPrefix(args[0], "-"); args = args[2:] {
		switch flag, value := args[0], args[1]; flag {
		case "-at":
			var err error
			like.Timestamp, err = time.Parse(time.RFC3339, value)
			ts.Check(err)
		case "-codec":
			codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
			opts = append(opts, kgo.ProducerBatchCompression(codec[value]))
		case "-from":
			lines = strings.Split(strings.TrimSpace(ts.ReadFile(value)), "\n")
		case "-times":
			times = number(ts, value)
		case "-batches":
			batches = number(ts, value)
		case "-pad":
			fill = strings.Repeat("x", number(ts, value))
		case "-noise":
			noise := make([]byte, number(ts, value))
			_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
			fill = hex.EncodeToString(noise)[:len(noise)]
		default:
			name, text, _ := strings.Cut(value, "=")
			like.Headers = append(like.Headers, kgo.RecordHeader{Key: name, Value: []byte(unescaped(ts, text))})
		}
	}
	like.Topic, like.Partition = place(ts, args[0])
	client := s.c.Client(opts...)
	for batch := range batches {
		var records []*kgo.Record
		for n := range times {
			for _, text := range append(lines, args[1:]...) {
				r := testkafka.Record(strings.NewReplacer("%d", strconv.Itoa(batch*times+n), "%s", fill).Replace(unescaped(ts, text)))
				r.Topic, r.Partition, r.Timestamp, r.Headers = like.Topic, like.Partition, like.Timestamp, like.Headers
				records = append(records, r)
			}
		}
		s.c.Send(client, records...)
	}
}

func transaction(s *script, ts *testscript.TestScript, args []string) {
	topic, by, _ := strings.Cut(args[0], ":")
	if s.producers[by] == nil {
		s.producers[by] = s.c.Client(kgo.TransactionalID("x" + by))
	}
	if !s.open[by] {
		ts.Check(s.producers[by].BeginTransaction())
	}
	for _, text := range args[2:] {
		s.c.Send(s.producers[by], &kgo.Record{Topic: topic, Value: []byte(text)})
	}
	if s.open[by] = args[1] == "open"; !s.open[by] {
		ts.Check(s.producers[by].EndTransaction(s.Context(), kgo.TransactionEndTry(args[1] == "commit")))
	}
}

func settled(s *script, ts *testscript.TestScript, args []string) {
	s.Until("the end of the transactions", func() bool {
		ends, err := kadm.NewClient(s.c.Client()).ListCommittedOffsets(s.Context(), args[0])
		ts.Check(err)
		end, _ := ends.Lookup(args[0], 0)
		return fmt.Sprint(end.Offset) == args[1]
	})
}

func trim(s *script, ts *testscript.TestScript, args []string) {
	topic, partition := place(ts, args[0])
	cut := kadm.Offsets{}
	cut.AddOffset(topic, partition, int64(number(ts, args[1])), -1)
	_, err := kadm.NewClient(s.c.Client()).DeleteRecords(s.Context(), cut)
	ts.Check(err)
}

func upOrDown(s *script, _ *testscript.TestScript, args []string) {
	map[string]func(){"up": func() { s.c.Up() }, "down": s.c.Down}[args[0]]()
}

// sync returns the command line of a run that reads topics.
func (k *topic) sync(to, topics string, more ...string) []string {
	return append([]string{"sync", "kafka://" + k.c.Addr() + "/" + topics, "--to", to, "--table", "t"}, more...)
}

func reads(s *script, ts *testscript.TestScript, args []string) {
	exits(s, ts, append([]string{args[0], "weir"}, append(s.sync(ts.Getenv("TO"), args[1], args[2:]...), "--until-end")...))
}

func reading(s *script, ts *testscript.TestScript, args []string) {
	start(s, ts, append([]string{args[0], "weir"}, s.sync(ts.Getenv("TO"), args[1], args[2:]...)...))
}

func rejected(s *script, ts *testscript.TestScript, args []string) {
	f := s.With(ts.Getenv("TO"))
	f.Has(strings.Join(args[1:], " "), `SELECT "offset" || ' ' || `+map[bool]string{true: "split_part(reason, ':', 1)", false: "substr(reason, 1, instr(reason || ':', ':') - 1)"}[strings.Contains(f.To, "://")]+
		` FROM weir_rejects WHERE job = '`+args[0]+`' ORDER BY "offset"`)
}

func damage(s *script, ts *testscript.TestScript, args []string) {
	s.c.Damage(args[0], args[1], number(ts, args[2]), map[string]func([]byte){
		"checksum": func(batch []byte) { batch[len(batch)-1] ^= 1 },
		"codec": func(batch []byte) { // an unknown codec, with a valid checksum
			batch[22] |= 7
			binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
		},
		"header": func(batch []byte) { binary.BigEndian.PutUint32(batch[23:], 2) },
		"longer": func(batch []byte) { // by a record
			binary.BigEndian.PutUint32(batch[23:], binary.BigEndian.Uint32(batch[23:])+1)
			binary.BigEndian.PutUint32(batch[57:], binary.BigEndian.Uint32(batch[57:])+1)
		},
		"hole": func(batch []byte) { binary.BigEndian.PutUint32(batch[57:], binary.BigEndian.Uint32(batch[57:])-1) },
	}[args[3]])
}

func secure(s *script, ts *testscript.TestScript, args []string) {
	commands["certificate"](s, ts, nil)
	pair, authorities := s.Certificate()
	c := testkafka.Start(s, kfake.SeedTopics(1, args...), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "u", "p"), kfake.Superuser("SCRAM-SHA-256", "u", "p"), kfake.Superuser("SCRAM-SHA-512", "u", "p"))
	ts.Setenv("SECURE", c.Addr())
	s.secured = c
	s.secureSend(authorities, "p", args[0], `{"id":1}`)
}

// secureSend sends a message to the broker of the command secure.
func (s *script) secureSend(authorities *x509.CertPool, password, topic, message string) {
	login := plain.Auth{User: "u", Pass: password}
	client := s.secured.Client(kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}), kgo.SASL(login.AsMechanism()))
	s.secured.Send(client, &kgo.Record{Topic: topic, Value: []byte(message)})
}

func rotate(s *script, _ *testscript.TestScript, args []string) {
	password := args[0]
	pair, authorities := s.Certificate()
	s.secured.Down()
	s.secured.Up(kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	s.secured.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.secured.KeepControl()
		login := r.(*kmsg.SASLAuthenticateRequest)
		if string(login.SASLAuthBytes) == "\x00u\x00"+password {
			login.SASLAuthBytes = []byte("\x00u\x00p") // the stand-in's own user
			return nil, nil, false
		}
		refusal := r.ResponseKind().(*kmsg.SASLAuthenticateResponse) // the stand-in itself would only close the connection
		refusal.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return refusal, nil, true
	})
	s.secureSend(authorities, password, args[1], args[2])
}

func token(_ *script, ts *testscript.TestScript, args []string) {
	part := base64.RawURLEncoding.EncodeToString
	claims := fmt.Appendf(nil, `{"sub":"u","iat":%d,"exp":%d}`, time.Now().Unix()-100, time.Now().Unix()+int64(number(ts, args[1])))
	ts.Setenv(args[0], part([]byte(`{"alg":"none"}`))+"."+part(claims)+".")
}

func commit(s *script, ts *testscript.TestScript, args []string) {
	all := kadm.Offsets{}
	for p, offset := range args[1:] {
		all.AddOffset("t", int32(p), int64(number(ts, offset)), -1)
	}
	ts.Check(kadm.NewClient(s.c.Client()).CommitAllOffsets(s.Context(), args[0], all))
}

func committed(s *script, ts *testscript.TestScript, args []string) {
	offsets, err := kadm.NewClient(s.c.Client()).FetchOffsets(s.Context(), args[0])
	ts.Check(err)
	for p, want := range args[1:] {
		if at, _ := offsets.Lookup("t", int32(p)); fmt.Sprint(at.At) != want {
			ts.Fatalf("Kafka has offset %d of partition %d", at.At, p)
		}
	}
}

func member(s *script, ts *testscript.TestScript, args []string) {
	before := s.c.Members("weir-t")
	reading(s, ts, append([]string{args[0], "t", "--batch-period", "50ms", "--metrics-addr", "127.0.0.1:0"}, args[1:]...))
	s.members[args[0]] = s.joined(s.Folder, before)
}

func expel(s *script, _ *testscript.TestScript, args []string) {
	s.c.Expel("weir-t", s.members[args[0]])
}

func joins(s *script, ts *testscript.TestScript, args []string) {
	s.Until("requests to join", func() bool { return s.joining.Load() >= int64(number(ts, args[0])) })
	s.joining.Store(0)
}

func retain(s *script, ts *testscript.TestScript, args []string) {
	admin, ms := kadm.NewClient(s.c.Client()), "100"
	_, err := admin.AlterTopicConfigs(s.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &ms}}, args[0])
	ts.Check(err)
	s.Until("the retention", func() bool {
		starts, err := admin.ListStartOffsets(s.Context(), args[0])
		ts.Check(err)
		first, _ := starts.Lookup(args[0], 0)
		return fmt.Sprint(first.Offset) == args[1]
	})
}

func compacted(s *script, _ *testscript.TestScript, args []string) {
	s.Until("the compaction", func() bool {
		client := s.c.Client(kgo.ConsumeTopics(args[0]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer client.Close()
		for left := 0; ; {
			for _, r := range client.PollFetches(s.Context()).Records() {
				if left++; fmt.Sprint(r.Offset) == args[1] {
					return left < 10
				}
			}
		}
	})
}

// hangs lets the cluster answer no more requests.
func hangs(s *script, ts *testscript.TestScript, _ []string) {
	end := make(chan struct{})
	ts.Defer(func() { close(end) })
	s.c.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		s.c.KeepControl()
		s.c.SleepControl(func() { <-end })
		return nil, nil, false
	})
}

func unled(s *script, _ *testscript.TestScript, _ []string) {
	var asked atomic.Int64
	s.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.c.KeepControl()
		request := r.(*kmsg.FetchRequest)
		if request.MaxWaitMillis != 1000 || asked.Add(1) > 1 { // the consumer's requests may wait longer
			return nil, nil, false
		}
		at, of := kmsg.NewFetchResponseTopicPartition(), kmsg.NewFetchResponseTopic()
		at.ErrorCode = kerr.NotLeaderForPartition.Code
		of.Topic, of.TopicID, of.Partitions = request.Topics[0].Topic, request.Topics[0].TopicID, []kmsg.FetchResponseTopicPartition{at}
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		answer.Topics = []kmsg.FetchResponseTopic{of}
		s.asks.Add(1)
		return answer, nil, true
	})
}

func truncated(s *script, ts *testscript.TestScript, args []string) {
	s.c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.OffsetForLeaderEpochRequest)
		answer := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, asked := range request.Topics {
			of := kmsg.NewOffsetForLeaderEpochResponseTopic()
			of.Topic = asked.Topic
			for _, p := range asked.Partitions {
				at := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				at.Partition, at.LeaderEpoch, at.EndOffset = p.Partition, p.LeaderEpoch, int64(number(ts, args[0]))
				of.Partitions = append(of.Partitions, at)
			}
			answer.Topics = append(answer.Topics, of)
		}
		return answer, nil, true
	})
	_, _, err := s.c.AddNode(-1, 0)
	ts.Check(err)
	s.c.ShufflePartitionLeaders()
}

func fill(s *script, ts *testscript.TestScript, args []string) { s.fill(number(ts, args[0])) }

// A topic is the topic t, which runs read into table t. One record in five is rejected. weir_rejects is written
// together with the rows, so it shows which records were applied, and how often.
type topic struct {
	c        *testkafka.Cluster
	rnd      *rand.Rand
	sent     []int           // records by partition
	bad      int             // how many of them are bad
	lines    strings.Builder // the records' values
	versions bool            // an id is in all partitions, and messages have versions; otherwise each id is in one partition
}

func newTopic(c *testkafka.Cluster, partitions int) *topic {
	return &topic{c: c, rnd: rand.New(rand.NewPCG(1, 1)), sent: make([]int, partitions)}
}

// fill appends records to each partition.
func (k *topic) fill(n int) {
	for p := range k.sent {
		texts := make([]string, n)
		for i := range texts {
			id, field, value := k.rnd.IntN(50), k.rnd.IntN(3), k.rnd.IntN(1000)
			switch {
			case (k.sent[p]+i)%5 == 4:
				texts[i] = "bad"
				k.bad++
			case k.versions: // unique version
				version := 1 + k.rnd.IntN(1000)*1_000_000 + k.sent[p]*len(k.sent) + i*len(k.sent) + p
				texts[i] = fmt.Sprintf(`{"id":%d,"f%d":%d,"v":%d}`, id, field, value, version)
			default:
				texts[i] = fmt.Sprintf(`{"id":%d,"f%d":%d}`, id*len(k.sent)+p, field, value)
			}
		}
		k.sent[p] += n
		k.lines.WriteString(strings.Join(texts, "\n") + "\n")
		k.c.Produce("t", int32(p), texts...)
	}
}

// applied reads to the end, perhaps next to other members of a group, and compares the table and the rejects with the
// records that were sent.
func (k *topic) applied(f *testweir.Folder, more ...string) {
	f.Helper()
	run := f.Start(append(k.sync(f.To, "t", more...), "--until-end")...)
	if code := run.Wait(); code != 0 && code != 3 {
		f.Fatalf("exit %d\n%s", code, run.Log())
	}
	for p := range k.sent {
		f.Has(fmt.Sprintf("%d|%d", k.sent[p], k.sent[p]), fmt.Sprintf(`SELECT line, "offset" FROM weir_checkpoints WHERE source LIKE '%%/t/%d'`, p))
	}
	f.Has(fmt.Sprintf("%d|%d", k.bad, k.bad), `SELECT count(*), count(DISTINCT source || "offset") FROM weir_rejects`)
	f.Write("sent.jsonl", k.lines.String())
	verify := []string{"verify", "sent.jsonl", "--table", "t", "--to", f.To}
	if k.versions {
		verify = append(verify, "--version-field", "v")
	}
	f.Start(verify...).Exit(0)
}

// joined waits until the group has a new member, and returns its ID.
func (k *topic) joined(f *testweir.Folder, before []string) (id string) {
	f.Until("a member joins", func() bool {
		all := k.c.Members("weir-t")
		i := slices.IndexFunc(all, func(id string) bool { return !slices.Contains(before, id) })
		if i >= 0 {
			id = all[i]
		}
		return i >= 0
	})
	return id
}
