package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// Options configure a server. Limits that are zero have the values below.
type Options struct {
	Listen      string // HOST:PORT; port 0 is any
	Certificate *tls.Certificate
	Proxied     bool     // a proxy in front of this server speaks TLS
	Hosts       []string // further names of this server
	Tokens      *Tokens
	Ready       func() error // why requests can't be answered; nil: they can
	Now         func() time.Time
	Warn        func(error)

	Rate  int           // requests of a token in a minute
	Most  int           // requests at once; half of them of one token
	Grace time.Duration // for requests that run at the end
	Look  time.Duration // how often the tokens of running requests are looked at
	Head  time.Duration // in which the header of a request arrives
}

// The bounds of every server.
const (
	rate        = 6000
	most        = 4000
	grace       = 10 * time.Second
	look        = 2 * time.Second
	headerBytes = 32 << 10
	head        = 10 * time.Second
	idleTime    = 2 * time.Minute
	// BodyTime is how long a handler should wait for a request's body.
	BodyTime = 30 * time.Second
)

// A Server listens. Handle is called before Run.
type Server struct {
	o        Options
	hosts    hosts
	listener net.Listener
	mux      *http.ServeMux
	rates    rates

	draining atomic.Bool
	streams  context.Context // ends when the server begins to end
	stop     context.CancelFunc

	mu      sync.Mutex
	running int            // requests
	of      map[string]int // requests by the digest of their token
	live    map[*live]bool
}

// A live request is one that runs.
type live struct {
	token  *Token
	cancel context.CancelCauseFunc
}

// Listen opens the listener. Nothing is answered before Run.
func Listen(options Options) (*Server, error) {
	options.Rate, options.Most, options.Grace, options.Look = cmp.Or(options.Rate, rate),
		cmp.Or(options.Most, most), cmp.Or(options.Grace, grace),
		cmp.Or(options.Look, look)
	options.Head = cmp.Or(options.Head, head)
	address, err := options.address()
	if err != nil {
		return nil, err
	}
	server := &Server{o: options, mux: http.NewServeMux(), live: map[*live]bool{}, of: map[string]int{},
		rates: rates{most: options.Rate, now: options.Now}}
	for _, name := range options.Hosts {
		server.hosts.more = append(server.hosts.more, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	if options.Certificate != nil {
		server.hosts.leaf = options.Certificate.Leaf
	}
	if server.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fault.New(fault.Unavailable, "can't listen on %q: %v", options.Listen, cause(err)).On("listen",
			options.Listen).From(err).
			Try(fault.Command("rye serve --listen", withPort(address, "0")))
	}
	if at, ok := server.listener.Addr().(*net.TCPAddr); ok && !at.IP.IsUnspecified() {
		server.hosts.own = at.IP
	}
	server.streams, server.stop = context.WithCancel(context.Background())
	server.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { health(w, nil) })
	server.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := options.Ready()
		if server.draining.Load() {
			err = errors.New("the server is ending")
		}
		health(w, err)
	})
	return server, nil
}

// cause returns the system's error of a failure, without the address.
func cause(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}

func withPort(address, port string) string {
	host, _, _ := net.SplitHostPort(address)
	return net.JoinHostPort(host, port)
}

// URL is the address of a path, as clients on this machine use it.
func (s *Server) URL(path string) string {
	scheme := "http"
	if s.o.Certificate != nil {
		scheme = "https"
	}
	host := s.listener.Addr().String()
	if len(s.o.Hosts) > 0 && !s.hosts.own.IsLoopback() {
		_, port, _ := net.SplitHostPort(host)
		host = net.JoinHostPort(s.o.Hosts[0], port)
	}
	return scheme + "://" + host + path
}

// Close closes a server that isn't run.
func (s *Server) Close() error {
	s.stop()
	return s.listener.Close()
}

// ServeHTTP answers a request as Run does those of its listener.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Run answers requests until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	defer s.stop()
	all, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{Handler: s, MaxHeaderBytes: headerBytes, ReadHeaderTimeout: s.o.Head, IdleTimeout: idleTime,
		BaseContext: func(net.Listener) context.Context {
			return all
		}, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	listener := net.Listener(&bounded{s.listener, make(chan struct{}, 2*s.o.Most)})
	if s.o.Certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*s.o.Certificate},
			MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ticker := time.NewTicker(s.o.Look)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return fault.New(fault.Unavailable, "the server can't listen any more: %v", err).From(err)
		case <-ticker.C:
			s.look()
			continue
		case <-ctx.Done():
		}
		break
	}
	s.draining.Store(true)
	s.stop()
	patience, done := context.WithTimeout(all, s.o.Grace)
	defer done()
	if server.Shutdown(patience) != nil {
		cancel()
		last, done := context.WithTimeout(context.Background(), s.o.Grace)
		defer done()
		if server.Shutdown(last) != nil {
			s.o.Warn(fault.New(fault.Timeout, "requests that were cancelled have not ended"))
		}
	}
	return server.Close()
}

// look cancels requests whose token opens nothing any more.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		if !s.o.Tokens.Valid(l.token) {
			l.cancel(errGone)
		}
	}
}

var errGone = errors.New("the token is not valid any more")

// A bounded listener has only so many connections at once; further ones wait.
type bounded struct {
	net.Listener
	slots chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	b.slots <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &boundedConn{Conn: c, free: sync.OnceFunc(func() { <-b.slots })}, nil
}

type boundedConn struct {
	net.Conn
	free func()
}

func (c *boundedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
