package witness_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	merkle "golang.org/x/mod/sumdb/tlog"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/witness"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A log grows in memory.
type log struct {
	testing.TB
	files map[string][]byte
	tail  tlog.Tail
	key   tlog.Key
}

func newLog(t testing.TB) *log {
	k, err := tlog.NewKey("registry.example/log", keytest.Seeded(1).Public())
	if err != nil {
		t.Fatal(err)
	}
	return &log{TB: t, files: map[string][]byte{}, key: k}
}

func (l *log) ReadFile(_ context.Context, name string, _ int64) ([]byte, error) {
	if b, ok := l.files[name]; ok {
		return b, nil
	}
	return nil, fs.ErrNotExist
}

func (l *log) grow(size int64) (*tlog.Checkpoint, tlog.Tree) {
	l.Helper()
	for l.tail.Size() < size {
		full, err := l.tail.Add(fmt.Appendf(nil, "entry %d", l.tail.Size()))
		if err != nil {
			l.Fatal(err)
		}
		for _, f := range full {
			l.files[f.Name] = bytes.Clone(f.Data)
		}
	}
	for _, f := range l.tail.Partial() {
		l.files[f.Name] = bytes.Clone(f.Data)
	}
	text, err := tlog.Sign(l.key, keytest.Seeded(1), size, l.tail.Root())
	if err != nil {
		l.Fatal(err)
	}
	c, err := tlog.Open(text, l.key)
	if err != nil {
		l.Fatal(err)
	}
	return c, tlog.NewTree(c, l)
}

// A peer is a witness by the text of the protocol.
type peer struct {
	key     tlog.Key
	private key.Private
	log     tlog.Key
	url     string

	mu    sync.Mutex
	last  *tlog.Checkpoint
	asked int
	wrong func(w http.ResponseWriter) bool // answers in its place
}

func newPeer(t testing.TB, name string, seed byte, log tlog.Key) *peer {
	k, err := tlog.NewWitnessKey(name, keytest.Seeded(seed).Public())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{key: k, private: keytest.Seeded(seed), log: log}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	body, _ := io.ReadAll(r.Body)
	if p.wrong != nil && p.wrong(w) {
		return
	}
	head, text, _ := strings.Cut(string(body), "\n\n")
	lines := strings.Split(head, "\n")
	old, err := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	c, bad := tlog.Open([]byte(text), p.log)
	size := int64(0)
	if p.last != nil {
		size = p.last.Size
	}
	switch {
	case r.URL.Path != "/add-checkpoint" || err != nil || bad != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case old != size:
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, "%d\n", size)
		return
	}
	var proof merkle.TreeProof
	for _, line := range lines[1:] {
		raw, _ := base64.StdEncoding.DecodeString(line)
		proof = append(proof, merkle.Hash(raw))
	}
	if old > 0 && old < c.Size && merkle.CheckTree(proof, c.Size, c.Root, old, p.last.Root) != nil ||
		old == c.Size && old > 0 && c.Root != p.last.Root {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	p.last = c
	cosigned, err := tlog.Cosign(c, p.key, p.private, noon)
	if err != nil {
		panic(err)
	}
	w.Write(cosigned[len(c.Text):])
}

