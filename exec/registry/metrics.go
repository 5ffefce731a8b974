package registry

import (
	"context"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/metrics"
	"github.com/rye-build/rye/exec/registry/rows"
)

// Metrics count what a registry does.
type Metrics struct {
	metrics.Set
	Requests metrics.Counter   // by route and status
	Seconds  metrics.Histogram // of requests by route

	published, bytes metrics.Counter
	refused          metrics.Counter // by code
	flush, rows      metrics.Histogram
	entries, shown   metrics.Gauge
	signing          metrics.Gauge

	privateLogs, privateEntries, privateStopped metrics.Gauge // without the names of namespaces
}

// NewMetrics returns metrics that are all 0.
func NewMetrics() *Metrics {
	m := new(Metrics)
	m.Requests = m.Counter("ryed_requests_total", "Requests answered.", "route", "status")
	m.Seconds = m.Histogram("ryed_request_duration_seconds", "Time until a request was answered whole.",
		metrics.Seconds, "route")
	m.published = m.Counter("ryed_published_total", "Versions published.")
	m.bytes = m.Counter("ryed_published_bytes_total", "Bytes of the archives of published versions.")
	m.refused = m.Counter("ryed_publish_refused_total", "Archives refused, by the code of the refusal.", "code")
	m.flush = m.Histogram("ryed_flush_duration_seconds", "Time to write the files that show new log entries.",
		metrics.Seconds)
	m.rows = m.Histogram("ryed_rows_duration_seconds", "Time of a transaction of the rows.", metrics.Seconds, "kind")
	m.entries = m.Gauge("ryed_log_entries", "Entries of the public log.")
	m.shown = m.Gauge("ryed_log_shown_entries", "Entries of the public log that clients see.")
	m.signing = m.Gauge("ryed_log_signing", "1 while the public log gets new entries, 0 after a restore.")
	m.privateLogs = m.Gauge("ryed_private_logs", "Logs of private namespaces.")
	m.privateEntries = m.Gauge("ryed_private_log_entries", "Entries of all logs of private namespaces.")
	m.privateStopped = m.Gauge("ryed_private_logs_stopped", "Logs of private namespaces that get no new entries.")
	return m
}

// Metrics returns what the registry has counted since this process began.
func (r *Registry) Metrics(ctx context.Context) ([]byte, error) {
	m := r.o.Metrics
	var logs, private, stopped int64
	err := r.eachLog(ctx, func(ctx context.Context, l *log) error {
		return r.o.Rows.View(ctx, func(in rows.Reader) error {
			state, err := get[logState](in, l.stateRow())
			if err != nil {
				return err
			}
			if state == nil {
				state = &logState{}
			}
			h, err := get[halt](in, l.haltRow())
			signing := float64(1)
			if h != nil {
				signing = 0
			}
			if l.public() {
				m.entries.Set(float64(state.Size))
				m.shown.Set(float64(state.Shown))
				m.signing.Set(signing)
				return err
			}
			logs++
			private += state.Size
			stopped += 1 - int64(signing)
			return err
		})
	})
	m.privateLogs.Set(float64(logs))
	m.privateEntries.Set(float64(private))
	m.privateStopped.Set(float64(stopped))
	return m.Append(nil), err
}

// publishes counts a publish that has ended.
func (m *Metrics) publishes(v *Version, err error) {
	if err != nil {
		m.refused.Add(1, string(fault.CodeOf(err)))
		return
	}
	m.published.Add(1)
	m.bytes.Add(float64(v.Size))
}

// timedRows measures the transactions of a store.
type timedRows struct {
	rows.Store
	took metrics.Histogram
}

// View implements rows.Store.
func (t timedRows) View(ctx context.Context, look func(rows.Reader) error) error {
	begin := time.Now()
	err := t.Store.View(ctx, look)
	t.took.Observe(time.Since(begin).Seconds(), "view")
	return err
}

// Update implements rows.Store.
func (t timedRows) Update(ctx context.Context, change func(rows.Writer) error) error {
	begin := time.Now()
	err := t.Store.Update(ctx, change)
	t.took.Observe(time.Since(begin).Seconds(), "update")
	return err
}
