package metrics_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/exec/metrics"
)

// TestAppend: the text, forever.
func TestAppend(t *testing.T) {
	set := new(metrics.Set)
	requests := set.Counter("x_requests_total", "Requests answered.", "route", "status")
	plain := set.Counter("x_started_total", "Starts.")
	entries := set.Gauge("x_entries", "Entries.")
	seconds := set.Histogram("x_seconds", "Durations.", []float64{0.1, 1}, "op")
	requests.Add(1, "/b", "200")
	requests.Add(2, "/a", "404")
	requests.Add(1, "/a", "404")
	requests.Add(1, "q\"\\\n\xff")
	plain.Add(0.5)
	entries.Set(7)
	entries.Set(6)
	for _, n := range []float64{0.05, 0.1, 0.5, 3} {
		seconds.Observe(n, "view")
	}
	want := `# HELP x_requests_total Requests answered.
# TYPE x_requests_total counter
x_requests_total{route="/a",status="404"} 3
x_requests_total{route="/b",status="200"} 1
x_requests_total{route="q\"\\\n�",status=""} 1
# HELP x_started_total Starts.
# TYPE x_started_total counter
x_started_total 0.5
# HELP x_entries Entries.
# TYPE x_entries gauge
x_entries 6
# HELP x_seconds Durations.
# TYPE x_seconds histogram
x_seconds_bucket{op="view",le="0.1"} 2
x_seconds_bucket{op="view",le="1"} 3
x_seconds_bucket{op="view",le="+Inf"} 4
x_seconds_sum{op="view"} 3.65
x_seconds_count{op="view"} 4
`
	if got := string(set.Append([]byte("# \n"))); got != "# \n"+want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestBound: values that come from clients don't fill the memory, and nothing is lost in the sum.
func TestBound(t *testing.T) {
	set := new(metrics.Set)
	c := set.Counter("x_total", "X.", "name")
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 1000 {
				c.Add(1, strconv.Itoa(w*1000+i))
			}
		})
	}
	all.Wait()
	text := string(set.Append(nil))
	lines, sum := strings.Split(strings.TrimSpace(text), "\n")[2:], 0
	for _, line := range lines {
		n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if len(lines) != 1001 || sum != 4000 || !strings.Contains(text, `x_total{name="other"} 3000`) {
		t.Errorf("%d series, %d in all", len(lines), sum)
	}
}
