// Registry tries a registry of ours as a large team uses it, and prints what it measured: three processes of ryed over
// PostgreSQL and versitygw's S3, a person who signs in with a browser and a passkey, and a thousand clients at once.
// It needs Debian's postgresql and chromium-headless-shell; `just registry` runs it.
//
// What must hold: the browser makes a passkey and allows what rye login asks for; what was acknowledged to a client is
// in the log, in an index and among the archives, and every other client can prove it; ryed registry verify agrees;
// and the memory of the processes doesn't grow with the requests.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/testdata/peerstart"
)

// gateway is the S3 server. Its module has more dependencies than all other peers together: it is built by itself.
const gateway = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

func main() {
	log.SetFlags(0)
	clients := flag.Int("clients", 1000, "clients at once")
	flag.Parse()
	if err := run(context.Background(), *clients); err != nil {
		log.Fatal("registry: ", err)
	}
}

// A team is what the registry is made of.
type team struct {
	dir       string
	ryed, rye string
	stores    []string // the flags that name them
	hosts     []*host
	stops     []func()
}

// A host is one process of ryed.
type host struct {
	*exec.Cmd
	URL, Log, Key string
}

func run(ctx context.Context, clients int) (err error) {
	dir, err := os.MkdirTemp("", "rye-team-")
	if err != nil {
		return err
	}
	t := &team{dir: dir}
	defer func() {
		for i := len(t.stops) - 1; i >= 0; i-- {
			t.stops[i]()
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := t.start(ctx); err != nil {
		return err
	}
	if err := t.login(ctx); err != nil {
		return fmt.Errorf("a login with the browser: %w", err)
	}
	fmt.Println("login: a passkey was made in the browser, and it allowed what rye login asked for")
	return t.crowd(ctx, clients)
}

// start builds the programs and starts the servers.
func (t *team) start(ctx context.Context) (err error) {
	if t.rye, err = peerstart.Build(ctx, t.dir, "github.com/rye-build/rye/cmd/rye"); err != nil {
		return err
	}
	if t.ryed, err = peerstart.Build(ctx, t.dir, "github.com/rye-build/rye/cmd/ryed"); err != nil {
		return err
	}
	database, stop, err := peerstart.Start(ctx, "postgres")
	if err != nil {
		return err
	}
	t.stops = append(t.stops, stop)
	objects, err := t.startGateway(ctx)
	if err != nil {
		return err
	}
	t.stores = []string{"--database", database, "--objects", objects + "/team/registry"}
	for i := range 3 {
		data := filepath.Join(t.dir, fmt.Sprint("data", i))
		if i > 0 { // all of them have the same keys
			if err := os.CopyFS(data, os.DirFS(filepath.Join(t.dir, "data0"))); err != nil {
				return err
			}
		}
		if err := t.startHost(data); err != nil {
			return err
		}
	}
	return nil
}

// startGateway starts versitygw over a directory, whose folders are its buckets.
func (t *team) startGateway(ctx context.Context) (string, error) {
	install := exec.CommandContext(ctx, "go", "install", gateway)
	install.Env = append(os.Environ(), "GOBIN="+t.dir, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", gateway, err, out)
	}
	objects, side := filepath.Join(t.dir, "objects"), filepath.Join(t.dir, "side")
	if err := errors.Join(os.MkdirAll(filepath.Join(objects, "team"), 0o777), os.Mkdir(side, 0o777)); err != nil {
		return "", err
	}
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	server := exec.Command(filepath.Join(t.dir, "versitygw"), "--port", address, "--quiet", "posix", "--sidecar", side,
		objects)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY=id", "ROOT_SECRET_KEY=secret")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return "", err
	}
	t.stops = append(t.stops, func() { _ = server.Process.Kill(); _ = server.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return "s3://" + address, conn.Close()
		}
		if time.Now().After(end) {
			return "", err
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// command returns a command of ryed on the registry.
func (t *team) command(data string, args ...string) *exec.Cmd {
	args = append(append([]string{"registry", "--quiet"}, args...), "--data", data)
	cmd := exec.Command(t.ryed, append(args, t.stores...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.dir, "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret")
	cmd.Stderr = os.Stderr
	return cmd
}

// startHost starts a process of ryed, whose pages browsers find under localhost: passkeys are for names.
func (t *team) startHost(data string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]string{"name": "localhost", "url": "http://localhost:" + port})
	if err := errors.Join(err, os.MkdirAll(data, 0o700),
		os.WriteFile(filepath.Join(data, "config.json"), config, 0o600)); err != nil {
		return err
	}
	h := &host{Cmd: t.command(data, "serve", "--listen", address, "--json")}
	out, err := h.StdoutPipe()
	if err == nil {
		err = h.Start()
	}
	if err != nil {
		return err
	}
	t.stops = append(t.stops, func() { _ = h.Process.Kill(); _ = h.Wait() })
	var answer struct{ Data *host }
	answer.Data = h
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, &answer)); err != nil {
		return err
	}
	go io.Copy(io.Discard, out)
	t.hosts = append(t.hosts, h)
	return nil
}

// output runs a command of ryed on the registry, and returns what it printed.
func (t *team) output(args ...string) (string, error) {
	out, err := t.command(filepath.Join(t.dir, "data0"), args...).Output()
	if err != nil {
		err = fmt.Errorf("ryed registry %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), err
}
