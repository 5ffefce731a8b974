package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// MaxFetched is how many bytes a fetch may leave on the disk.
const MaxFetched = 2 << 30

const (
	maxTime   = time.Hour
	maxRefs   = 1 << 20 // bytes of an answer that names them
	maxErrors = 2 << 10
	leftover  = 24 * time.Hour
	tempName  = "git-"
)

// A Command is one start of the program git.
type Command struct {
	Args           []string // behind the program's name
	Env            []string // all of it
	Dir            string
	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer
}

// A Runner starts the program git and waits for it. It returns the exit status; an error says that there is none,
// because git isn't there or ctx is over. When ctx is over it is ended, with all that it has started.
type Runner func(ctx context.Context, c Command) (status int, err error)

// Options say what a client works with.
type Options struct {
	Run  Runner
	Dir  string            // for repositories while they are read; it is made, for this user alone
	Vars map[string]string // what git may know of this machine: PATH, proxies, whose certificates count
	// Reach returns the numbers at which the server of an address may be dialled, none where a proxy finds them; an
	// error is that it may not be.
	Reach func(ctx context.Context, address string) ([]netip.Addr, error)
}

// A Client reads repositories. It may be used by many goroutines at once.
type Client struct {
	o      Options
	mu     sync.Mutex
	recent bool // git was asked for its version
}

// New returns a client. It starts nothing.
func New(o Options) *Client { return &Client{o: o} }

// settings are those of every start. GIT_CONFIG_* keep out all others.
var settings = []string{
	"core.hooksPath=" + os.DevNull,
	"core.attributesFile=" + os.DevNull,
	"core.fsmonitor=false",
	"credential.helper=",
	"fetch.recurseSubmodules=false",
	"gc.auto=0",
	"http.followRedirects=false",
	"http.lowSpeedLimit=1000",
	"http.lowSpeedTime=30",
	"maintenance.auto=false",
	"protocol.version=2",
}

// environment is the whole environment of git.
func (c *Client) environment(dir string) []string {
	vars := maps.Clone(c.o.Vars)
	if vars == nil {
		vars = map[string]string{}
	}
	maps.Copy(vars, map[string]string{
		"GIT_ALLOW_PROTOCOL": "https", "GIT_PROTOCOL_FROM_USER": "0",
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.DevNull, "GIT_CONFIG_GLOBAL": os.DevNull,
		"GIT_ATTR_NOSYSTEM":   "1",
		"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0",
		"GIT_CEILING_DIRECTORIES": filepath.Dir(dir),
		"HOME":                    dir, "LC_ALL": "C",
	})
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// run starts git in a directory. What comes of it is in stdout.
func (c *Client) run(ctx context.Context, dir, address string, stdin io.Reader, stdout io.Writer,
	args ...string) error {
	var all []string
	for _, s := range settings {
		all = append(all, "-c", s)
	}
	if len(args) > 1 && args[0] == "-c" {
		all, args = append(all, args[:2]...), args[2:]
	}
	messages := &tail{}
	status, err := c.o.Run(ctx, Command{Args: append(all, args...), Env: c.environment(dir), Dir: dir, Stdin: stdin,
		Stdout: stdout, Stderr: messages})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case status != 0:
		return commandError(address, args[0], status, messages.text())
	}
	return nil
}

// network returns what has git dial the server of an address where it may be dialled, and nowhere else. A git that
// doesn't know the setting would look the name up itself.
func (c *Client) network(ctx context.Context, dir, address string, args ...string) ([]string, error) {
	if err := c.checkVersion(ctx, dir); err != nil {
		return nil, err
	}
	addresses, err := c.o.Reach(ctx, address)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if _, number := netip.ParseAddr(u.Hostname()); len(addresses) == 0 || number == nil {
		return args, nil
	}
	at := make([]string, len(addresses))
	for i, a := range addresses {
		if at[i] = a.String(); a.Is6() {
			at[i] = "[" + at[i] + "]"
		}
	}
	port := cmp.Or(u.Port(), "443")
	return append([]string{"-c", "http.curloptResolve=" + u.Hostname() + ":" + port + ":" + strings.Join(at, ",")},
		args...), nil
}

// firstMajor and firstMinor are the oldest version of git that does everything needed here.
const firstMajor, firstMinor = 2, 37

// checkVersion refuses a git that is too old, once.
func (c *Client) checkVersion(ctx context.Context, dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent {
		return nil
	}
	answer := &bounded{left: maxHeader}
	if err := c.run(ctx, dir, "", nil, answer, "version"); err != nil {
		return err
	}
	text := strings.TrimSpace(string(answer.b))
	var major, minor int
	if n, _ := fmt.Sscanf(text, "git version %d.%d", &major, &minor); n != 2 || major < firstMajor ||
		major == firstMajor && minor < firstMinor {
		return versionError(text)
	}
	c.recent = true
	return nil
}

