package registry_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/rye-build/rye/cas/fault"
	client "github.com/rye-build/rye/lock/registry"
)

// nameServer answers for the TXT records that it is given, and says of all others that they don't exist.
func nameServer(t *testing.T, records map[string]string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			text, ok := records[strings.TrimSuffix(q.Name.String(), ".")]
			if ok && q.Type == dnsmessage.TypeTXT {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type,
					Class: q.Class, TTL: 1}, Body: &dnsmessage.TXTResource{TXT: []string{text}}}}
			} else {
				m.RCode = dnsmessage.RCodeNameError
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// TestDomains: a name that reads as a domain belongs to the account that its DNS names.
func TestDomains(t *testing.T) {
	w := newWorld(t)
	w.o.TXT = nameServer(t, map[string]string{"_rye.acme.example": "rye-owner=registry.example/ada",
		"_rye.other.example": "rye-owner=other.example/ada"}).LookupTXT
	w.open()
	ctx := t.Context()
	ada, eve := w.caller("ada"), w.caller("eve")
	for name, by := range map[string]string{"acme.example": "eve", "other.example": "ada", "none.example": "ada",
		"xn--e1afmkfd.xn--p1ai": "ada"} {
		_, err := w.Claim(ctx, w.caller(by), name, "")
		wants(t, err, fault.Denied, "its DNS doesn't name the account")
	}
	w.claim(ada, "acme.example")
	w.claim(ada, "v1.2") // no domain ends in a digit
	w.publish(ada, pack{id: "acme.example/base", version: "1.0.0"})
	_, err := w.SetPublisher(ctx, eve, "fresh.example/base", client.PublisherChange{Add: theBinding()})
	wants(t, err, fault.Denied, "its DNS doesn't name the account")
	w.o.TXT = nil // the DNS is asked at the first claim alone
	w.open()
	w.claim(ada, "acme.example")
	_, err = w.Claim(ctx, ada, "another.example", "")
	wants(t, err, fault.Denied, "its DNS doesn't name the account")
	w.o.TXT = func(context.Context, string) ([]string, error) {
		return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	}
	w.open()
	w.now = w.now.Add(time.Second)
	_, err = w.Claim(ctx, ada, "another.example", "")
	wants(t, err, fault.Unavailable, "doesn't answer")
}

// TestPendingDomain: the DNS of a domain is asked again when a pipeline first publishes there: it may have changed
// hands since the pipeline was bound.
func TestPendingDomain(t *testing.T) {
	w := withRuns(t, runs{"one": release})
	records := map[string][]string{"_rye.acme.example.": {"rye-owner=registry.example/ada"}}
	w.o.TXT = func(_ context.Context, name string) ([]string, error) { return records[name], nil }
	w.open()
	ctx := t.Context()
	w.bind(w.caller("ada"), "acme.example/base", theBinding())
	records["_rye.acme.example."] = []string{"rye-owner=registry.example/eve"}
	_, _, err := w.Trust(ctx, client.Exchange{Bundle: "acme.example/base", Token: "one"})
	wants(t, err, fault.Denied, "its DNS doesn't name the account \"ada\"")
	if _, err := w.Space(ctx, nil, "acme.example"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("it is claimed: %v", err)
	}
	records["_rye.acme.example."] = []string{"rye-owner=registry.example/ada"}
	w.run("one", "acme.example/base")
}