func policy(t testing.TB, quorum string, peers ...*peer) *tlog.Policy {
	t.Helper()
	var text strings.Builder
	var names []string
	for i, p := range peers {
		names = append(names, fmt.Sprint("w", i))
		fmt.Fprintf(&text, "witness w%d %s %s\n", i, p.key, p.url)
	}
	fmt.Fprintf(&text, "group all %s %s\nquorum all\n", quorum, strings.Join(names, " "))
	parsed, err := tlog.ParsePolicy([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestCosign: witnesses sign a log that grows, also after either side has forgotten the other.
func TestCosign(t *testing.T) {
	l := newLog(t)
	one, two := newPeer(t, "one.example", 7, l.key), newPeer(t, "two.example", 8, l.key)
	c := &witness.Client{Policy: policy(t, "all", one, two), Log: l.key, Web: web.New(web.Options{}),
		Warn: func(err error) { t.Error(err) }}
	for _, size := range []int64{1, 2, 256, 300, 300, 900} {
		checkpoint, tree := l.grow(size)
		cosigned, err := c.Cosign(t.Context(), checkpoint, tree)
		if err != nil {
			t.Fatalf("%d: %v", size, err)
		}
		for _, p := range []*peer{one, two} {
			if at, ok := cosigned.CosignedAt(p.key); !ok || !at.Equal(noon) {
				t.Errorf("%d: %s has not signed", size, p.key.Name)
			}
		}
		if size == 256 { // a new process doesn't know what the witnesses have signed
			c = &witness.Client{Policy: c.Policy, Log: l.key, Web: c.Web}
		}
	}
	if one.asked != 7 {
		t.Errorf("6 checkpoints, and a new process, take %d requests", one.asked)
	}
}

// TestFewer: a witness that is away, slow or wrong doesn't count, and without a quorum nothing is shown.
func TestFewer(t *testing.T) {
	for name, wrong := range map[string]func(w http.ResponseWriter) bool{
		"an error":         func(w http.ResponseWriter) bool { w.WriteHeader(500); return true },
		"nothing":          func(http.ResponseWriter) bool { return true },
		"no line":          func(w http.ResponseWriter) bool { fmt.Fprintln(w, "hello"); return true },
		"no size":          func(w http.ResponseWriter) bool { w.WriteHeader(409); fmt.Fprint(w, "x"); return true },
		"another size":     func(w http.ResponseWriter) bool { w.WriteHeader(409); fmt.Fprint(w, "3\n"); return true },
		"a size too large": func(w http.ResponseWriter) bool { w.WriteHeader(409); fmt.Fprint(w, "99\n"); return true },
		"too late":         func(http.ResponseWriter) bool { time.Sleep(300 * time.Millisecond); return true },
	} {
		l := newLog(t)
		good, bad := newPeer(t, "good.example", 7, l.key), newPeer(t, "bad.example", 8, l.key)
		bad.wrong = wrong
		var mu sync.Mutex
		var warned []string
		c := &witness.Client{Policy: policy(t, "any", good, bad), Log: l.key, Web: web.New(web.Options{}),
			Wait: 200 * time.Millisecond, Warn: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				warned = append(warned, err.Error())
			}}
		checkpoint, tree := l.grow(10)
		cosigned, err := c.Cosign(t.Context(), checkpoint, tree)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, ok := cosigned.CosignedAt(bad.key); ok || len(warned) != 1 {
			t.Errorf("%s: %q", name, warned)
		}
		c.Policy = policy(t, "all", good, bad)
		if _, err := c.Cosign(t.Context(), checkpoint, tree); fault.CodeOf(err) != fault.Unavailable ||
			!strings.Contains(strings.Join(fault.Of(err).Why, " "), "missing: w1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnasked: a witness without an address is not asked, and a log whose files are gone is not shown.
func TestUnasked(t *testing.T) {
	l := newLog(t)
	p := newPeer(t, "w.example", 7, l.key)
	p.url = ""
	c := &witness.Client{Policy: policy(t, "any", p), Log: l.key, Web: web.New(web.Options{})}
	checkpoint, tree := l.grow(3)
	if _, err := c.Cosign(t.Context(), checkpoint, tree); fault.CodeOf(err) != fault.Unavailable || p.asked != 0 {
		t.Errorf("%d, %v", p.asked, err)
	}
	q := newPeer(t, "w.example", 7, l.key)
	c.Policy = policy(t, "any", q)
	if _, err := c.Cosign(t.Context(), checkpoint, tree); err != nil {
		t.Fatal(err)
	}
	checkpoint, tree = l.grow(700)
	clear(l.files)
	if _, err := c.Cosign(t.Context(), checkpoint, tree); fault.CodeOf(err) != fault.Unavailable {
		t.Error(err)
	}
}

// TestConfirm: a checkpoint is the newest only if all witnesses say so.
func TestConfirm(t *testing.T) {
	l := newLog(t)
	one, two := newPeer(t, "one.example", 7, l.key), newPeer(t, "two.example", 8, l.key)
	fresh := func() *witness.Client {
		return &witness.Client{Policy: policy(t, "any", one, two), Log: l.key, Web: web.New(web.Options{})}
	}
	old, oldTree := l.grow(300)
	confirm := func(says string, c *witness.Client, checkpoint *tlog.Checkpoint, tree tlog.Tree) {
		t.Helper()
		err := c.Confirm(t.Context(), checkpoint, tree)
		if says == "" && err != nil || says != "" && (fault.CodeOf(err) != fault.Unavailable ||
			!strings.Contains(err.Error(), says)) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	confirm("", fresh(), old, oldTree) // neither knows the log
	confirm("", fresh(), old, oldTree)
	newest, tree := l.grow(301)
	two.wrong = func(w http.ResponseWriter) bool { w.WriteHeader(500); return true }
	confirm("w1 has not confirmed that 301 entries", fresh(), newest, tree)
	if _, err := fresh().Cosign(t.Context(), newest, tree); err != nil {
		t.Fatal(err) // one is enough for a quorum
	}
	two.wrong = nil
	confirm("w0 has not confirmed that 300 entries", fresh(), old, oldTree)
	confirm("", fresh(), newest, tree)
	// An answer without a signature of the witness is none.
	two.wrong = func(w http.ResponseWriter) bool { fmt.Fprintln(w, "— two.example AAAA"); return true }
	confirm("w1 has not", fresh(), newest, tree)
	two.wrong = nil
	// The same size, and another history.
	other := newLog(t)
	other.tail.Add([]byte("another first entry"))
	fork, forkTree := other.grow(301)
	confirm("has not confirmed", fresh(), fork, forkTree)
	one.url = ""
	confirm("w0 has not", fresh(), newest, tree)
	c := fresh()
	var err error
	if c.Policy, err = tlog.ParsePolicy([]byte("quorum none\n")); err != nil {
		t.Fatal(err)
	}
	confirm("no witness", c, newest, tree)
}
