package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/testdata/peerstart"
)

// A host is a process of ryed, our own registry, whose namespace bench belongs to a token.
type host struct{ url, token, data string }

// publishedJobs compares what rye takes from ryed with what only takes the same bytes, and the registry of a large team
// with one that has nothing else:
//
//	unchanged   rye outdated of one bundle whose index is the    curl of the index, with the ETag that it has
//	            same as before: start, rye.lock, one request
//	pull        rye fetch of A and B into an empty store, with   curl of the archive; cp of its files
//	            the log's proof and every signature checked
//	publish     rye publish of a version beside 100,000 others   few: the same beside none
//	resolve     rye lock --resolve of a version beside 100,000   few: the same beside none
//	            others, by a client that has seen nothing
//
// With .shared the registry is over PostgreSQL and S3, else over its own directory.
func (b *bench) publishedJobs(ctx context.Context, on string) ([]job, error) {
	what, store, _ := strings.Cut(on, ".")
	few, err := b.host(ctx, store, false)
	if err != nil {
		return nil, err
	}
	switch what {
	case "unchanged":
		return b.unchangedJobs(on, few)
	case "pull":
		return b.pullJobs(ctx, on, few)
	}
	full, err := b.host(ctx, store, true)
	if err != nil {
		return nil, err
	}
	one := b.publishJob
	if what == "resolve" {
		one = b.resolveJob
	}
	return []job{one("rye", on, full), one("few", on, few)}, nil
}

// A publisher is a user with a project that is published, and with another project that takes it.
type publisher struct{ at, home, project, shop string }

func (b *bench) publisher(name string) publisher {
	at := filepath.Join(b.dir, "registry-"+name)
	return publisher{at, at + "-home", at + "-project", at + "-shop"}
}

// rye is a command of the user's.
func (b *bench) ryeOf(p publisher, h *host, dir string, args ...string) command {
	return cmd(append([]string{b.rye}, args...)...).in(dir).with("HOME="+p.home,
		"XDG_CACHE_HOME="+filepath.Join(p.home, "cache"), "XDG_STATE_HOME="+filepath.Join(p.home, "state"),
		"XDG_DATA_HOME="+filepath.Join(p.home, "data"), "RYE_REGISTRY_TOKEN="+h.token)
}

// published are the commands that publish the files of a project, and require them in another one.
func (b *bench) published(p publisher, h *host, name, assets string, files ...command) []command {
	const recipe = `printf 'id: bench/%s\nversion: 1.0.0\nassets: ["%s"]\n' "$1" "$2" >bundle.yaml`
	const inside = `printf '%s\n' "inside: [\"$1\"]" >>"$0/.ai/policy.yaml"`
	all := []command{cmd("mkdir", p.home, p.project), b.ryeOf(p, h, p.project, "init")}
	all = append(all, files...)
	return append(all, cmd("sh", "-c", recipe, "sh", name, assets).in(p.project),
		b.ryeOf(p, h, p.project, "bundle", "create", "-q"),
		b.ryeOf(p, h, p.project, "--yes", "publish", "-q", "--registry", h.url),
		cmd("sh", "-c", inside, p.home, h.url[len("http://"):]), b.ryeOf(p, h, b.dir, "init", "-q", p.shop),
		b.ryeOf(p, h, p.shop, "--yes", "add", "-q", "bench/"+name, "--registry", h.url))
}

func (b *bench) unchangedJobs(on string, h *host) ([]job, error) {
	p := b.publisher(on)
	out := p.at + "-out"
	j := job{tool: "rye", onceFresh: []string{p.home, p.project, p.shop},
		once: b.published(p, h, "unchanged", "bundle.yaml"),
		run:  []command{b.ryeOf(p, h, p.shop, "outdated", "-q")}}
	const ask = `tag=$(curl -sI "$0/index/bench/unchanged.yaml" | sed -n 's/^[Ee][Tt]ag: \(.*\)\r$/\1/p')
		printf '%s' "$tag" >"$1"`
	const again = `exec curl -s -o /dev/null -H "If-None-Match: $(cat "$1")" "$0/index/bench/unchanged.yaml"`
	curl := job{tool: "curl", onceFresh: []string{out}, once: []command{cmd("sh", "-c", ask, h.url, out)},
		run: []command{cmd("sh", "-c", again, h.url, out)}}
	return []job{j, curl}, nil
}

