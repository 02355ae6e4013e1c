package bench

import (
	"bufio"
	"container/heap"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// The size and seed of the shipped feed, testdata/flights.jsonl.gz.
const (
	ShippedFlights = 1200
	ShippedSeed    = 1
)

type airport struct {
	code, city string
	lat, lon   float64
}

var airports = []airport{
	{"KIAH", "Houston", 29.9844, -95.3414}, {"KJFK", "New York", 40.6399, -73.7787}, {"EGLL", "London", 51.4775, -0.4614},
	{"LFPG", "Paris", 49.0097, 2.5478}, {"LSZH", "Zürich", 47.4647, 8.5492}, {"EDDM", "München", 48.3538, 11.7861},
	{"LEMD", "Madrid", 40.4936, -3.5668}, {"ESSA", "Stockholm", 59.6519, 17.9186}, {"EKCH", "København", 55.6179, 12.656},
	{"SBGR", "São Paulo", -23.4321, -46.4695}, {"CYUL", "Montréal", 45.4706, -73.7408}, {"KSFO", "San Francisco", 37.6189, -122.375},
	{"RJTT", "東京", 35.5523, 139.7797}, {"LTFM", "İstanbul", 41.2753, 28.7519}, {"KDEN", "Denver", 39.8617, -104.6731},
	{"EPWA", "Warszawa", 52.1657, 20.9671}, {"BIKF", "Reykjavík", 63.985, -22.6056}, {"MMMX", "Ciudad de México", 19.4363, -99.0721},
}

var airlines = []struct{ code, name string }{
	{"UAL", "United"}, {"BAW", "British Airways"}, {"AFR", "Air France"}, {"DLH", "Lufthansa"}, {"SAS", "Scandinavian"},
	{"RGN", "Régional Æro"}, {"AAL", "American"}, {"THY", "Türk Hava Yolları"}, {"ICE", "Icelandair"}, {"LOT", "LOT"},
}

var (
	aircraft = []string{"A320", "A21N", "B738", "B39M", "E190", "A359", "B789", "BCS3"}
	fixes    = []string{"MERIT", "HFD", "PUT", "TUSKY", "DOGAL", "BEXET", "LIMRI", "NUBDI", "OCK", "BIG", "KOMAN", "VEULE", "TERKU", "RESMI"}
)

// A flight sends messages in the order of its life.
type flight struct {
	next  time.Time // time of its next message
	order int       // among flights with a message at the same time
	say   func(f *flight) (message, bool)

	id       string
	from, to airport
	start    time.Time
	flying   time.Duration
	done     float64 // part of the way, 0 to 1
	step     int
}

// message is an ordered JSON object.
type message []any // name, value, name, value, …

func (m message) append(b []byte) ([]byte, error) {
	b = append(b, '{')
	for i := 0; i < len(m); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		value, err := json.Marshal(m[i+1])
		if err != nil {
			return nil, err
		}
		b = append(append(append(append(b, '"'), m[i].(string)...), '"', ':'), value...)
	}
	return append(b, '}', '\n'), nil
}

// Flights writes the messages of n flights over one afternoon, in time order: some twenty sparse messages each. A
// schedule sets most columns, a position five, and a withdrawn gate is null.
func Flights(w io.Writer, n int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 2))
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var sky queue
	for i := range n {
		f := &flight{order: i, next: noon.Add(time.Duration(r.IntN(4*3600)) * time.Second)}
		a := airlines[r.IntN(len(airlines))]
		from := r.IntN(len(airports))
		f.from, f.to = airports[from], airports[(from+1+r.IntN(len(airports)-1))%len(airports)]
		number := 10 + r.IntN(2000)
		f.start = f.next.Add(time.Duration(20+r.IntN(60)) * time.Minute)
		f.flying = time.Duration(45+r.IntN(150)) * time.Minute
		f.id = fmt.Sprintf("%s%d-%d-schedule-%04d", a.code, number, f.start.Unix(), i)
		f.say = func(f *flight) (message, bool) { return f.speak(r, a.code, a.name, number) }
		sky = append(sky, f)
	}
	heap.Init(&sky)
	out := bufio.NewWriterSize(w, 1<<16)
	var b []byte
	for len(sky) > 0 {
		f := sky[0]
		m, more := f.say(f)
		head := message{"pitr", fmt.Sprint(f.next.Unix()), "type", m[0], "id", f.id}
		var err error
		if b, err = append(head, m[1:]...).append(b[:0]); err != nil {
			return err
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
		if !more {
			heap.Pop(&sky)
			continue
		}
		f.next = f.next.Add(time.Duration(150+r.IntN(600)) * time.Second)
		heap.Fix(&sky, 0)
	}
	return out.Flush()
}

