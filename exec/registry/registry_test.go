package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/lock/index"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A world is a registry with its stores, and a clock.
type world struct {
	testing.TB
	*registry.Registry
	o     registry.Options
	dir   string
	files blobs.Store
	now   time.Time
	warns []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, dir: t.TempDir(), now: noon}
	w.o = registry.Options{Name: "registry.example", LogKey: keytest.Seeded(1), IndexKey: keytest.Seeded(2),
		Now: func() time.Time { return w.now }, TempDir: t.TempDir(), Below: []*ai.Space{find.LibrarySpace()},
		Reserved: []string{"admin"}, Warn: func(err error) { w.warns = append(w.warns, err.Error()) }}
	w.open()
	return w
}

// open opens the registry as another process would.
func (w *world) open() {
	w.Helper()
	local, err := rows.OpenLocal(filepath.Join(w.dir, "rows"), nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { local.Close() })
	if w.files, err = blobs.OpenLocal(filepath.Join(w.dir, "files"), nil); err != nil {
		w.Fatal(err)
	}
	w.o.Rows, w.o.Blobs = local, w.files
	if w.Registry, err = registry.Open(w.Context(), w.o); err != nil {
		w.Fatal(err)
	}
}

// caller returns the caller of a new token of an account, which is made if need be.
func (w *world) caller(account string, scopes ...registry.Scope) *registry.Caller {
	w.Helper()
	if scopes == nil {
		scopes = []registry.Scope{registry.ScopePublish, registry.ScopeOwner}
	}
	return w.callerFor(registry.Token{Account: account, Label: "t", Scopes: scopes})
}

func (w *world) callerFor(token registry.Token) *registry.Caller {
	w.Helper()
	if _, err := w.AddAccount(w.Context(), token.Account); err != nil {
		w.Fatal(err)
	}
	secret, _, err := w.AddToken(w.Context(), token)
	if err != nil {
		w.Fatal(err)
	}
	caller, err := w.Caller(w.Context(), secret)
	if err != nil {
		w.Fatal(err)
	}
	return caller
}

// A pack is the content of an archive.
type pack struct {
	id, version, text string
	requires          []manifest.Require
	signer            key.Private
	also              key.Private // signs, too
	noKeys            bool
	more              int // files
	evidence          string
}

func (w *world) archive(p pack) []byte {
	w.Helper()
	var store cas.Memory
	if p.text == "" {
		p.text = "text of " + p.id + p.version
	}
	if p.signer.IsZero() {
		p.signer = keytest.Alice()
	}
	var files []manifest.File
	for i := range p.more + 1 {
		info, err := store.Put(w.Context(), cas.Blob, strings.NewReader(p.text))
		if err != nil {
			w.Fatal(err)
		}
		files = append(files, manifest.File{Path: fmt.Sprintf("docs/%03d.md", i), Digest: info.Digest, Size: info.Size,
			Mode: cas.File})
	}
	whole := &manifest.FileList{BundleID: p.id, Version: p.version, Description: "Greets people.", License: "MIT",
		Requires: p.requires}
	if p.evidence != "" {
		info, err := store.Put(w.Context(), cas.Blob, strings.NewReader(p.evidence))
		if err != nil {
			w.Fatal(err)
		}
		whole.Evidence = []manifest.Evidence{{Name: "notes.txt", Type: "text/plain", Digest: info.Digest,
			Size: info.Size}}
	}
	body, list, err := manifest.AppendFileList(nil, whole, files)
	if err == nil {
		err = list.Sign(p.signer, noon)
	}
	if err != nil {
		w.Fatal(err)
	}
	keys := []manifest.SignerKey{{Public: p.signer.Public()}}
	if !p.also.IsZero() {
		if err := list.Sign(p.also, noon); err != nil {
			w.Fatal(err)
		}
		keys = append(keys, manifest.SignerKey{Public: p.also.Public()})
	}
	if p.noKeys {
		keys = nil
	}
	var b bytes.Buffer
	if err := archive.Write(w.Context(), &b, body, list.Signatures, &store, keys...); err != nil {
		w.Fatal(err)
	}
	return b.Bytes()
}

