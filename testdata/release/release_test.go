package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestRelease: two releases of one commit for this machine, built in other places, are the same files. dpkg reads and
// installs the package, the installed program runs, mandoc has no warning for the man pages, and the commands of
// "rye docs install" verify the download.
func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Fatal("needs Linux with dpkg, mandoc, openssl and b3sum")
	}
	dir := t.TempDir()
	r := release{revision: "HEAD", platforms: []platform{host}}
	outs, err := r.twice(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var made [2]map[string][]byte
	for i, out := range outs {
		if made[i], err = readAll(out); err != nil {
			t.Fatal(err)
		}
	}
	if err := same(made[0], made[1]); err != nil || len(made[0]) != 9 {
		t.Fatalf("%d files, %v", len(made[0]), err)
	}
	r.out = outs[0]
	home := filepath.Join(dir, "home")
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = r.out, append(os.Environ(), homeVariables(home)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	packages, _ := filepath.Glob(filepath.Join(r.out, "*.deb"))
	if len(packages) != 1 {
		t.Fatalf("%d packages", len(packages))
	}
	if info := run("dpkg-deb", "-I", packages[0]); !strings.Contains(info, "Package: rye\n") ||
		strings.Contains(info, "Depends:") {
		t.Error(info)
	}
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", "info"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var", "lib", "dpkg", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("dpkg", "--root="+root, "--force-not-root", "--force-bad-path", "--log=/dev/null", "-i", packages[0])
	if wrong := run("dpkg", "--root="+root, "--verify", "rye"); wrong != "" {
		t.Errorf("dpkg --verify: %s", wrong)
	}
	rye := filepath.Join(root, "usr", "bin", "rye")
	built := run(rye, "version")
	if !strings.HasPrefix(built, "rye ") || !strings.Contains(built, "-trimpath=true") {
		t.Error(built)
	}
	pages, _ := filepath.Glob(filepath.Join(root, "usr", "share", "man", "man1", "*.1.gz"))
	if len(pages) < 100 {
		t.Errorf("%d man pages", len(pages))
	}
	run("gzip", append([]string{"-d"}, pages...)...)
	for i := range pages {
		pages[i] = strings.TrimSuffix(pages[i], ".gz")
	}
	if lint := run("mandoc", append([]string{"-Tlint", "-Wwarning"}, pages...)...); lint != "" {
		t.Error(lint)
	}
	// A page says what --help says.
	page := unbold(run("mandoc", "-Tutf8", "-Owidth=200", filepath.Join(filepath.Dir(pages[0]), "rye-exec.1")))
	for line := range strings.Lines(run(rye, "exec", "--help")) {
		if strings.HasPrefix(line, "Global flags:") {
			break
		}
		for word := range strings.FieldsSeq(strings.TrimSuffix(strings.TrimPrefix(line, "Usage:"), ":\n")) {
			if !strings.Contains(strings.ToLower(page), strings.ToLower(word)) {
				t.Errorf("%q of rye exec --help isn't in its man page", word)
			}
		}
	}
	// The commands of the documentation verify this release, and refuse a download that was changed.
	version := strings.Fields(built)[1]
	name := "rye_" + version + "_linux_" + runtime.GOARCH
	here := strings.NewReplacer("VERSION=1.4.0", "VERSION="+version, "rye@1.4.0", "rye@"+version,
		"rye_1.4.0_linux_amd64", name, "trust add", "trust add --yes")
	path := "PATH=" + filepath.Dir(rye) + ":" + os.Getenv("PATH")
	verify := func(title string) (string, error) {
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", here.Replace(shown(t, title)))
		cmd.Dir, cmd.Env = r.out, append(append(os.Environ(), homeVariables(home)...), path)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	archive := filepath.Join(r.out, name+".tar.gz")
	good := made[0][filepath.Base(archive)]
	if err := os.WriteFile(archive, append(good[:len(good):len(good)], 0), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := verify("Verify without rye"); err == nil || !strings.Contains(out, "FAILED") {
		t.Errorf("a changed archive: %v\n%s", err, out)
	}
	if err := os.WriteFile(archive, good, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{"Verify without rye", "Verify with rye"} {
		if out, err := verify(title); err != nil || !strings.Contains(out, filepath.Base(archive)) {
			t.Errorf("%s: %v\n%s", title, err, out)
		}
	}
}

// shown returns the commands that a section of "rye docs install" shows.
func shown(t *testing.T, title string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "ai", "std", ".ai", "knowledge", "rye", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var lines strings.Builder
	fenced := false
	for line := range strings.Lines(section) {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case indented || fenced:
			lines.WriteString(code)
		}
	}
	if lines.Len() == 0 {
		t.Fatalf("the section %q shows no commands", title)
	}
	return lines.String()
}

// unbold removes the overstriking by which mandoc prints bold text.
func unbold(text string) string {
	for {
		i := strings.IndexByte(text, '\b')
		if i < 1 {
			return text
		}
		text = text[:i-1] + text[i+1:]
	}
}

// TestArchives: archives depend on names, modes, bytes and the time alone, and have nothing of this machine.
func TestArchives(t *testing.T) {
	files := []file{{"a/rye", 0o755, []byte("program")}, {"a/b/page", 0o644, []byte("page")}}
	when := time.Unix(1_800_000_000, 0)
	tarball, err := tarOf(files, when, true)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(tarball)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || !h.ModTime.Equal(when) {
			t.Fatalf("%v, %v", h, err)
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "./a/ ./a/rye ./a/b/ ./a/b/page" {
		t.Error(got)
	}
	packed, err := gzipped(tarball)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil || z.Name != "" || !z.ModTime.IsZero() {
		t.Errorf("%v, %v", z, err)
	}
	if ar := arOf([]file{{"odd", 0o644, []byte("x")}, {"even", 0o644, []byte("xy")}}, when); len(ar) != 8+60+2+60+2 {
		t.Errorf("%d bytes", len(ar))
	}
	if v := debianVersion("1.4.0-rc.1"); v != "1.4.0~rc.1" {
		t.Error(v)
	}
}

// TestSame: a file that differs or that only one of two releases has is named.
func TestSame(t *testing.T) {
	one := map[string][]byte{"a": []byte("a"), "b": []byte("b"), "c": nil}
	two := map[string][]byte{"a": []byte("a"), "b": []byte("x"), "d": nil}
	if err := same(one, two); err == nil || !strings.HasSuffix(err.Error(), "differ in b, c, d") {
		t.Error(err)
	}
	if err := same(one, one); err != nil {
		t.Error(err)
	}
}
