//go:build peers

package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/minio/minio-go/v7"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/blobs/blobstest"
	"github.com/rye-build/rye/testdata/peerstart"
)

// server is the address of gofakes3, which has the bucket team.
var server string

func TestMain(m *testing.M) {
	address, stop, err := peerstart.Start(context.Background(), "s3", "team")
	check(err)
	server = address
	os.Setenv("AWS_ACCESS_KEY_ID", "id")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	status := m.Run()
	stop()
	os.Exit(status)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

var worlds atomic.Int32

// world is an address with an empty prefix.
func world() string { return fmt.Sprintf("s3://%s/team/world/%d", server, worlds.Add(1)) }

func open(t testing.TB, address string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Address: address})
	must(t, err)
	return s
}

func TestS3(t *testing.T) {
	blobstest.Test(t, func(t testing.TB) blobstest.Open {
		at := world()
		return func(t testing.TB) blobs.Store { return open(t, at) }
	})
}

// TestTLS: the same with TLS, where the client doesn't sign the bodies itself.
func TestTLS(t *testing.T) {
	relay := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server}))
	t.Cleanup(relay.Close)
	path := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: relay.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", path)
	blobstest.Test(t, func(t testing.TB) blobstest.Open {
		o := Options{Address: world()}
		return func(t testing.TB) blobs.Store {
			s, _, region, err := o.parse()
			must(t, err)
			keys, err := o.keys()
			must(t, err)
			must(t, s.connect(relay.Listener.Addr().String(), true, region, keys))
			must(t, s.checkFormat(t.Context()))
			return s
		}
	})
}

// TestBucket: a store may have a whole bucket, lists more than one page of it, and leaves out what others keep there.
func TestBucket(t *testing.T) {
	at := world()
	s := open(t, at)
	const n = 1_050
	for i := range n {
		must(t, s.Replace(t.Context(), fmt.Sprintf("tile/%04d", i), nil))
	}
	_, err := s.core.Client.PutObject(t.Context(), s.bucket, s.prefix+"other:program", strings.NewReader("x"), 1,
		minio.PutObjectOptions{})
	must(t, err)
	names := strings.Fields(blobstest.Names(t, s, ""))
	if len(names) != n || names[n-1] != "tile/1049" {
		t.Errorf("%d names", len(names))
	}
	whole := open(t, "s3://"+server+"/team")
	if got := blobstest.Read(t, whole, strings.TrimPrefix(s.prefix, "/")+"tile/0000"); got != "" {
		t.Error(got)
	}
}

// TestFormat: a bucket of a newer program, and one whose mark was changed, are refused; a missing one, too.
func TestFormat(t *testing.T) {
	for text, code := range map[string]fault.Code{
		"rye blobs/2\n": fault.VersionMismatch, "rye blobs/1": fault.Integrity, "x": fault.Integrity,
		"rye blobs/1\n": "",
	} {
		at := world()
		s := open(t, at)
		_, err := s.core.Client.PutObject(t.Context(), s.bucket, s.prefix+format, strings.NewReader(text),
			int64(len(text)), minio.PutObjectOptions{})
		must(t, err)
		if _, err = Open(t.Context(), Options{Address: at}); code != "" {
			refused(t, code, err)
		} else {
			must(t, err)
		}
	}
	_, err := Open(t.Context(), Options{Address: "s3://" + server + "/none"})
	refused(t, fault.Config, err)
}

// through is the address of a world behind a relay that edits requests, and hands them on, or not.
func through(t testing.TB, edit func(http.ResponseWriter, *http.Request) (goesOn bool)) string {
	back := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server})
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if edit(w, r) {
			back.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(relay.Close)
	return strings.Replace(world(), server, relay.Listener.Addr().String(), 1)
}

// TestUnconditional: a server that replaces what exists is refused before anything is published to it.
func TestUnconditional(t *testing.T) {
	at := through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("If-None-Match")
		return true
	})
	for range 2 {
		_, err := Open(t.Context(), Options{Address: at})
		refused(t, fault.Config, err)
	}
}

