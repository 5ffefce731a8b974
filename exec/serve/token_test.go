package serve_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/serve"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 5, time.UTC)

func store(t *testing.T) *serve.Tokens {
	return &serve.Tokens{Dir: filepath.Join(t.TempDir(), "state", "serve"), Now: func() time.Time { return now }}
}

func add(t *testing.T, s *serve.Tokens, tok serve.Token) string {
	t.Helper()
	if tok.Scopes == nil {
		tok.Scopes = []serve.Scope{serve.Call}
	}
	secret, err := s.Add(t.Context(), tok)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestStore(t *testing.T) {
	s := store(t)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	b := add(t, s, serve.Token{Name: "b", Tenant: "acme",
		Expires: now.Add(time.Hour).In(time.FixedZone("east", 3600))})
	a := add(t, s, serve.Token{Name: "a", Scopes: []serve.Scope{serve.Call, serve.Admin}})
	if a == b || len(a) != 47 || !strings.HasPrefix(a, "rye_") {
		t.Error(a, b)
	}
	all, err := s.List()
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Tenant != "acme" ||
		all[1].Created != now.Truncate(time.Second) || !all[0].Expires.IsZero() ||
		all[1].Expires != now.Truncate(time.Second).Add(time.Hour) {
		t.Fatal(all, err)
	}
	path := filepath.Join(s.Dir, "tokens.json")
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), a[4:]) || strings.Contains(string(text), b[4:]) {
		t.Errorf("%s, %v", text, err)
	}
	if fi, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Error(fi.Mode(), err)
	}
	got, err := s.Check(a)
	if err != nil || got.Name != "a" || !got.Has(serve.Admin) || got.Has(serve.Approve) || !s.Valid(got) {
		t.Error(got, err)
	}
	other := &serve.Tokens{Dir: s.Dir, Now: s.Now} // as another process
	if err := other.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if s.Valid(got) {
		t.Error("a removed token is valid")
	}
	add(t, other, serve.Token{Name: "a"})
	if s.Valid(got) {
		t.Error("another token of the same name counts as the removed one")
	}
	for _, secret := range []string{a, "", "rye_", "rye_" + strings.Repeat("A", 43), b + "A", b[:46],
		strings.ToUpper(b), "Bearer " + b} {
		got, err := s.Check(secret)
		if fault.CodeOf(err) != fault.AuthFailed || got != nil || len(secret) > 10 &&
			strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, %v", secret, got, err)
		}
	}
	late := &serve.Tokens{Dir: s.Dir, Now: func() time.Time { return now.Add(time.Hour) }}
	if _, err := s.Check(b); err != nil {
		t.Error(err)
	}
	if _, err := late.Check(b); fault.CodeOf(err) != fault.AuthFailed || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
	if late.Valid(&all[1]) {
		t.Error("an expired token is valid")
	}
}

func TestRefused(t *testing.T) {
	s := store(t)
	add(t, s, serve.Token{Name: "ci"})
	call := []serve.Scope{serve.Call}
	for _, c := range []struct {
		token serve.Token
		code  fault.Code
	}{
		{serve.Token{Name: "ci", Scopes: call}, fault.Conflict},
		{serve.Token{Name: "", Scopes: call}, fault.Validation},
		{serve.Token{Name: "a b", Scopes: call}, fault.Validation},
		{serve.Token{Name: strings.Repeat("a", 65), Scopes: call}, fault.Validation},
		{serve.Token{Name: "a", Tenant: "\x1b", Scopes: call}, fault.Validation},
		{serve.Token{Name: "a"}, fault.Validation},
		{serve.Token{Name: "a", Scopes: []serve.Scope{"root"}}, fault.Validation},
		{serve.Token{Name: "a", Scopes: []serve.Scope{serve.Call, serve.Call}}, fault.Validation},
	} {
		if secret, err := s.Add(t.Context(), c.token); fault.CodeOf(err) != c.code || secret != "" && err == nil {
			t.Errorf("%+v: %v", c.token, err)
		}
	}
	if err := s.Remove(t.Context(), "cl"); fault.CodeOf(err) != fault.NotFound ||
		!strings.Contains(strings.Join(fault.Of(err).Why, ""), "ci") {
		t.Error(err)
	}
}

// TestDamaged: a file that others may read, or that says something else, opens nothing.
func TestDamaged(t *testing.T) {
	s := store(t)
	secret := add(t, s, serve.Token{Name: "ci"})
	path := filepath.Join(s.Dir, "tokens.json")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{}", "null", "[]", string(good) + "\n", string(good[:len(good)-1]),
		strings.Replace(string(good), "rye-tokens/1", "rye-tokens/2", 1),
		strings.Replace(string(good), "call", "root", 1), strings.Replace(string(good), "blake3:", "sha256:", 1),
		strings.Replace(string(good), `"ci"`, `" "`, 1),
		strings.Replace(string(good), `"name"`, `"Name"`, 1),
		strings.Replace(string(good), `"tokens":[`,
			`"tokens":[`+string(good[strings.Index(string(good), `[{`)+1:len(good)-2])+",", 1),
		strings.Repeat(" ", 1<<20+1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Check(secret); err == nil || fault.CodeOf(err) != fault.Parsing {
			t.Errorf("%.60q: %v, %v", text, got, err)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(secret); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, change := range []func() error{
		func() error { return os.Chmod(path, 0o644) }, func() error { return os.Chmod(path, 0o600) },
		func() error { return os.Chmod(s.Dir, 0o755) }, func() error { return os.Chmod(s.Dir, 0o700) },
		func() error { return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path)) },
	} {
		before := change()
		_, err := (&serve.Tokens{Dir: s.Dir, Now: s.Now}).Check(secret)
		fi, _ := os.Lstat(path)
		dir, _ := os.Lstat(s.Dir)
		safe := fi.Mode() == 0o600 && dir.Mode().Perm() == 0o700
		if before != nil || (err == nil) != safe || err != nil && fault.CodeOf(err) != fault.Denied {
			t.Error(fi.Mode(), dir.Mode(), before, err)
		}
	}
}

