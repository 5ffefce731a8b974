package exec_test

import (
	"slices"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// An asker is a probe that asks a host.
type asker struct {
	*probe
	host string
}

func (a *asker) Asks(map[string]any) string { return a.host }

// TestOffline: a call that asks another machine is refused, and what runs reaches this one alone.
func TestOffline(t *testing.T) {
	w := newWorld(t).with("network: [api.example.com, 'localhost:8080', '127.0.0.1']")
	w.kernel.Offline = true
	if got := w.prepare(call(x, nil)).Action.Sandbox.Network; got.All ||
		!slices.Equal(got.Hosts, []string{"127.0.0.1", "localhost:8080"}) {
		t.Errorf("%+v", got)
	}
	if got := newWorld(t).with("network: all"); got.prepare(call(x,
		nil)).Action.Sandbox.Network.All == got.kernel.Offline {
		t.Error("without --offline")
	}
	w.with("network: all")
	if got := w.prepare(call(x, nil)).Action.Sandbox.Network; got.All || len(got.Hosts) > 0 {
		t.Errorf("%+v", got)
	}
	for host, code := range map[string]fault.Code{
		"": "", "localhost": "", "localhost:11434": "", "127.0.0.1:80": "", "127.9.9.9": "", "[::1]:443": "",
		"::1":             "",
		"api.example.com": fault.Offline, "api.example.com:443": fault.Offline, "10.0.0.1:80": fault.Offline,
		"[2001:db8::1]:443": fault.Offline, "localhost.example.com": fault.Offline,
		"127.0.0.1.example.com:80": fault.Offline,
	} {
		w.kernel.Primitives[probing] = &asker{w.probe, host}
		p, err := w.kernel.Prepare(t.Context(), w.base(), call(x, nil))
		if err == nil {
			p.Close()
		}
		if (err != nil) != (code != "") || err != nil && fault.CodeOf(err) != code {
			t.Errorf("%q: %v", host, err)
		}
	}
}
