package sandbox_test

import (
	"os"
	"testing"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// What a start costs: the program does nothing, and is this binary, so "bare" has a start of Go's runtime in it, and
// the others two.
func BenchmarkRun(b *testing.B) {
	m := machine(b)
	c := proc.Command{Path: self(b), Args: []string{tryWord, "nothing"}}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if _, err := proc.Run(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
	for l := floor.None; l <= floor.Namespace; l++ {
		b.Run(l.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := m.Run(b.Context(), sandbox.Spec{Level: l}, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What it costs to start 400 children and to end them, since the program has left them.
func BenchmarkLeft(b *testing.B) {
	m := machine(b)
	c := proc.Command{Path: "/bin/sh", Args: []string{"-c", "for i in $(seq 400); do sleep 600 & done"},
		Env: []string{"PATH=/usr/bin:/bin"}}
	for _, l := range []floor.Level{floor.Limits, floor.Namespace} {
		b.Run(l.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := m.Run(b.Context(), sandbox.Spec{Level: l}, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What it costs to lay out a directory in which names to keep are missing, with as many entries as a small project
// has: "mounted" is the same without a missing name.
func BenchmarkTop(b *testing.B) {
	m := machine(b)
	c := proc.Command{Path: self(b), Args: []string{tryWord, "nothing"}}
	dir, s := project(b, floor.Namespace, "src/", "docs/", "test/", "cmd/", "build/", "a", "b", "c", "d", "e", "f",
		"g", "rye.yaml", "rye.lock", ".ai/")
	run := func(name string, s sandbox.Spec) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if o, err := m.Run(b.Context(), s, c); err != nil || o.Closed != "" || o.Asides != nil {
					b.Fatal(o, err)
				}
			}
		})
	}
	run("laid-out", s)
	if err := os.Mkdir(dir+"/.git", 0o755); err != nil {
		b.Fatal(err)
	}
	run("mounted", s)
	run("none", sandbox.Spec{Level: floor.Namespace, Write: []string{dir + "/src"}})
}
