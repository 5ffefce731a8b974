package captoken_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var (
	machine = keytest.Seeded(1)
	noon    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	lock    = cas.Sum([]byte("rye.lock"))
)

const (
	top   = "acme/plan-1795000000-a2b3c"
	child = "acme/step-1795000001-k3v9q"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func set(t testing.TB, texts ...string) capability.Set {
	t.Helper()
	s, err := capability.ParseSet(texts)
	must(t, err)
	return s
}

// fixed makes a token's bytes depend on nothing but what it says.
func fixed(t *captoken.Token, unique string) *captoken.Token {
	t.Unique = unique
	return t
}

// pair is a thread's token, and that of a child.
func pair(t testing.TB) (own, below *captoken.Token) {
	own = fixed(captoken.New(top, "directive:acme/plan", lock,
		set(t, "rye.execute.tool.acme.*", "rye.load.knowledge.*"), 10, noon, time.Hour), "aaaaaaaaaaaaaaaaaaaaaaaaaa")
	below = fixed(captoken.New(child, "directive:acme/step", lock, set(t, "rye.execute.tool.acme.echo"), 5, noon,
		30*time.Minute), "bbbbbbbbbbbbbbbbbbbbbbbbbb")
	return own, below
}

func use() captoken.Use {
	return captoken.Use{Machine: machine.Public(), Thread: child, Parent: top, Directive: "directive:acme/step",
		Set: lock, Now: noon.Add(time.Minute)}
}

// TestVectors: tokens have the bytes that they had, and are taken.
func TestVectors(t *testing.T) {
	own, below := pair(t)
	var none *captoken.Chain
	texts, err := none.Give(machine, own, below, noon)
	must(t, err)
	if len(texts) != 2 {
		t.Fatalf("%q", texts)
	}
	for i, name := range []string{"plan.token", "step.token"} {
		goldentest.File(t, filepath.Join("testdata", name), []byte(texts[i]))
	}
	c, err := captoken.Take(texts, use())
	must(t, err)
	if last := c.Last(); last.Thread != child || last.Depth != 5 ||
		last.Grants.Strings()[0] != "execute:tool:acme/echo" || last.Parent != own.ID ||
		!slices.Equal(c.Texts(), texts) || !last.Expires.Equal(noon.Add(30*time.Minute+time.Second)) {
		t.Errorf("%+v", last)
	}
}

// TestTime: a chain counts up to its end, and setting the clock changes nothing once it was taken.
func TestTime(t *testing.T) {
	own, below := pair(t)
	var none *captoken.Chain
	texts, err := none.Give(machine, own, below, noon)
	must(t, err)
	u := use()
	u.Now = time.Now() // years after or before
	if _, err := captoken.Take(texts, u); err == nil {
		t.Error("taken at another time")
	}
	now := time.Now()
	own, below = captoken.New(top, "directive:acme/plan", lock, set(t), 10, now, time.Hour),
		captoken.New(child, "directive:acme/step", lock, set(t), 5, now, 10*time.Second)
	texts, err = none.Give(machine, own, below, now)
	must(t, err)
	u.Now = now
	c, err := captoken.Take(texts, u)
	must(t, err)
	for after, ok := range map[time.Duration]bool{0: true, 9 * time.Second: true, 12 * time.Second: false,
		-time.Hour: true} {
		if err := c.Check(now.Add(after)); (err == nil) != ok || err != nil && fault.CodeOf(err) != fault.Expired {
			t.Errorf("after %s: %v", after, err)
		}
	}
	must(t, none.Check(now))
}

// TestRefused: what isn't exactly a chain for this thread is refused, with what is wrong.
func TestRefused(t *testing.T) {
	encode := func(k int, change func(*captoken.Token)) string {
		own, below := pair(t)
		tk := own
		if k > 0 {
			_, err := own.Encode(machine, noon)
			must(t, err)
			tk = below
			tk.Parent = own.ID
		}
		if change != nil {
			change(tk)
		}
		by := machine
		if k == 9 {
			by = keytest.Seeded(2)
		}
		text, err := tk.Encode(by, noon)
		must(t, err)
		return text
	}
	first, good := encode(0, nil), encode(1, nil)
	web := encode(0, func(t *captoken.Token) { t.Audience = "web" })
	token, err := captoken.Parse([]byte(web))
	must(t, err)
	webID := token.ID
	now := func(at time.Time) func(*captoken.Use) { return func(u *captoken.Use) { u.Now = at } }
	same := func(*captoken.Use) {}
	for name, c := range map[string]struct {
		texts []string
		use   func(*captoken.Use)
		code  fault.Code
		text  string
	}{
		"none":    {nil, same, fault.Denied, "no token"},
		"long":    {slices.Repeat([]string{first}, 17), same, fault.TooDeep, "at most 16"},
		"expired": {[]string{first, good}, now(noon.Add(31 * time.Minute)), fault.Expired, "has expired"},
		"early":   {[]string{first, good}, now(noon.Add(-time.Second)), fault.Denied, "doesn't count before"},
		"audience": {[]string{encode(0, func(t *captoken.Token) {
			t.Audience = "web"
		}), good}, same, fault.Denied, ""},
		"audiences": {[]string{encode(0, func(t *captoken.Token) {
			t.Audience = "web"
			t.Thread = child
			t.Directive = "directive:acme/step"
		})}, same, fault.Denied, `is for "web"`},
		"below another audience": {[]string{web, encode(1, func(t *captoken.Token) { t.Parent = webID })}, same,
			fault.Denied, "another lock or audience"},
		"alone": {[]string{encode(0, func(t *captoken.Token) {
			t.Thread = child
			t.Directive = "directive:acme/step"
		})}, same, fault.Denied, "was not given by"},
		"other thread": {[]string{first, good}, func(u *captoken.Use) {
			u.Thread = "acme/step-1-zzzzz"
		}, fault.Denied, "is for the thread"},
		"other directive": {[]string{first, good}, func(u *captoken.Use) {
			u.Directive = "directive:acme/other"
		}, fault.Denied, "directive:acme/other"},
		"other parent": {[]string{first, good}, func(u *captoken.Use) {
			u.Parent = "acme/plan-1-zzzzz"
		}, fault.Denied, "was not given by"},
		"no parent": {[]string{first, good}, func(u *captoken.Use) { u.Parent = "" }, fault.Denied, "was not given by"},
		"other set": {[]string{first, good}, func(u *captoken.Use) {
			u.Set = cas.Sum([]byte("x"))
		}, fault.LockMismatch, "another lock"},
		"no set": {[]string{first, encode(1, func(t *captoken.Token) {
			t.Set = cas.Digest{}
		})}, func(u *captoken.Use) { u.Set = cas.Digest{} }, fault.Denied, "another lock or audience"},
		"widened": {[]string{first, encode(1, func(x *captoken.Token) {
			x.Grants = set(t, "rye.execute.tool.acme.echo", "rye.sign.*")
		})}, same, fault.Denied, "grants sign:*"},
		"longer": {[]string{first, encode(1, func(t *captoken.Token) {
			t.Expires = noon.Add(2 * time.Hour)
		})}, same, fault.Denied, "longer"},
		"earlier": {[]string{first, encode(1, func(t *captoken.Token) {
			t.NotBefore = noon.Add(-time.Hour)
		})}, same, fault.Denied, "longer"},
		"deep": {[]string{first, encode(1, func(t *captoken.Token) {
			t.Depth = 10
		})}, same, fault.Denied, "levels"},
		"re-parented": {[]string{encode(0, func(t *captoken.Token) {
			t.Unique = "cccccccccccccccccccccccccc"
		}), good}, same, fault.Denied, "no chain"},
		"cut off":       {[]string{good}, same, fault.Denied, "has a parent"},
		"the parent's":  {[]string{first}, same, fault.Denied, "is for the thread"},
		"other machine": {[]string{first, encode(9, nil)}, same, fault.UntrustedKey, "unknown keys"},
		"unsigned":      {[]string{first, good[strings.Index(good, "\n")+1:]}, same, fault.Unsigned, ""},
		"changed":       {[]string{first, strings.Replace(good, "depth: 5", "depth: 6", 1)}, same, "", ""},
		"garbage":       {[]string{first, "x"}, same, fault.Parsing, "invalid token"},
	} {
		u := use()
		c.use(&u)
		_, err := captoken.Take(c.texts, u)
		if err == nil || c.code != "" && fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v (%s)", name, err, fault.CodeOf(err))
		}
	}
}