// Resolve returns the commit that a revision is now: a branch or tag, by its name alone or from refs/ on; "" is what
// the repository shows first. What is no branch and no tag there is a *RevisionError, and fs.ErrNotExist; what is both
// is one too.
func (c *Client) Resolve(ctx context.Context, address, revision string) (string, error) {
	if err := checkAddress(address); err != nil {
		return "", err
	}
	patterns := []string{"HEAD"}
	switch {
	case strings.HasPrefix(revision, "refs/"):
		patterns = []string{revision, revision + peeled}
	case revision != "":
		patterns = []string{branches + revision, tags + revision, tags + revision + peeled}
	}
	dir, err := c.private()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, errTime)
	defer cancel()
	answer := &bounded{left: maxRefs}
	args, err := c.network(ctx, dir, address, append([]string{"ls-remote", "--quiet", "--", address}, patterns...)...)
	if err == nil {
		err = c.run(ctx, dir, address, nil, answer, args...)
	}
	if answer.over {
		err = limitError("the branches and tags of the repository", maxRefs)
	}
	if err != nil {
		return "", err
	}
	refs, err := parseRefs(answer.b)
	if err != nil {
		return "", commandError(address, "ls-remote", 0, err.Error())
	}
	return choose(refs, address, revision)
}

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
	peeled   = "^{}"
)

// choose finds the one commit that a revision is.
func choose(refs map[string]string, address, revision string) (string, error) {
	// What a tag of its own leads to comes before the tag.
	find := func(name string) string {
		if id := refs[name+peeled]; id != "" {
			return id
		}
		return refs[name]
	}
	switch {
	case revision == "":
		if id := refs["HEAD"]; id != "" {
			return id, nil
		}
		return "", revisionError(address, "")
	case strings.HasPrefix(revision, "refs/"):
		if id := find(revision); id != "" {
			return id, nil
		}
		return "", revisionError(address, revision)
	}
	branch, tag := refs[branches+revision], find(tags+revision)
	switch {
	case branch == "" && tag == "":
		return "", revisionError(address, revision)
	case branch != "" && tag != "" && branch != tag:
		return "", ambiguousError(address, revision)
	case branch != "":
		return branch, nil
	}
	return tag, nil
}

// parseRefs reads lines of a commit, a tab and a name.
func parseRefs(b []byte) (map[string]string, error) {
	refs := map[string]string{}
	for line := range bytes.Lines(b) {
		text, ended := strings.CutSuffix(string(line), "\n")
		id, name, ok := strings.Cut(text, "\t")
		if !ended || !ok || !isName(id) || name == "" {
			return nil, errors.New("the output is not a list of branches and tags")
		}
		if _, twice := refs[name]; twice {
			return nil, fmt.Errorf("the output names %+q twice", name)
		}
		refs[name] = id
	}
	return refs, nil
}

// isName reports whether a text can be the name of an object.
func isName(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// checkAddress keeps everything else away from git than what could be a repository of a server.
func checkAddress(address string) error {
	if !strings.HasPrefix(address, "https://") || strings.ContainsFunc(address, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return fault.New(fault.Validation, "%+q is not an https address of a repository", address)
	}
	return nil
}

// private makes a directory for one repository, and removes those that were left behind.
func (c *Client) private() (string, error) {
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(c.o.Dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), tempName) && time.Since(info.ModTime()) > leftover {
			os.RemoveAll(filepath.Join(c.o.Dir, e.Name()))
		}
	}
	return os.MkdirTemp(c.o.Dir, tempName)
}

// Fetch gets a commit. A server that doesn't have it, or doesn't give it, is an *Error.
func (c *Client) Fetch(ctx context.Context, address, commit string) (_ *Commit, err error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	if !isName(commit) {
		return nil, fault.New(fault.Validation, "%+q is not a commit id", commit)
	}
	dir, err := c.private()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	format := "sha1"
	if len(commit) == 64 {
		format = "sha256"
	}
	bare := filepath.Join(dir, "repository")
	timed, cancel := context.WithTimeoutCause(ctx, maxTime, errTime)
	defer cancel()
	if err := c.run(timed, dir, address, nil, io.Discard, "init", "--quiet", "--bare", "--template=",
		"--object-format="+format, "--", bare); err != nil {
		return nil, err
	}
	args, err := c.network(timed, dir, address, "fetch", "--quiet", "--depth=1", "--no-tags",
		"--no-recurse-submodules", "--no-write-fetch-head",
		"--no-auto-maintenance", "--", address, commit)
	if err != nil {
		return nil, err
	}
	watched, stop := watch(timed, bare, MaxFetched, time.Second/4)
	err = c.run(watched, bare, address, nil, io.Discard, args...)
	stop()
	if err != nil {
		return nil, err
	}
	return c.open(ctx, dir, bare, address, commit)
}

// watch returns a context that is over when a directory holds more than so many bytes.
func watch(ctx context.Context, dir string, limit int64, every time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if osfile.BytesIn(dir) > limit { // git removes files while this looks
				cancel(limitError("the download", limit))
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// A bounded buffer takes so many bytes, and then no more.
type bounded struct {
	b    []byte
	left int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.over = true
		return 0, errLong
	}
	b.left -= len(p)
	b.b = append(b.b, p...)
	return len(p), nil
}

// A tail keeps the end of what was written.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - maxErrors; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// text is the last lines, without those of git's advice.
func (t *tail) text() string {
	var lines []string
	for line := range strings.Lines(string(t.b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hint:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
