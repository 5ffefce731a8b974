package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
)

// A calledOnce is a call for tests: "ID REF STATUS PARENT", where the status may be unfinished, and "-" is no parent.
type calledOnce struct{ id, ref, status, parent string }

// openAudit opens the log as a call does.
func openAudit(a *cli.App) (*audit.Log, key.Private, []byte, error) {
	p, err := audits.Dirs(a)
	if err != nil {
		return nil, key.Private{}, nil, err
	}
	return p.Open(paths.Keys(a), "rye test", a.Now)
}

// keepReceipt keeps the receipt of a call that another call made.
func keepReceipt(a *cli.App, b []byte) (cas.Digest, error) {
	d := cas.Sum(b)
	p, err := audits.Dirs(a)
	if err != nil {
		return d, err
	}
	return d, p.Receipts.Keep(b)
}

// callsOf writes calls to the log of an app as one process does that begins them in their order and ends them in the
// other, and returns their receipts. A process that dies never closes its log.
func callsOf(ctx context.Context, a *cli.App, dies bool, calls ...calledOnce) (map[string][]byte, error) {
	log, own, voucher, err := openAudit(a)
	if err != nil {
		return nil, err
	}
	receipts := map[string][]byte{}
	var entries []*audit.Entry
	of := func(c calledOnce) record.Call {
		sum := func(s string) cas.Digest { return cas.Sum([]byte(s)) }
		call := record.Call{ID: c.id, Ref: c.ref, Digest: sum(c.ref), Params: sum("{}"), Principal: "ann",
			Sandbox: "full", Policy: []cas.Digest{sum("policy")},
			Chain:   []record.Link{{Digest: sum("chain"), Ref: "tool:rye/python", Signers: []string{"builtin"}}},
			Limits:  map[string]int64{"wall_ms": 60000, "memory": 1 << 30},
			Signers: []string{own.Public().Fingerprint().String()},
			Toolchain: []record.Program{{Name: "python3", Path: "/usr/bin/python3", Version: "3.12.3"},
				{Name: "cc", Pinned: true, Digest: sum("cc")}}}
		if c.parent != "-" {
			call.Parent = c.parent
		}
		return call
	}
	for _, c := range calls {
		e, err := log.Begin(ctx, of(c))
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	for i := len(calls) - 1; i >= 0; i-- {
		c := calls[i]
		if c.status == audits.UnfinishedCall {
			continue
		}
		o := record.End{Status: c.status, Duration: 1500 * time.Millisecond, Sandbox: "best",
			Usage: map[string]int64{"cpu_ms": 12}}
		switch c.status {
		case record.OK:
			o.Result = cas.Sum([]byte("result"))
		case record.Failed:
			o.Code, o.Exit = "EXECUTION_FAILED", 3
		}
		r := receipt.Receipt{Call: of(c), Outcome: o, Begin: a.Now(), End: a.Now(), Log: entries[i].Position()}
		for _, child := range calls {
			if b, ok := receipts[child.id]; ok && child.parent == c.id {
				r.Children = append(r.Children, receipt.Child{Call: child.id, Receipt: cas.Sum(b)})
			}
		}
		b, err := receipt.New(r, own, voucher)
		if err != nil {
			return nil, err
		}
		if o.Receipt, err = keepReceipt(a, b); err != nil {
			return nil, err
		}
		receipts[c.id] = b
		if err := entries[i].End(ctx, o); err != nil {
			return nil, err
		}
	}
	if dies {
		return receipts, nil
	}
	return receipts, log.Close(ctx)
}

// calls is "calls [-dies] ID REF STATUS PARENT …": see callsOf. The receipt of each is in ID.json; AUDIT becomes the
// directory of the log, RECEIPTS that of receipts.
func calls(ts *testscript.TestScript, neg bool, args []string) {
	dies := len(args) > 0 && args[0] == "-dies"
	if dies {
		args = args[1:]
	}
	if neg || len(args) == 0 || len(args)%4 != 0 {
		ts.Fatalf("usage: calls [-dies] ID REF STATUS PARENT …")
	}
	h, _, _ := testHost()
	h.Now = time.Now
	for _, name := range []string{"HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_STATE_HOME", cli.EnvKey,
		cli.EnvPassphrase} {
		h.Environ = append(h.Environ, name+"="+ts.Getenv(name))
	}
	h.Getwd = func() (string, error) { return ts.MkAbs("."), nil }
	var all []calledOnce
	for ; len(args) > 0; args = args[4:] {
		all = append(all, calledOnce{args[0], args[1], args[2], args[3]})
	}
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	ts.Check(err)
	receipts, err := callsOf(context.Background(), a, dies, all...)
	ts.Check(err)
	p, err := audits.Dirs(a)
	ts.Check(err)
	ts.Setenv("AUDIT", p.Log)
	ts.Setenv("RECEIPTS", string(p.Receipts))
	for id, b := range receipts {
		ts.Check(os.WriteFile(ts.MkAbs(id+".json"), b, 0o600))
	}
}

// relines is "relines GLOB N…": of the one file that matches these lines stay, in this order.
func relines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: relines GLOB N…")
	}
	for _, path := range matching(ts, args[0]) {
		lines := strings.SplitAfter(ts.ReadFile(path), "\n")
		var text strings.Builder
		for _, arg := range args[1:] {
			n, err := strconv.Atoi(arg)
			ts.Check(err)
			text.WriteString(lines[n-1])
		}
		ts.Check(os.WriteFile(path, []byte(text.String()), 0o600))
	}
}