// TestGive: a chain that is given on is never wider, longer or deeper than it was, and has at most 16 tokens.
func TestGive(t *testing.T) {
	own, below := pair(t)
	var none *captoken.Chain
	texts, err := none.Give(machine, own, below, noon)
	must(t, err)
	u := use()
	c, err := captoken.Take(texts, u)
	must(t, err)
	self := captoken.New(child, "directive:acme/step", lock, below.Grants, 5, noon.Add(time.Minute), time.Hour)
	next := captoken.New(top, "directive:acme/step", lock, set(t, "rye.execute.tool.acme.echo"), 1000,
		noon.Add(time.Minute), 10*time.Hour)
	texts, err = c.Give(machine, self, next, noon)
	must(t, err)
	u.Thread, u.Parent = top, child
	if c, err = captoken.Take(texts, u); err != nil || c.Last().Depth != 4 || c.Last().Expires.After(below.Expires) {
		t.Errorf("%+v, %v", c, err)
	}
	wider := captoken.New(top, "directive:acme/step", lock, set(t, "rye.*"), 3, noon.Add(time.Minute), time.Minute)
	texts, err = c.Give(machine, self, wider, noon)
	must(t, err)
	if _, err := captoken.Take(texts, u); fault.CodeOf(err) != fault.Denied {
		t.Errorf("wider: %v", err)
	}
	// A thread that runs in the process of another one has a token of its own below that.
	inside := captoken.New("acme/mid-1795000002-b3c4d", "directive:acme/mid", lock,
		set(t, "rye.execute.tool.acme.echo"), 1000, noon.Add(time.Minute), 10*time.Hour)
	c, err = captoken.Take(texts[:2], use())
	must(t, err)
	texts, err = c.Give(machine, inside, captoken.New(top, "directive:acme/step", lock, inside.Grants, 1000,
		noon.Add(time.Minute), 10*time.Hour), noon)
	must(t, err)
	u.Parent = inside.Thread
	if c, err = captoken.Take(texts, u); err != nil || len(texts) != 4 || c.Last().Depth != 3 ||
		c.Last().Expires.After(below.Expires) {
		t.Errorf("%d tokens, %+v, %v", len(texts), c, err)
	}
}

