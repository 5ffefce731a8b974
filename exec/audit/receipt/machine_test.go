package receipt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var voucherNoon = time.Date(2026, 11, 20, 12, 0, 0, 5, time.UTC)

func users(keys ...key.Private) (out []key.Public) {
	for _, k := range keys {
		out = append(out, k.Public())
	}
	return out
}

// All processes that come at once have the same key.
func TestKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "machine")
	var mu sync.Mutex
	found := map[key.Public]bool{}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			p, err := MachineKey(dir)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			found[p.Public()] = true
			mu.Unlock()
		})
	}
	group.Wait()
	p, err := MachineKey(dir)
	if err != nil || len(found) != 1 || !found[p.Public()] {
		t.Error(len(found), "keys", err)
	}
	blocked := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := MachineKey(blocked); err == nil || !p.IsZero() {
		t.Error("a key in a file")
	}
}

func TestVoucher(t *testing.T) {
	b, err := Vouch(machineKey.Public(), "build-7", userKey, voucherNoon)
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, "testdata/voucher.json", b)
	stranger := keytest.Named("stranger")
	if by, err := CheckVoucher(b, machineKey.Public(), users(stranger, userKey)); err != nil ||
		by != userKey.Public() {
		t.Error(by, err)
	}
	if _, err := CheckVoucher(b, machineKey.Public(), users(stranger)); fault.CodeOf(err) != fault.BelowThreshold {
		t.Error(err)
	}
	if _, err := CheckVoucher(b, machineKey.Public(), nil); err == nil {
		t.Error("accepted without any trusted key")
	}
	if _, err := CheckVoucher(b, stranger.Public(), users(userKey)); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	// A changed byte is never accepted; a changed signature is reported as invalidVoucher.
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 4
		if _, err := CheckVoucher(c, machineKey.Public(), users(userKey)); err == nil {
			t.Errorf("byte %d", i)
		}
	}
	i := bytes.Index(b, []byte(`"sig":"`)) + 20
	c := bytes.Clone(b)
	c[i] = 'A' + (c[i]-'A'+1)%26
	var invalid *sign.SignatureInvalidError
	if _, err := CheckVoucher(c, machineKey.Public(), users(userKey)); !errors.As(err, &invalid) {
		t.Error(err)
	}
	if _, err := Vouch(key.Public{}, "x", userKey, voucherNoon); err == nil || err.Error() != "voucher: no key given" {
		t.Error(err)
	}
	if _, err := Vouch(machineKey.Public(), "x", key.Private{}, voucherNoon); err == nil {
		t.Error("signed without a key")
	}
	if _, err := Vouch(machineKey.Public(), "\xff", userKey, voucherNoon); err == nil {
		t.Error("a name that is no text")
	}
}

// A predicate must be what Vouch writes, and about the key that the subject is.
func TestPredicate(t *testing.T) {
	for _, c := range []struct {
		predicate map[string]any
		want      string
	}{
		{map[string]any{"at": "2026-11-20T12:00:00Z", "key": userKey.Public().String()},
			"voucher: the key is " + userKey.Public().String() + ", the subject is " + machineKey.Public().String()},
		{map[string]any{"at": "2026-11-20T12:00:00Z", "key": machineKey.Public().String(), "more": 1},
			"voucher: the predicate is not in canonical form"},
		{map[string]any{"at": "2026-11-20T12:00:00.5Z", "key": machineKey.Public().String()},
			"voucher: the predicate is not in canonical form"},
		{map[string]any{"at": "noon", "key": machineKey.Public().String()}, "voucher: invalid predicate: "},
		{map[string]any{"at": "2026-11-20T12:00:00Z", "key": "x"}, "voucher: invalid predicate: "},
		{map[string]any{}, "voucher: the predicate is not in canonical form"},
	} {
		predicate, err := jcs.Append(nil, c.predicate)
		if err != nil {
			t.Fatal(err)
		}
		s := attest.Statement{Subjects: []attest.Subject{{Digests: digests(machineKey.Public())}},
			PredicateType: MachinePredicateType, Predicate: predicate}
		payload, err := s.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := attest.NewEnvelope(attest.StatementPayload, payload)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Sign(userKey); err != nil {
			t.Fatal(err)
		}
		b, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CheckVoucher(b, machineKey.Public(), users(userKey)); err == nil ||
			fault.CodeOf(err) != fault.Parsing || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// A kept voucher counts only for its machine, in a whole file.
func TestEnroll(t *testing.T) {
	empty := t.TempDir()
	if _, err := Enroll(empty, key.Public{}, "", keytest.Alice(), time.Time{}); fault.CodeOf(err) != fault.Parsing {
		t.Errorf("a machine without a key: %v", err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) != 0 {
		t.Errorf("what was refused left %v, %v", left, err)
	}
	user, own := keytest.Seeded(8), keytest.Seeded(9).Public()
	dir := t.TempDir()
	if b := Voucher(dir, own); b != nil {
		t.Errorf("there is none, but %s", b)
	}
	good, err := Enroll(dir, own, "", user, time.Now())
	if err != nil || string(Voucher(dir, own)) != string(good) {
		t.Fatal(err)
	}
	if by, err := CheckVoucher(good, own, []key.Public{user.Public()}); err != nil || by != user.Public() {
		t.Error(by, err)
	}
	other, err := Vouch(keytest.Seeded(7).Public(), "x", user, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"": false, "{}": false, string(other): false, string(good): true,
		string(good) + "\n": true,
		string(good) + "x":  false, strings.Repeat(" ", maxVoucher) + string(good): false} {
		if err := os.WriteFile(filepath.Join(dir, voucherFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Voucher(dir, own); (got != nil) != want || want && string(got) != string(good) {
			t.Errorf("%.60q: %s", text, got)
		}
	}
	if _, err := Enroll(filepath.Join(dir, "absent"), own, "x", user, time.Now()); err == nil {
		t.Error("kept in a directory that doesn't exist")
	}
}
