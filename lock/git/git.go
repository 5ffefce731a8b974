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

// MaxFetched is how many bytes on disk a fetch may use.
const MaxFetched = 2 << 30

const (
	maxTime   = time.Hour
	maxRefs   = 1 << 20 // bytes of the list of refs
	maxErrors = 2 << 10
	leftover  = 24 * time.Hour
	tempName  = "git-"
)

// A Command is one run of the program git.
type Command struct {
	Args           []string // after the program's name
	Env            []string // the complete environment
	Dir            string
	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer
}

// A Runner runs the program git and waits for it. It returns the exit status, or an error if git is missing or ctx is
// over. When ctx is over, it ends git and all processes that git has started.
type Runner func(ctx context.Context, c Command) (status int, err error)

// Options configures a client.
type Options struct {
	Run  Runner
	Dir  string            // for repositories while they are read; created for this user alone
	Vars map[string]string // git's environment: PATH, proxies, certificates
	// Reach returns the IP addresses at which the server of an address may be dialled, or none if a proxy resolves
	// it; an error refuses the address.
	Reach func(ctx context.Context, address string) ([]netip.Addr, error)
}

// A Client reads repositories. It is safe for concurrent use.
type Client struct {
	o      Options
	mu     sync.Mutex
	recent bool // git's version was checked
}

// New returns a client. It starts nothing.
func New(o Options) *Client { return &Client{o: o} }

// settings apply to every run. GIT_CONFIG_* keep out all others.
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

// environment returns the whole environment of git.
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

// run runs git in a directory. Its output goes to stdout.
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

// network returns arguments that make git dial the server of an address only at the allowed IP addresses. A git that
// doesn't know the setting would resolve the name itself.
func (c *Client) network(ctx context.Context, dir, address string, args ...string) ([]string, error) {
	if err := c.checkVersion(ctx, dir); err != nil {
		return nil, err
	}
	addresses, err := c.o.Reach(ctx, address)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if _, number := netip.ParseAddr(target.Hostname()); len(addresses) == 0 || number == nil {
		return args, nil
	}
	at := make([]string, len(addresses))
	for i, a := range addresses {
		if at[i] = a.String(); a.Is6() {
			at[i] = "[" + at[i] + "]"
		}
	}
	port := cmp.Or(target.Port(), "443")
	return append([]string{"-c", "http.curloptResolve=" + target.Hostname() + ":" + port + ":" +
		strings.Join(at, ",")},
		args...), nil
}

// firstMajor and firstMinor are the oldest version of git with all required features.
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

// Resolve returns the current commit of a revision: a branch or tag, as a short name or beginning with refs/; "" is
// HEAD. An unknown revision is fs.ErrNotExist; a name of both a branch and a tag is ambiguous.
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

// choose finds the only commit of a revision.
func choose(refs map[string]string, address, revision string) (string, error) {
	// The commit of an annotated tag comes before the tag object.
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

// parseRefs parses lines of a commit, a tab and a name.
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

// isName reports whether a text can be an object's name.
func isName(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// checkAddress ensures that git sees only addresses that could be a server's repository.
func checkAddress(address string) error {
	if !strings.HasPrefix(address, "https://") || strings.ContainsFunc(address, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return fault.New(fault.Validation, "%+q is not an https address of a repository", address)
	}
	return nil
}

// private makes a directory for one repository, and removes leftovers of earlier processes.
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

// Fetch fetches a commit. If the server doesn't have or provide it, the error comes from git.
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

// watch returns a context that is cancelled when a directory holds more than limit bytes.
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
			if osfile.BytesIn(dir) > limit { // git may remove files concurrently
				cancel(limitError("the download", limit))
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// A bounded buffer accepts up to a number of bytes, and then fails.
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

// A tail keeps the end of its input.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - maxErrors; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// text returns the last lines, without git's hints.
func (t *tail) text() string {
	var lines []string
	for line := range strings.Lines(string(t.b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hint:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
