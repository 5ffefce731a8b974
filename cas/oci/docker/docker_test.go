package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
)

// What the file itself has counts where no helper is named, and the file stays as it was.
func TestFile(t *testing.T) {
	t.Parallel()
	const text = `{"auths": {"a.example": {"auth": "YWxpY2U6cGFzczp3b3Jk"}, 
		"b.example:5000": {"identitytoken": "token"},
		"https://index.docker.io/v1/": {"auth": "aHViOnB3"}, "broken.example": {"auth": "%"}, 
		"bare.example": {"auth": "Y2FuYXJ5"},
		"https://old.example/v1/": {"username": "u", "password": "canary"}}, "other": 1}`
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]oci.Credential{
		"a.example":            {User: "alice", Password: "pass:word"},
		"b.example:5000":       {Token: "token"},
		"b.example":            {},
		"registry-1.docker.io": {User: "hub", Password: "pw"},
		"docker.io":            {User: "hub", Password: "pw"},
		"old.example":          {User: "u", Password: "canary"},
	} {
		if got, err := Credential(t.Context(), path, host); err != nil || got != want {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
	for _, host := range []string{"broken.example", "bare.example"} {
		if _, err := Credential(t.Context(), path, host); fault.CodeOf(err) != fault.Config ||
			strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the file became %s, %v", got, err)
	}
}

// A file that isn't there knows nothing; what is no configuration is an error that names it.
func TestNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := Credential(t.Context(), filepath.Join(dir, "none"), "a.example"); err != nil ||
		got != (oci.Credential{}) {
		t.Errorf("none: %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"large":  strings.Repeat(" ", maxConfig+1),
		"list":   `["auths"]`,
		"number": `{"credsStore": 1}`,
		"path":   `{"credHelpers": {"a.example": "../evil"}}`,
		"space":  `{"credsStore": "evil helper"}`,
		"digits": `{"auths": {"a.example": {"password": 31337}}}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Credential(t.Context(), path, "a.example"); fault.CodeOf(err) != fault.Config ||
			!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "31337") {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Credential(t.Context(), empty, "a.example"); err != nil || got != (oci.Credential{}) {
		t.Errorf("empty: %+v, %v", got, err)
	}
	if _, err := Credential(t.Context(), dir, "a.example"); err == nil {
		t.Error("a directory is a configuration")
	}
}

// A helper that isn't there is named, with what to do.
func TestNoHelper(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"credHelpers": {"a.example": "not-there-1"}, "credsStore": "not-there-2"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"a.example": "not-there-1", "b.example": "not-there-2"} {
		_, err := Credential(t.Context(), path, host)
		if f := fault.Of(err); f.Code != fault.AuthRequired || !strings.Contains(f.Text, want) || len(f.Hint) != 1 ||
			!strings.Contains(f.Hint[0], host) {
			t.Errorf("%s: %+v", host, f)
		}
	}
}

// Whatever a configuration says, what is started is a name to be looked for in PATH.
func FuzzHelper(f *testing.F) {
	f.Add([]byte(`{"credsStore": "pass"}`), "a.example")
	f.Add([]byte(`{"credHelpers": {"a.example": "x/../y"}}`), "a.example")
	f.Fuzz(func(t *testing.T, text []byte, host string) {
		c, err := parse(text)
		if err != nil {
			return
		}
		helper, err := c.helper(host)
		if err == nil && (strings.ContainsAny(helper, "/\\: \x00") ||
			filepath.Base("docker-credential-"+helper) != "docker-credential-"+helper) {
			t.Errorf("%q starts %q", text, helper)
		}
	})
}