func (b *bench) pullJobs(ctx context.Context, on string, h *host) ([]job, error) {
	p := b.publisher(on)
	out := p.at + "-out"
	var files []command
	for _, letter := range []string{"A", "B"} {
		if err := b.corpus(ctx, letter); err != nil {
			return nil, err
		}
		files = append(files, cmd("cp", "-aT", filepath.Join(b.corpora, letter),
			filepath.Join(p.project, "files-"+letter)))
	}
	j := job{tool: "rye", onceFresh: []string{p.home, p.project, p.shop},
		once:  b.published(p, h, "pull", "*/**", files...),
		fresh: []string{filepath.Join(p.home, "data"), filepath.Join(p.home, "cache")},
		run:   []command{b.ryeOf(p, h, p.shop, "fetch", "-q")}}
	const archive = `exec curl -s -o "$1" "$0/$(curl -s "$0/index/bench/pull.yaml" | grep -o 'archives/[0-9a-f]*')"`
	curl := job{tool: "curl", fresh: []string{out}, run: []command{cmd("sh", "-c", archive, h.url, out)}}
	copied := job{tool: "cp", fresh: []string{p.at + "-cp"}, run: []command{cmd("cp", "-r", p.project, p.at+"-cp")}}
	return []job{j, curl, copied}, nil
}

func (b *bench) publishJob(tool, on string, h *host) job {
	p := b.publisher(on + "-" + tool)
	const bump = `n=$(cat ../$0 2>/dev/null); echo $((n + 1)) >../$0
		sed -i "s/^version: .*/version: 1.$((n + 1)).0/" bundle.yaml`
	return job{tool: tool, onceFresh: []string{p.home, p.project, p.shop, p.at + "-n"},
		once: b.published(p, h, "publish", "bundle.yaml"),
		before: []command{cmd("sh", "-c", bump, filepath.Base(p.at)+"-n").in(p.project),
			b.ryeOf(p, h, p.project, "bundle", "create", "-q")},
		run: []command{b.ryeOf(p, h, p.project, "--yes", "publish", "-q", "--registry", h.url)}}
}

func (b *bench) resolveJob(tool, on string, h *host) job {
	p := b.publisher(on + "-" + tool)
	return job{tool: tool, onceFresh: []string{p.home, p.project, p.shop},
		once: b.published(p, h, "resolve", "bundle.yaml"),
		fresh: []string{filepath.Join(p.home, "data"), filepath.Join(p.home, "cache"),
			filepath.Join(p.home, "state")},
		run: []command{b.ryeOf(p, h, p.shop, "lock", "--resolve", "-q")}}
}

