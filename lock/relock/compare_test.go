package relock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/diff"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/key"
)

func (w *world) side(l *file.Lock, b []byte, o lock.SetOptions) *lock.Side {
	w.Helper()
	s, err := lock.NewSide(w.Context(), l, cas.Sum(b), o)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) weakening(from, to *lock.Side) string {
	w.Helper()
	found, err := lock.Weakening(w.Context(), from, to)
	if err != nil {
		w.Fatal(err)
	}
	var lines []string
	for _, x := range found {
		lines = append(lines, fmt.Sprintf("%s %s: %s → %s", x.Kind, x.Name, x.From, x.To))
		for _, d := range x.Details {
			lines = append(lines, "  "+d)
		}
	}
	return strings.Join(lines, "\n")
}

func TestWeakening(t *testing.T) {
	w := shop(t)
	w.files["project"]["tools/acme/call.yaml"] = tool("acme/call", http, "risk: read",
		"network: [api.example.com, b.example.com]", "permissions: [rye.load.knowledge.acme.x]", "limits: {turns: 4}")
	w.roots = append(w.roots, "tool:acme/call")
	w.build()
	l, b := w.made()
	was := w.side(l, b, w.options())
	grants := l.Pin(ref("tool:acme/call")).Grants
	for name, c := range map[string]struct {
		change func()           // of the world
		edit   func(*file.Lock) // of its lock
		want   string           // $ is the grants hash that is now
	}{
		"nothing":     {},
		"other bytes": {change: func() { w.edit("tools/acme/hello.sh", "echo", "printf") }},
		"another signer": {edit: func(l *file.Lock) {
			l.Pin(ref("tool:acme/hello")).Signers = []key.Fingerprint{eve.Public().Fingerprint()}
		},
			want: "signer_removed tool:acme/hello: " + alice.Public().Fingerprint().String() + " → "},
		"another place": {edit: func(l *file.Lock) {
			l.Bundles[0].Source.Where = "../other"
		}, want: "source_changed acme/base: ../acme/base → ../other"},
		"less": {change: func() { w.edit("tools/acme/call.yaml", ", b.example.com", "") }},
		"more": {change: func() {
			w.edit("tools/acme/call.yaml", "b.example.com", "c.example.com")
			w.edit("tools/acme/call.yaml", "turns: 4", "turns: 9")
			w.edit("tools/acme/call.yaml", "risk: read", "risk: money")
			w.edit("tools/acme/call.yaml", "permissions: [",
				"secrets: [token]\npermissions: [rye.execute.tool.acme.x, ")
		}, want: `grants_widened tool:acme/call: ` + grants.String() + ` → $
  limit_raised /grants/limits/turns: 4 → 9
  network_widened /grants/network: ["api.example.com","b.example.com"] → ["api.example.com","c.example.com"]
  permission_added /grants/permissions: "execute:tool:acme/x"
  secret_added /grants/secrets: "token"
risk_raised tool:acme/call: read → money`},
		"only risk": {change: func() {
			w.edit("tools/acme/call.yaml", "risk: read", "risk: write")
		}, want: "risk_raised tool:acme/call: read → write"},
	} {
		t.Run(name, func(t *testing.T) {
			saved := fstest.MapFS{}
			for name, f := range w.project() {
				g := *f
				saved[name] = &g
			}
			defer func() { w.spaces["project"].FS = saved }()
			if c.change != nil {
				c.change()
			}
			l, _ := w.made()
			if c.edit != nil {
				c.edit(l)
			}
			l, b := w.written(l)
			now := w.side(l, b, w.options())
			want := strings.ReplaceAll(c.want, "$", l.Pin(ref("tool:acme/call")).Grants.String())
			if got := w.weakening(was, now); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got := w.weakening(now, now); got != "" {
				t.Errorf("got %s of nothing", got)
			}
		})
	}

	// What was can't be read any more.
	w.edit("tools/acme/call.yaml", ", b.example.com", "")
	l, b = w.made()
	now := w.side(l, b, w.options())
	lost := w.side(was.Lock(), nil, lock.SetOptions{Objects: gone{w, was.Lock().Pin(ref("tool:acme/call")).Digest},
		Std: w.std})
	old := was.Lock().Pin(ref("tool:acme/call"))
	want := fmt.Sprintf("grants_widened tool:acme/call: %s → %s\n  the old grants are unreadable and count as wider: "+
		`"project/tools/acme/call.yaml": blob %s is missing, needed by "tool:acme/call"`, old.Grants,
		l.Pin(old.Ref).Grants, old.Digest)
	if got := w.weakening(lost, now); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = fmt.Sprintf("grants_widened tool:acme/call: %s → %s\n  the new grants are unreadable and count as wider: ",
		l.Pin(old.Ref).Grants, old.Grants)
	if got := w.weakening(now, lost); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := lock.Weakening(ctx, lost, now); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := lock.NewSide(ctx, l, cas.Digest{}, w.options()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// summary is what a comparison says, one in a line.
func summary(r *diff.Report) string {
	lines := []string{r.Summary}
	for _, i := range r.Items {
		lines = append(lines, fmt.Sprintf("%s %s %s", i.Change, i.Ref, i.Class))
	}
	for _, f := range r.Files {
		lines = append(lines, fmt.Sprintf("%s %s", f.Change, f.Path))
	}
	for _, u := range r.Unread {
		lines = append(lines, "unread "+u.Ref)
	}
	return strings.Join(lines, "\n")
}

func TestCompare(t *testing.T) {
	w := shop(t)
	w.requires["project"] = append(w.requires["project"], requirement{"acme/util", "*"})
	w.build()
	l, b := w.made()
	was := w.side(l, b, w.options())
	again, err := lock.Compare(t.Context(), was, was)
	if err != nil || again.Changes != nil || summary(again.Report) != "nothing is different" {
		t.Errorf("got %v, %s", err, summary(again.Report))
	}
	w.edit("directives/acme/deploy.md", "Do it.", "Do it well.")
	w.edit("tools/acme/hello.sh", "a test", "another test")
	w.edit("tools/acme/shop/lib/help.py", "x = 1", "x = 2")
	delete(w.project(), "config/net.yaml")
	delete(w.project(), "tools/acme/shop/idle.py")
	w.resign()
	multi := w.spaces[base].FS.(fstest.MapFS)
	multi["tools/acme/deep/multi/more.py"] = &fstest.MapFile{Data: []byte("z = 1\n"), Mode: 0o644}
	// The bundle signs its tool anew.
	v := w.view()
	at, err := v.At(w.spaces[base], "tools/acme/deep/multi/multi.py")
	if err != nil {
		t.Fatal(err)
	}
	multi[at.Path].Data = []byte(pyTool("acme/deep/multi/multi"))
	w.sign(w.view(), at, alice)
	w.versions[base] = "2.2.0"
	set := w.set()
	now := set.Side
	c, err := lock.Compare(t.Context(), was, now)
	if err != nil {
		t.Fatal(err)
	}
	want := `4 warning, 3 items changed, 3 items signed again, 1 file added, 2 files removed, 7 files changed`
	if got := summary(c.Report); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s", got)
	}
	for _, line := range []string{"changed directive:acme/deploy warning", "changed tool:acme/hello info",
		"changed .ai/tools/acme/shop/lib/help.py", "added system:acme/base/tools/acme/deep/multi/more.py",
		"signed tool:acme/deep/multi/multi info", "changed config:net warning",
		"removed .ai/tools/acme/shop/idle.py"} {
		if !strings.Contains(summary(c.Report), line+"\n") && !strings.HasSuffix(summary(c.Report), line) {
			t.Errorf("there is no %q in\n%s", line, summary(c.Report))
		}
	}
	kinds := map[file.Kind]bool{}
	for _, x := range c.Changes {
		kinds[x.Kind] = true
	}
	if !kinds[file.BundleUpgraded] || !kinds[file.PinChanged] || !kinds[file.PinMoved] && !kinds[file.PinRemoved] {
		t.Errorf("got %v", c.Changes)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}

	// Of a lock whose bytes are gone, whose bundles are gone, and whose library is another one, what can be said is
	// said.
	nowhere := w.side(was.Lock(), nil, lock.SetOptions{Objects: &world{TB: t, store: &cas.Memory{}}})
	for _, sides := range [][2]*lock.Side{{nowhere, now}, {now, nowhere}} {
		c, err := lock.Compare(t.Context(), sides[0], sides[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(c.Report); !strings.Contains(got, "unread tool:acme/hello") ||
			strings.Contains(got, "tool:rye/") || strings.Contains(got, "knowledge:see") {
			t.Errorf("got\n%s", got)
		}
	}
	c, err = lock.Compare(t.Context(), nowhere, nowhere)
	if err != nil || c.Report.Summary != "nothing is different" {
		t.Errorf("got %v, %s", err, c.Report.Summary)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := lock.Compare(ctx, was, now); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCompareItem(t *testing.T) {
	w := shop(t).build()
	side := w.set().Side
	compare := func(text string) string {
		t.Helper()
		working := w.view()
		r, err := lock.CompareItem(t.Context(), side, working, ai.NewAdmitter(working, w.trust()), ref(text))
		if err != nil {
			return err.Error()
		}
		return summary(r)
	}
	const run = "tool:acme/shop/run"
	if got := compare(run); got != "nothing is different" {
		t.Errorf("got %s", got)
	}
	w.edit("tools/acme/shop/lib/help.py", "x = 1", "x = 2")
	w.edit("tools/acme/shop/run.py", "a test", "another test")
	w.project()["tools/acme/shop/new.py"] = &fstest.MapFile{Data: []byte("a = 1\n"), Mode: 0o755}
	want := `1 item changed, 1 file added, 4 files changed
changed tool:acme/shop/run info
changed .ai/tools/acme/shop/idle.py
changed .ai/tools/acme/shop/lib/help.py
added .ai/tools/acme/shop/new.py
changed .ai/tools/acme/shop/run.py
changed .ai/tools/acme/shop/walk.py`
	if got := compare(run); got != want {
		t.Errorf("got\n%s", got)
	}
	for text, want := range map[string]string{
		"tool:acme/base/fetch":       "nothing is different",
		"tool:acme/deep/multi/multi": "nothing is different",
		"tool:" + python:             "nothing is different",
		"tool:acme/hello":            "1 item signed again, 1 file changed\nsigned tool:acme/hello info\nchanged .ai/tools/acme/hello.sh",
		"tool:acme/unused":           `"tool:acme/unused" is not locked`,
	} {
		if text == "tool:acme/hello" {
			w.project()["tools/acme/hello.sh"].Data = []byte(shTool("acme/hello"))
		}
		if got := compare(text); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
	delete(w.project(), "tools/acme/hello.sh")
	if got, want := compare("tool:acme/hello"),
		"1 breaking, 1 item removed, 1 file removed\nremoved tool:acme/hello breaking\nremoved .ai/tools/acme/hello.sh"; got != want {
		t.Errorf("got\n%s", got)
	}
	w.project()["tools/acme/hello.py"] = &fstest.MapFile{Data: []byte(pyTool("acme/hello"))}
	w.project()["tools/acme/hello.sh"] = &fstest.MapFile{Data: []byte(shTool("acme/hello"))}
	if got := compare("tool:acme/hello"); !strings.Contains(got, "is ambiguous") {
		t.Errorf("got\n%s", got)
	}
	w.project()["tools/acme/shop/a|b"] = &fstest.MapFile{}
	if got := compare(run); !strings.Contains(got, "a|b") {
		t.Errorf("got\n%s", got)
	}
}

// An update doesn't take a plugin's server that starts something else by itself: a person accepts it by name. Other
// words about the same server are no weakness, and what rye made in the project was shown when it was made.
func TestServerChanged(t *testing.T) {
	const server = "tools/acme/base/servers/db.yaml"
	w := shop(t)
	w.files[base][server] = tool("acme/base/servers/db", http, "risk: write", "plugin: acme/base",
		`config: {command: "{plugin_root}/bin/db", args: [a], env: {MODE: x}}`)
	w.files["project"]["tools/acme/mine/servers/db.yaml"] = tool("acme/mine/servers/db", http, "risk: write",
		"plugin: acme/mine", "config: {command: a}")
	w.roots = append(w.roots, "tool:acme/base/servers/db", "tool:acme/mine/servers/db")
	w.build()
	l, b := w.made()
	was := w.side(l, b, w.options())
	w.edit("tools/acme/mine/servers/db.yaml", "command: a", "command: b")
	w.versions[base] = "2.1.5"
	now := func() *lock.Side {
		w.build()
		l, b := w.made()
		return w.side(l, b, w.options())
	}
	original := w.files[base][server]
	const line = "server_changed tool:acme/base/servers/db: "
	for name, c := range map[string]struct{ old, text, want string }{
		"nothing":          {"", "", ""},
		"words":            {"description: a test", "description: another test", ""},
		"the command":      {"bin/db", "bin/db2", `command: "{plugin_root}/bin/db" → "{plugin_root}/bin/db2"`},
		"an argument":      {"args: [a]", "args: [a, b]", `args: ["a"] → ["a","b"]`},
		"no arguments":     {"args: [a], ", "", `args: ["a"] removed`},
		"a variable":       {"MODE: x", "MODE: y", `env: {"MODE":"x"} → {"MODE":"y"}`},
		"another field":    {"args:", "timeout: 3, args:", "timeout: 3 added"},
		"another executor": {"executor_id: " + http, "executor_id: " + bash, `executor: ` + http + ` → ` + bash},
	} {
		if c.old != "" && !strings.Contains(original, c.old) {
			t.Fatalf("%s: no %q in %s", name, c.old, original)
		}
		w.files[base][server] = strings.Replace(original, c.old, c.text, 1)
		got := w.weakening(was, now())
		if (c.want == "") != (got == "") || c.want != "" && (!strings.HasPrefix(got, line) ||
			!strings.HasSuffix(got, "\n  "+c.want)) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	w.files[base][server] = strings.Replace(original, "a test", "b test", 1)
	last := now()
	missing := gone{w, was.Lock().Pin(ref("tool:acme/base/servers/db")).Digest}
	lost := w.side(was.Lock(), nil, lock.SetOptions{Objects: missing, Std: w.std})
	got := w.weakening(lost, last)
	if !strings.Contains(got, "the old server is unreadable and counts as another one") {
		t.Errorf("got %q", got)
	}
}
