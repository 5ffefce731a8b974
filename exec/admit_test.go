package exec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// TestAdmission: one link without a trusted signature stops the call. Its bytes and the policies count as they are
// now.
func TestAdmission(t *testing.T) {
	change := func(name string) func(*world) {
		return func(w *world) {
			path := filepath.Join(w.project, ".ai", "tools", filepath.FromSlash(name))
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, append(b, "\n"...), 0o666)
			}
			if err != nil {
				w.Fatal(err)
			}
		}
	}
	says := func(text string) func(*world) { return func(w *world) { w.policy += "\n" + text + "\n" } }
	for name, c := range map[string]struct {
		before func(*world) // the items are signed
		by     []key.Private
		after  func(*world)
		code   policy.Code // of the policy's no; Undecided: the item itself is wrong
	}{
		"unsigned":            {code: policy.Unsigned},
		"Eve signed":          {by: []key.Private{eve}, code: policy.UntrustedKey},
		"changed since":       {by: []key.Private{alice}, after: change("acme/m/m.yaml")},
		"a part changed":      {by: []key.Private{alice}, after: change("acme/m/parts")},
		"a deep part changed": {by: []key.Private{alice}, after: change("acme/m/a/b")},
		"a part is gone": {by: []key.Private{alice}, after: func(w *world) {
			os.Remove(filepath.Join(w.project, ".ai/tools/acme/m/a/b"))
		}},
		"a part is new": {by: []key.Private{alice}, after: func(w *world) {
			w.put(map[string]string{".ai/tools/acme/m/new": ""})
		}},
		"the runtime changed": {by: []key.Private{alice}, after: change("acme/r.yaml")},
		"the key is revoked": {by: []key.Private{alice},
			after: says(fmt.Sprintf("revoked:\n  \"key:%s\": {reason: stolen}", alice.Public().Fingerprint())),
			code:  policy.KeyRevoked},
		"a part is revoked": {by: []key.Private{alice},
			after: says(fmt.Sprintf("revoked:\n  %q: {reason: evil}", cas.Sum([]byte("deep")))),
			code:  policy.DigestRevoked},
		"the library's revoked": {by: []key.Private{alice}, after: func(w *world) {
			says(fmt.Sprintf("revoked:\n  %q: {reason: evil}", cas.Sum(w.library["tools/"+probing+".yaml"].Data)))(w)
		}, code: policy.DigestRevoked},
		"the project's says no": {by: []key.Private{alice}, after: func(w *world) {
			w.mine = fmt.Sprintf("revoked:\n  \"key:%s\": {reason: left}\n", alice.Public().Fingerprint())
		}, code: policy.KeyRevoked},
	} {
		w := newWorld(t)
		w.put(map[string]string{
			".ai/tools/acme/m/m.yaml": tool("acme/m/m", "acme/r"), ".ai/tools/acme/m/parts": "parts",
			".ai/tools/acme/m/a/b": "deep",
			".ai/tools/acme/r.yaml": tool("acme/r", probing,
				"anchor: {enabled: true, mode: auto, markers_any: [parts], root: tool_dir}"),
		})
		w.signed("tool:acme/r", alice)
		w.signed("tool:acme/m/m", c.by...)
		if c.after != nil {
			c.after(w)
		}
		err := w.refused(call("tool:acme/m/m", nil))
		if got, want := fault.Of(err).Details["reason"],
			c.code.String(); (got == want) != (c.code != policy.Undecided) {
			t.Errorf("%s: %T %v: %v", name, err, err, got)
		}
	}
}

// TestRevoked: what was revoked a moment ago doesn't run, though it ran a moment before.
func TestRevoked(t *testing.T) {
	w := newWorld(t).with()
	w.ok(call(x, nil))
	w.policy = fmt.Sprintf("\nrevoked:\n  \"key:%s\": {reason: stolen}\n", alice.Public().Fingerprint())
	if _, err := w.kernel.Prepare(t.Context(), w.base(), call(x, nil)); err == nil {
		t.Error("it runs")
	}
	if n := w.probe.calls; n != 1 {
		t.Errorf("%d actions", n)
	}
}

