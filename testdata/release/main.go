// Command release builds what a release of rye consists of, from a clean clone of a commit:
//
//	rye_VERSION_OS_ARCH.tar.gz    rye, its man pages, completions and licence; .zip for Windows
//	rye_VERSION_ARCH.deb          the same as a Debian package
//	rye_VERSION.cdx.json          the Go modules in these programs, as CycloneDX
//	SHA256SUMS                    of the files above, for sha256sum
//	bundle.yaml, manifest.yaml    the release as a bundle: every file above, signed
//	sbom.cdx.json                 evidence that the manifest lists: the bundle's parts
//	provenance.dsse.json          evidence that the manifest lists: signed provenance, with the commit
//	rye.pem                       the public key, which users compare with the one that they know
//
// The same commit, version of Go and key give the same bytes, on any machine and in any directory. Times are those of
// the commit, or SOURCE_DATE_EPOCH. The version is that of the commit's tag (v1.4.0); without one it is Go's
// pseudo-version, and "rye version" says that it isn't a release.
//
// RYE_KEY or -key selects the key, as for "rye bundle create".
//
// With -compare the release is made twice and every file compared; nothing is kept. Each time has its own clone, home
// and directory for temporary files, with paths of another length; both are signed by one key that is for this alone.
// Both take compiled packages from Go's cache, so this proves that no place, time or user gets into what is linked,
// packed and signed. With -cold each has an empty cache: that compares the compiler's work too, and takes as long as
// compiling everything twice.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platforms are those of a release.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"}}

var host = platform{runtime.GOOS, runtime.GOARCH}

// A platform is an operating system and a processor, as Go calls them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func main() {
	log.SetFlags(0)
	var r release
	flag.StringVar(&r.out, "o", "dist", "write to this `directory`, which must not exist or be empty")
	flag.StringVar(&r.key, "key", "", "sign with the key of this `name`; default: RYE_KEY, or rye's default key")
	flag.StringVar(&r.revision, "revision", "HEAD", "the commit to build")
	only := flag.String("platforms", "", "build only these, as `OS/ARCH,…` (host: this machine's)")
	compare := flag.Bool("compare", false, "build twice and compare; keep nothing")
	flag.BoolVar(&r.cold, "cold", false, "with -compare: share no build cache")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if r.platforms, err = choose(*only); err == nil {
		if *compare {
			err = r.compare(ctx)
		} else {
			err = r.make(ctx)
		}
	}
	if err != nil {
		log.Fatal("release: ", err)
	}
}

// choose returns the platforms that a list names, in the order of all; all if it is empty.
func choose(list string) ([]platform, error) {
	if list == "" {
		return platforms, nil
	}
	names := strings.Split(strings.Replace(list, "host", host.String(), 1), ",")
	chosen := slices.DeleteFunc(slices.Clone(platforms), func(p platform) bool {
		return !slices.Contains(names, p.String())
	})
	if len(chosen) != len(names) {
		return nil, fmt.Errorf("-platforms %s: expected some of %v", list, platforms)
	}
	return chosen, nil
}

// A release is one run of this program.
type release struct {
	out, key, revision string
	platforms          []platform
	cold               bool
	cache              string   // GOCACHE; "": the user's
	temp               string   // where it works; "": the system's directory for temporary files
	env                []string // for rye, besides this process's
	quiet              bool
}

// compare makes the release twice, compares all files, and keeps nothing.
func (r release) compare(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rye-release-")
	if err != nil {
		return err
	}
	defer removeAll(dir)
	outs, err := r.twice(ctx, dir)
	if err != nil {
		return err
	}
	var made [2]map[string][]byte
	for i, out := range outs {
		if made[i], err = readAll(out); err != nil {
			return err
		}
	}
	return same(made[0], made[1])
}

// twice makes the release in two places below dir, which have paths of different depth, homes and directories for
// temporary files of their own, and returns where.
func (r release) twice(ctx context.Context, dir string) (outs [2]string, err error) {
	key, err := testKey()
	if err != nil {
		return outs, err
	}
	for i, place := range []string{"a", filepath.Join("another", "longer place")} {
		at := filepath.Join(dir, place)
		one := r
		one.out, one.temp, one.key, one.quiet = filepath.Join(at, "dist"), filepath.Join(at, "tmp"), "", true
		one.env = append(homeVariables(filepath.Join(at, "home")), "RYE_KEY="+string(key), "TMPDIR="+one.temp)
		if r.cold {
			one.cache = filepath.Join(at, "cache")
		}
		if err := os.MkdirAll(one.temp, 0o700); err != nil {
			return outs, err
		}
		if err := one.make(ctx); err != nil {
			return outs, err
		}
		outs[i] = one.out
	}
	return outs, nil
}

// same reports files that differ, and prints the digests of those that don't.
func same(one, two map[string][]byte) error {
	var differ []string
	for _, name := range sorted(one) {
		if other, ok := two[name]; !ok || !bytes.Equal(one[name], other) {
			differ = append(differ, name)
		} else {
			fmt.Printf("%s  %s\n", sum(other), name)
		}
	}
	for _, name := range sorted(two) {
		if _, ok := one[name]; !ok {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("two builds of one commit differ in %s", strings.Join(differ, ", "))
	}
	fmt.Printf("two builds of one commit have the same %d files\n", len(one))
	return nil
}
