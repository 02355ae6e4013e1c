// Package testmirror mirrors real databases through Debezium and Kafka.
package testmirror

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

func TestMain(m *testing.M) { testweir.Main(testkafka.Tests{M: testpg.Tests{M: m}}, nil) }

// A source is a database that is mirrored.
type source struct {
	*generator
	name     string   // prefix of its topics
	schema   string   // schema of its tables in the mirror
	command  []string // arguments of weir
	odd      func() (*table, [][3]string)
	transact func([]string) (failed int)
	rows     func(table string, expressions []string) map[string][]string
	text     func(expression string) string // returns SQL for the expression's value as text
	run      *testweir.Run
}

// A postgres is a database of a Postgres server.
type postgres struct {
	t   testing.TB
	url string
}

func (p *postgres) transact(transactions []string) (failed int) {
	p.t.Helper()
	c, err := pgconn.Connect(p.t.Context(), p.url)
	testcheck.NoError(p.t, err)
	defer c.Close(context.Background())
	for _, sql := range transactions {
		if _, err := c.Exec(p.t.Context(), sql).ReadAll(); err != nil {
			if strings.Contains(err.Error(), "42601") { // syntax error
				p.t.Fatalf("%s: %v", sql, err)
			}
			failed++
			_, err = c.Exec(p.t.Context(), "ROLLBACK").ReadAll()
			testcheck.NoError(p.t, err)
		}
	}
	return failed
}

// rows returns the values of expressions in each row of a table, by the first of them; nothing if the table does not
// exist.
func (p *postgres) rows(table string, expressions []string) (all map[string][]string) {
	p.t.Helper()
	db, err := sql.Open("pgx", p.url)
	testcheck.NoError(p.t, err)
	defer db.Close()
	for i, e := range expressions {
		expressions[i] = "coalesce(" + e + ", 'NULL')"
	}
	rows, err := testweir.Cells(db, "SELECT "+strings.Join(expressions, ", ")+" FROM "+table)
	if err != nil && !strings.Contains(err.Error(), "42P01") { // no such table
		p.t.Fatal(err)
	}
	all = map[string][]string{}
	for _, row := range rows {
		var cells []string
		for _, cell := range row[1:] {
			cells = append(cells, cell.(string))
		}
		all[row[0].(string)] = cells
	}
	return all
}

func (p *postgres) text(expression string) string { return "(" + expression + ")::text" }

