package git

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A repo is a repository, and a git that answers from it: as git does, but for what a test lets it say instead.
type repo struct {
	t       testing.TB
	sha256  bool
	objects map[string]object
	refs    [][2]string // names and commits

	mu      sync.Mutex
	version string
	started []Command                                // all that was
	answer  func(name string, o object) string       // instead of what cat-file says
	command func(name string, c Command) (int, bool) // instead of what git does
}

type object struct {
	kind string
	body []byte
}

func newRepo(t testing.TB) *repo { return &repo{t: t, objects: map[string]object{}} }

func (r *repo) add(kind string, body []byte) string {
	h := sha1.New()
	if r.sha256 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", kind, len(body))
	h.Write(body)
	name := hex.EncodeToString(h.Sum(nil))
	r.objects[name] = object{kind, body}
	return name
}

// commit makes a commit of files: "MODE PATH" and what is in them.
func (r *repo) commit(files map[string]string) string {
	return r.add("commit",
		fmt.Appendf(nil, "tree %s\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nmessage\n",
			r.tree(files)))
}

func (r *repo) tree(files map[string]string) string {
	below := map[string]map[string]string{}
	var lines []string
	line := func(mode, called, name string) {
		raw, err := hex.DecodeString(name)
		if err != nil {
			r.t.Fatal(err)
		}
		lines = append(lines, called+"\x00"+mode+" "+called+"\x00"+string(raw))
	}
	for key, text := range files {
		mode, name, _ := strings.Cut(key, " ")
		dir, rest, nested := strings.Cut(name, "/")
		switch {
		case nested:
			if below[dir] == nil {
				below[dir] = map[string]string{}
			}
			below[dir][mode+" "+rest] = text
		case mode == modeModule:
			line(mode, name, r.add("commit", []byte(text)))
		default:
			line(mode, name, r.add("blob", []byte(text)))
		}
	}
	for dir, files := range below {
		line(modeDir, dir, r.tree(files))
	}
	slices.Sort(lines)
	var body []byte
	for _, l := range lines {
		_, l, _ = strings.Cut(l, "\x00")
		body = append(body, l...)
	}
	return r.add("tree", body)
}

// run is a Runner.
func (r *repo) run(ctx context.Context, c Command) (int, error) {
	r.mu.Lock()
	r.started = append(r.started, c)
	r.mu.Unlock()
	args := c.Args
	for len(args) > 1 && args[0] == "-c" {
		args = args[2:]
	}
	if r.command != nil {
		if status, done := r.command(args[0], c); done {
			return status, nil
		}
	}
	switch args[0] {
	case "version":
		io.WriteString(c.Stdout, cmp.Or(r.version, "git version 2.37.0\n"))
	case "ls-remote":
		for _, ref := range r.refs {
			for _, pattern := range args[4:] {
				if ref[0] == pattern || strings.HasSuffix(ref[0], "/"+pattern) {
					fmt.Fprintf(c.Stdout, "%s\t%s\n", ref[1], ref[0])
				}
			}
		}
	case "init":
		return 0, os.Mkdir(args[len(args)-1], 0o700)
	case "fetch":
		if _, ok := r.objects[args[len(args)-1]]; !ok {
			fmt.Fprintln(c.Stderr, "fatal: remote error: upload-pack: not our ref "+args[len(args)-1])
			return 128, nil
		}
		return 0, os.WriteFile(filepath.Join(c.Dir, "pack"), []byte("x"), 0o600)
	case "cat-file":
		lines := bufio.NewScanner(c.Stdin)
		for lines.Scan() {
			o, ok := r.objects[lines.Text()]
			text := lines.Text() + " missing\n"
			if ok {
				text = fmt.Sprintf("%s %s %d\n%s\n", lines.Text(), o.kind, len(o.body), o.body)
			}
			if r.answer != nil {
				text = r.answer(lines.Text(), o)
			}
			if _, err := io.WriteString(c.Stdout, text); err != nil {
				return 141, nil
			}
		}
		if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			return -1, err
		}
		return 0, ctx.Err()
	default:
		r.t.Errorf("git %q was started", args)
	}
	return 0, nil
}

func (r *repo) client() *Client {
	return New(Options{Run: r.run, Dir: filepath.Join(r.t.TempDir(), "git"),
		Vars: map[string]string{"PATH": "/usr/bin", "HOME": "/home/alice"}, Reach: anywhere})
}

// anywhere lets every server be dialled.
func anywhere(context.Context, string) ([]netip.Addr, error) { return nil, nil }

const address = "https://git.acme.example/style.git"

// fetch fetches a commit, which the test closes at its end.
func fetch(t testing.TB, c *Client, id string) *Commit {
	t.Helper()
	k, err := c.Fetch(t.Context(), address, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// read reads a file of a commit.
func read(t testing.TB, k *Commit, name string, most int64) (string, bool, error) {
	var b strings.Builder
	exec, err := k.Copy(t.Context(), &b, path.Clean(name), most)
	return b.String(), exec, err
}