// TestLeft: a call that waited for its approval is made only if its caller's token still opens calls. Otherwise a
// person whose token was taken away gets what they asked for before.
func TestLeft(t *testing.T) {
	s := store(t)
	add(t, s, serve.Token{Name: "ci", Tenant: "acme", Expires: now.Add(time.Hour)})
	add(t, s, serve.Token{Name: "approver", Tenant: "acme", Scopes: []serve.Scope{serve.Approve}})
	late := &serve.Tokens{Dir: s.Dir, Now: func() time.Time { return now.Add(time.Hour) }}
	for _, c := range []struct {
		tokens            *serve.Tokens
		principal, tenant string
		asked             time.Time
		made              bool
	}{
		{s, "ann", "", now, true},
		{s, "token:ci", "acme", now, true},
		{s, "token:ci", "acme", now.Truncate(time.Second), true},
		{s, "token:ci", "acme", now.Add(-time.Minute), false}, // the name was another token's
		{s, "token:ci", "other", now, false},
		{s, "token:approver", "acme", now, false},
		{s, "token:gone", "acme", now, false},
		{late, "token:ci", "acme", now, false},
	} {
		why, err := serve.Left(c.tokens, c.principal, c.tenant, c.asked)
		if err != nil || (why == "") != c.made {
			t.Errorf("%s of %q at %s: %q, %v", c.principal, c.tenant, c.asked, why, err)
		}
	}
	if got, err := s.Find("ci"); err != nil || got == nil || got.Name != "ci" {
		t.Error(got, err)
	}
	damage(t, s.Dir)
	if why, err := serve.Left(s, "token:ci", "acme", now); err == nil || why != "" {
		t.Errorf("the tokens can't be read: %q, %v", why, err)
	}
}

// TestSeen: a server that has read the tokens sees each change of the file, also within one tick of its clock. A token
// that was removed opens it otherwise.
func TestSeen(t *testing.T) {
	s := store(t)
	secret := add(t, s, serve.Token{Name: "ci"})
	other := store(t)
	add(t, other, serve.Token{Name: "ci"})
	path, from := filepath.Join(s.Dir, "tokens.json"), filepath.Join(other.Dir, "tokens.json")
	mine, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(from)
	if err != nil || len(theirs) != len(mine) {
		t.Fatal(len(theirs), err)
	}
	same := func(path string) error { return os.Chtimes(path, now, now) }
	for name, change := range map[string]func() error{
		"another file":    func() error { return errors.Join(same(from), os.Rename(from, path)) },
		"another content": func() error { return os.WriteFile(path, theirs, 0o600) },
		"another size": func() error {
			return errors.Join(os.WriteFile(path, append(theirs, '\n'), 0o600), same(path))
		},
		"for all to read": func() error {
			if runtime.GOOS == "windows" {
				return os.Remove(path)
			}
			return os.Chmod(path, 0o644)
		},
		"none": func() error { return os.Remove(path) },
	} {
		if err := errors.Join(os.WriteFile(from, theirs, 0o600), os.RemoveAll(path), os.WriteFile(path, mine, 0o600),
			same(path)); err != nil {
			t.Fatal(err)
		}
		s := &serve.Tokens{Dir: s.Dir, Now: s.Now}
		if _, err := s.Check(secret); err != nil {
			t.Fatalf("%s: before it %v", name, err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check(secret); err == nil {
			t.Errorf("%s: the old token is valid", name)
		}
	}
}

// TestMostTokens: there are a thousand tokens at most, in the file too.
func TestMostTokens(t *testing.T) {
	s := store(t)
	secret := add(t, s, serve.Token{Name: "ci"})
	path := filepath.Join(s.Dir, "tokens.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(n int) {
		first := strings.Index(string(text), "{\"created") // the one token
		one := string(text[first : len(text)-2])
		var all []string
		for i := range n - 1 {
			all = append(all, strings.Replace(one, `"ci"`, fmt.Sprintf(`"a%06d"`, i), 1))
		}
		whole := string(text[:first]) + strings.Join(append(all, one), ",") + string(text[len(text)-2:])
		if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill(serve.MostTokens)
	if _, err := s.Check(secret); err != nil {
		t.Error(err)
	}
	if _, err := s.Add(t.Context(), serve.Token{Name: "b", Scopes: []serve.Scope{serve.Call}}); fault.CodeOf(err) !=
		fault.Limit {
		t.Error(err)
	}
	fill(serve.MostTokens + 1)
	if _, err := s.Check(secret); fault.CodeOf(err) != fault.Parsing {
		t.Error(err)
	}
}

// TestMany: processes that add tokens at once lose none.
func TestMany(t *testing.T) {
	s := store(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			own := &serve.Tokens{Dir: s.Dir, Now: s.Now}
			if _, err := own.Add(t.Context(), serve.Token{Name: string(rune('a' + i)),
				Scopes: []serve.Scope{serve.Call}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if all, err := s.List(); err != nil || len(all) != 8 {
		t.Error(all, err)
	}
}
