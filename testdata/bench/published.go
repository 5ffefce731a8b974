package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// publishedJobs compares what rye takes from ryed, our own registry, with what only takes the same bytes:
//
//	unchanged   rye outdated of one bundle whose index is the    curl of the index, with the ETag that it has
//	            same as before: start, rye.lock, one request
//	pull        rye fetch of A and B into an empty store, with   curl of the archive; cp of its files
//	            the log's proof and every signature checked
func (b *bench) publishedJobs(ctx context.Context, what string) ([]job, error) {
	at := filepath.Join(b.dir, "registry-"+what)
	home, project, shop, out := at+"-home", at+"-project", at+"-shop", at+"-out"
	url, token, err := b.startRyed(ctx, at+"-data")
	if err != nil {
		return nil, err
	}
	rye := func(dir string, args ...string) command {
		c := cmd(append([]string{b.rye}, args...)...).in(dir)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"),
			"RYE_REGISTRY_TOKEN="+token)
	}
	once := []command{cmd("mkdir", home, project), rye(project, "init")}
	assets := "bundle.yaml"
	if what == "pull" {
		assets = "*/**"
		for _, letter := range []string{"A", "B"} {
			if err := b.corpus(ctx, letter); err != nil {
				return nil, err
			}
			once = append(once, cmd("cp", "-aT", filepath.Join(b.corpora, letter),
				filepath.Join(project, "files-"+letter)))
		}
	}
	const recipe = `printf 'id: bench/all\nversion: 1.0.0\nassets: ["%s"]\n' "$1" >bundle.yaml`
	const inside = `printf '%s\n' "inside: [\"$1\"]" >>"$0/.ai/policy.yaml"`
	once = append(once, cmd("sh", "-c", recipe, "sh", assets).in(project), rye(project, "bundle", "create", "-q"),
		rye(project, "owner", "claim", "bench", "--registry", url),
		rye(project, "--yes", "publish", "-q", "--registry", url),
		cmd("sh", "-c", inside, home, url[len("http://"):]), rye(b.dir, "init", "-q", shop),
		rye(shop, "--yes", "add", "-q", "bench/all", "--registry", url))
	j := job{tool: "rye", onceFresh: []string{home, project, shop}, once: once}
	if what == "unchanged" {
		j.run = []command{rye(shop, "outdated", "-q")}
		const ask = `tag=$(curl -sI "$0/index/bench/all.yaml" | sed -n 's/^[Ee][Tt]ag: \(.*\)\r$/\1/p')
			printf '%s' "$tag" >"$1"`
		const again = `exec curl -s -o /dev/null -H "If-None-Match: $(cat "$1")" "$0/index/bench/all.yaml"`
		curl := job{tool: "curl", onceFresh: []string{out}, once: []command{cmd("sh", "-c", ask, url, out)},
			run: []command{cmd("sh", "-c", again, url, out)}}
		return []job{j, curl}, nil
	}
	j.fresh, j.run = []string{filepath.Join(home, "data"), filepath.Join(home, "cache")},
		[]command{rye(shop, "fetch", "-q")}
	const archive = `exec curl -s -o "$1" "$0/$(cd "$2" && ls -d archives/*)"`
	curl := job{tool: "curl", fresh: []string{out}, run: []command{cmd("sh", "-c", archive, url, out,
		filepath.Join(at+"-data", "files"))}}
	copied := job{tool: "cp", fresh: []string{at + "-cp"}, run: []command{cmd("cp", "-r", project, at+"-cp")}}
	return []job{j, curl, copied}, nil
}

// startRyed builds and starts our own registry, which runs until the end, and returns its address and a token.
func (b *bench) startRyed(ctx context.Context, data string) (url, token string, err error) {
	ryed := filepath.Join(b.dir, "bin", "ryed")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", ryed,
		"github.com/rye-build/rye/cmd/ryed")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("%w: %s", err, lastWords(out))
	}
	server := exec.CommandContext(ctx, ryed, "registry", "serve", "--data", data, "--name", "registry.example",
		"--listen", "127.0.0.1:0", "--json")
	lines, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return "", "", err
	}
	b.stops = append(b.stops, func() { _ = server.Process.Kill(); _ = server.Wait() })
	var said struct {
		Data struct{ URL, Token string }
	}
	line, err := bufio.NewReader(lines).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil {
		return "", "", fmt.Errorf("ryed doesn't serve: %w", err)
	}
	url = said.Data.URL
	account := exec.CommandContext(ctx, ryed, "registry", "account", "add", "bench", "--data", data)
	made := exec.CommandContext(ctx, ryed, "registry", "token", "add", "bench", "--data", data, "--scope", "owner",
		"--scope", "publish", "--json")
	out, err := account.CombinedOutput()
	if err == nil {
		if out, err = made.Output(); err == nil {
			err = json.Unmarshal(out, &said)
		}
	}
	if err != nil || said.Data.Token == "" {
		return "", "", fmt.Errorf("%w: %s", errors.Join(err, errors.New("ryed makes no token")), lastWords(out))
	}
	return url, said.Data.Token, nil
}