func (w *world) publish(by *registry.Caller, p pack) *registry.Version {
	w.Helper()
	v, err := w.Publish(w.Context(), by, bytes.NewReader(w.archive(p)))
	if err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *world) read(name string) []byte {
	w.Helper()
	f, err := w.files.Open(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

func (w *world) claim(by *registry.Caller, name string) {
	w.Helper()
	if _, err := w.Claim(w.Context(), by, name, ""); err != nil {
		w.Fatal(err)
	}
}

// index reads the index of a bundle, and checks that the log has every entry.
func (w *world) index(id string) *index.Index {
	w.Helper()
	list, err := index.Parse(w.read(client.IndexFile(id)))
	if err != nil {
		w.Fatal(err)
	}
	if signers, err := list.Check(func(f key.Fingerprint) (key.Public, bool) {
		return w.KeyOf(), f == w.KeyOf().Fingerprint()
	}); err != nil || len(signers) != 1 || list.Label != "registry.example/"+id {
		w.Fatalf("%s is signed by %v, %v", list.Label, signers, err)
	}
	checkpoint, err := tlog.Open(w.read("log/checkpoint"), w.Registry.Log())
	if err != nil {
		w.Fatal(err)
	}
	for i := range list.Entries {
		e := &list.Entries[i]
		tree := tlog.NewTree(checkpoint, registry.LogFiles{Store: w.files})
		leaf, err := tlog.AppendEntry(nil, client.LogEntry(e))
		if err == nil {
			_, err = tree.Prove(w.Context(), e.Logged.Leaf, leaf)
		}
		if err != nil { // an entry for several versions
			group := new(tlog.Entry)
			if leaf, err = tree.Entry(w.Context(), e.Logged.Leaf); err == nil {
				group, err = tlog.ParseEntry(leaf)
			}
			if err != nil || group.Kind != tlog.Group || !slices.Contains(group.Releases, client.LogEntry(e).Release) {
				w.Errorf("%s@%s: %+v, %v", e.ID, e.Version, group, err)
			}
		}
		proof, err := tlog.ParseProof(w.read(client.ProofFile(e.Logged.Digest)))
		if err != nil {
			w.Fatal(err)
		}
		if entry, _, err := proof.Verify(w.Registry.Log()); err != nil ||
			!slices.Contains(entry.All(), client.LogEntry(e).Release) {
			w.Errorf("%s@%s: %+v, %v", e.ID, e.Version, entry, err)
		}
		if cas.Sum(w.read(e.Archive)) != e.Logged.Digest {
			w.Errorf("%s@%s: another archive", e.ID, e.Version)
		}
	}
	return list
}

// wants fails unless err has this code and says this.
func wants(t testing.TB, err error, code fault.Code, says string) {
	t.Helper()
	if fault.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%v (%s), want %s, %q", err, fault.CodeOf(err), code, says)
	}
}

// TestPublish: a published version is in the index, in the log, and beside its proof; a second process goes on.
func TestPublish(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	first := w.publish(ada, pack{id: "acme/base", version: "1.0.0",
		requires: []manifest.Require{{BundleID: "acme/log", Version: "^2"}}})
	if first.By != "ada" || first.Leaf != 1 || !first.Time.Equal(noon) || first.License != "MIT" ||
		first.About != "Greets people." || len(first.Signers) != 1 || !slices.Equal(first.Requires,
		[]string{"acme/log ^2"}) {
		t.Errorf("%+v", first)
	}
	w.now = noon.Add(time.Hour)
	w.open()
	w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	w.now = noon // a clock that goes back
	w.publish(ada, pack{id: "acme/base", version: "1.2.0"})
	w.publish(ada, pack{id: "acme/other", version: "1.0.0"})
	list := w.index("acme/base")
	if len(list.Entries) != 3 || list.Counter != 4 || list.Entries[0].Requires[0].Text != "^2" {
		t.Errorf("%+v", list)
	}
	for i, want := range []time.Time{noon, noon.Add(time.Hour), noon.Add(time.Hour)} {
		if e := list.Entries[i]; !e.Logged.Time.Equal(want) || e.Logged.By != "ada" {
			t.Errorf("%s is of %s, by %s", e.Version, e.Logged.Time, e.Logged.By)
		}
	}
	versions, err := w.Versions(t.Context(), nil, "acme/base")
	if err != nil || len(versions) != 3 || versions[2].Version != "1.2.0" {
		t.Errorf("%v, %v", versions, err)
	}
	_, err = w.Versions(t.Context(), nil, "acme/none")
	wants(t, err, fault.NotFound, "acme/none")
	description, err := client.ParseDescription(w.read(client.DescriptionFile))
	if err != nil || description.Log != w.Registry.Log() || description.Key != w.KeyOf() ||
		description.Name != w.Registry.Name() {
		t.Errorf("%+v, %v", description, err)
	}
	if len(w.warns) > 0 {
		t.Error(w.warns)
	}
}

// TestImmutable: a version never changes, and of two publishers exactly one wins.
func TestImmutable(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	one := pack{id: "acme/base", version: "1.0.0"}
	first := w.publish(ada, one)
	if again := w.publish(ada, one); again.Leaf != first.Leaf {
		t.Errorf("the same archive is entry %d and %d", first.Leaf, again.Leaf)
	}
	one.text = "changed"
	_, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(one)))
	wants(t, err, fault.Conflict, "never changes")

	const racers = 8
	second := newWorldAt(t, w.dir)
	var all sync.WaitGroup
	var mu sync.Mutex
	won := map[cas.Digest]bool{}
	for i := range racers {
		on := []*world{w, second}[i%2]
		b := w.archive(pack{id: "acme/base", version: "2.0.0", text: fmt.Sprint(i)})
		all.Go(func() {
			v, err := on.Publish(t.Context(), ada, bytes.NewReader(b))
			if err == nil {
				mu.Lock()
				won[v.Archive] = true
				mu.Unlock()
			} else if fault.CodeOf(err) != fault.Conflict {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d publishers have won", len(won))
	}
	if list := w.index("acme/base"); len(list.Entries) != 2 {
		t.Errorf("%+v", list.Entries)
	}
}

// newWorldAt opens a registry a second time, as another process would.
func newWorldAt(t testing.TB, dir string) *world {
	w := &world{TB: t, dir: dir, now: noon}
	w.o = registry.Options{Name: "registry.example", LogKey: keytest.Seeded(1), IndexKey: keytest.Seeded(2),
		Now: func() time.Time { return w.now }, TempDir: t.TempDir(), Below: []*ai.Space{find.LibrarySpace()}}
	w.open()
	return w
}

// TestRefused: what isn't published, and why.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	w.claim(ada, "big")
	good := w.archive(pack{id: "acme/base", version: "1.0.0"})
	reader := w.caller("ada", registry.ScopeRead)
	narrow := w.callerFor(registry.Token{Account: "ada", Label: "ci", Names: []string{"acme/tools/**"},
		Scopes: []registry.Scope{registry.ScopePublish, registry.ScopeOwner}})
	damaged := bytes.Clone(good)
	damaged[len(damaged)/2] ^= 1
	for name, c := range map[string]struct {
		by   *registry.Caller
		b    []byte
		code fault.Code
		says string
	}{
		"no token":          {nil, good, fault.AuthRequired, "publish"},
		"another account":   {eve, good, fault.Denied, "doesn't own"},
		"without scope":     {reader, good, fault.Denied, "no scope publish"},
		"another name":      {narrow, good, fault.Denied, "not for"},
		"damaged":           {ada, damaged, "", "corrupt archive"},
		"cut off":           {ada, good[:len(good)-1], "", ""},
		"nothing":           {ada, nil, "", "corrupt archive"},
		"a byte too many":   {ada, append(bytes.Clone(good), 0), "", ""},
		"no keys":           {ada, w.archive(pack{id: "acme/base", version: "1.0.0", noKeys: true}), fault.Unsigned, "key"},
		"an id without /":   {ada, w.archive(pack{id: "acme", version: "1.0.0"}), fault.Validation, "namespace"},
		"a file's name":     {ada, w.archive(pack{id: "acme/a.yaml/x", version: "1.0.0"}), fault.Validation, ".yaml"},
		"of plugins":        {ada, w.archive(pack{id: "plugins/x", version: "1.0.0"}), fault.Validation, "id of its own"},
		"an unclaimed name": {ada, w.archive(pack{id: "fresh/x", version: "1.0.0"}), fault.NotFound, "fresh"},
	} {
		_, err := w.Publish(t.Context(), c.by, bytes.NewReader(c.b))
		if err == nil || c.code != "" && fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for info, err := range w.files.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(info.Name, "archives/") || strings.HasPrefix(info.Name, "index/") {
			t.Errorf("a refused publish left %s", info.Name)
		}
	}
	_, err := w.Publish(t.Context(), ada, &failing{bytes.NewReader(good[:100])})
	if err == nil || !strings.Contains(err.Error(), "the wire") {
		t.Errorf("a broken connection: %v", err)
	}
}

type failing struct{ io.Reader }

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if err == io.EOF {
		err = errors.New("the wire was cut")
	}
	return n, err
}