// TestLongest: 16 threads below each other have a chain and 17 don't; a depth beyond the format's is cut.
// Otherwise a deep tree of threads, or a limit on levels that is a large number, can't start a thread.
func TestLongest(t *testing.T) {
	var c *captoken.Chain
	id := func(n int) string { return fmt.Sprintf("acme/step-179500000%d-a2b3c", n) }
	for n := 1; n <= captoken.MaxChain; n++ {
		token := func(n int) *captoken.Token {
			return captoken.New(id(n), "directive:acme/step", lock, set(t), captoken.MaxDepth+1, noon, time.Hour)
		}
		texts, err := c.Give(machine, token(n-1), token(n), noon)
		must(t, err)
		u := use()
		u.Thread, u.Parent = id(n), id(n-1)
		if next, err := captoken.Take(texts, u); n == captoken.MaxChain {
			if fault.CodeOf(err) != fault.TooDeep {
				t.Errorf("%d tokens: %v", len(texts), err)
			}
		} else if err != nil {
			t.Fatalf("%d tokens: %v", len(texts), err)
		} else if c = next; n == 1 && c.Last().Depth != captoken.MaxDepth-1 {
			t.Errorf("depth %d", c.Last().Depth)
		}
	}
}

// TestUnique: two tokens of one thread are two. What one of them was given for must not be taken for the other.
func TestUnique(t *testing.T) {
	a, b := captoken.New(top, "directive:acme/plan", lock, set(t), 1, noon, time.Hour),
		captoken.New(top, "directive:acme/plan", lock, set(t), 1, noon, time.Hour)
	if a.Unique == b.Unique || len(a.Unique) != 26 {
		t.Errorf("%q and %q", a.Unique, b.Unique)
	}
}

