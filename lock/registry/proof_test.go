package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// prove returns the proof of an entry in the checkpoint that is shown now, cosigned by a witness if at isn't zero.
func (s *site) prove(leaf int64, at time.Time) *tlog.Proof {
	s.Helper()
	text := s.files["log/checkpoint"]
	if !at.IsZero() {
		checkpoint, err := tlog.Open(text, s.log)
		if err == nil {
			text, err = tlog.Cosign(checkpoint, witness(s), keytest.Seeded(7), at)
		}
		if err != nil {
			s.Fatal(err)
		}
	}
	checkpoint, err := tlog.Open(text, s.log)
	if err != nil {
		s.Fatal(err)
	}
	tree := tlog.NewTree(checkpoint, files{s})
	entry, err := tree.Entry(s.Context(), leaf)
	if err != nil {
		s.Fatal(err)
	}
	proof, err := tree.Prove(s.Context(), leaf, entry)
	if err != nil {
		s.Fatal(err)
	}
	return proof
}

// files are those of the log.
type files struct{ *site }

// ReadFile implements tlog.Files.
func (f files) ReadFile(_ context.Context, name string, _ int64) ([]byte, error) {
	return f.files["log/"+name], nil
}

func witness(t testing.TB) tlog.Key {
	t.Helper()
	w, err := tlog.NewWitnessKey("w", keytest.Seeded(7).Public())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// quorum is a policy that demands the witness, or none, and knows these logs.
func quorum(t testing.TB, name string, logs ...tlog.Key) *tlog.Policy {
	t.Helper()
	text := "witness w " + witness(t).String() + "\nquorum " + name + "\n"
	for _, log := range logs {
		text += "log " + log.String() + "\n"
	}
	policy, err := tlog.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// registryOf is a registry of a project, as rye.yaml names it.
func registryOf(t testing.TB, address string, log tlog.Key, names string) project.Registry {
	t.Helper()
	p, err := project.Parse(fmt.Appendf(nil, "registries:\n  %q:\n    names: [%q]\n    log: %q\n    key: %q\n",
		address, names, log.String(), keytest.Seeded(2).Public().String()), "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return p.Registries[0]
}

func logKey(t testing.TB, name string, public key.Public) tlog.Key {
	t.Helper()
	k, err := tlog.NewKey(name, public)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestProof: what a proof shows without its registry, and what it doesn't.
func TestProof(t *testing.T) {
	s := newSite(t)
	s.publish("1.0.0", noon)
	e := s.publish("1.1.0", noon.Add(time.Hour))
	s.show()
	of := registry.LogEntry(e).Release
	proof := s.prove(1, noon.Add(2*time.Hour))
	mine := registryOf(t, url, s.log, "acme/**")
	other := logKey(t, "other.example/log", keytest.Seeded(8).Public())

	logs := &registry.Logs{Registries: []project.Registry{mine}, Policies: []*tlog.Policy{quorum(t, "w")},
		Journal: newPerson(t).journal}
	got, known, err := logs.Check(t.Context(), proof, of)
	want := registry.Proven{Log: s.log.Name, Entry: 1, Time: e.Logged.Time, By: "ada", Cosigned: 1,
		Archive: of.Archive.String()}
	if err != nil || !known || *got != want {
		t.Fatalf("%+v, %v, %v", got, known, err)
	}
	onlyBundle := of
	onlyBundle.Archive, onlyBundle.Size = cas.Digest{}, 0
	if _, known, err := logs.Check(t.Context(), proof, onlyBundle); !known || err != nil {
		t.Errorf("the bundle alone: %v, %v", known, err)
	}
	wants(t, logs.CheckEntry(t.Context(), proof, e), "", "")

	for name, c := range map[string]struct {
		change func(of *tlog.Release, p *tlog.Proof, logs *registry.Logs)
		code   fault.Code
		says   string
	}{
		"another version": {func(of *tlog.Release, _ *tlog.Proof, _ *registry.Logs) { of.Version = "1.0.0" },
			fault.Integrity, "another version: expected acme/base@1.0.0, found acme/base@1.1.0"},
		"another bundle": {func(of *tlog.Release, _ *tlog.Proof, _ *registry.Logs) { of.Bundle = "acme/bass" },
			fault.Integrity, "another version: expected acme/bass@1.1.0"},
		"another manifest": {func(of *tlog.Release, _ *tlog.Proof, _ *registry.Logs) { of.Manifest = cas.Sum(nil) },
			fault.Integrity, "another manifest"},
		"another archive": {func(of *tlog.Release, _ *tlog.Proof, _ *registry.Logs) { of.Archive = cas.Sum(nil) },
			fault.Integrity, "another archive"},
		"another size": {func(of *tlog.Release, _ *tlog.Proof, _ *registry.Logs) { of.Size++ },
			fault.Integrity, "another size"},
		"a forged entry": {func(of *tlog.Release, p *tlog.Proof, _ *registry.Logs) {
			p.Entry = bytes.Replace(p.Entry, []byte("ada"), []byte("eve"), 1)
		}, fault.Integrity, "does not have this entry"},
		"a forged hash": {func(_ *tlog.Release, p *tlog.Proof, _ *registry.Logs) { p.Hashes[0][3] ^= 1 },
			fault.Integrity, "does not have this entry"},
		"another index": {func(_ *tlog.Release, p *tlog.Proof, _ *registry.Logs) { p.Index = 0 },
			fault.Integrity, "does not have this entry"},
		"a forged checkpoint": {func(_ *tlog.Release, p *tlog.Proof, _ *registry.Logs) {
			p.Checkpoint = bytes.Replace(p.Checkpoint, []byte("\n2\n"), []byte("\n3\n"), 1)
		}, fault.SignatureInvalid, "invalid"},
		"below the quorum": {func(_ *tlog.Release, p *tlog.Proof, _ *registry.Logs) { *p = *s.prove(1, time.Time{}) },
			fault.BelowThreshold, "too few witnesses"},
		"a log that the policy doesn't list": {func(_ *tlog.Release, _ *tlog.Proof, l *registry.Logs) {
			l.Policies = []*tlog.Policy{quorum(t, "none", other)}
		}, fault.UntrustedKey, "doesn't list"},
		"the log of another registry": {func(_ *tlog.Release, _ *tlog.Proof, l *registry.Logs) {
			l.Registries = []project.Registry{registryOf(t, "https://other.example", other, "acme/**")}
		}, fault.Integrity, "rye.yaml takes acme/base from a registry with the log \"other.example/log\""},
		"another key": {func(_ *tlog.Release, _ *tlog.Proof, l *registry.Logs) {
			l.Registries = []project.Registry{registryOf(t, url, logKey(t, s.log.Name, keytest.Seeded(8).Public()),
				"acme/**")}
		}, fault.Unsigned, "did not sign it"},
	} {
		of, changed, at := of, *proof, *logs
		changed.Hashes = append([]tlog.Hash(nil), proof.Hashes...)
		c.change(&of, &changed, &at)
		got, _, err := at.Check(t.Context(), &changed, of)
		if got != nil {
			t.Errorf("%s: proven", name)
		}
		wants(t, err, c.code, c.says)
		wants(t, at.Refuses(t.Context(), &changed, of), c.code, c.says)
	}

	// Without a key nothing is checked. A key may stand in a policy of witnesses, and under other names.
	for name, c := range map[string]struct {
		logs  registry.Logs
		known bool
	}{
		"no key":           {registry.Logs{}, false},
		"another log's":    {registry.Logs{Policies: []*tlog.Policy{quorum(t, "none", other)}}, false},
		"that of a policy": {registry.Logs{Policies: []*tlog.Policy{quorum(t, "w", s.log)}}, true},
		"that for other names": {registry.Logs{
			Registries: []project.Registry{registryOf(t, url, s.log, "z/**")}}, true},
		"beside another registry": {registry.Logs{
			Registries: []project.Registry{registryOf(t, url, other, "z/**"), mine}}, true},
	} {
		got, known, err := c.logs.Check(t.Context(), proof, of)
		if err != nil || known != c.known || (got != nil) != c.known {
			t.Errorf("%s: %+v, %v, %v", name, got, known, err)
		}
	}

	// An index that says something else than the entry.
	lie, logged := *e, *e.Logged
	logged.By, lie.Logged = "eve", &logged
	wants(t, logs.CheckEntry(t.Context(), proof, &lie), fault.Integrity, "something else than the index says")
	wants(t, (&registry.Logs{}).CheckEntry(t.Context(), proof, e), fault.Integrity, "something else")
}

// TestProofMemory: a proof counts only if it fits what was seen of the log, by this user or by a witness.
func TestProofMemory(t *testing.T) {
	s := newSite(t)
	s.publish("1.0.0", noon)
	s.show()
	p := newPerson(t)
	if err := p.take(t, s, "1.0.0"); err != nil { // at noon + 1h, with one entry
		t.Fatal(err)
	}
	// A machine that never asks the registry takes a proof that a witness has signed an hour later.
	airgapped := newPerson(t)
	policies := []*tlog.Policy{quorum(t, "w")}
	mine := []project.Registry{registryOf(t, url, s.log, "acme/**")}
	taking := registry.Logs{Registries: mine, Policies: policies, Journal: airgapped.journal, Now: clock}
	first := registry.LogEntry(&s.entries[0]).Release
	wants(t, taking.Take(t.Context(), s.prove(0, noon.Add(time.Hour)), first), "", "")
	wants(t, taking.Take(t.Context(), s.prove(0, time.Time{}), first), fault.BelowThreshold, "too few")
	backdated := s.publish("1.1.0", noon.Add(20*time.Minute))
	s.show()
	of := registry.LogEntry(backdated).Release
	proof := s.prove(1, noon.Add(5*time.Hour))

	// A person without a memory can't know; one who saw the log without the entry can.
	for name, c := range map[string]struct {
		logs registry.Logs
		code fault.Code
		says string
	}{
		"no memory": {registry.Logs{Policies: policies, Journal: newPerson(t).journal}, "", ""},
		"the journal": {registry.Logs{Policies: policies, Journal: p.journal}, fault.Integrity,
			"this user saw the log without it at 2026-11-20T13:00:00Z"},
		"a witness": {registry.Logs{Policies: policies, Journal: airgapped.journal}, fault.Integrity,
			"a witness saw the log without it at 2026-11-20T13:00:00Z"},
	} {
		c.logs.Registries = mine
		_, known, err := c.logs.Check(t.Context(), proof, of)
		if !known {
			t.Errorf("%s: unknown", name)
		}
		wants(t, err, c.code, c.says)
	}

	// Up to 10 minutes are the difference of clocks.
	late := s.publish("1.2.0", noon.Add(50*time.Minute))
	s.show()
	logs := &registry.Logs{Registries: mine, Policies: policies, Journal: airgapped.journal, Now: clock}
	_, _, err := logs.Check(t.Context(), s.prove(2, noon.Add(5*time.Hour)), registry.LogEntry(late).Release)
	wants(t, err, "", "")

	// A proof with a larger checkpoint moves the memory, one with a smaller doesn't move it back.
	later := s.prove(2, noon.Add(6*time.Hour))
	for _, proof := range []*tlog.Proof{later, proof} {
		wants(t, logs.Take(t.Context(), proof, registry.LogEntry(&s.entries[proof.Index]).Release), "", "")
	}
	seen, err := airgapped.journal.Seen()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range seen {
		if step.ByName && (step.Position != "3" || !step.At.Equal(noon.Add(6*time.Hour))) {
			t.Errorf("remembered %+v", step)
		}
	}

	// The same size with another root is another history, by whichever memory.
	split := newSite(t)
	other := split.publish("1.0.0", noon)
	other.Logged.By = "eve"
	split = newSite(t)
	split.add(registry.LogEntry(other))
	split.show()
	forged := split.prove(0, noon.Add(time.Hour))
	another := newPerson(t)
	unsure := &registry.Logs{Registries: mine, Policies: policies, Journal: another.journal, Now: clock}
	wants(t, unsure.Take(t.Context(), forged, registry.LogEntry(other).Release), "", "")
	genuine := newSite(t)
	genuine.publish("1.0.0", noon)
	genuine.show()
	_, _, err = unsure.Check(t.Context(), genuine.prove(0, noon.Add(time.Hour)), first)
	wants(t, err, fault.Rollback, "two different checkpoints of size 1")
	for _, next := range []string{"1.1.0", "1.2.0"} { // with the registry, too, however many entries it has then
		wants(t, another.take(t, genuine, "1.0.0"), fault.Rollback, "rewritten its history")
		genuine.publish(next, noon.Add(2*time.Hour))
		genuine.show()
	}
	// A copy of the registry may be older than a proof.
	logs.Journal = newPerson(t).journal
	wants(t, logs.Take(t.Context(), later, registry.LogEntry(&s.entries[2]).Release), "", "")
	behind := newSite(t)
	behind.publish("1.0.0", noon)
	behind.show()
	reader := newPerson(t)
	reader.journal = logs.Journal
	wants(t, reader.take(t, behind, "1.0.0"), "", "")
	logs.Journal = p.journal
	_, _, err = logs.Check(t.Context(), forged, registry.LogEntry(other).Release)
	wants(t, err, fault.Rollback, "two different checkpoints of size 1")

	// Another key for a log that this user has seen.
	renewed := logKey(t, s.log.Name, keytest.Seeded(9).Public())
	s.log = renewed
	text, err := tlog.Sign(renewed, keytest.Seeded(9), s.tail.Size(), s.tail.Root())
	if err != nil {
		t.Fatal(err)
	}
	s.files["log/checkpoint"] = text
	logs = &registry.Logs{Registries: []project.Registry{registryOf(t, url, renewed, "acme/**")}, Journal: p.journal}
	_, _, err = logs.Check(t.Context(), s.prove(0, time.Time{}), registry.LogEntry(&s.entries[0]).Release)
	wants(t, err, fault.Rollback, "another key than before")
}
