package main

import (
	"strings"
	"testing"

	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

// TestMerged: of a bundle that both sides have the higher version stays, at its commit and with the branch that it is
// of.
func TestMerged(t *testing.T) {
	side := func(version, branch, digit string) *lockfile.Lock {
		place := "git+https://git.acme.example/base@"
		l, err := lockfile.Parse([]byte("rye: \"lock/2\"\nrequires:\n  \"acme/base\": {version: \"^1\", from: \"" +
			place + branch + "\"}\nbundles:\n" +
			"  \"acme/base\": {version: \"" + version + "\", manifest: \"blake3:" + strings.Repeat(digit,
			64) + "\", from: \"" + place + strings.Repeat(digit, 40) +
			"\"}\ntoolchain:\n  \"python3:" + strings.Repeat(digit,
			12) + " linux/amd64\": {version: \"3.13\", digest: \"blake3:" + strings.Repeat(digit, 64) + "\"}\n" +
			"end:\n  \"rye.lock\": {}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	low, high := side("1.0.0", "main", "1"), side("1.1.0", "next", "2")
	for _, sides := range [][]*lockfile.Lock{{low, high}, {high, low}, {nil, high}} {
		m, err := (&workspace.Lock{Sides: sides}).Merged()
		if err != nil {
			t.Fatal(err)
		}
		first := high
		if sides[0] != nil {
			first = sides[0]
		}
		if len(m.Bundles) != 1 || m.Bundles[0] != high.Bundles[0] || len(m.Requires) != 1 ||
			m.Requires[0].Source != high.Requires[0].Source ||
			len(m.Toolchain) != 1 || m.Toolchain[0] != first.Toolchain[0] {
			t.Errorf("got %+v", m)
		}
	}
	if m, err := (&workspace.Lock{Sides: []*lockfile.Lock{nil, nil}}).Merged(); err != nil || len(m.Bundles) > 0 {
		t.Errorf("got %+v, %v", m, err)
	}
}