// TestLimits: sizes, numbers and ratios that are too large.
func TestLimits(t *testing.T) {
	big := pack{id: "acme/big", version: "1.0.0", text: strings.Repeat("a", 1<<20), more: 40}
	for name, limits := range map[string]registry.Limits{
		"archive":     {Archive: 1000},
		"have more":   {Unpacked: 1 << 20},
		"more than 4": {Files: 4},
		"larger than": {Ratio: 2},
		"of the acc":  {Account: 500},
	} {
		w := newWorld(t)
		w.o.Limits = limits
		w.open()
		ada := w.caller("ada")
		w.claim(ada, "acme")
		p := big
		if limits.Account > 0 {
			p.text, p.more = strings.Repeat("few ", 10), 20
		}
		_, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(p)))
		wants(t, err, fault.Limit, name)
	}
}

// TestWithdraw: a yanked version stays, an unpublished one goes, and its number is never given again.
func TestWithdraw(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	w.claim(eve, "other")
	first := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.2.0"})
	w.publish(eve, pack{id: "other/x", version: "1.0.0",
		requires: []manifest.Require{{BundleID: "acme/base", Version: "~1.1"}}})

	v, err := w.Withdraw(t.Context(), ada, "acme/base", "1.2.0", false)
	if err != nil || v.Yanked == 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	again, err := w.Withdraw(t.Context(), ada, "acme/base", "1.2.0", false)
	if err != nil || again.Yanked != v.Yanked {
		t.Errorf("%+v, %v", again, err)
	}
	list := w.index("acme/base")
	if e := list.Find("acme/base", "1.2.0"); e == nil || e.Logged.Yanked != v.Yanked || list.Counter != v.Yanked+1 {
		t.Errorf("%+v", list)
	}
	_, err = w.Withdraw(t.Context(), ada, "acme/base", "1.1.0", true)
	wants(t, err, fault.Conflict, "required by other/x@1.0.0")
	if v, err = w.Withdraw(t.Context(), ada, "acme/base", "1.0.0", true); err != nil || v.Unpublished == 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	if list = w.index("acme/base"); list.Find("acme/base", "1.0.0") != nil || len(list.Entries) != 2 {
		t.Errorf("%+v", list.Entries)
	}
	if _, err := w.files.Open(t.Context(), client.ArchiveFile(first.Archive)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the archive is still there: %v", err)
	}
	for _, text := range []string{"", "other"} {
		_, err = w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0",
			text: text})))
		wants(t, err, fault.Conflict, "published already")
	}
	w.now = noon.Add(25 * time.Hour)
	_, err = w.Withdraw(t.Context(), ada, "acme/base", "1.2.0", true)
	wants(t, err, fault.Conflict, "more than a day")
	for _, c := range []struct {
		by          *registry.Caller
		id, version string
		code        fault.Code
	}{{eve, "acme/base", "1.1.0", fault.Denied}, {ada, "acme/base", "9.9.9", fault.NotFound},
		{ada, "acme/base", "1.0.0", fault.NotFound}, {ada, "none/x", "1.0.0", fault.NotFound},
		{nil, "acme/base", "1.1.0", fault.AuthRequired}} {
		_, err := w.Withdraw(t.Context(), c.by, c.id, c.version, false)
		wants(t, err, c.code, "")
	}
}

