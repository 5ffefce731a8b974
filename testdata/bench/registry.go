package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/testdata/peerstart"
)

// ociJobs compares pushes and pulls of a bundle of A and B, to and from a registry on this machine, with what does the
// like:
//
//	push    rye bundle push into an empty registry      crane and oras, which push the same layers from an image layout
//	pull    rye bundle pull into an empty store         crane and oras, which pull into an image layout; cp of the files
//	next.A  bytes on the wire of S after A              changed: the bytes of the files that S changes
//	next.B  bytes on the wire of D after B              changed: the bytes that D changes and inserts
//
// Without a registry there are no jobs.
func (b *bench) ociJobs(ctx context.Context, what string) ([]job, error) {
	r, err := b.startRegistry(ctx)
	if r == nil {
		return nil, err
	}
	at := filepath.Join(b.dir, "oci-"+what)
	home, project, layout, out := at+"-home", at+"-project", at+"-layout", at+"-out"
	rye := func(args ...string) command {
		c := cmd(append([]string{b.rye}, args...)...).in(project)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	}
	bundle := func(version string) []command {
		const recipe = `printf 'id: bench\nversion: %s\nassets: ["*/**"]\n' "$1" >bundle.yaml`
		return []command{cmd("sh", "-c", recipe, "sh", version).in(project), rye("bundle", "create", "-q")}
	}
	what, on, _ := strings.Cut(what, ".")
	once := []command{cmd("mkdir", home, project), rye("init")}
	for _, letter := range []string{"A", "B"} {
		if err := errors.Join(b.corpus(ctx, letter), b.corpus(ctx, next[letter])); err != nil {
			return nil, err
		}
		if on == "" || on == letter {
			once = append(once, cmd("cp", "-aT", filepath.Join(b.corpora, letter),
				filepath.Join(project, "files-"+letter)))
		}
	}
	once = append(once, bundle("1.0.0")...)
	ref := r.address + "/bench/all:1.0.0"
	push := rye("bundle", "push", "-q", "bench@1.0.0", "oci://"+ref)
	j := job{tool: "rye", onceFresh: []string{home, project}, once: once}
	jobs := func(verb, dir string, fresh func(of string) []string) []job {
		all := []job{j}
		for _, of := range b.movers() {
			all = append(all, job{tool: of, fresh: fresh(of),
				run: []command{cmd(b.mover, of, verb, strings.ReplaceAll(dir, "OF", of), ref)}})
		}
		return all
	}
	switch what {
	case "push":
		j.onceFresh, j.once = append(j.onceFresh, layout),
			append(once, rye("bundle", "push", "-q", "bench@1.0.0", "oci-layout:"+layout+":1.0.0"))
		j.fresh, j.run = []string{r.data}, []command{push}
		return jobs("push", layout, func(string) []string { return j.fresh }), nil
	case "pull":
		j.onceFresh, j.once = append(j.onceFresh, r.data), append(once, push)
		j.fresh, j.run = []string{filepath.Join(home, "data"), filepath.Join(home, "cache")},
			[]command{rye("bundle", "pull", "-q", "oci://"+ref)}
		all := jobs("pull", out+"-OF", func(of string) []string { return []string{out + "-" + of} })
		return append(all, job{tool: "cp", fresh: []string{out}, run: []command{cmd("cp", "-r", project, out)}}), nil
	case "next":
		from, to := filepath.Join(b.corpora, on), filepath.Join(b.corpora, next[on])
		j.once = append(append(once, cmd("cp", "-aT", to, filepath.Join(project, "files-"+on))), bundle("1.1.0")...)
		j.fresh, j.before = []string{r.data}, []command{push}
		j.run = []command{rye("bundle", "push", "-q", "bench@1.1.0", "oci://"+r.proxy+"/bench/all:1.1.0")}
		j.added = func() (int64, error) { return r.moved.Swap(0), nil }
		return []job{j, {tool: "changed", run: []command{cmd("true")}, added: func() (int64, error) {
			return changedBytes(from, to)
		}}}, nil
	}
	return nil, fmt.Errorf("nothing is measured as %q", what)
}

// changedBytes returns how many bytes the files of a corpus have that were edited, of large ones how many were
// overwritten and inserted.
func changedBytes(from, to string) (n int64, err error) {
	err = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(to, path)
		if err != nil {
			return err
		}
		old, err := os.Stat(filepath.Join(from, rel))
		if err != nil {
			return err
		}
		now, err := d.Info()
		switch {
		case err != nil || !now.ModTime().Equal(edited):
			return err
		case old.Size() < 16*kib:
			n += now.Size()
		default:
			n += old.Size()/100/editRun*editRun + now.Size() - old.Size()
		}
		return nil
	})
	return n, err
}

// movers are the peers that move an image: they are built from the module of the peers, where that is possible.
func (b *bench) movers() []string {
	if b.mover == "" {
		return nil
	}
	return []string{"crane", "oras"}
}

// A registry is docker-registry on this machine. It keeps nothing in memory: it is empty when its directory is gone.
type registry struct {
	address, data string
	proxy         string       // the address of a proxy before it
	moved         atomic.Int64 // bytes through the proxy, both ways
}

// startRegistry starts a registry, which runs until the end; nil if there is none here.
func (b *bench) startRegistry(ctx context.Context) (*registry, error) {
	if b.registry != nil {
		return b.registry, nil
	}
	path, err := exec.LookPath("docker-registry")
	if err != nil {
		b.notes = append(b.notes, "oci: docker-registry is not here")
		return nil, nil
	}
	if b.mover, err = peerstart.Build(ctx, filepath.Join(b.dir, "bin"), "mover"); err != nil {
		b.notes = append(b.notes, fmt.Sprintf("oci: crane and oras can't be built: %v", err))
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	r := &registry{address: address, data: filepath.Join(b.dir, "registry", "data")}
	config := filepath.Join(b.dir, "registry", "config.yml")
	text := fmt.Sprintf(
		"version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", r.data,
		r.address)
	if err := errors.Join(os.MkdirAll(filepath.Dir(config), 0o777),
		os.WriteFile(config, []byte(text), 0o666)); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(b.dir, "registry", "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := exec.CommandContext(ctx, path, "serve", config)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	b.stops = append(b.stops, func() { c.Process.Kill(); <-ended })
	for !answers(r.address) {
		select {
		case err := <-ended:
			ended <- err
			return nil, fmt.Errorf("the registry has ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b.stops = append(b.stops, func() { l.Close() })
	r.proxy = l.Addr().String()
	go r.forward(l)
	b.registry = r
	return r, nil
}

func answers(address string) bool {
	resp, err := http.Get("http://" + address + "/v2/")
	if err == nil {
		resp.Body.Close()
	}
	return err == nil
}

// freeAddress returns an address of this machine that nothing listens at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// forward passes what comes to the registry and back, and counts it.
func (r *registry) forward(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.address)
		if err != nil {
			client.Close()
			continue
		}
		pass := func(to, from net.Conn) {
			io.Copy(to, io.TeeReader(from, counter{&r.moved}))
			to.Close()
			from.Close()
		}
		go pass(server, client)
		go pass(client, server)
	}
}

// A counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