// TestInvalid: a document that says something in a form that no token is written in is refused, and so is a token that
// would be.
func TestInvalid(t *testing.T) {
	own, below := pair(t)
	var none *captoken.Chain
	texts, err := none.Give(machine, own, below, noon)
	must(t, err)
	line, body, _ := strings.Cut(texts[1], "\n")
	if _, err := captoken.Parse([]byte(body)); err != nil {
		t.Fatal(err)
	}
	zeros := "blake3:" + strings.Repeat("0", 64)
	for name, text := range map[string]string{
		"parent of zeros":   strings.Replace(body, own.ID.String(), zeros, 1),
		"lock of zeros":     strings.Replace(body, lock.String(), zeros, 1),
		"lock":              strings.Replace(body, lock.String(), "blake3:1", 1),
		"hour of one digit": strings.Replace(body, "T12:00:00Z", "T9:00:00Z", 1),
		"time":              strings.Replace(body, "2026-11-20T12:30:01Z", "soon", 1),
		"backwards":         strings.Replace(body, "2026-11-20T12:30:01Z", "2026-11-20T12:00:00Z", 1),
		"no name":           strings.Replace(body, `token: "bbbbbbbbbbbbbbbbbbbbbbbbbb"`, `token: ""`, 1),
		"no thread":         strings.Replace(body, `"`+child+`"`, `""`, 1),
		"directive":         strings.Replace(body, "directive:acme/step", "acme", 1),
		"grant":             strings.Replace(body, "execute:tool:acme/echo", "fly:tool:acme/echo", 1),
		"long grant":        strings.Replace(body, "execute:tool:acme/echo", "rye.execute.tool.acme.echo", 1),
		"signature":         line[:len(line)-1] + "\n" + body,
		"signed for others": line + "\n" + strings.Replace(body, "depth: 5", "depth: 6", 1),
		"more":              body + "more",
		"empty":             "",
	} {
		if text == body {
			t.Errorf("%s: nothing is replaced", name)
		}
		if _, err := captoken.Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "invalid token: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := captoken.New(strings.Repeat("a", 301), "directive:acme/step", lock, below.Grants, 5, noon, time.Hour)
	for name, give := range map[string]func() ([]string, error){
		"the child's thread is too long":  func() ([]string, error) { return none.Give(machine, own, long, noon) },
		"the parent's thread is too long": func() ([]string, error) { return none.Give(machine, long, below, noon) },
		"no directive": func() ([]string, error) {
			return none.Give(machine, captoken.New(top, "acme/plan", lock, own.Grants, 5, noon, time.Hour), below,
				noon)
		},
	} {
		if _, err := give(); err == nil {
			t.Errorf("%s: a chain is given", name)
		}
	}
}

// FuzzParse: a token that is read is written in the same bytes, and nothing makes Take panic.
func FuzzParse(f *testing.F) {
	own, below := pair(f)
	var none *captoken.Chain
	texts, err := none.Give(machine, own, below, noon)
	must(f, err)
	for _, text := range texts {
		f.Add([]byte(text))
		f.Add([]byte(text[strings.Index(text, "\n")+1:]))
	}
	f.Add([]byte("rye: \"token/2\"\n"))
	f.Add([]byte(strings.Replace(texts[1][strings.Index(texts[1], "\n")+1:], "execute:tool:acme/echo",
		"rye.execute.tool.acme.echo", 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = captoken.Take([]string{texts[0], string(b)}, use())
		tk, err := captoken.Parse(b)
		if err != nil {
			return
		}
		lines := tk.Signatures
		again := *tk
		text, err := again.Encode(machine, noon)
		must(t, err)
		body := []byte(text[strings.Index(text, "\n")+1:])
		if len(lines) == 0 && !bytes.Equal(body, b) || again.ID != tk.ID {
			t.Errorf("%q\nis written as\n%q", b, body)
		}
	})
}