// TestConditions: each new file is sent in one request, with the condition; each replaced one without it; what is read
// further names the version.
func TestConditions(t *testing.T) {
	var seen []string
	at := through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead {
			seen = append(seen, strings.Join(strings.Fields(strings.Join([]string{r.Method,
				r.Header.Get("If-None-Match"), r.Header.Get("Range"),
				strings.Trim(r.Header.Get("If-Match"), `"`)}, " ")), " "))
		}
		return true
	})
	s := open(t, at)
	seen = nil
	const size = 20 << 20 // more than a part of an upload in parts
	must(t, s.Create(t.Context(), "a", io.LimitReader(zeros{}, size), size))
	must(t, s.Replace(t.Context(), "b", []byte("0123456789")))
	f, err := s.Open(t.Context(), "b")
	must(t, err)
	_, err = f.Seek(4, io.SeekStart)
	must(t, err)
	b, err := io.ReadAll(f)
	must(t, err)
	must(t, f.Close())
	if got, want := strings.Join(seen, ", "), "PUT *, PUT, GET, GET bytes=4-9 "+f.ETag; got != want ||
		string(b) != "456789" {
		t.Errorf("%s, %q, want %s", got, b, want)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestDigests: each body is sent with its digests, because some servers store a body that was cut off. What can't be
// read twice is in a file meanwhile, and the file is gone afterwards.
func TestDigests(t *testing.T) {
	bodies := 0
	at := through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			b, err := io.ReadAll(r.Body)
			must(t, err)
			r.Body = io.NopCloser(bytes.NewReader(b))
			sum, old := sha256.Sum256(b), md5.Sum(b)
			if r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) ||
				r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(old[:]) {
				t.Errorf("%s of %d bytes: %v", r.URL, len(b), r.Header)
			}
			bodies++
		}
		return true
	})
	dir := t.TempDir()
	s, err := Open(t.Context(), Options{Address: at, Spool: dir})
	must(t, err)
	must(t, s.Replace(t.Context(), "replaced", []byte("text")))
	twice := strings.NewReader("not this: text")
	_, err = twice.Seek(10, io.SeekStart)
	must(t, err)
	must(t, s.Create(t.Context(), "twice", twice, 4))
	must(t, s.Create(t.Context(), "once", iotest.HalfReader(strings.NewReader("text")), 4))
	must(t, s.Create(t.Context(), "empty", iotest.HalfReader(strings.NewReader("")), 0))
	for _, name := range []string{"replaced", "twice", "once"} {
		if got := blobstest.Read(t, s, name); got != "text" {
			t.Errorf("%s: %q", name, got)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 || bodies != 6 {
		t.Errorf("%v, %v, %d bodies", left, err, bodies)
	}
}

// TestServed: a server can hand a file on, whole, in part, or not at all if the client has it.
func TestServed(t *testing.T) {
	s := open(t, world())
	text := strings.Repeat("0123456789", 100_000)
	blobstest.Create(t, s, "a", text)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := s.Open(r.Context(), "a")
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("ETag", `"`+f.ETag+`"`)
		http.ServeContent(w, r, "", f.Modified, f)
	}))
	t.Cleanup(web.Close)
	tag := ""
	for _, c := range []struct {
		header, value string
		status        int
		body          string
	}{
		{"Accept", "*/*", http.StatusOK, text},
		{"Range", "bytes=4-8", http.StatusPartialContent, "45678"},
		{"Range", "bytes=-3", http.StatusPartialContent, "789"},
		{"Range", "bytes=2000000-", http.StatusRequestedRangeNotSatisfiable, "invalid range: failed to overlap\n"},
		{"If-None-Match", "", http.StatusNotModified, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
		must(t, err)
		if r.Header.Set(c.header, c.value); c.value == "" {
			r.Header.Set(c.header, tag)
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		b, err := io.ReadAll(answer.Body)
		must(t, errors.Join(err, answer.Body.Close()))
		tag = cmp.Or(answer.Header.Get("ETag"), tag)
		if answer.StatusCode != c.status || string(b) != c.body {
			t.Errorf("%s %s: %s, %.40q, %d bytes", c.header, c.value, answer.Status, b, len(b))
		}
	}
}

// TestEarly: a large file is not sent if its name is taken.
func TestEarly(t *testing.T) {
	s := open(t, world())
	must(t, s.Replace(t.Context(), "a", nil))
	err := s.Create(t.Context(), "a", iotest.ErrReader(io.ErrNoProgress), early)
	if !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
}

// TestReplacedWhileRead: a file that is replaced while it is read is an error, not a mix of two.
func TestReplacedWhileRead(t *testing.T) {
	at := world()
	for _, ignores := range []bool{false, true} {
		s := open(t, at)
		must(t, s.Replace(t.Context(), "a", []byte("0123456789")))
		f, err := s.Open(t.Context(), "a")
		must(t, err)
		defer f.Close()
		must(t, s.Replace(t.Context(), "a", []byte("abcdefghij")))
		if ignores {
			must(t, s.Remove(t.Context(), "a"))
		}
		_, err = f.Seek(5, io.SeekStart)
		must(t, err)
		b, err := io.ReadAll(f)
		if len(b) > 0 || err == nil || !ignores && fault.CodeOf(err) != fault.Conflict ||
			ignores && !strings.Contains(err.Error(), "not exist") {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestBroken: of a file whose connection breaks nothing is stored, and an answer that ends early is an error.
func TestBroken(t *testing.T) {
	var cut, puts atomic.Int32 // 1: requests with a body; 2: answers
	at := through(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case cut.Load() == 1 && r.Method == http.MethodPut:
			puts.Add(1)
			io.CopyN(io.Discard, r.Body, 1000)
			panic(http.ErrAbortHandler)
		case cut.Load() == 2 && r.Method == http.MethodGet:
			w.Header().Set("Content-Length", "100")
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 12:00:00 GMT")
			w.Write([]byte("half"))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	})
	s := open(t, at)
	must(t, s.Replace(t.Context(), "b", []byte("whole")))
	cut.Store(1)
	refused(t, fault.Unavailable, s.Create(t.Context(), "a", io.LimitReader(zeros{}, 4<<20), 4<<20))
	if puts.Load() != 1 {
		t.Errorf("%d requests: the second one may find what the first one has stored", puts.Load())
	}
	cut.Store(2)
	f, err := s.Open(t.Context(), "b")
	must(t, err)
	b, err := io.ReadAll(f)
	if string(b) != "half" || err == nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := f.Seek(50, io.SeekStart); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(f); err == nil {
		t.Errorf("%q", b)
	}
	cut.Store(0)
	if names := blobstest.Names(t, s, ""); names != "b" {
		t.Error(names)
	}
}

// TestGone: a server that can't be reached is said so.
func TestGone(t *testing.T) {
	down := false
	at := through(t, func(w http.ResponseWriter, r *http.Request) bool {
		if down {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	s := open(t, at)
	must(t, s.Replace(t.Context(), "a", nil))
	down = true
	_, err := s.Open(t.Context(), "a")
	refused(t, fault.Unavailable, err)
	refused(t, fault.Unavailable, s.Create(t.Context(), "b", strings.NewReader("b"), 1))
	refused(t, fault.Unavailable, s.Remove(t.Context(), "a"))
	for _, err := range s.List(t.Context(), "") {
		refused(t, fault.Unavailable, err)
	}
	_, err = Open(t.Context(), Options{Address: at})
	refused(t, fault.Unavailable, err)
}