// stopping is a store that fails at the n-th change.
type stopping struct {
	blobs.Store
	left int
}

var errStopped = errors.New("stopped")

func (s *stopping) step() error {
	if s.left--; s.left < 0 {
		return errStopped
	}
	return nil
}

func (s *stopping) Create(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.Store.Create(ctx, name, r, size)
}

func (s *stopping) Replace(ctx context.Context, name string, b []byte) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.Store.Replace(ctx, name, b)
}

func (s *stopping) Remove(ctx context.Context, name string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.Store.Remove(ctx, name)
}

// TestInterrupted stops a publish before each write to the files: the version is visible whole or not at all, and the
// next start completes what the log has.
func TestInterrupted(t *testing.T) {
	for stop := 0; ; stop++ {
		w := newWorld(t)
		ada := w.caller("ada")
		w.claim(ada, "acme")
		w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
		before := w.read(client.IndexFile("acme/base"))
		b := w.archive(pack{id: "acme/base", version: "2.0.0"})
		store := &stopping{w.files, stop}
		w.o.Blobs = store
		half, err := registry.Open(t.Context(), w.o)
		if err == nil {
			_, err = half.Publish(t.Context(), ada, bytes.NewReader(b))
		}
		if err == nil {
			if stop < 6 {
				t.Errorf("a publish changes %d files", stop)
			}
			return
		}
		if !errors.Is(err, errStopped) {
			t.Fatalf("%d: %v", stop, err)
		}
		// What clients see now is the old state or the new one.
		if now := w.read(client.IndexFile("acme/base")); !bytes.Equal(now, before) {
			w.index("acme/base")
		}
		w.open()
		list := w.index("acme/base")
		if n := len(list.Entries); n != 1 && n != 2 {
			t.Errorf("%d: %d versions", stop, n)
		}
		if v := w.publish(ada, pack{id: "acme/base", version: "2.0.0"}); v.Leaf != 2 {
			t.Errorf("%d: entry %d", stop, v.Leaf)
		}
		if len(w.index("acme/base").Entries) != 2 {
			t.Errorf("%d: the version is not there", stop)
		}
	}
}

// TestOpen: what a registry doesn't begin with.
func TestOpen(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	open := func(change func(*registry.Options)) error {
		o := w.o
		change(&o)
		_, err := registry.Open(t.Context(), o)
		return err
	}
	wants(t, open(func(o *registry.Options) { o.Name = "a/b" }), fault.Config, "slash")
	wants(t, open(func(o *registry.Options) { o.Name = "other.example" }), fault.Conflict, "another registry")
	wants(t, open(func(o *registry.Options) { o.LogKey = keytest.Seeded(9) }), fault.Conflict, "other keys")
	wants(t, open(func(o *registry.Options) { o.IndexKey = o.LogKey }), fault.Parsing, "same key")

	// Rows that were lost, or belong to another log.
	if err := w.files.Replace(t.Context(), "log/checkpoint", []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	w.open()
	_, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "2.0.0"})))
	wants(t, err, fault.Parsing, "checkpoint")
}

// TestForeignFiles: a tile that has other bytes than the log is never built upon.
func TestForeignFiles(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	if err := w.files.Create(t.Context(), "log/tile/0/000.p/2", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	_, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0"})))
	wants(t, err, fault.Registry, "other bytes")
}
