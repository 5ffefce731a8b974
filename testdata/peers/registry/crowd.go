package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

// What each client of the crowd does: it publishes so many versions of a bundle of its own, and after each it takes
// one of another client as a lock does.
const versions = 2

// perAccount is how many clients share an account, which has a namespace and a token.
const perAccount = 20

// A person is one client: it has its own connections and its own memory.
type person struct {
	bundle string
	token  string
	host   int
	dir    string
	web    *web.Client
	reads  *registry.Client
}

// took is how long operations of one kind have taken.
type took struct {
	mu    sync.Mutex
	times map[string][]time.Duration
}

func (m *took) add(what string, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times[what] = append(m.times[what], time.Since(since))
}

// String is a line for each kind of operation.
func (m *took) String() string {
	lines := new(strings.Builder)
	for _, what := range []string{"publish", "resolve", "unchanged", "pull"} {
		all := m.times[what]
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		at := func(share float64) time.Duration {
			return all[int(share*float64(len(all)-1))].Round(time.Millisecond)
		}
		fmt.Fprintf(lines, "%-10s %6d times  median %6s  of 100 the 99th %6s  slowest %6s\n", what, len(all), at(0.5),
			at(0.99), at(1))
	}
	return lines.String()
}

// crowd lets the clients publish and take at once, and then checks that nothing was lost.
func (t *team) crowd(ctx context.Context, clients int) error {
	signer, err := key.Generate(rand.Reader)
	if err != nil {
		return err
	}
	people, err := t.people(ctx, clients)
	if err != nil {
		return err
	}
	before := t.memory()
	acknowledged := make([][]*registry.Published, clients)
	measured := &took{times: map[string][]time.Duration{}}
	began := time.Now()
	var all sync.WaitGroup
	failures := make(chan error, clients)
	for i, p := range people {
		all.Go(func() {
			if err := p.work(ctx, signer, people, i, measured, &acknowledged[i]); err != nil {
				failures <- fmt.Errorf("client %d: %w", i, err)
			}
		})
	}
	all.Wait()
	wall := time.Since(began)
	close(failures)
	failed := 0
	for err := range failures {
		if failed++; failed <= 5 {
			fmt.Println(err)
		}
	}
	fmt.Printf("crowd: %d clients, %d processes, %s, %d failed\n%s", clients, len(t.hosts), wall.Round(time.Second),
		failed, measured)
	fmt.Printf("memory of the processes: before %s, after %s MiB\n", before, t.memory())
	if failed > 0 {
		return errors.New("not every client succeeded")
	}
	return t.check(ctx, people, acknowledged)
}

// check proves each acknowledged version to a client that has seen nothing yet, and has the registry verify itself.
func (t *team) check(ctx context.Context, people []*person, acknowledged [][]*registry.Published) error {
	fresh := filepath.Join(t.dir, "fresh")
	stranger, err := t.person("", "", 0, fresh)
	if err != nil {
		return err
	}
	view, err := stranger.reads.View(ctx)
	if err != nil {
		return err
	}
	leaves := map[int64]bool{}
	for i, list := range acknowledged {
		index, err := stranger.reads.Index(ctx, people[i].bundle, func() error { return nil })
		if err != nil {
			return err
		}
		for _, a := range list {
			e := index.Find(a.Bundle, a.Version)
			if e == nil || e.Logged.Digest != a.Archive || leaves[a.Leaf] {
				return fmt.Errorf("%s@%s was acknowledged, and isn't there", a.Bundle, a.Version)
			}
			if _, err := stranger.reads.Prove(ctx, view, e); err != nil {
				return err
			}
			leaves[a.Leaf] = true
		}
	}
	fmt.Printf("check: a new client has proven all %d acknowledged versions\n", len(leaves))
	verified, err := t.output("verify")
	fmt.Println("verify:", verified)
	return err
}