// speak returns the type and the fields of the flight's next message, and whether another one follows.
func (f *flight) speak(r *rand.Rand, code, name string, number int) (message, bool) {
	f.step++
	epoch := func(t time.Time) string { return fmt.Sprint(t.Unix()) }
	gate := func() string { return fmt.Sprintf("%c%02d", 'A'+rune(r.IntN(5)), r.IntN(60)) }
	switch {
	case f.step == 1:
		var route []string
		for range 3 + r.IntN(5) {
			route = append(route, fixes[r.IntN(len(fixes))])
		}
		return message{"flifo", "ident", fmt.Sprint(code, number), "operator", name, "reg", fmt.Sprintf("N%03dWR", r.IntN(1000)),
			"aircrafttype", aircraft[r.IntN(len(aircraft))], "orig", f.from.code, "dest", f.to.code, "orig_city", f.from.city, "dest_city", f.to.city,
			"scheduled_out", epoch(f.start), "estimated_out", epoch(f.start), "scheduled_in", epoch(f.start.Add(f.flying)),
			"waypoints", route, "diverted", false, "status", "S"}, true
	case f.step == 2:
		return message{"flifo", "gate_orig", gate(), "terminal_orig", fmt.Sprint(1 + r.IntN(5)), "seats", map[string]int{"Y": 100 + r.IntN(150), "J": r.IntN(40)}}, true
	case f.step == 3 && r.IntN(40) == 0:
		return message{"cancellation", "status", "X", "estimated_out", nil, "gate_orig", nil}, false
	case f.step == 3 && r.IntN(3) == 0:
		f.start = f.start.Add(time.Duration(5+r.IntN(40)) * time.Minute)
		return message{"flifo", "estimated_out", epoch(f.start), "gate_orig", []any{nil, gate()}[r.IntN(2)]}, true
	case f.done == 0:
		f.done = 0.02
		return message{"departure", "actual_out", epoch(f.next), "status", "A", "ground", false, "gate_orig", nil, "estimated_in", epoch(f.next.Add(f.flying))}, true
	case f.done < 1:
		f.done += 0.03 + r.Float64()*0.05
		at := min(f.done, 1)
		round := func(x float64) float64 { return math.Round(x*1e5) / 1e5 }
		climb := math.Min(1, 5*math.Min(at, 1-at)+0.05)
		m := message{"position", "lat", round(f.from.lat + at*(f.to.lat-f.from.lat)), "lon", round(f.from.lon + at*(f.to.lon-f.from.lon)),
			"alt", int(climb * float64(330+10*(number%8)) * 100), "gs", 120 + int(climb*350) + r.IntN(20), "heading", r.IntN(360)}
		if r.IntN(8) == 0 {
			m = append(m, "estimated_in", epoch(f.next.Add(f.flying*time.Duration(100*(1-at))/100)))
		}
		if r.IntN(9) == 0 {
			m = append(m, "gate_dest", gate(), "terminal_dest", fmt.Sprint(1+r.IntN(5)))
		}
		return m, true
	case f.done < 2:
		f.done = 2
		return message{"arrival", "actual_in", epoch(f.next), "status", "L", "ground", true, "alt", nil, "gs", 0}, true
	}
	return message{"flifo", "baggage", fmt.Sprint(1 + r.IntN(18)), "gate_dest", gate()}, false
}

// queue is a heap of flights by the time of their next message.
type queue []*flight

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if !q[i].next.Equal(q[j].next) {
		return q[i].next.Before(q[j].next)
	}
	return q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is part of heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(*flight)) }

// Pop is part of heap.Interface.
func (q *queue) Pop() any {
	f := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return f
}
