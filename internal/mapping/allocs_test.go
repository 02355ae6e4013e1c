package mapping_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
)

// firestarter is the mapping of examples/firehose/firestarter.yaml: two tables of one feed.
func firestarter(t testing.TB) *mapping.Mapping {
	return read(t, "../../examples/firehose/firestarter.yaml")
}

// firehose makes messages of few flights: seven positions to one of another type.
func firehose(n int) (lines [][]byte) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		flight, clock := rnd.IntN(500), 1589549400+i/10
		head := fmt.Sprintf(`{"pitr":"%d","type":%%q,"ident":"UAL%d","id":"UAL%d-1589300000-airline-%04d","reg":"N%d","hexid":"A1B%03d","atcident":"UAL%d","aircrafttype":"B738","orig":"KSFO","dest":"KORD"`,
			clock, flight, flight, flight, flight, flight, flight)
		line := ""
		switch rnd.IntN(16) {
		case 0:
			line = fmt.Sprintf(head+`,"flightstatus":"A","status":"A","adt":"%d","estimated_on":"%d","eta":"%d","actual_departure_gate":"B%d","scheduled_off":"%d","scheduled_out":"%d"}`, "departure", clock, clock+9000, clock+9000, flight%30, clock-600, clock-1200)
		case 1:
			line = fmt.Sprintf(head+`,"flightstatus":"S","status":"S","alt":"35000","speed":"%d","fdt":"%d","edt":"%d","eta":"%d","route":"SSTIK4 EBAYE Q128 JSICA","ete":"14520"}`, "flightplan", 400+flight%90, clock, clock, clock+9000)
		default:
			line = fmt.Sprintf(head+`,"clock":"%d","lat":"%.5f","lon":"%.5f","alt":"%d","gs":"%d","heading":"%d","air_ground":"A","facility_hash":"81E36D2A07C08B10","facility_name":"FlightAware ADS-B","squawk":"%04o","updateType":"A","altChange":"C","speed_tas":"%d","vertRate":"%d","nac_p":"9","nic":"8","sil":"3","adsb_version":"2","temperature":"-55","wind_dir":"270","wind_speed":"61","pressure":"238"}`,
				"position", clock, 37+rnd.Float64(), -122+rnd.Float64(), 100*rnd.IntN(400), 300+rnd.IntN(200), rnd.IntN(360), rnd.IntN(4096), 300+rnd.IntN(200), rnd.IntN(2000)-1000)
		}
		lines = append(lines, []byte(line))
	}
	return lines
}

// TestMap_AllocatesNothing for messages whose rows are known, and for those that no table takes.
func TestMap_AllocatesNothing(t *testing.T) {
	stream := parse(t, "envelope: {unwrap: payload, table: [source.schema, source.table], row: after, old: before, delete_when: op=d, absent: '?'}\ntables: {a: {columns: {id: as integer, v}, unknown_fields: add}}")
	for name, c := range map[string]struct {
		m     *mapping.Mapping
		lines [][]byte
		takes bool
	}{
		"two tables": {firestarter(t), firehose(200), true},
		"no table":   {firestarter(t), [][]byte{[]byte(`{"id":"UAL1","type":"other"}`)}, false},
		"envelope": {stream, [][]byte{[]byte(`{"op":"u","before":{"id":1,"v":"a"},"after":{"id":1,"v":"b","w":2},"source":{"schema":"s","table":"a"}}`),
			[]byte(`{"schema":{},"payload":{"op":"u","before":{"id":2},"after":{"id":1,"v":"?"},"source":{"schema":"s","table":"a"}}}`)}, true},
	} {
		m, lines := newMapper(t, c.m, schema.Limits{TextTypes: true}), make([]feed.Line, len(c.lines))
		for i, text := range c.lines {
			if lines[i].Scan(m.scan, nil, text); lines[i].Err != nil {
				t.Fatal(lines[i].Err)
			}
		}
		if n := testing.AllocsPerRun(10, func() {
			for i := range lines {
				if r, err := m.Map(&lines[i], "", fold.Place{}); err != nil || (len(r.Rows) > 0) != c.takes {
					t.Fatal(len(r.Rows), err)
				}
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations for %d messages", name, n, len(lines))
		}
	}
}