// people makes the accounts, their namespaces and the clients.
func (t *team) people(ctx context.Context, clients int) (people []*person, err error) {
	var token, space string
	for i := range clients {
		if i%perAccount == 0 {
			sum := sha256.Sum256([]byte(strconv.Itoa(i))) // names that no one takes for each other
			space = "n" + hex.EncodeToString(sum[:5])
			if _, err := t.output("account", "add", space); err != nil {
				return nil, err
			}
			token, err = t.output("token", "add", space, "--scope", "owner", "--scope", "publish")
			if err != nil {
				return nil, err
			}
			session := &registry.Session{URL: t.hosts[0].URL, Token: token, Client: web.New(web.Options{})}
			if _, err := session.Claim(ctx, space, registry.Claim{}); err != nil {
				return nil, err
			}
		}
		p, err := t.person(fmt.Sprintf("%s/client-%d", space, i), token, i%len(t.hosts),
			filepath.Join(t.dir, "clients", strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		people = append(people, p)
	}
	return people, nil
}

// person makes a client of one of the processes.
func (t *team) person(bundle, token string, host int, dir string) (*person, error) {
	h := t.hosts[host]
	log, err := tlog.ParseKey(h.Log)
	if err != nil {
		return nil, err
	}
	signs, err := key.ParsePublic(h.Key)
	if err != nil {
		return nil, err
	}
	p := &person{bundle: bundle, token: token, host: host, dir: dir, web: web.New(web.Options{})}
	p.reads = &registry.Client{At: project.Registry{URL: h.URL, Log: log, Key: signs}, Fetch: p.web,
		Journal: &rollback.Journal{Path: filepath.Join(dir, "rollback")}, Keeper: p, Now: time.Now}
	return p, os.MkdirAll(dir, 0o700)
}

// kept is the path of a kept file; its ETag is beside it.
func (p *person) kept(address string) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(p.dir, hex.EncodeToString(sum[:]))
}

// Kept implements registry.Keeper.
func (p *person) Kept(_ context.Context, address string) ([]byte, string, error) {
	text, err := os.ReadFile(p.kept(address))
	if err != nil {
		return nil, "", fs.ErrNotExist
	}
	etag, err := os.ReadFile(p.kept(address) + ".etag")
	return text, string(etag), err
}

// Keep implements registry.Keeper.
func (p *person) Keep(_ context.Context, address string, text []byte, etag string) error {
	return errors.Join(os.WriteFile(p.kept(address), text, 0o600),
		os.WriteFile(p.kept(address)+".etag", []byte(etag), 0o600))
}

// work publishes and takes in turn.
func (p *person) work(ctx context.Context, signer key.Private, people []*person, self int, m *took,
	done *[]*registry.Published) error {
	session := &registry.Session{URL: p.reads.At.URL, Token: p.token, Client: p.web}
	for v := range versions {
		body, err := packed(ctx, signer, p.bundle, fmt.Sprintf("1.%d.0", v))
		if err != nil {
			return err
		}
		began := time.Now()
		published, err := session.Publish(ctx, bytes.NewReader(body), int64(len(body)))
		if err != nil {
			return err
		}
		m.add("publish", began)
		*done = append(*done, published)
		other := people[(self+1+v*7)%len(people)].bundle
		if err := p.take(ctx, other, m); err != nil {
			return fmt.Errorf("%s: %w", other, err)
		}
	}
	return nil
}

// take resolves a bundle, reads its unchanged index again, and pulls its archive.
func (p *person) take(ctx context.Context, bundle string, m *took) error {
	began := time.Now()
	var view *registry.View
	log := func() (err error) {
		view, err = p.reads.View(ctx)
		return err
	}
	index, err := p.reads.Index(ctx, bundle, log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its publisher hasn't come so far
	}
	if err != nil {
		return err
	}
	if view == nil {
		if err := log(); err != nil {
			return err
		}
	}
	e := &index.Entries[len(index.Entries)-1]
	if _, err := p.reads.Prove(ctx, view, e); err != nil {
		return err
	}
	m.add("resolve", began)
	began = time.Now()
	if _, err := p.reads.Index(ctx, bundle, log); err != nil {
		return err
	}
	m.add("unchanged", began)
	began = time.Now()
	r, err := p.reads.Archive(ctx, e)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	m.add("pull", began)
	return errors.Join(err, r.Close())
}

// packed is the archive of a small signed bundle.
func packed(ctx context.Context, signer key.Private, id, version string) ([]byte, error) {
	var store cas.Memory
	info, err := store.Put(ctx, cas.Blob, strings.NewReader(strings.Repeat("A fact about "+id+".\n", 50)))
	if err != nil {
		return nil, err
	}
	body, list, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: id, Version: version},
		[]manifest.File{{Path: "facts.md", Digest: info.Digest, Size: info.Size, Mode: cas.File}})
	if err == nil {
		err = list.Sign(signer, time.Now().UTC().Truncate(time.Second))
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = archive.Write(ctx, &b, body, list.Signatures, &store, manifest.SignerKey{Public: signer.Public()})
	return b.Bytes(), err
}

var rss = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// memory is what the processes of ryed have in memory, in MiB.
func (t *team) memory() string {
	var all []string
	for _, h := range t.hosts {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.Process.Pid))
		if found := rss.FindSubmatch(status); found != nil {
			kib, _ := strconv.Atoi(string(found[1]))
			all = append(all, strconv.Itoa(kib>>10))
		}
	}
	return strings.Join(all, ", ")
}