// TestThreshold: two have to sign what two have to sign, and not one of them twice.
func TestThreshold(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{".ai/tools/two/x.yaml": tool("two/x", probing)})
	for _, by := range [][]key.Private{{alice}, {alice, alice}, {alice, eve}} {
		w.put(map[string]string{".ai/tools/two/x.yaml": tool("two/x", probing)})
		w.signed("tool:two/x", by...)
		if err := w.refused(call("tool:two/x", nil)); fault.Of(err).Details["ref"] != "tool:two/x" {
			t.Error(err)
		}
	}
	w.signed("tool:two/x", alice, bob)
	if p := w.prepare(call("tool:two/x", nil)); len(p.Chain[0].Signers) != 2 || p.Stranger {
		t.Errorf("%+v", p)
	}
}

// TestDigest: an item that the policy names by its digest runs, as a stranger's.
func TestDigest(t *testing.T) {
	w := newWorld(t)
	text := tool("acme/x", probing)
	w.put(map[string]string{".ai/tools/acme/x.yaml": text})
	w.policy = fmt.Sprintf("\ndigests:\n  %q: {as: %q}\n", cas.Sum([]byte(text)), x)
	if p := w.prepare(call(x, nil)); !p.Stranger || len(p.Chain[0].Signers) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestUnlisted: a tool is refused if files beside it are neither signed nor listed by the tool.
func TestUnlisted(t *testing.T) {
	w := newWorld(t).with()
	b := w.base()
	b.Unlisted = func(a *ai.Admission) []string { return []string{"help.py", "more.py"} }
	_, err := w.kernel.Prepare(t.Context(), b, call(x, nil))
	if fault.CodeOf(err) != fault.Policy || !strings.Contains(err.Error(), `doesn't cover "help.py" beside it`) {
		t.Error(err)
	}
	b.Unlisted = func(*ai.Admission) []string { return nil }
	p, err := w.kernel.Prepare(t.Context(), b, call(x, nil))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}

// TestNoPolicy: without a policy only the library runs.
func TestNoPolicy(t *testing.T) {
	w := newWorld(t).with()
	v := w.view()
	b := &exec.Base{Resolver: v, Admit: ai.NewAdmitter(v, nil)}
	if _, err := w.kernel.Prepare(t.Context(), b, call(x, nil)); err == nil {
		t.Error("a tool of the project runs without a policy")
	}
	p, err := w.kernel.Prepare(t.Context(), b, call(hello, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Run(t.Context(), nil)
	if err != nil || len(w.proved(r).Call.Policy) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMoved: a part that changes between the answer of the policy and the copy is an error, and never copied.
func TestMoved(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		".ai/tools/acme/m/m.yaml": tool("acme/m/m", "rye/core/runtimes/r"), ".ai/tools/acme/m/parts": "parts",
	})
	w.signed("tool:acme/m/m", alice)
	b := w.base()
	b.Unlisted = func(a *ai.Admission) []string { // is asked when the tree has been read
		w.put(map[string]string{".ai/tools/acme/m/parts": "pests"})
		return nil
	}
	_, err := w.kernel.Prepare(t.Context(), b, call("tool:acme/m/m", nil))
	if _, ok := errors.AsType[*cas.DamagedError](err); !ok {
		t.Error(err)
	}
	b.Unlisted = func(a *ai.Admission) []string {
		os.RemoveAll(filepath.Join(w.project, ".ai/tools/acme/m"))
		return nil
	}
	w.put(map[string]string{".ai/tools/acme/m/parts": "parts"})
	if _, err := w.kernel.Prepare(t.Context(), b, call("tool:acme/m/m", nil)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestExpired: a key that has expired vouches for nothing.
func TestExpired(t *testing.T) {
	w := newWorld(t).with()
	v := w.view()
	trust := w.trust()
	trust.Root.Policy = w.parse(
		fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q, expires: %q}\n\nnames:\n  \"**\": {keys: [alice]}\n",
			alice.Public(), noon.Add(-time.Hour).Format("2006-01-02T15:04:05Z")))
	_, err := w.kernel.Prepare(t.Context(), &exec.Base{Resolver: v, Admit: ai.NewAdmitter(v, trust)}, call(x, nil))
	if fault.CodeOf(err) != fault.Expired {
		t.Error(err)
	}
}
