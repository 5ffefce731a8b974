package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
)

// served has the requests of each server of a script, by its host.
var served sync.Map

// requests are how often each path was asked for.
type requests struct {
	mu sync.Mutex
	n  map[string]int
}

func (r *requests) add(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[path]++
}

// requested is "requested N PATH": the server of the script was asked for PATH N times since the last time that this
// was compared.
func requested(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: requested N PATH")
	}
	all, ok := served.Load(ts.Getenv("WEBHOST"))
	if !ok {
		ts.Fatalf("no server")
	}
	r := all.(*requests)
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strconv.Itoa(r.n[args[1]]); got != args[0] {
		ts.Fatalf("%s was requested %s times, not %s", args[1], got, args[0])
	}
	r.n[args[1]] = 0
}

// serve is "serve DIR": an https server of DIR on this machine. WEB and WEBHOST have its address, SSL_CERT_FILE its
// certificate. /listen/FILE is a websocket that writes each message on a line of FILE. /to?URL redirects there. Of
// three requests for /flaky/FILE one is refused, one is broken off in the middle, and one is answered; the other paths
// below are servers that fail: /trouble/STATUS-TIMES-NAME so many times, or says nothing at all if STATUS is 0, and
// then how often it was asked.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve DIR")
	}
	mux, dir := http.NewServeMux(), ts.MkAbs(args[0])
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.RawQuery)
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) {
		who := r.Header.Get("Authorization")
		w.Header().Set("X-Who", who)
		w.Write([]byte(cas.Sum([]byte(who)).String() + " " + who))
	})
	tools := mcptest.Handler(mcptest.Options{})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer canary-5d41402abc" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tools.ServeHTTP(w, r)
	})
	mux.Handle("/skills/", mcptest.Skills())
	mux.Handle("/open/mcp", tools)
	mux.HandleFunc("/agent", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.UserAgent())) })
	mux.HandleFunc("/much", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("x" + strings.Repeat("ä", 300_000)))
	})
	mux.HandleFunc("/asked", func(w http.ResponseWriter, r *http.Request) {
		// What a provider of searches is asked with: a key that it knows, and JSON.
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("X-Api-Key") != "exa-0123456789" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		os.WriteFile(ts.MkAbs("asked.json"), body, 0o600)
		http.ServeFile(w, r, ts.MkAbs(args[0]+"/exa.json"))
	})
	mux.HandleFunc("/later", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("/down", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	var mu sync.Mutex
	asked := map[string]int{}
	mux.HandleFunc("/trouble/{how}", func(w http.ResponseWriter, r *http.Request) {
		how := strings.Split(r.PathValue("how"), "-")
		status, _ := strconv.Atoi(how[0])
		times, _ := strconv.Atoi(how[1])
		mu.Lock()
		asked[how[2]]++
		n := asked[how[2]]
		mu.Unlock()
		switch {
		case n > times:
		case status == 0:
			<-r.Context().Done()
		default:
			w.WriteHeader(status)
		}
		fmt.Fprintf(w, `{"asked":%d}`, n)
	})
	mux.HandleFunc("/flaky/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		b, err := os.ReadFile(filepath.Join(dir, name))
		mu.Lock()
		asked["flaky "+name]++
		n := asked["flaky "+name]
		mu.Unlock()
		switch {
		case err != nil || n%3 == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			if n%3 == 2 {
				w.Write(b[:len(b)/2])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			w.Write(b)
		}
	})
	mux.HandleFunc("/teapot", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Write([]byte("rye: "))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000000")
	})
	mux.HandleFunc("/packed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
	})
	mux.HandleFunc("/listen/", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		f, err := os.OpenFile(ts.MkAbs(r.URL.Path[len("/listen/"):]), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return
		}
		defer f.Close()
		for {
			_, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			f.Write(append(b, '\n'))
		}
	})
	counts := &requests{n: map[string]int{}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counts.add(r.URL.Path)
		mux.ServeHTTP(w, r)
	}))
	served.Store(server.Listener.Addr().String(), counts)
	ts.Defer(server.Close)
	roots := ts.MkAbs("roots.pem")
	ts.Check(os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600))
	ts.Setenv("SSL_CERT_FILE", roots)
	ts.Setenv("WEB", server.URL)
	ts.Setenv("WEBHOST", server.Listener.Addr().String())
}
