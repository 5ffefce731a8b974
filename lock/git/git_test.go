package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

func TestResolve(t *testing.T) {
	r := newRepo(t)
	var ids []string
	for i := range 6 {
		ids = append(ids, r.commit(map[string]string{"100644 a": fmt.Sprint(i)}))
	}
	r.refs = [][2]string{
		{"HEAD", ids[0]}, {"refs/heads/main", ids[0]}, {"refs/heads/team/next", ids[1]}, {"refs/tags/v1", ids[2]},
		{"refs/tags/v1^{}", ids[3]},
		{"refs/heads/both", ids[4]}, {"refs/tags/both", ids[5]}, {"refs/heads/same", ids[4]},
		{"refs/tags/same", ids[4]},
		{"refs/other/refs/heads/hidden", ids[1]},
	}
	c := r.client()
	for revision, want := range map[string]string{
		"": ids[0], "main": ids[0], "team/next": ids[1], "v1": ids[3], "refs/heads/main": ids[0],
		"refs/tags/v1": ids[3], "same": ids[4],
		"refs/heads/both": ids[4], "refs/tags/both": ids[5],
	} {
		if got, err := c.Resolve(t.Context(), address, revision); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", revision, got, err, want)
		}
	}
	for revision, both := range map[string]bool{"none": false, "both": true, "hidden": false,
		"refs/heads/none": false} {
		_, err := c.Resolve(t.Context(), address, revision)
		want := fault.NotFound
		if both {
			want = fault.Ambiguous
		}
		if f := fault.Of(err); f.Code != want || errors.Is(err, fs.ErrNotExist) == both ||
			f.Details["revision"] != revision {
			t.Errorf("%q: %v", revision, err)
		}
	}
	empty := newRepo(t)
	if _, err := empty.client().Resolve(t.Context(), address, ""); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != "the repository is empty" {
		t.Errorf("an empty repository: %v", err)
	}
	if left, err := os.ReadDir(c.o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestArguments looks at what git is started with: nothing of the caller's is ever an option, and nothing of the
// machine but what was named gets there.
func TestArguments(t *testing.T) {
	t.Setenv("GIT_SSH_COMMAND", "evil")
	r := newRepo(t)
	id := r.commit(map[string]string{"100644 a": "x"})
	r.refs = [][2]string{{"refs/heads/-x", id}}
	c := r.client()
	if _, err := c.Resolve(t.Context(), address, "-x"); err != nil {
		t.Fatal(err)
	}
	fetch(t, c, id).Close()
	if len(r.started) != 5 {
		t.Fatalf("git was started %d times", len(r.started))
	}
	for _, s := range r.started {
		for _, want := range []string{"GIT_ALLOW_PROTOCOL=https", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "PATH=/usr/bin"} {
			if !slices.Contains(s.Env, want) {
				t.Errorf("%q is missing in %q", want, s.Env)
			}
		}
		for _, v := range s.Env {
			if name, _, _ := strings.Cut(v, "="); name == "GIT_SSH_COMMAND" || v == "HOME=/home/alice" {
				t.Errorf("git gets %q", v)
			}
		}
		args := s.Args
		for len(args) > 1 && args[0] == "-c" {
			args = args[2:]
		}
		if at := slices.Index(args, address); at >= 0 && args[at-1] != "--" {
			t.Errorf("the address may be an option in %q", args)
		}
		if slices.Contains(args, "-x") {
			t.Errorf("the revision may be an option in %q", args)
		}
		for _, want := range []string{"core.hooksPath=" + os.DevNull, "credential.helper=",
			"http.followRedirects=false"} {
			if at := slices.Index(s.Args, want); at < 1 || s.Args[at-1] != "-c" {
				t.Errorf("%q is missing in %q", want, s.Args)
			}
		}
	}
	for _, bad := range []string{"--upload-pack=touch /tmp/x", "-x", "", "http://h/a", "ext::sh -c x", "file:///a",
		"/a", "git@h:a", "https://h/a b", "https://h/a\n", "https://h/ä"} {
		n := len(r.started)
		if _, err := c.Resolve(t.Context(), bad, "main"); err == nil || len(r.started) != n {
			t.Errorf("%q: %v", bad, err)
		}
		if _, err := c.Fetch(t.Context(), bad, id); err == nil || len(r.started) != n {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "main", "-x", id[:39], strings.ToUpper(id), id + "^{tree}"} {
		if _, err := c.Fetch(t.Context(), address, bad); err == nil {
			t.Errorf("the commit %q is fetched", bad)
		}
	}
}

func TestCopy(t *testing.T) {
	for _, long := range []bool{false, true} {
		r := newRepo(t)
		r.sha256 = long
		id := r.commit(map[string]string{
			"100644 a": "one\r\n", "100755 b/run": "two", "100664 old": "three", "100644 b/deep/er": "",
			"120000 link": "a", "120000 b/up": "..", "160000 module": "x",
		})
		k := fetch(t, r.client(), id)
		for name, want := range map[string]string{"a": "one\r\n", "b/run": "two", "old": "three", "b/deep/er": ""} {
			got, exec, err := read(t, k, name, 100)
			if err != nil || got != want || exec != (name == "b/run") {
				t.Errorf("%q: %q, %t, %v", name, got, exec, err)
			}
		}
		for name, want := range map[string]string{
			"none": `the commit has no file "none"`, "b/none": `the commit has no file "b/none"`,
			"a/b": `"a" is a file`, "b": `"b" is a directory`, "link": `"link" is a symbolic link`,
			"b/up/a": `"b/up" is a symbolic link`, "module": `"module" is a submodule, which rye does not fetch`,
			"module/x": `"module" is a submodule, which rye does not fetch`,
			"A":        `the commit has no file "A"`, strings.Repeat("b/", 40) + "x": "deeper than 32 directories",
		} {
			got, _, err := read(t, k, name, 100)
			if err == nil || !strings.Contains(err.Error(), want) || got != "" ||
				errors.Is(err, fs.ErrNotExist) != strings.HasPrefix(want, "the commit") {
				t.Errorf("%q: %q, %v", name, got, err)
			}
		}
		dir, err := k.Temp()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(t, k, "a", 4); err == nil || err.Error() != `"a": more than 4 bytes` {
			t.Errorf("five bytes of four: %v", err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the repository is still there: %v", err)
		}
		if _, _, err := read(t, k, "a", 100); err == nil {
			t.Error("a closed commit is read")
		}
	}
}

// TestLies has git say what isn't so. None of it becomes a file.
func TestLies(t *testing.T) {
	r := newRepo(t)
	id := r.commit(map[string]string{"100644 d/a": "honest"})
	blob, other := r.add("blob", []byte("honest")), r.add("blob", []byte("evil!!"))
	say := func(name string, o object) string {
		return fmt.Sprintf("%s %s %d\n%s\n", name, o.kind, len(o.body), o.body)
	}
	evil := r.add("tree", []byte("100644 a\x00"+strings.Repeat("x", 20)))
	lies := map[string]struct {
		about string // the object; "" is the commit
		text  string
		want  string
	}{
		"other bytes":      {blob, blob + " blob 6\nevil!!\n", "does not match"},
		"another object":   {blob, other + " blob 6\nevil!!\n", "unexpected output"},
		"another kind":     {blob, blob + " tree 6\nhonest\n", "expected a blob"},
		"a missing one":    {blob, blob + " missing\n", "missing"},
		"ambiguous":        {blob, blob + " ambiguous\n", "unexpected output"},
		"a negative size":  {blob, blob + " blob -6\nhonest\n", "unexpected output"},
		"a size with plus": {blob, blob + " blob +6\nhonest\n", "unexpected output"},
		"too large":        {blob, blob + " blob 9223372036854775807\nhonest\n", "more than 100 bytes"},
		"no end":           {blob, blob + " blob 6\nhonest!", "unexpected output"},
		"a long line":      {blob, strings.Repeat("x", 300) + "\n", "unexpected output"},
		"an endless line":  {blob, strings.Repeat("x", 100_000), "buffer full"},
		"another tree":     {r.objects[id].tree(), say(r.objects[id].tree(), r.objects[evil]), "does not match"},
		"another commit":   {id, say(id, object{"commit", []byte("tree " + evil + "\n")}), "does not match"},
		"a tag":            {id, id + " tag 3\nabc\n", "expected a commit"},
	}
	for name, lie := range lies {
		r.answer = func(asked string, o object) string {
			if asked == lie.about {
				return lie.text
			}
			return say(asked, o)
		}
		c := r.client()
		k, err := c.Fetch(t.Context(), address, id)
		if lie.about != id {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, _, err = read(t, k, "d/a", 100)
			k.Close()
		}
		if err == nil || !strings.Contains(err.Error(), lie.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(c.o.Dir); len(left) > 0 {
			t.Errorf("%s: left: %v", name, left)
		}
	}
	r.answer = nil
	for name, body := range map[string]string{"no tree": "author\n", "half a tree": "tree 0123\n", "nothing": ""} {
		if _, err := r.client().Fetch(t.Context(), address, r.add("commit", []byte(body))); !errors.Is(err,
			errCommit) {
			t.Errorf("a commit with %s: %v", name, err)
		}
	}
	raw := strings.Repeat("x", 20)
	for name, body := range map[string]string{
		"twice": "100644 a\x00" + raw + "100755 a\x00" + raw, "no name": "100644 \x00" + raw,
		"a slash": "100644 a/b\x00" + raw, "cut": "100644 a\x00" + raw[:19],
		"no NUL": "100644 a", "no mode": "a", "a device": "060000 a\x00" + raw, "mode": "0100644 a\x00" + raw,
	} {
		tree := r.add("tree", []byte(body))
		k := fetch(t, r.client(), r.add("commit", []byte("tree "+tree+"\n")))
		if _, _, err := read(t, k, "a", 100); !errors.Is(err, errTree) {
			t.Errorf("a tree with %s: %v", name, err)
		}
	}
}

func (o object) tree() string { return string(o.body[len("tree "):][:40]) }

func TestErrors(t *testing.T) {
	r := newRepo(t)
	id := r.commit(map[string]string{"100644 a": "x"})
	c := r.client()
	unreachable := strings.Repeat("a", 40)
	_, err := c.Fetch(t.Context(), address, unreachable)
	if f := fault.Of(err); f.Code != fault.Registry || f.Details["status"] != 128 ||
		f.Text != `git fetch failed (exit status 128): "fatal: remote error: upload-pack: not our ref `+unreachable+
			`"` {
		t.Errorf("an unreachable commit: %v", err)
	}
	ends := func(name string, status int, said string) func(string, Command) (int, bool) {
		return func(started string, c Command) (int, bool) {
			if started != name {
				return 0, false
			}
			if said != "" { // a pipe waits for a reader
				io.WriteString(c.Stdout, said)
			}
			io.WriteString(c.Stderr, strings.Repeat("x", 3000)+"\nhint: do this\n\nfatal: \x1b[31mno\n")
			return status, true
		}
	}
	for _, name := range []string{"init", "fetch", "cat-file"} {
		r.command = ends(name, 3, "")
		_, err := c.Fetch(t.Context(), address, id)
		f := fault.Of(err)
		if f.Details["status"] != 3 || !strings.HasPrefix(f.Text, "git "+name+" failed") ||
			len(f.Text) > maxErrors+100 || !strings.HasSuffix(f.Text, `; fatal: \x1b[31mno"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.command = ends("cat-file", 0, "")
	if _, err := c.Fetch(t.Context(), address, id); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("git ends early: %v", err)
	}
	for name, said := range map[string]string{
		"no list": "hello\n", "no end": id + "\trefs/heads/main", "no tab": id + " refs/heads/main\n",
		"no name": id + "\t\n", "half a commit": id[:30] + "\trefs/heads/main\n",
		"twice":     id + "\trefs/heads/main\n" + unreachable + "\trefs/heads/main\n",
		"very much": strings.Repeat(id+"\trefs/heads/x\n", 30_000),
	} {
		r.command = ends("ls-remote", 0, said)
		if got, err := c.Resolve(t.Context(), address, "main"); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	r.command = ends("ls-remote", 128, "")
	if _, err := c.Resolve(t.Context(), address, "main"); err == nil {
		t.Error("a repository that isn't there has a branch")
	}
	gone := errors.New("there is no git")
	broken := New(Options{Dir: t.TempDir(), Reach: anywhere, Run: func(context.Context, Command) (int, error) {
		return -1, gone
	}})
	if _, err := broken.Resolve(t.Context(), address, ""); !errors.Is(err, gone) {
		t.Errorf("without git: %v", err)
	}
	if left, err := os.ReadDir(c.o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := New(Options{Dir: file, Run: r.run, Reach: anywhere})
	if _, err := nowhere.Resolve(t.Context(), address, ""); err == nil {
		t.Error("a file is a directory")
	}
	if _, err := nowhere.Fetch(t.Context(), address, id); err == nil {
		t.Error("a file is a directory")
	}
}

// TestCancel breaks off while git works, and while it answers.
func TestCancel(t *testing.T) {
	r := newRepo(t)
	id := r.commit(map[string]string{"100644 a": "x"})
	for _, name := range []string{"ls-remote", "fetch"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := New(Options{Dir: t.TempDir(), Reach: anywhere, Run: func(ctx context.Context, k Command) (int, error) {
			if slices.Contains(k.Args, name) {
				cancel(errTime)
				<-ctx.Done()
				return -1, ctx.Err()
			}
			return r.run(ctx, k)
		}})
		var err error
		if name == "fetch" {
			_, err = c.Fetch(ctx, address, id)
		} else {
			_, err = c.Resolve(ctx, address, "")
		}
		if !errors.Is(err, errTime) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(c.o.Dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	k := fetch(t, r.client(), id)
	ctx, cancel := context.WithCancelCause(t.Context())
	silent := make(chan struct{})
	r.answer = func(string, object) string { cancel(errTime); <-silent; return "" }
	_, err := k.Copy(ctx, io.Discard, "a", 10)
	close(silent)
	if !errors.Is(err, errTime) {
		t.Errorf("while git answers: %v", err)
	}
}

// TestWatch has a fetch end that becomes too large.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := watch(t.Context(), dir, 100, time.Millisecond)
	defer stop()
	if err := os.WriteFile(filepath.Join(dir, "pack"), make([]byte, 101), 0o600); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if f := fault.Of(context.Cause(ctx)); f.Code != fault.Limit || f.Details["limit"] != int64(100) {
		t.Errorf("over because %v", context.Cause(ctx))
	}
	ctx, stop = watch(t.Context(), dir, 101, time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	if ctx.Err() != nil {
		t.Errorf("over at the limit: %v", context.Cause(ctx))
	}
	stop()
	if ctx.Err() == nil {
		t.Error("it goes on")
	}
}

// TestLeftovers removes what a process has left that died, and nothing younger.
func TestLeftovers(t *testing.T) {
	r := newRepo(t)
	c := r.client()
	for name, age := range map[string]time.Duration{"git-old": 25 * time.Hour, "git-new": time.Hour,
		"other": 100 * time.Hour} {
		dir := filepath.Join(c.o.Dir, name)
		if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Resolve(t.Context(), address, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(c.o.Dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if err != nil || !slices.Equal(left, []string{"git-new", "other"}) {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestReach has git dial where it may, and nowhere else.
func TestReach(t *testing.T) {
	r := newRepo(t)
	id := r.commit(map[string]string{"100644 a": "x"})
	r.refs = [][2]string{{"HEAD", id}}
	no := errors.New("it is inside")
	c := New(Options{Run: r.run, Dir: t.TempDir(),
		Reach: func(_ context.Context, address string) ([]netip.Addr, error) {
			switch {
			case strings.Contains(address, "inside"):
				return nil, no
			case strings.Contains(address, "proxied"):
				return nil, nil
			}
			return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2001:4860:4860::8888")}, nil
		}})
	for place, want := range map[string]string{
		"https://a.example/r":       "http.curloptResolve=a.example:443:8.8.8.8,[2001:4860:4860::8888]",
		"https://a.example:8443/r":  "http.curloptResolve=a.example:8443:8.8.8.8,[2001:4860:4860::8888]",
		"https://proxied.example/r": "", "https://8.8.8.8/r": "",
	} {
		r.started = nil
		if _, err := c.Resolve(t.Context(), place, ""); err != nil {
			t.Fatal(err)
		}
		k, err := c.Fetch(t.Context(), place, id)
		if err != nil {
			t.Fatal(err)
		}
		k.Close()
		told := 0
		for _, s := range r.started {
			at := slices.IndexFunc(s.Args, func(a string) bool { return strings.HasPrefix(a, "http.curloptResolve=") })
			if at >= 0 && s.Args[at] == want && s.Args[at-1] == "-c" {
				told++
			} else if at >= 0 {
				t.Errorf("%s: %q", place, s.Args)
			}
		}
		if want != "" && told != 2 || want == "" && told != 0 {
			t.Errorf("%s: git was told %d times", place, told)
		}
	}
	r.started = nil
	if _, err := c.Resolve(t.Context(), "https://inside.example/r", ""); err != no {
		t.Errorf("inside: %v", err)
	}
	if _, err := c.Fetch(t.Context(), "https://inside.example/r", id); err != no {
		t.Errorf("inside: %v", err)
	}
	for _, s := range r.started {
		if slices.Contains(s.Args, "https://inside.example/r") {
			t.Errorf("git was started: %q", s.Args)
		}
	}
	if _, err := c.Resolve(t.Context(), "https://[::1/r", ""); err == nil {
		t.Error("half an address is one")
	}
}

// TestVersion refuses a git that would ignore its options.
func TestVersion(t *testing.T) {
	r := newRepo(t)
	r.refs = [][2]string{{"HEAD", r.commit(map[string]string{"100644 a": "x"})}}
	for version, old := range map[string]bool{
		"git version 2.37.0\n": false, "git version 2.39.5 (Apple Git-154)\n": false,
		"git version 3.0.windows.1\n": false,
		"git version 2.36.9\n":        true, "git version 1.99\n": true, "hello\n": true, "\n": true,
		strings.Repeat("x", 1000): true,
	} {
		r.version = version
		_, err := r.client().Resolve(t.Context(), address, "")
		if (err != nil) != old {
			t.Errorf("%q: %v", version, err)
		}
		if old && (fault.CodeOf(err) != fault.Unavailable || len(version) < 100 &&
			fault.Of(err).Details["found"] != strings.TrimSpace(version)) {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	raw := strings.Repeat("x", 20)
	f.Add([]byte(strings.Repeat("a", 40) + "\trefs/heads/main\n"))
	f.Add([]byte("100644 a\x00" + raw + "40000 b\x00" + raw))
	f.Add([]byte(strings.Repeat("a", 40) + " blob 12\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if refs, err := parseRefs(b); err == nil {
			for name, id := range refs {
				if !strings.Contains(string(b), id+"\t"+name+"\n") {
					t.Errorf("%q has no %s %s", b, id, name)
				}
			}
		}
		if tree, err := parseTree(b, 20); err == nil {
			var n int
			for name, e := range tree {
				n += len(name) + len(e.mode) + 22
			}
			if n != len(b) {
				t.Errorf("%d of %d bytes are entries", n, len(b))
			}
		}
		name, _, _ := strings.Cut(string(b), " ")
		if size, err := parseHeader(string(b), name, "blob"); err == nil &&
			(size < 0 || string(b) != fmt.Sprintf("%s blob %d\n", name, size)) {
			t.Errorf("%q is a header of %d bytes", b, size)
		}
	})
}
