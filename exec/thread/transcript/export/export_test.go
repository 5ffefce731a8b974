package export

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const thread = "acme/deploy-1795000000-k3v9q"

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	own  = keytest.Seeded(1)
	user = keytest.Seeded(2)
	eve  = keytest.Seeded(9)
	lock = []byte("rye: \"lock/2\"\n")
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func now() time.Time { return noon }

// write writes a thread, with a large payload and a lock if it is to have them.
func write(t testing.TB, large, locked, ended bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), thread)
	s := transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/deploy",
		Digest: cas.Sum(nil)}, Policy: []cas.Digest{cas.Sum(nil)}, Grants: []string{}}
	if locked {
		s.Lock = cas.Sum(lock)
	}
	w, err := transcript.Create(dir, thread, s, transcript.Driver{Epoch: 1}, transcript.Options{Key: own, Now: now})
	must(t, err)
	if large {
		_, err = w.Append(transcript.Artifact{Call: "c", Digest: cas.Sum(nil), Media: "text/plain",
			Content: strings.Repeat("x", 1<<20)})
		must(t, err)
	}
	if ended {
		_, err = w.Append(transcript.Completed{Result: "done"})
		must(t, err)
	}
	_, err = w.Append(transcript.Checkpoint{Turn: 1})
	must(t, err)
	must(t, w.Close())
	return dir
}

func voucher(t testing.TB, k key.Private) []byte {
	t.Helper()
	b, err := receipt.Vouch(k.Public(), "build-7", user, noon)
	must(t, err)
	return b
}

func options(locked bool, v []byte) Options {
	o := Options{Key: own, Voucher: v, Now: noon, Check: transcript.Check{Keys: []key.Public{own.Public()}}}
	if locked {
		o.Lock = lock
	}
	return o
}

func export(t testing.TB, dir string, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := Write(t.Context(), &b, dir, o)
	must(t, err)
	return b.Bytes()
}

func verify(t testing.TB, b []byte, c transcript.Check) (*Report, error) {
	t.Helper()
	return Verify(t.Context(), bytes.NewReader(b), t.TempDir(), c)
}

// TestUnpack: an export can be read without a key, and what is no export can't.
func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	must(t, Unpack(t.Context(), bytes.NewReader(export(t, write(t, true, false, true), options(false, nil))), dir))
	r, err := transcript.Verify(t.Context(), dir, transcript.Check{Keys: []key.Public{own.Public()}})
	must(t, err)
	if r.Problem != nil || r.Thread != thread {
		t.Errorf("%+v", r)
	}
	if err := Unpack(t.Context(), strings.NewReader("no archive"), t.TempDir()); err == nil {
		t.Error("what is no archive is unpacked")
	}
}

