//go:build peers

package witness_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/witness"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/tlog"
	"github.com/rye-build/rye/testdata/peerstart"
)

// litewitness starts torchwood's witness, which signs by an ssh-agent and knows one log, and returns its address
// and key.
func litewitness(t *testing.T, log tlog.Key) (url, key string) {
	t.Helper()
	dir := t.TempDir()
	program, err := peerstart.Build(t.Context(), dir, "filippo.io/torchwood/cmd/litewitness")
	if err != nil {
		t.Fatal(err)
	}
	socket, db := filepath.Join(dir, "agent.sock"), filepath.Join(dir, "db")
	fingerprint, stop, err := peerstart.Start(t.Context(), "sshagent", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	server := exec.Command(program, "-name", "witness.example/w1", "-db", db, "-ssh-agent",
		socket, "-key", fingerprint, "-listen", at)
	said, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Signal(syscall.SIGINT); _ = server.Wait() })
	lines := bufio.NewReader(said)
	for key == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("litewitness has ended: %v", err)
		}
		if found := regexp.MustCompile(`vkey="?([^\s"]+)`).FindStringSubmatch(line); found != nil {
			key = found[1]
		}
	}
	go io.Copy(io.Discard, lines)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	// It knows the logs of its database, which it has made; that is filled by hand, as witnessctl does.
	const insert = "INSERT INTO log VALUES('%s', 0, '%s'); INSERT INTO key VALUES('%[1]s', '%[3]s')"
	none := base64.StdEncoding.EncodeToString(sha256.New().Sum(nil))
	add := exec.Command("sqlite3", db, fmt.Sprintf(insert, log.Name, none, log))
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return "http://" + at, key
}

// TestLitewitness: a real witness cosigns a log that grows, and refuses one that doesn't continue.
func TestLitewitness(t *testing.T) {
	l := newLog(t)
	url, vkey := litewitness(t, l.key)
	policy, err := tlog.ParsePolicy([]byte("witness w " + vkey + " " + url + "\nquorum w\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := &witness.Client{Policy: policy, Log: l.key, Web: web.New(web.Options{}), Warn: func(err error) { t.Log(err) }}
	for _, size := range []int64{1, 2, 255, 256, 257, 1000} {
		checkpoint, tree := l.grow(size)
		cosigned, err := c.Cosign(t.Context(), checkpoint, tree)
		if err != nil {
			t.Fatalf("%d: %v", size, err)
		}
		at, ok := cosigned.CosignedAt(policy.Witnesses[0].Key)
		if !ok || time.Since(at) > time.Minute {
			t.Errorf("%d: %v, %v", size, at, ok)
		}
		// What the witness has signed satisfies a client's policy.
		opened, err := tlog.Open(cosigned.Text, l.key, policy.Keys()...)
		if err != nil || policy.Check(opened, l.key) != nil {
			t.Errorf("%d: %v", size, err)
		}
	}
	// A registry that was restored knows whether it has all that the witness knows.
	fresh := &witness.Client{Policy: policy, Log: l.key, Web: c.Web, Warn: c.Warn}
	checkpoint, tree := l.grow(1000)
	if err := fresh.Confirm(t.Context(), checkpoint, tree); err != nil {
		t.Error(err)
	}
	short := newLog(t)
	checkpoint, tree = short.grow(999)
	if err := fresh.Confirm(t.Context(), checkpoint, tree); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("an older backup: %v", err)
	}
	other := newLog(t)
	other.tail.Add([]byte("another first entry"))
	checkpoint, tree = other.grow(1200)
	if _, err := c.Cosign(t.Context(), checkpoint, tree); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("another history was signed: %v", err)
	}
}
