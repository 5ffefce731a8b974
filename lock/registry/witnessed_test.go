package registry_test

import (
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// cosigned has a second witness, v, sign the checkpoint of a proof, and returns a policy that demands it.
func cosigned(t *testing.T, s *site, proof *tlog.Proof, at time.Time) *tlog.Policy {
	t.Helper()
	v, err := tlog.NewWitnessKey("v", keytest.Seeded(17).Public())
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := tlog.Open(proof.Checkpoint, s.log)
	if err == nil {
		proof.Checkpoint, err = tlog.Cosign(checkpoint, v, keytest.Seeded(17), at)
	}
	if err != nil {
		t.Fatal(err)
	}
	policy, err := tlog.ParsePolicy([]byte("witness v " + v.String() + "\nquorum v\n"))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// TestWitnessOfOneProject: what a witness has signed counts only for those whose policies name that witness. One that
// a project alone names can neither move the memory of others forward nor back.
func TestWitnessOfOneProject(t *testing.T) {
	s := newSite(t)
	s.publish("1.0.0", noon)
	s.show()
	first := registry.LogEntry(&s.entries[0]).Release
	mine := []project.Registry{registryOf(t, url, s.log, "acme/**")}
	future, past := newPerson(t), newPerson(t)
	ofProject := &registry.Logs{Registries: mine, Policies: []*tlog.Policy{quorum(t, "w")}, Journal: future.journal,
		Now: clock}
	wants(t, ofProject.Take(t.Context(), s.prove(0, noon.AddDate(900, 0, 0)), first), "", "")

	proof := s.prove(0, time.Unix(1, 0))
	user := cosigned(t, s, proof, noon.Add(time.Hour))
	both := &registry.Logs{Registries: mine, Policies: []*tlog.Policy{user, quorum(t, "w")}, Journal: past.journal,
		Now: clock}
	wants(t, both.Take(t.Context(), proof, first), "", "")

	backdated := s.publish("1.1.0", noon.Add(20*time.Minute))
	s.show()
	of := registry.LogEntry(backdated).Release
	later := s.prove(1, time.Time{})
	cosigned(t, s, later, noon.Add(5*time.Hour))
	alone := &registry.Logs{Registries: mine, Policies: []*tlog.Policy{user}, Journal: future.journal}
	_, _, err := alone.Check(t.Context(), later, of)
	wants(t, err, "", "")
	alone.Journal = past.journal
	_, _, err = alone.Check(t.Context(), later, of)
	wants(t, err, fault.Integrity, "a witness saw the log without it at 2026-11-20T13:00:00Z")
}

// TestProofsOfTwoKeys: a log whose proofs were taken by one key has no other key, whether it is the first project that
// names a false one or the second.
func TestProofsOfTwoKeys(t *testing.T) {
	genuine, fake := newSite(t), newSite(t)
	fake.log = logKey(t, genuine.log.Name, keytest.Seeded(9).Public())
	for _, s := range []*site{genuine, fake} {
		s.publish("1.0.0", noon)
		s.show()
	}
	text, err := tlog.Sign(fake.log, keytest.Seeded(9), fake.tail.Size(), fake.tail.Root())
	if err != nil {
		t.Fatal(err)
	}
	fake.files["log/checkpoint"] = text
	for _, order := range [][]*site{{genuine, fake}, {fake, genuine}} {
		p := newPerson(t)
		for i, s := range order {
			logs := &registry.Logs{Registries: []project.Registry{registryOf(t, url, s.log, "acme/**")},
				Journal: p.journal, Now: clock}
			err := logs.Take(t.Context(), s.prove(0, time.Time{}), registry.LogEntry(&s.entries[0]).Release)
			if i == 0 {
				wants(t, err, "", "")
			} else {
				wants(t, err, fault.Rollback, "another key than before")
			}
		}
	}
}

func clock() time.Time { return noon.Add(time.Hour) }

// TestSeenAgain: an entry that claims to be older than the last time at which a user saw the log without it is
// refused, also if the log had that size for long.
func TestSeenAgain(t *testing.T) {
	for _, online := range []bool{true, false} {
		s, p := newSite(t), newPerson(t)
		s.publish("1.0.0", noon)
		s.show()
		for _, hours := range []int{1, 9, 5} { // a clock that goes back once
			p.now = noon.Add(time.Duration(hours) * time.Hour)
			wants(t, p.take(t, s, "1.0.0"), "", "")
		}
		p.now = noon.Add(10 * time.Hour)
		backdated := s.publish("1.1.0", noon.Add(2*time.Hour))
		s.show()
		if online {
			wants(t, p.take(t, s, "1.1.0"), fault.Integrity, "the log didn't have it at 2026-11-20T21:00:00Z")
			continue
		}
		logs := &registry.Logs{Registries: []project.Registry{registryOf(t, url, s.log, "acme/**")},
			Journal: p.journal}
		_, _, err := logs.Check(t.Context(), s.prove(1, time.Time{}), registry.LogEntry(backdated).Release)
		wants(t, err, fault.Integrity, "this user saw the log without it at 2026-11-20T21:00:00Z")
	}
}
