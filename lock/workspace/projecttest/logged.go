package projecttest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Logged is a project with a lock that has one bundle of a registry, in whose log it is the second entry.
type Logged struct {
	*Project
	Archive []byte       // as it was published
	Release tlog.Release // what the log says of it
	Line    lockfile.Bundle
	Log     tlog.Key

	entries [][]byte
}

// NewLogged makes the project. The store has nothing yet.
func NewLogged(t testing.TB) *Logged {
	t.Helper()
	l := &Logged{Project: With(t, "", nil)}
	l.Write(".ai/.gitkeep", "")
	var err error
	l.Log, err = tlog.NewKey("registry.example/log", keytest.Seeded(1).Public())
	l.must(err)
	l.Write(workspace.MarkerFile, fmt.Sprintf("registries:\n  \"https://registry.example\":\n"+
		"    names: [\"acme/**\"]\n    log: %q\n    key: %q\n\nrequires:\n  acme/base: {version: \"^1.0\"}\n",
		l.Log.String(), keytest.Seeded(2).Public().String()))
	var files cas.Memory
	info, err := files.Put(t.Context(), cas.Blob, strings.NewReader("Words.\n"))
	l.must(err)
	body, list, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/base", Version: "1.0.0"},
		[]manifest.File{{Path: "README.md", Digest: info.Digest, Size: info.Size, Mode: cas.File}})
	l.must(err)
	l.must(list.Sign(keytest.Alice(), Noon))
	var packed bytes.Buffer
	l.must(archive.Write(t.Context(), &packed, body, list.Signatures, &files))
	l.Archive = packed.Bytes()
	l.Release = tlog.Release{Bundle: "acme/base", Version: "1.0.0", Manifest: list.ID, Archive: cas.Sum(l.Archive),
		Size: int64(len(l.Archive))}
	for _, e := range []*tlog.Entry{
		{Kind: tlog.Owner, Release: tlog.Release{Bundle: "acme"}, Document: list.ID, By: "ada", Time: Noon},
		{Kind: tlog.Publish, Release: l.Release, By: "ada", Time: Noon},
	} {
		text, err := tlog.AppendEntry(nil, e)
		l.must(err)
		l.entries = append(l.entries, text)
	}
	l.Line = lockfile.Bundle{ID: "acme/base", Version: "1.0.0", Manifest: list.ID,
		Source: ryeyaml.RegistryAt("https://registry.example"), Log: l.Log.Name, Leaf: 1}
	l.WriteLock(l.Line)
	return l
}

// WriteLock writes a lock with one bundle.
func (l *Logged) WriteLock(line lockfile.Bundle) {
	l.t.Helper()
	read, err := ryeyaml.Parse([]byte(l.Read(workspace.MarkerFile)), "devel")
	l.must(err)
	file, err := os.Create(l.At(lockfile.Name))
	l.must(err)
	l.must(lockfile.Write(file, &lockfile.Lock{Requires: read.Requires, Bundles: []lockfile.Bundle{line}}))
	l.must(file.Close())
}

// Proof returns the proof of the bundle in its log.
func (l *Logged) Proof() *tlog.Proof {
	l.t.Helper()
	var tail tlog.Tail
	for _, text := range l.entries {
		_, err := tail.Add(text)
		l.must(err)
	}
	checkpoint, err := tlog.Sign(l.Log, keytest.Seeded(1), tail.Size(), tail.Root())
	l.must(err)
	first := new(tlog.Tail)
	_, err = first.Add(l.entries[0])
	l.must(err)
	return &tlog.Proof{Entry: l.entries[1], Index: 1, Hashes: []tlog.Hash{first.Root()}, Checkpoint: checkpoint}
}

// Import puts the bundle into the store, and a proof of it, if that isn't nil.
func (l *Logged) Import(into *workspace.Lock, proof *tlog.Proof) {
	l.t.Helper()
	store := into.DiskStore()
	_, err := install.Import(l.t.Context(), store, bytes.NewReader(l.Archive),
		bundle.VerifyOptions{Trust: into.Exam()})
	l.must(err)
	if proof != nil {
		l.must(install.KeepProof(l.t.Context(), store, l.Release.Manifest, proof))
	}
}
