// Package webtest is a certificate and a name service for tests of web clients and servers, in addition to
// net/http/httptest.
package webtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// Certificate makes a certificate for 127.0.0.1 and names, and returns a pool that trusts it.
func Certificate(t testing.TB, names ...string) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots
}

// Names is a name service. The zero value knows no name.
type Names struct {
	mu    sync.Mutex
	leads map[string][]string
}

// Lead sets the addresses of a name, one for each query; the last stays.
func (n *Names) Lead(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leads == nil {
		n.leads = map[string][]string{}
	}
	n.leads[name] = addresses
}

// Resolver returns a resolver that asks n.
func (n *Names) Resolver() *net.Resolver { return &net.Resolver{PreferGo: true, Dial: n.dial} }

// dial returns a connection to a name server: questions and answers with their length before them.
func (n *Names) dial(context.Context, string, string) (net.Conn, error) {
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
			answer := n.answer(question)
			if _, err := far.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))),
				answer...)); err != nil {
				return
			}
		}
	}()
	return near, nil
}

func (n *Names) answer(question []byte) []byte {
	const header = 12
	name, at := "", header
	for question[at] != 0 {
		size := int(question[at])
		name += "." + string(question[at+1:at+1+size])
		at += 1 + size
	}
	kind := binary.BigEndian.Uint16(question[at+1:])
	at += 5
	name = strings.ToLower(strings.TrimPrefix(name, "."))
	n.mu.Lock()
	defer n.mu.Unlock()
	leads := n.leads[name]
	answer := append([]byte{}, question[:at]...)
	copy(answer[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	if len(leads) == 0 {
		answer[3] = 0x83 // no such name
		return answer
	}
	ip := netip.MustParseAddr(leads[0])
	if kind == 1 && ip.Is4() || kind == 28 && ip.Is6() {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(ip.AsSlice())))
		answer = append(answer, ip.AsSlice()...)
		if len(leads) > 1 {
			n.leads[name] = leads[1:]
		}
	}
	return answer
}