// TestMirror mirrors six tables of all types and a table of odd values, in Postgres and in MariaDB, through Debezium
// and Kafka. Meanwhile random transactions run, tables change and are truncated, and weir and Connect are killed. In
// the end each value must equal its source, except for the listed excuses.
func TestMirror(t *testing.T) {
	testcheck.Only(t)
	seed := uint64(time.Now().UnixNano() % 100_000)
	if s := os.Getenv("TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("TEST_SEED=%d", seed)

	services := compose(t)
	server := testpg.Start(t, services["postgres"].Command[2], "TimeZone=UTC")
	origin, mirror := &postgres{t, server.Database(t)}, &postgres{t, server.Database(t)}
	maria := startMariaDB(t, server.Folder(t), services["mariadb"].Command)
	f := testweir.New(t, mirror.url)
	origin.transact([]string{example(t, "postgres.sql"), "CREATE TYPE mood AS ENUM ('happy', 'so so')"})
	maria.run(example(t, "mariadb.sql"))
	cluster := testkafka.Broker(t, 1)

	random := func(n uint64, d dialect, tables []*table) *generator {
		return &generator{Rand: rand.New(rand.NewPCG(seed, n)), dialect: d, tables: tables}
	}
	sources := []*source{
		{
			name: "shop", schema: "public", odd: shopOdd, transact: origin.transact, rows: origin.rows, text: origin.text,
			generator: random(1, dialect{"INSERT INTO", " ON CONFLICT DO NOTHING", "UPDATE", "DELETE FROM"}, shop()),
		},
		{
			name: "depot", schema: "depot", odd: depotOdd, transact: maria.transact, rows: maria.rows, text: func(e string) string { return e },
			generator: random(2, dialect{"INSERT IGNORE INTO", "", "UPDATE IGNORE", "DELETE IGNORE FROM"}, depot()),
		},
	}
	// Some tables in the mirror have foreign keys of their own; weir makes all others.
	f.Exec("CREATE SCHEMA depot")
	for _, table := range sources[0].tables[1:4] {
		f.Exec(table.create(""))
	}
	for _, s := range sources {
		s.must(t, example(t, "tables.sql"))
		for _, table := range s.tables {
			s.must(t, table.create("")+";")
		}
		odd, rows := s.odd()
		s.must(t, odd.create("")+";")
		for _, row := range rows {
			s.must(t, fmt.Sprintf("INSERT INTO odd (name, %s) VALUES ('%s', %s);", row[1], row[0], row[2]))
		}
		s.must(t, "INSERT INTO kinds (id, bits) VALUES (1000000, b'00000000');") // never changed afterwards
		s.work(t, 40)
		s.marks(t, 1) // so each table has a topic
	}
	connect := cluster.Connect(examples+"worker.properties", shopProperties(t, origin.url), depotProperties(t, maria.port, cluster.Addr()))
	connect.Runs("the topics", func() bool { return topics(t, cluster, sources) })
	for _, s := range sources {
		s.command = services["mirror-"+s.name].Command
		s.start(f, cluster)
		s.caughtUp(f, 1)
	}
	both := func(n int) {
		for _, s := range sources {
			s.work(t, n)
		}
	}
	both(80)
	sources[0].restart(f, cluster)
	for _, s := range sources {
		s.must(t, "ALTER TABLE kinds ADD COLUMN more integer;", "ALTER TABLE kinds ADD COLUMN lasting integer DEFAULT 7;")
		kinds := s.tables[0]
		kinds.columns = append(kinds.columns, column{name: "more", kind: "integer", values: numbers(0, 9)}, column{name: "lasting", kind: "integer", values: numbers(0, 9)})
	}
	both(70)
	connect.Saved()
	both(10) // is sent again
	connect.Kill()
	both(40)
	connect.Up()
	for _, s := range sources {
		s.must(t, "TRUNCATE TABLE order_lines;", "UPDATE odd SET touched = 1;")
	}
	both(70)
	connect.Saved()
	both(10)
	connect.Kill()
	sources[1].restart(f, cluster)
	connect.Up()
	sources[0].must(t, "UPDATE odd SET name = 'moved' WHERE name = 'to move'")
	both(40)
	for _, s := range sources {
		s.restart(f, cluster)
		s.marks(t, 2)
	}
	readme(t, server, map[string]string{"shop": origin.url, "mirror": mirror.url})
	judge := &judge{t: t}
	for _, s := range sources {
		if s.made < 800 {
			t.Errorf("did not exercise: %d operations", s.made)
		}
		s.caughtUp(f, 2)
		s.run.Interrupt()
		places := &table{name: "places", key: 1, columns: []column{{name: "id"}, {name: "name"}, {name: "opened"}}}
		for _, table := range append(s.all(), places) {
			judge.compare(s, table, mirror)
		}
		if t.Failed() {
			t.Logf("%s: %s", s.name, s.run.Log())
		}
	}
	judge.end()
}

// all returns the tables of random operations, and the table of odd values.
func (s *source) all() []*table {
	odd, _ := s.odd()
	return append(slices.Clone(s.tables), odd)
}

// must runs statements, all of which must succeed.
func (s *source) must(t *testing.T, statements ...string) {
	t.Helper()
	if s.transact(statements) > 0 {
		t.Fatalf("%s: it fails: %q", s.name, statements)
	}
}

// work runs some random transactions.
func (s *source) work(t *testing.T, n int) {
	t.Helper()
	before := s.made
	if failed := s.transact(s.transactions(n)); failed > (s.made-before)/3 {
		t.Fatalf("%s: did not exercise: %d of %d operations or their transactions failed", s.name, failed, s.made-before)
	}
}

// marks writes a row into each table, for caughtUp to wait for.
func (s *source) marks(t *testing.T, n int) {
	t.Helper()
	for _, table := range s.all() {
		columns := strings.Join(table.names()[:max(1, table.key)], ", ")
		s.must(t, "INSERT INTO "+table.name+" ("+columns+") VALUES ("+table.marked(n)+");")
	}
}

// caughtUp waits until the mirror has the rows of marks, in all mirrored tables.
func (s *source) caughtUp(f *testweir.Folder, n int) {
	f.Helper()
	for _, table := range s.all() {
		first, _, _ := strings.Cut(table.marked(n), ", ")
		query := fmt.Sprintf("SELECT count(*) > 0 FROM %s.%s WHERE %s::text = '%s'", s.schema, table.name, table.columns[0].name, strings.Trim(first, "'"))
		testcheck.Until(f, func() string {
			if answer := f.Ask(query); answer != "true" {
				return query + ": " + answer + "\n" + s.run.Log()
			}
			return ""
		})
	}
}

// start starts weir with the command of the example.
func (s *source) start(f *testweir.Folder, c *testkafka.Cluster) {
	var args []string
	for _, arg := range s.command {
		if strings.HasPrefix(arg, "postgres://") {
			arg = f.To
		}
		args = append(args, strings.Replace(arg, "kafka:9092", c.Addr(), 1))
	}
	s.run = f.Start(append(args, "--group-instance", s.name, "--session-timeout", "6s", "--batch-period", "100ms", "--max-rejects", "1000000")...)
}

// restart kills weir and starts it again.
func (s *source) restart(f *testweir.Folder, c *testkafka.Cluster) {
	s.run.Kill()
	s.start(f, c)
}

// shopProperties returns the properties of the example's Postgres connector.
func shopProperties(t *testing.T, url string) string {
	config, err := pgconn.ParseConfig(url)
	testcheck.NoError(t, err)
	return testkafka.Properties(t, examples+"postgres.properties", map[string]string{
		"database.hostname": "127.0.0.1", "database.port": fmt.Sprint(config.Port), "database.dbname": config.Database,
	})
}

// depotProperties returns the properties of the MariaDB connector.
func depotProperties(t *testing.T, port int, kafka string) string {
	return testkafka.Properties(t, examples+"mariadb.properties", map[string]string{
		"database.hostname": "127.0.0.1", "database.port": fmt.Sprint(port), "schema.history.internal.kafka.bootstrap.servers": kafka,
	})
}

// topics reports whether each table has its topic.
func topics(t *testing.T, c *testkafka.Cluster, sources []*source) bool {
	t.Helper()
	listed, err := kadm.NewClient(c.Client()).ListTopics(t.Context())
	testcheck.NoError(t, err)
	for _, s := range sources {
		for _, table := range s.all() {
			if !listed.Has(s.topic(table)) {
				return false
			}
		}
	}
	return true
}

func (s *source) topic(t *table) string { return s.name + "." + s.schema + "." + t.name }
