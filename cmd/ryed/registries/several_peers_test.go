//go:build peers

package registries_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/ryed/registries"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/testdata/peerstart"
)

// asRyed has this program be ryed.
const asRyed = "RYED_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asRyed) != "" {
		os.Unsetenv(asRyed)
		os.Exit(registries.Main(os.Args))
	}
	os.Exit(m.Run())
}

// peer starts a server of testdata/peers and returns its address.
func peer(t *testing.T, name string, args ...string) string {
	t.Helper()
	address, stop, err := peerstart.Start(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return address
}

// bucket returns the address of a bucket of a server that keeps objects in memory.
func bucket(t *testing.T) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return "s3://" + peer(t, "s3", "team") + "/team/registry"
}

// A host is one process that serves the registry.
type host struct {
	dir  string
	args []string
	cmd  *exec.Cmd
	url  string
	mu   sync.Mutex
}

func ryed(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asRyed+"=1", "HOME="+t.TempDir())
	cmd.Stderr = os.Stderr
	return cmd
}

func (h *host) start(t *testing.T) {
	t.Helper()
	cmd := ryed(t, append([]string{"registry", "serve", "--json", "--listen", "127.0.0.1:0"}, h.args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var answer struct{ Data struct{ URL string } }
	if err != nil || json.Unmarshal([]byte(line), &answer) != nil || answer.Data.URL == "" {
		t.Errorf("the registry doesn't serve: %s, %v", line, err)
	}
	h.mu.Lock()
	h.cmd, h.url = cmd, answer.Data.URL
	h.mu.Unlock()
}

func (h *host) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.url
}

func (h *host) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

func packed(t *testing.T, id, version, text string) []byte {
	t.Helper()
	var store cas.Memory
	info, err := store.Put(t.Context(), cas.Blob, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	body, list, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: id, Version: version},
		[]manifest.File{{Path: "a.md", Digest: info.Digest, Size: info.Size, Mode: cas.File}})
	if err == nil {
		err = list.Sign(keytest.Alice(), time.Now().UTC().Truncate(time.Second))
	}
	var b bytes.Buffer
	if err == nil {
		err = archive.Write(t.Context(), &b, body, list.Signatures, &store,
			manifest.SignerKey{Public: keytest.Alice().Public()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// spaceOf returns the namespace of the v-th version: every fourth one is private.
func spaceOf(v int) string {
	if v%4 == 0 {
		return "team"
	}
	return "acme"
}

// TestSeveral: three processes serve one registry over PostgreSQL and a bucket, and are killed while clients publish.
// What was acknowledged is there, of two publishers of one version one wins, and logs, indexes and archives agree:
// those of a private namespace, too, which then becomes public.
func TestSeveral(t *testing.T) {
	database, objects := peer(t, "postgres"), bucket(t)
	root := t.TempDir()
	var hosts []*host
	for i := range 3 {
		h := &host{dir: filepath.Join(root, fmt.Sprint("data", i))}
		if i > 0 { // the same keys
			if out, err := exec.Command("cp", "-r", hosts[0].dir, h.dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		h.args = []string{"--data", h.dir, "--name", "registry.example", "--database", database, "--objects", objects}
		h.start(t)
		t.Cleanup(h.kill)
		hosts = append(hosts, h)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := ryed(t, append(args, hosts[0].args...)...).Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	run("registry", "account", "add", "ada")
	token := run("registry", "token", "add", "ada", "--scope", "owner", "--scope", "publish", "--scope", "read")
	session := func(i int) *client.Session {
		return &client.Session{URL: hosts[i%len(hosts)].address(), Token: token, Client: web.New(web.Options{})}
	}
	for space, visibility := range map[string]client.Visibility{"acme": client.Public, "team": client.Private} {
		if _, err := session(0).Claim(t.Context(), space, client.Claim{Visibility: visibility}); err != nil {
			t.Fatal(err)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() {
		for ctx.Err() == nil {
			h := hosts[rand.IntN(len(hosts))]
			select {
			case <-time.After(time.Duration(50+rand.IntN(250)) * time.Millisecond):
			case <-ctx.Done():
				return
			}
			h.kill()
			h.start(t)
		}
	})
	const versions, clients = 100, 3
	var mu sync.Mutex
	won := map[string]map[cas.Digest]bool{}
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for v := range versions {
				version := fmt.Sprintf("1.%d.0", v)
				b := packed(t, spaceOf(v)+"/base", version, fmt.Sprint("of client ", c))
				for try := 0; ; try++ {
					p, err := session(c+try).Publish(ctx, bytes.NewReader(b), int64(len(b)))
					if err == nil {
						mu.Lock()
						if won[version] == nil {
							won[version] = map[cas.Digest]bool{}
						}
						won[version][p.Archive] = true
						mu.Unlock()
						break
					}
					if fault.CodeOf(err) == fault.Conflict {
						break // another one was first
					}
					if try > 200 || errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", version, err)
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	stop()
	killer.Wait()
	for v := range versions {
		version := fmt.Sprintf("1.%d.0", v)
		if len(won[version]) != 1 {
			t.Errorf("%s was published %d times", version, len(won[version]))
		}
	}
	private := 0
	for i, space := range []string{"acme", "team"} {
		info, err := session(i).Bundle(t.Context(), space+"/base")
		if err != nil {
			t.Fatal(err)
		}
		leaves := map[int64]bool{}
		for _, v := range info.Versions {
			if !won[v.Version][v.Archive] || leaves[v.Leaf] || v.Private != (space == "team") {
				t.Errorf("%s of %s is entry %d with %s", v.Version, space, v.Leaf, v.Archive)
			}
			leaves[v.Leaf] = true
		}
		if private = len(info.Versions); i == 0 && private != versions*3/4 || i == 1 && private != versions/4 {
			t.Errorf("%s has %d versions", space, private)
		}
	}
	good := fmt.Sprintf("good  registry.example  %d entries, %d", versions+2, versions)
	if out := run("registry", "verify"); !strings.HasPrefix(out, good) {
		t.Error(out)
	}
	if _, err := (&client.Session{URL: hosts[1].address(), Client: web.New(web.Options{})}).Bundle(t.Context(),
		"team/base"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a stranger sees a private bundle: %v", err)
	}
	if _, err := session(2).Change(t.Context(), "team", client.Change{Settings: &client.Settings{
		Visibility: client.Public}}); err != nil {
		t.Fatal(err)
	}
	// Both logs have an entry more, and the public one has each version anew.
	good = fmt.Sprintf("good  registry.example  %d entries, %d", versions+4+private, versions+private)
	if out := run("registry", "verify"); !strings.HasPrefix(out, good) {
		t.Error(out)
	}

	// A backup of these stores is restored into the others, and one of those into these.
	first, second := filepath.Join(root, "first"), filepath.Join(root, "second")
	run("registry", "backup", first)
	local, shared := filepath.Join(root, "local"), []string{"--database",
		strings.Replace(database, "/postgres?", "/template1?", 1), "--objects",
		strings.TrimSuffix(objects, "registry") + "second"}
	for _, args := range [][]string{
		{"restore", local, "--from", first},
		{"verify", "--data", local},
		{"backup", second, "--data", local},
		append([]string{"restore", filepath.Join(root, "shared"), "--from", second}, shared...),
		append([]string{"verify", "--data", filepath.Join(root, "shared")}, shared...),
	} {
		out, err := ryed(t, append([]string{"registry"}, args...)...).Output()
		if err != nil || args[0] == "verify" && !strings.HasPrefix(string(out), good) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}