// host returns a registry over a store, shared or "": one that has nothing else, or a full one.
func (b *bench) host(ctx context.Context, store string, full bool) (*host, error) {
	name := fmt.Sprint("ryed-", store, "-", full)
	if h := b.hosts[name]; h != nil {
		return h, nil
	}
	ryed := filepath.Join(b.dir, "bin", "ryed")
	if _, err := os.Stat(ryed); err != nil {
		if ryed, err = peerstart.Build(ctx, filepath.Dir(ryed), "github.com/rye-build/rye/cmd/ryed"); err != nil {
			return nil, err
		}
	}
	h := &host{data: filepath.Join(b.dir, name)}
	args := []string{"--data", h.data, "--name", "registry.example"}
	if store == "shared" {
		database, stop, err := peerstart.Start(ctx, "postgres")
		if err != nil {
			return nil, err
		}
		b.stops = append(b.stops, stop)
		objects, stop, err := peerstart.Start(ctx, "s3", "team")
		if err != nil {
			return nil, err
		}
		b.stops = append(b.stops, stop)
		args = append(args, "--database", database, "--objects", "s3://"+objects+"/team")
	}
	ask := func(into any, words ...string) error {
		c := exec.CommandContext(ctx, ryed, append(append([]string{"registry", "--json"}, words...), args...)...)
		c.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret")
		said := new(bytes.Buffer)
		c.Stderr = said
		lines, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return err
		}
		line, err := bufio.NewReader(lines).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &struct{ Data any }{into})
		}
		if err != nil {
			return fmt.Errorf("ryed %q: %w: %s %s", words, errors.Join(err, c.Wait()), line, said)
		}
		if words[0] == "serve" {
			b.stops = append(b.stops, func() { _ = c.Process.Kill(); _ = c.Wait() })
			return nil
		}
		return c.Wait()
	}
	var at struct{ URL, Token string }
	if err := ask(&at, "serve", "--listen", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	h.url = at.URL
	token := func(account string) (string, error) {
		err := ask(&at, "account", "add", account)
		if err == nil {
			err = ask(&at, "token", "add", account, "--scope", "owner", "--scope", "publish")
		}
		if err == nil {
			session := &client.Session{URL: h.url, Token: at.Token, Client: web.New(web.Options{})}
			_, err = session.Claim(ctx, account, client.Claim{})
		}
		return at.Token, err
	}
	var err error
	if h.token, err = token("bench"); err == nil && full {
		err = b.fill(ctx, h.url, token)
	}
	if b.hosts == nil {
		b.hosts = map[string]*host{}
	}
	b.hosts[name] = h
	return h, err
}

// fill publishes 100,000 versions of 1,000 bundles of 125 accounts: an account may publish 1,000 in a day.
func (b *bench) fill(ctx context.Context, url string, token func(account string) (string, error)) error {
	const accounts, clients = 125, 32
	bundles, versions := 1000, 100
	if b.quick {
		bundles, versions = accounts, 2
	}
	signer, err := key.Generate(rand.Reader)
	if err != nil {
		return err
	}
	var sessions []*client.Session
	var names []string
	for i := range accounts {
		sum := sha256.Sum256([]byte{byte(i)}) // names that aren't taken for each other
		names = append(names, "n"+hex.EncodeToString(sum[:5]))
		secret, err := token(names[i])
		if err != nil {
			return err
		}
		sessions = append(sessions, &client.Session{URL: url, Token: secret, Client: web.New(web.Options{})})
	}
	var next atomic.Int64
	var all errgroup.Group
	for range clients {
		all.Go(func() error {
			for {
				n := int(next.Add(1) - 1)
				if n >= bundles*versions {
					return nil
				}
				id := fmt.Sprintf("%s/bundle-%d", names[n%accounts], n%bundles/accounts)
				text, err := small(ctx, signer, id, fmt.Sprintf("1.%d.0", n/bundles))
				if err == nil {
					_, err = sessions[n%accounts].Publish(ctx, bytes.NewReader(text), int64(len(text)))
				}
				if err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

// small is the archive of a bundle of one file.
func small(ctx context.Context, signer key.Private, id, version string) ([]byte, error) {
	var store cas.Memory
	info, err := store.Put(ctx, cas.Blob, strings.NewReader(id+" "+version))
	if err != nil {
		return nil, err
	}
	body, list, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: id, Version: version},
		[]manifest.File{{Path: "a.md", Digest: info.Digest, Size: info.Size, Mode: cas.File}})
	if err == nil {
		err = list.Sign(signer, time.Now().UTC().Truncate(time.Second))
	}
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = archive.Write(ctx, &text, body, list.Signatures, &store, manifest.SignerKey{Public: signer.Public()})
	return text.Bytes(), err
}