// auditWords are those of the commands about calls, and what they need: a log, and a receipt.
func auditWords(t *testing.T, home string) map[string][]string {
	t.Helper()
	h, _, _ := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := callsOf(t.Context(), a, false, calledOnce{"call", "tool:a", record.OK, "-"},
		calledOnce{"child", "tool:b", record.Failed, "call"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "call.json")
	if err := os.WriteFile(file, receipts["call"], 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"audit show": {"call"}, "audit verify": {file},
		"audit export": {"-o", filepath.Join(dir, "out.jsonl")}}
}

// auditApp is an app with a home of its own, and that home.
func auditApp(t *testing.T, env ...string) (*cli.App, string) {
	t.Helper()
	home := t.TempDir()
	h, _, _ := testHost(append(env, "HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)...)
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	return a, home
}

// TestVouchQuietly: a user's key vouches for the machine's key without a question only where none is needed.
func TestVouchQuietly(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	locked, err := testPrivate("locked").Lock("secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		env  []string
		kept []byte // the file of the user's key
		want key.Private
	}{
		{"no key", nil, nil, key.Private{}},
		{"kept", nil, testPrivate("kept").PEM(), testPrivate("kept")},
		{"locked", nil, locked, key.Private{}},
		{"locked, with its passphrase", []string{cli.EnvPassphrase + "=secret"}, locked, testPrivate("locked")},
		{"locked, with another passphrase", []string{cli.EnvPassphrase + "=wrong"}, locked, key.Private{}},
		{"given", []string{cli.EnvKey + "=" + string(testPrivate("given").PEM())}, testPrivate("kept").PEM(),
			testPrivate("given")},
		{"given badly", []string{cli.EnvKey + "=given.pem"}, testPrivate("kept").PEM(), key.Private{}},
		{"given and locked", []string{cli.EnvKey + "=" + string(locked)}, nil, key.Private{}},
	} {
		a, home := auditApp(t, test.env...)
		keys := filepath.Join(home, ".ai", "keys")
		if err := os.MkdirAll(keys, 0o700); err != nil {
			t.Fatal(err)
		}
		if test.kept != nil {
			if err := os.WriteFile(filepath.Join(keys, "private_key.pem"), test.kept, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, own, voucher, err := openAudit(a)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if test.want.IsZero() {
			if voucher != nil {
				t.Errorf("%s: %s", test.name, voucher)
			}
			continue
		}
		if by, err := receipt.CheckVoucher(voucher, own.Public(), []key.Public{test.want.Public()}); err != nil ||
			by != test.want.Public() {
			t.Errorf("%s: %v, %v", test.name, by, err)
		}
		// It is kept, and the same from then on, whatever becomes of the key.
		if err := os.RemoveAll(keys); err != nil {
			t.Fatal(err)
		}
		a.Environ = a.Environ[len(test.env):]
		if _, again, same, err := openAudit(a); err != nil || again.Public() != own.Public() ||
			string(same) != string(voucher) {
			t.Errorf("%s: again: %v, %s", test.name, err, same)
		}
	}
}

// TestOpenAuditAtOnce: who comes first makes the machine's key and the voucher; the others take them.
func TestOpenAuditAtOnce(t *testing.T) {
	const processes = 8
	user := testPrivate("user")
	a, home := auditApp(t, cli.EnvKey+"="+string(user.PEM()))
	failed := make(chan error, processes)
	for i := range processes {
		go func() {
			h, _, _ := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home,
				cli.EnvKey+"="+string(user.PEM()))
			own, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
			if err == nil {
				_, err = callsOf(t.Context(), own, false,
					calledOnce{"call-" + strconv.Itoa(i), "tool:a", record.OK, "-"})
			}
			failed <- err
		}()
	}
	for range processes {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	p, err := audits.Dirs(a)
	if err != nil {
		t.Fatal(err)
	}
	r, err := audit.Verify(t.Context(), p.Log, []key.Public{user.Public()})
	if err != nil || len(r.Problems) > 0 || len(r.Machines) != 1 || r.Calls != processes ||
		r.Machines[0].By != user.Public() {
		t.Errorf("%+v, %v", r, err)
	}
	if files, err := os.ReadDir(string(p.Receipts)); err != nil || len(files) != processes {
		t.Errorf("%v, %v", files, err)
	}
}

// testPrivate makes a key from a word.
func testPrivate(word string) key.Private {
	p, err := key.Generate(strings.NewReader(strings.Repeat(word, 32)[:32]))
	if err != nil {
		panic(err)
	}
	return p
}

// TestVoucherOfAnother: a voucher for another machine is replaced by one for this machine.
func TestVoucherOfAnother(t *testing.T) {
	user := testPrivate("user")
	other, err := receipt.Vouch(testPrivate("other").Public(), "x", user, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a, home := auditApp(t, cli.EnvKey+"="+string(user.PEM()))
	p, err := audits.Dirs(a)
	if err != nil || !strings.HasPrefix(p.Machine, home) {
		t.Fatal(p, err)
	}
	if err := errors.Join(os.MkdirAll(p.Machine, 0o700),
		os.WriteFile(filepath.Join(p.Machine, "voucher.json"), other, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, mine, voucher, err := openAudit(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := receipt.CheckVoucher(voucher, mine.Public(), []key.Public{user.Public()}); err != nil {
		t.Error(err)
	}
}

// TestOpenAuditNowhere: the log can't be opened without a place for it.
func TestOpenAuditNowhere(t *testing.T) {
	a, _ := auditApp(t)
	p, err := audits.Dirs(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(p.Machine), 0o700),
		os.WriteFile(p.Machine, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if log, _, _, err := openAudit(a); err == nil {
		t.Errorf("opened %v", log)
	}
	nowhere, _ := auditApp(t)
	nowhere.Environ = nil
	if _, _, _, err := openAudit(nowhere); err == nil || fault.Of(err).Code != fault.Config {
		t.Errorf("%v", err)
	}
}

func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "90m": "2026-11-22T10:30:00Z", "7d": "2026-11-15T12:00:00Z",
		"0d": "2026-11-22T12:00:00Z", "1h30m": "2026-11-22T10:30:00Z",
		"2026-11-01": "2026-11-01T00:00:00Z", "2026-11-01T13:00:00+01:00": "2026-11-01T12:00:00Z",
		"-1h": "", "d": "", "1.5d": "", "-1d": "", "65536d": "", "2026-13-01": "", "noon": "",
	} {
		got, err := audits.ParseMoment("--since", text, now)
		if shown := got.Format(time.RFC3339); (err != nil) != (want == "") || err == nil && shown != want {
			t.Errorf("%q: %s, %v", text, shown, err)
		}
	}
}

// FuzzParseMoment: how long ago is never later than now, and nothing else is taken than a date.
func FuzzParseMoment(f *testing.F) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{"90m", "7d", "65535d", "-1h", "2026-11-01", "2562047h47m16.854775807s", "1e9d", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := audits.ParseMoment("--since", text, now)
		if _, dated := trusts.ParseDate("--since", text); err == nil && dated != nil && at.After(now) {
			t.Errorf("%q: %s", text, at)
		}
		if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// FuzzParsePosition: what is read as a position is what is written.
func FuzzParsePosition(f *testing.F) {
	sum := cas.Sum(nil)
	for _, text := range []string{"head/1/" + sum.String(), "20261120T120001Z-0123456789abcdef/12/" + sum.String(),
		"head/01/" + sum.String(), "head/0/" + sum.String(), "/1/" + sum.String(), "head/1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := audits.ParsePosition(text); ok && (audits.Position(p) != text || p.Line < 1) {
			t.Errorf("%q: %+v", text, p)
		}
	})
}
