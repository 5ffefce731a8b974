// Package metrics counts what a server does, and writes the numbers in the text form of Prometheus (version 0.0.4).
//
//	set := new(metrics.Set)
//	requests := set.Counter("ryed_requests_total", "Requests answered.", "route", "status")
//	requests.Add(1, "/v1/publish", "200")
//	text := set.Append(nil)
//
// Names and labels are the program's own; only values of labels may come from elsewhere. Each name has at most 1,000
// combinations of them: further ones count as one, whose values are all "other", so that no client can fill the
// memory.
//
// Families are written in the order in which they were made, and the series of a family in the order of their labels.
package metrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxSeries is the most combinations of labels of one name.
const maxSeries = 1000

// A Set is the metrics of a program. It is safe for concurrent use.
type Set struct {
	mu       sync.Mutex
	families []*family
}

// A family is what has one name.
type family struct {
	set         *Set
	name, about string
	kind        string
	labels      []string
	bounds      []float64          // of a histogram
	series      map[string]*series // by the text of their labels
}

// A series has the numbers of one combination of labels.
type series struct {
	value  float64  // of a counter or a gauge; the sum of a histogram
	counts []uint64 // of a histogram: of each bound, and of what exceeds them
}

func (s *Set) add(f *family) *family {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.set, f.series = s, map[string]*series{}
	s.families = append(s.families, f)
	if len(f.labels) == 0 {
		f.find(nil)
	}
	return f
}

// A Counter only grows.
type Counter struct{ f *family }

// Counter returns a new counter. Its name ends with "_total".
func (s *Set) Counter(name, about string, labels ...string) Counter {
	return Counter{s.add(&family{name: name, about: about, kind: "counter", labels: labels})}
}

// Add adds to the counter with these values of its labels.
func (c Counter) Add(n float64, values ...string) {
	c.f.set.mu.Lock()
	defer c.f.set.mu.Unlock()
	c.f.find(values).value += n
}

// A Gauge goes up and down.
type Gauge struct{ f *family }

// Gauge returns a new gauge.
func (s *Set) Gauge(name, about string, labels ...string) Gauge {
	return Gauge{s.add(&family{name: name, about: about, kind: "gauge", labels: labels})}
}

// Set sets the gauge with these values of its labels.
func (g Gauge) Set(n float64, values ...string) {
	g.f.set.mu.Lock()
	defer g.f.set.mu.Unlock()
	g.f.find(values).value = n
}

// A Histogram counts how large what it observes is.
type Histogram struct{ f *family }

// Seconds are the bounds of durations.
var Seconds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60}

// Histogram returns a new histogram with these bounds, in ascending order.
func (s *Set) Histogram(name, about string, bounds []float64, labels ...string) Histogram {
	return Histogram{s.add(&family{name: name, about: about, kind: "histogram", labels: labels, bounds: bounds})}
}

// Observe counts a number, with these values of the labels.
func (h Histogram) Observe(n float64, values ...string) {
	h.f.set.mu.Lock()
	defer h.f.set.mu.Unlock()
	s := h.f.find(values)
	s.value += n
	i, _ := slices.BinarySearch(h.f.bounds, n)
	s.counts[i]++
}

// find returns the series with these values of the labels, and makes it if it is new.
func (f *family) find(values []string) *series {
	key := f.text(values)
	s := f.series[key]
	if s == nil && len(f.series) >= maxSeries {
		key = f.text(slices.Repeat([]string{"other"}, len(f.labels)))
		s = f.series[key]
	}
	if s == nil {
		s = &series{}
		if f.kind == "histogram" {
			s.counts = make([]uint64, len(f.bounds)+1)
		}
		f.series[key] = s
	}
	return s
}

var escapeValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// text returns labels as they stand between braces. A missing value is empty.
func (f *family) text(values []string) string {
	var b strings.Builder
	for i, label := range f.labels {
		if i > 0 {
			b.WriteByte(',')
		}
		value := ""
		if i < len(values) {
			value = strings.ToValidUTF8(values[i], "�")
		}
		b.WriteString(label + `="` + escapeValue.Replace(value) + `"`)
	}
	return b.String()
}

// Append appends all numbers.
func (s *Set) Append(dst []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		dst = append(dst, "# HELP "+f.name+" "+f.about+"\n# TYPE "+f.name+" "+f.kind+"\n"...)
		for _, labels := range slices.Sorted(maps.Keys(f.series)) {
			dst = f.append(dst, labels, f.series[labels])
		}
	}
	return dst
}

func (f *family) append(dst []byte, labels string, s *series) []byte {
	if f.kind != "histogram" {
		return line(dst, f.name, labels, number(s.value))
	}
	more := labels
	if more != "" {
		more += ","
	}
	var count uint64
	for i, n := range s.counts {
		count += n
		bound := "+Inf"
		if i < len(f.bounds) {
			bound = number(f.bounds[i])
		}
		dst = line(dst, f.name+"_bucket", more+`le="`+bound+`"`, strconv.FormatUint(count, 10))
	}
	dst = line(dst, f.name+"_sum", labels, number(s.value))
	return line(dst, f.name+"_count", labels, strconv.FormatUint(count, 10))
}

func line(dst []byte, name, labels, value string) []byte {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	return append(dst, name+labels+" "+value+"\n"...)
}

func number(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
