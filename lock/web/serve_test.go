package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A world is a TLS server on this machine, a name service that says where names lead, and a client that believes both.
// The server's own address counts as public, unless a test says otherwise.
type world struct {
	*Client
	server *httptest.Server
	port   string

	mu    sync.Mutex
	names map[string][]string // name → where it leads, one answer after the other; the last stays
	asked []string            // requests, as METHOD HOST PATH
}

func newWorld(t *testing.T, l limits, handle http.HandlerFunc) *world {
	t.Helper()
	w := &world{names: map[string][]string{}}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked = append(w.asked, r.Method+" "+strings.TrimSuffix(r.Host, ":"+w.port)+" "+r.URL.Path)
		w.mu.Unlock()
		handle(rw, r)
	}))
	cert, roots := certificate(t)
	w.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	_, w.port, _ = net.SplitHostPort(w.server.Listener.Addr().String())
	long := time.Minute
	for _, d := range []*time.Duration{&l.connect, &l.answer, &l.stall, &l.all} {
		if *d == 0 {
			*d = long
		}
	}
	l.resolver = &net.Resolver{PreferGo: true, Dial: w.nameService}
	if l.depth == nil {
		ranges := NewDepths()
		l.depth = func(ip netip.Addr) Depth {
			if ip.Unmap() == netip.MustParseAddr("127.0.0.1") {
				return DepthPublic
			}
			return ranges.Of(ip)
		}
	}
	w.names["public.example"] = []string{"127.0.0.1"}
	w.Client = newClient(Options{Roots: roots, Proxy: noProxy}, l)
	return w
}

func noProxy(*url.URL) (*url.URL, error) { return nil, nil }

// url is the address of a path on a host that leads to the server.
func (w *world) url(host, path string) string { return "https://" + host + ":" + w.port + path }

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// read gets all of an address.
func (w *world) read(ctx context.Context, address string, limit int64) (string, int64, error) {
	rc, size, err := w.Get(ctx, address, limit)
	if err != nil {
		return "", size, err
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	return string(b), size, err
}

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"*.example", "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// nameService is the far end of a connection to a name server: questions with their length before them.
func (w *world) nameService(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		for {
			var length [2]byte
			if _, err := io.ReadFull(far, length[:]); err != nil {
				return
			}
			question := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(far, question); err != nil {
				return
			}
			answer := w.resolve(question)
			if _, err := far.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
				return
			}
		}
	}()
	return near, nil
}

func (w *world) resolve(question []byte) []byte {
	const header = 12
	name, at := "", header
	for question[at] != 0 {
		n := int(question[at])
		name += "." + string(question[at+1:at+1+n])
		at += 1 + n
	}
	kind := binary.BigEndian.Uint16(question[at+1:])
	at += 5
	name = strings.ToLower(strings.TrimPrefix(name, "."))
	w.mu.Lock()
	defer w.mu.Unlock()
	leads := w.names[name]
	answer := append([]byte{}, question[:at]...)
	copy(answer[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	if len(leads) == 0 {
		answer[3] = 0x83 // there is no such name
		return answer
	}
	ip := netip.MustParseAddr(leads[0])
	if kind == 1 && ip.Is4() || kind == 28 && ip.Is6() {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(ip.AsSlice())))
		answer = append(answer, ip.AsSlice()...)
		if len(leads) > 1 {
			w.names[name] = leads[1:]
		}
	}
	return answer
}

// raw answers with bytes of its own on the connection and leaves it open until the client is gone.
func raw(t *testing.T, rw http.ResponseWriter, answer string) {
	conn, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, answer); err == nil {
		io.Copy(io.Discard, conn)
	}
}

func send(format string, args ...any) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintf(rw, format, args...) }
}
