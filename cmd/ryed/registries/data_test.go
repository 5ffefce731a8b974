package registries

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/exec/registry"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// TestInside: the address of a witness leads to this machine or a private network only if the configuration names its
// host. Without that not even a connection is made.
func TestInside(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var connections atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			conn.Close()
		}
	}()
	dir, at := t.TempDir(), listener.Addr().String()
	vkey, err := tlog.NewWitnessKey("w.example", keytest.Seeded(7).Public())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, policyFile),
		[]byte("witness w "+vkey.String()+" http://"+at+"\nquorum w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := tlog.NewKey("registry.example/"+client.LogDir, keytest.Seeded(1).Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := tlog.Sign(log, keytest.Seeded(1), 0, new(tlog.Tail).Root())
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := tlog.Open(text, log)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(inside ...string) string {
		t.Helper()
		var warned string
		o := &registry.Options{Name: "registry.example", LogKey: keytest.Seeded(1),
			Warn: func(err error) { warned = err.Error() }}
		w, err := witnesses(dir, o, inside)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Cosign(t.Context(), checkpoint, tlog.NewTree(checkpoint, nil)); err == nil {
			t.Error("a witness that answers nothing has signed")
		}
		return warned
	}
	for _, inside := range [][]string{nil, {"w.example"}, {"127.0.0.2"}} {
		if warned := ask(inside...); connections.Load() > 0 || !strings.Contains(warned, "127.0.0.1") {
			t.Errorf("inside %q: %d connections, %q", inside, connections.Load(), warned)
		}
	}
	if ask(at); connections.Load() == 0 {
		t.Error("a host that the configuration names isn't asked")
	}
}
