package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bundleID is the id of a release as a bundle.
const bundleID = "rye-build/rye"

// A build is the programs of a release and what is known of them.
type build struct {
	version  string // without v
	commit   string
	when     time.Time // of the commit, or SOURCE_DATE_EPOCH
	src      string    // the clone
	programs map[platform]string
	tool     string // the program for this machine, which makes pages, completions and signatures
	run      func(dir, name string, args ...string) ([]byte, error)
}

// goFlags are the settings of all releases. They are those of .ci/run, whose compiled packages serve here too, and -s.
var goFlags = []string{"-trimpath", "-buildvcs=true", "-tags=netgo,osusergo", "-gcflags=all=-dwarf=false",
	"-ldflags=-s -w"}

// make builds the release in a new directory, then moves it to r.out.
func (r release) make(ctx context.Context) (err error) {
	if entries, err := os.ReadDir(r.out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", r.out)
	}
	dir, err := os.MkdirTemp(r.temp, "rye-release-")
	if err != nil {
		return err
	}
	defer removeAll(dir)
	b, err := r.build(ctx, dir)
	if err != nil {
		return err
	}
	extras, err := b.extras()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, p := range r.platforms {
		if err := b.pack(files, p, extras); err != nil {
			return err
		}
	}
	bill, err := b.modules(r.platforms)
	if err != nil {
		return err
	}
	files["rye_"+b.version+".cdx.json"] = bill
	files["SHA256SUMS"] = sums(files)
	if err := writeAll(r.out, files); err != nil {
		return err
	}
	if err := r.sign(ctx, b, filepath.Join(dir, "sign")); err != nil {
		return err
	}
	if !r.quiet {
		all, err := readAll(r.out)
		if err != nil {
			return err
		}
		for _, name := range sorted(all) {
			fmt.Printf("%s  %s\n", sum(all[name]), filepath.Join(r.out, name))
		}
	}
	return nil
}

// build clones the commit and compiles it for each platform, and for this machine.
func (r release) build(ctx context.Context, dir string) (*build, error) {
	b := &build{src: filepath.Join(dir, "src"), programs: map[platform]string{}}
	b.run = func(dir, name string, args ...string) ([]byte, error) {
		epoch := "SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.when.Unix(), 10)
		return command(ctx, dir, append(slices.Clone(r.env), epoch), name, args...)
	}
	top, err := command(ctx, "", nil, "git", "rev-parse", "--show-toplevel", r.revision+"^{commit}")
	if err != nil {
		return nil, err
	}
	repository, commit, _ := strings.Cut(strings.TrimSpace(string(top)), "\n")
	b.commit = commit
	for _, args := range [][]string{{"clone", "--quiet", "--no-checkout", repository, b.src},
		{"-C", b.src, "-c", "advice.detachedHead=false", "checkout", "--quiet", commit}} {
		if _, err := command(ctx, "", nil, "git", args...); err != nil {
			return nil, err
		}
	}
	for _, p := range slices.Concat(r.platforms, []platform{host}) {
		if b.programs[p] != "" {
			continue
		}
		name := filepath.Join(dir, "rye-"+p.os+"-"+p.arch)
		env := []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off",
			"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off"}
		if r.cache != "" {
			env = append(env, "GOCACHE="+r.cache)
		}
		args := slices.Concat([]string{"build"}, goFlags, []string{"-o", name, "./cmd/rye"})
		if _, err := command(ctx, b.src, env, "go", args...); err != nil {
			return nil, err
		}
		b.programs[p] = name
	}
	b.tool = b.programs[host]
	return b, b.identify()
}

// identify takes version and time from what the go command wrote into the program for this machine.
func (b *build) identify() error {
	info, err := buildinfo.ReadFile(b.tool)
	if err != nil {
		return err
	}
	b.version = strings.TrimPrefix(info.Main.Version, "v")
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.time":
			b.when, err = time.Parse(time.RFC3339, s.Value)
		case s.Key == "vcs.modified" && s.Value != "false", s.Key == "vcs.revision" && s.Value != b.commit:
			err = fmt.Errorf("%s %s: the build isn't of commit %s", s.Key, s.Value, b.commit)
		}
		if err != nil {
			return err
		}
	}
	if b.version == "" || b.version == "(devel)" || b.when.IsZero() {
		return fmt.Errorf("the go command recorded no version: is git installed?")
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		b.when = time.Unix(seconds, 0)
	}
	b.when = b.when.UTC()
	return nil
}

// sign makes the directory a bundle with SBOM and provenance, verifies it, and lays manifest and evidence beside the
// other files, where people download them.
func (r release) sign(ctx context.Context, b *build, dir string) error {
	export := []string{"key", "export"}
	var key []string
	if r.key != "" {
		export, key = append(export, r.key), []string{"--key", r.key}
	}
	public, err := b.run("", b.tool, export...)
	if err != nil {
		return err
	}
	recipe := fmt.Sprintf(`id: %s
version: %s
description: "commit %s"
license: MIT
include: []
assets: ["*"]
`, bundleID, b.version, b.commit)
	if err := writeAll(r.out, map[string][]byte{"bundle.yaml": []byte(recipe), "rye.pem": public}); err != nil {
		return err
	}
	// What is signed here counts by a policy of its own, whatever the user's says.
	home := filepath.Join(dir, "home")
	policy := []string{"--store", filepath.Join(dir, "store"), "--trust", filepath.Join(home, ".ai", "policy.yaml")}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	if _, err := command(ctx, home, append(homeVariables(home), "RYE_KEY="), b.tool, "trust", "add",
		filepath.Join(out, "rye.pem"), "--owner", "rye", "--names", "bundle:"+bundleID, "--yes"); err != nil {
		return err
	}
	for _, args := range [][]string{append([]string{"bundle", "create", "--package", "."}, key...),
		append([]string{"bundle", "sbom", "--embed"}, key...),
		append([]string{"bundle", "attest", "--embed", "--invocation", "git:" + b.commit}, key...)} {
		if _, err := b.run(out, b.tool, append(slices.Clone(policy), args...)...); err != nil {
			return err
		}
	}
	if _, err := b.run(out, b.tool, "bundle", "verify", "--require", "sbom,provenance", "--signer",
		"rye.pem"); err != nil {
		return err
	}
	evidence := filepath.Join(out, ".ai", "bundles", filepath.FromSlash(bundleID))
	return errors.Join(os.CopyFS(out, os.DirFS(evidence)), os.RemoveAll(filepath.Join(out, ".ai")))
}

// homeVariables are the variables by which rye finds what belongs to a user.
func homeVariables(home string) []string {
	var env []string
	for _, name := range []string{"HOME", "USERPROFILE", "USER_SPACE"} {
		env = append(env, name+"="+home)
	}
	for _, name := range []string{"XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "APPDATA"} {
		env = append(env, name+"="+filepath.Join(home, name))
	}
	return env
}

// testKey returns a private key that everyone knows.
func testKey() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{36}, ed25519.SeedSize)))
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// command runs a program with more variables and returns what it prints.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// sums returns the file that sha256sum reads.
func sums(files map[string][]byte) []byte {
	var text bytes.Buffer
	for _, name := range sorted(files) {
		fmt.Fprintf(&text, "%s  %s\n", sum(files[name]), name)
	}
	return text.Bytes()
}

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

func sorted[V any](files map[string]V) []string { return slices.Sorted(maps.Keys(files)) }

func writeAll(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readAll returns the files of a directory by their names.
func readAll(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files[name], err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		}
		return err
	})
	return files, err
}

// removeAll removes a directory of this program, what Go or rye made read-only included.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