func TestExport(t *testing.T) {
	for _, c := range []struct{ large, locked bool }{{false, false}, {true, true}} {
		b := export(t, write(t, c.large, c.locked, true), options(c.locked, voucher(t, own)))
		for _, k := range []key.Private{own, user} {
			r, err := verify(t, b, transcript.Check{Keys: []key.Public{eve.Public(), k.Public()}})
			if err != nil || r.Problem != nil || r.Thread != thread || r.Machine != own.Public() ||
				r.By != k.Public() || !r.Time.Equal(noon) ||
				r.Machines[0].By != k.Public() || (r.LockBytes > 0) != c.locked || (r.PayloadBytes > 0) != c.large ||
				r.Export.IsZero() {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if _, err := verify(t, b, transcript.Check{Keys: []key.Public{eve.Public()}}); err == nil ||
			fault.CodeOf(err) != fault.UntrustedKey {
			t.Error(err)
		}
		if _, err := verify(t, b, transcript.Check{Keys: []key.Public{user.Public()},
			Thread: "acme/x-1"}); err == nil || fault.CodeOf(err) != fault.Integrity {
			t.Error(err)
		}
	}
	// The same twice.
	dir := write(t, true, true, true)
	if !bytes.Equal(export(t, dir, options(true, nil)), export(t, dir, options(true, nil))) {
		t.Error("two exports differ")
	}
	// Without a voucher only the machine's key counts.
	if _, err := verify(t, export(t, dir, options(true, nil)),
		transcript.Check{Keys: []key.Public{user.Public()}}); err == nil || fault.CodeOf(err) != fault.UntrustedKey {
		t.Error(err)
	}
	// A voucher for another machine is none.
	if _, err := verify(t, export(t, dir, options(true, voucher(t, eve))),
		transcript.Check{Keys: []key.Public{user.Public()}}); err == nil || fault.CodeOf(err) != fault.UntrustedKey {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	dir, bare, running := write(t, true, true, true), write(t, false, false, true), write(t, false, false, false)
	damaged := write(t, true, true, true)
	must(t, os.Truncate(filepath.Join(damaged, transcript.PayloadsFile), 100))
	with := func(change func(*Options)) Options {
		o := options(true, nil)
		change(&o)
		return o
	}
	for _, c := range []struct {
		name string
		dir  string
		o    Options
		code fault.Code
	}{
		{"no lock", dir, options(false, nil), fault.NotFound},
		{"another lock", dir, with(func(o *Options) { o.Lock = []byte("x") }), fault.LockMismatch},
		{"a lock too many", bare, options(true, nil), fault.LockMismatch},
		{"running", running, options(false, nil), fault.Integrity},
		{"damaged", damaged, options(true, nil), fault.Integrity},
		{"a stranger's", dir, with(func(o *Options) {
			o.Check.Keys = []key.Public{eve.Public()}
		}), fault.UntrustedKey},
		{"nothing", t.TempDir(), options(true, nil), fault.Files},
	} {
		if _, err := Write(t.Context(), io.Discard, c.dir, c.o); err == nil || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// One that runs can be exported, and says so.
	o := options(false, nil)
	o.Check.Unfinished = true
	b := export(t, running, o)
	if r, err := verify(t, b, transcript.Check{Keys: o.Check.Keys}); err != nil || r.Problem == nil ||
		r.Problem.Kind != transcript.Unfinished {
		t.Error(err)
	}
	if r, err := verify(t, b, o.Check); err != nil || r.Problem != nil || r.Status != transcript.StatusUnfinished {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, io.Discard, dir, options(true, nil)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Each changed byte of an export is found, but for those of its frame that are only another way to compress the same.
func TestEveryByte(t *testing.T) {
	b := export(t, write(t, false, true, true), options(true, voucher(t, own)))
	c := transcript.Check{Keys: []key.Public{user.Public()}}
	dir := t.TempDir()
	good, err := verify(t, b, c)
	must(t, err)
	same := 0
	for i := range b {
		changed := bytes.Clone(b)
		changed[i] ^= 1
		into := filepath.Join(dir, "x")
		must(t, os.Mkdir(into, 0o700))
		if r, err := Verify(t.Context(), bytes.NewReader(changed), into, c); err == nil && r.Problem == nil {
			if same++; r.Export != good.Export || r.Last != good.Last || same > 20 {
				t.Fatalf("byte %d of %d", i, len(b))
			}
		}
		must(t, os.RemoveAll(into))
	}
	for _, cut := range []int{0, 1, len(b) / 2, len(b) - 1} {
		if _, err := verify(t, b[:cut], c); err == nil {
			t.Errorf("cut at %d", cut)
		}
	}
}

// packed is an archive signed by a key, whatever is in it.
func packed(t testing.TB, k key.Private, l manifest.FileList, files map[string]string) []byte {
	t.Helper()
	var store cas.Memory
	var list []manifest.File
	for name, text := range files {
		info, err := store.Put(t.Context(), cas.Blob, strings.NewReader(text))
		must(t, err)
		list = append(list, manifest.File{Path: name, Digest: info.Digest, Size: info.Size, Mode: cas.File})
	}
	body, signed, err := manifest.AppendFileList(nil, &l, list)
	must(t, err)
	must(t, signed.Sign(k, noon))
	var b bytes.Buffer
	must(t, archive.Write(t.Context(), &b, body, signed.Signatures, &store, manifest.SignerKey{Public: k.Public()}))
	return b.Bytes()
}

func TestForged(t *testing.T) {
	dir := write(t, false, true, true)
	lines, err := os.ReadFile(filepath.Join(dir, transcript.LinesFile))
	must(t, err)
	list := manifest.FileList{BundleID: bundleID, Version: version, Description: thread}
	good := map[string]string{transcript.LinesFile: string(lines), lockFile: string(lock),
		voucherFile: string(voucher(t, own))}
	change := func(name, text string) map[string]string {
		files := map[string]string{}
		for n, b := range good {
			files[n] = b
		}
		if files[name] = text; text == "" {
			delete(files, name)
		}
		return files
	}
	c := transcript.Check{Keys: []key.Public{user.Public()}}
	if r, err := verify(t, packed(t, own, list, good), c); err != nil || r.Problem != nil {
		t.Fatal(err)
	}
	other := list
	other.BundleID = "threads"
	foreign := list
	foreign.Description = "acme/other-1795000000-k3v9q"
	none := list
	none.Description = "no thread"
	for _, f := range []struct {
		name string
		b    []byte
		code fault.Code
	}{
		{"another's machine", packed(t, eve, list, good), fault.UntrustedKey},
		{"another lock", packed(t, own, list, change(lockFile, "x")), fault.LockMismatch},
		{"no lock", packed(t, own, list, change(lockFile, "")), fault.LockMismatch},
		{"no voucher", packed(t, own, list, change(voucherFile, "")), fault.UntrustedKey},
		{"a large voucher", packed(t, own, list, change(voucherFile, strings.Repeat("x", maxVoucher+1))),
			fault.Validation},
		{"no voucher's form", packed(t, own, list, change(voucherFile, "x")), fault.UntrustedKey},
		{"no transcript", packed(t, own, list, change(transcript.LinesFile, "")), fault.Validation},
		{"a further file", packed(t, own, list, change("x", "x")), fault.Validation},
		{"another bundle", packed(t, own, other, good), fault.Validation},
		{"no thread's id", packed(t, own, none, good), fault.Validation},
	} {
		if _, err := verify(t, f.b, c); err == nil || fault.CodeOf(err) != f.code {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	if r, err := verify(t, packed(t, own, foreign, good), c); err != nil || r.Problem == nil ||
		r.Problem.Kind != transcript.Swapped {
		t.Error(err)
	}
	cut := string(lines[:bytes.LastIndexByte(lines[:len(lines)-1], '\n')+1])
	if r, err := verify(t, packed(t, own, list, change(transcript.LinesFile, cut)), c); err != nil ||
		r.Problem == nil || r.Problem.Kind != transcript.Unsigned {
		t.Errorf("%+v %v", r, err)
	}
}
