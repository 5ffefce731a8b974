package exec_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/manifest/key"
)

const hush = `s3cr3t/"value"+1`

// allowing is a policy that lets Acme's tools have two secrets.
const allowing = "\nexec:\n  secrets: {acme-token: [\"tool:acme/**\"], OTHER: [\"tool:acme/**\"]}\n"

// secrets gives the kernel a store with one secret in it.
func (w *world) secrets() *secret.Store {
	w.Helper()
	s := &secret.Store{Dir: filepath.Join(w.dir, "auth"), Now: time.Now, Wait: time.Minute}
	if _, err := s.Set(w.Context(), secret.Secret{Name: "acme-token", From: "a test"}, hush, true); err != nil {
		w.Fatal(err)
	}
	w.kernel.Secrets = s.Get
	return s
}

// A listener keeps the output that it gets.
type listener struct{ said [2]strings.Builder }

func (l *listener) Emit(s primitive.Stream, b []byte) error {
	l.said[s].Write(b)
	return nil
}

// TestSecrets: the action has the value, where it belongs and nowhere else, and nothing that comes back has it.
func TestSecrets(t *testing.T) {
	w := newWorld(t)
	w.policy = allowing
	w.with("secrets: [acme-token]", "config: {auth: {token: 'Bearer ${ACME_TOKEN}'}, none: '${OTHER:-nothing}'}",
		"env_config: {env: {ACME_TOKEN: from the chain, LEVEL: '1'}}",
		"output_schema: {type: object}")
	w.secrets()
	var seen primitive.Action
	w.probe.do = func(_ context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		seen = *a
		for _, b := range []string{"out " + hush[:5], hush[5:] + "\n",
			base64.StdEncoding.EncodeToString([]byte("user:" + hush)), "end " + hush[:3]} {
			if err := to.Emit(primitive.Stdout, []byte(b)); err != nil {
				return nil, err
			}
		}
		if err := to.Emit(primitive.Stderr, []byte(hush)); err != nil {
			return nil, err
		}
		return &primitive.Result{Value: map[string]any{"token": "plain",
			"echo": []any{"x" + hush, hex.EncodeToString([]byte(hush))}}, Level: 4}, nil
	}
	p := w.prepare(call(x, map[string]any{"a": "it is " + hush, "b": int64(1)}))
	if got := fmt.Sprint(p.Config, p.Env, p.Action.Config, p.Action.Env); strings.Contains(got, hush) ||
		!strings.Contains(got, "Bearer ${ACME_TOKEN}") {
		t.Error(got)
	}
	if len(p.Withheld()) != 0 || !slices.Equal(p.Grants.Secrets, []string{"acme-token"}) {
		t.Error(p.Withheld(), p.Grants.Secrets)
	}
	var l listener
	r, err := p.Run(t.Context(), &l)
	if err != nil || r.Status != record.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	if token := seen.Config["auth"].(map[string]any)["token"]; token != "Bearer "+hush ||
		seen.Config["none"] != "nothing" {
		t.Errorf("the configuration is %v", seen.Config)
	}
	if i := slices.Index(seen.Env, "ACME_TOKEN="+hush); i < 0 ||
		slices.Contains(seen.Env, "ACME_TOKEN=from the chain") || !slices.Contains(seen.Env, "LEVEL=1") ||
		!slices.IsSorted(seen.Env) {
		t.Errorf("the environment is %q", seen.Env)
	}
	if got := fmt.Sprint(p.Config, p.Env, p.Action.Config, p.Action.Env); strings.Contains(got, hush) {
		t.Error("it stays in the plan")
	}
	const m = redact.Mask
	if out, err := l.said[0].String(), l.said[1].String(); out != "out "+m+"\ndXNlcjp"+m+"end "+hush[:3] || err != m {
		t.Errorf("%q, %q", out, err)
	}
	if got := fmt.Sprint(r.Value); got != "map[echo:[x"+m+" "+m+"] token:plain]" {
		t.Error(got)
	}
	// The digests don't reveal the secret: they are those of a call with the mask in its place.
	got := w.proved(r)
	want, err := redact.New().Digest(map[string]any{"a": "it is " + m, "b": int64(1)})
	if err != nil || got.Call.Params != want {
		t.Errorf("%v, %v", got.Call.Params, err)
	}
	// Without a sink the result is masked, too.
	w.probe.do = func(_ context.Context, _ *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		if to != nil {
			t.Error("the primitive got a sink")
		}
		return &primitive.Result{Failed: true, Failure: "no: " + hush + ", " + url.QueryEscape(hush), Level: 4}, nil
	}
	if r, err := w.run(call(x, nil)); err != nil || r.Failure != "no: "+m+", "+m {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSecretErrors: what a primitive can't do is said without it, at every depth, and in no field.
func TestSecretErrors(t *testing.T) {
	w := newWorld(t)
	w.policy = allowing
	w.with("secrets: [acme-token]")
	w.secrets()
	plain, deep := errors.New("plain"), errors.New("deep "+hush)
	for _, c := range []struct {
		err  error
		want string
	}{
		{plain, "plain"}, {fmt.Errorf("x %s: %w", hush, plain), `"tool:acme/x" failed: x ` + redact.Mask + ": plain"},
		{fault.New(fault.Files, "field").On("path", hush), `"tool:acme/x" failed: field`},
		{silent{deep}, `"tool:acme/x" failed: silent`},
		{errors.Join(plain, silent{fmt.Errorf("y: %w", deep)}), `"tool:acme/x" failed: plain` + "\nsilent"},
	} {
		w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
			return nil, c.err
		}
		r, err := w.run(call(x, nil))
		if err == nil || err.Error() != c.want || errors.Is(err, deep) || r.Status != record.Refused {
			t.Errorf("%+v, %v; want %s", r, err, c.want)
		}
	}
	// A sink that fails ends the call even if it fails on output that was held back.
	full := errors.New("full")
	w.probe.do = func(_ context.Context, _ *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		return gives(nil), to.Emit(primitive.Stdout, []byte(hush[:3]))
	}
	p := w.prepare(call(x, nil))
	r, err := p.Run(t.Context(), deaf{full})
	if err != nil || r.Status != record.Cancelled || r.Failure != "what it writes can't be passed on: full" {
		t.Errorf("%+v, %v", r, err)
	}
}

type silent struct{ error }

func (silent) Error() string   { return "silent" }
func (s silent) Unwrap() error { return s.error }

type deaf struct{ error }

func (d deaf) Emit(primitive.Stream, []byte) error { return d.error }

// TestNoSecret: who needs one and doesn't get it isn't run; to look at the plan is free.
func TestNoSecret(t *testing.T) {
	const all = "\ngrants:\n  \"tool:acme/**\": []\n"
	for name, c := range map[string]struct {
		bobs         bool
		secrets      string
		policy, mine string
		broken       bool // the kernel has none
		want         fault.Code
		by           string // what keeps it from the tool
		text         string
	}{
		"not allowed": {want: fault.Policy, by: "policy",
			text: `"tool:acme/x" needs the secret "acme-token" but may not have it: no policy allows it`},
		"allowed to others": {policy: "\nexec:\n  secrets: {acme-token: [\"tool:else/**\"]}\n", want: fault.Policy,
			by: "policy"},
		"the project says no": {policy: allowing, mine: "\nexec:\n  secrets: {OTHER: [\"tool:acme/**\"]}\n",
			want: fault.Policy, by: "policy"},
		"a stranger's": {bobs: true, policy: allowing, want: fault.Policy, by: "grants",
			text: `"tool:acme/x" needs the secret "acme-token" but may not have it: it was signed by another person, and the policy grants it nothing`},
		"a stranger's, let": {bobs: true, policy: allowing + all},
		"one of two": {secrets: "[OTHER, acme-token]", policy: allowing, want: fault.AuthRequired,
			text: `"tool:acme/x" needs a secret: the secret "OTHER" is not set`},
		"none at all": {policy: allowing, broken: true, want: fault.AuthRequired},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			w := newWorld(t)
			w.policy, w.mine = c.policy, c.mine
			if c.secrets == "" {
				c.secrets = "[acme-token]"
			}
			w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", probing, "secrets: "+c.secrets,
				"config: {token: '${ACME_TOKEN}'}")})
			w.signed(x, map[bool]key.Private{false: alice, true: bob}[c.bobs])
			w.secrets()
			if c.broken {
				w.kernel.Secrets = nil
			}
			p := w.prepare(call(x, nil))
			if (c.by != "") != slices.Contains(p.Withheld(), "acme-token") || p.Config["token"] != "${ACME_TOKEN}" {
				t.Errorf("%q, %v", p.Withheld(), p.Config)
			}
			r, err := p.Run(t.Context(), nil)
			if c.want == "" {
				if err != nil || r.Status != record.OK || fmt.Sprint(r.Value) != "map[token:"+redact.Mask+"]" {
					t.Errorf("%+v, %v", r, err)
				}
				return
			}
			if r != nil || w.probe.calls > 0 || len(w.records()) > 0 {
				t.Errorf("%+v, %d actions", r, w.probe.calls)
			}
			by, _ := fault.Of(err).Details["by"].(string)
			if fault.CodeOf(err) != c.want || by != c.by || fault.Of(err).Details["ref"] != x {
				t.Errorf("%+v", fault.Of(err))
			}
			if c.text != "" && err.Error() != c.text {
				t.Error(err)
			}
		})
	}
	// A tool that runs with Dev isn't signed, so it gets no secret.
	dev := newWorld(t)
	dev.policy = allowing
	dev.with("secrets: [acme-token]")
	dev.secrets()
	b := dev.base()
	b.Dev = parseRef(x)
	p, err := dev.kernel.Prepare(t.Context(), b, call(x, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Run(t.Context(), nil)
	if e := fault.Of(err); e.Code != fault.Unsigned || e.Details["by"] != "dev" ||
		!slices.Equal(e.Hint, []string{"rye sign " + x}) {
		t.Error(err)
	}
	// One whose name is no variable's, or another one's variable, and more than fits.
	for lines, want := range map[string]string{"secrets: [path]": "env_config sets it",
		"secrets: [acme-token, acme.token]": "are both the variable ACME_TOKEN"} {
		w := newWorld(t).with(lines)
		if e := fault.Of(w.refused(call(x, nil))); e.Code != fault.Validation || !strings.Contains(e.Text, want) ||
			e.Unwrap() == nil {
			t.Errorf("%s: %v", lines, e)
		}
	}
	w := newWorld(t)
	w.policy = "\nexec:\n  secrets:\n"
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("S%d", i))
		w.policy += fmt.Sprintf("    S%d: [\"tool:acme/**\"]\n", i)
	}
	w.with("secrets: [" + strings.Join(names, ", ") + "]")
	w.kernel.Secrets = func(context.Context, string) (string, error) {
		return strings.Repeat("x", secret.MaxValue), nil
	}
	if _, err := w.run(call(x, nil)); fault.CodeOf(err) != fault.Limit ||
		!strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Error(err)
	}
}

// TestSecretOfParent: a call that a call makes has what both declare, and says nothing of what is above it.
func TestSecretsOfParent(t *testing.T) {
	w := newWorld(t)
	w.policy = allowing
	w.put(map[string]string{
		".ai/tools/acme/top.yaml": tool("acme/top", probing, "secrets: [acme-token]", "config: {calls: true}"),
		".ai/tools/acme/same.yaml": tool("acme/same", probing, "secrets: [acme-token]",
			"config: {token: '${ACME_TOKEN}'}"),
		".ai/tools/acme/none.yaml":  tool("acme/none", probing),
		".ai/tools/acme/other.yaml": tool("acme/other", probing, "secrets: [OTHER]"),
	})
	for _, name := range []string{"top", "same", "none", "other"} {
		w.signed("tool:acme/"+name, alice)
	}
	s := w.secrets()
	if _, err := s.Set(t.Context(), secret.Secret{Name: "OTHER", From: "a test"}, "another value", true); err != nil {
		t.Fatal(err)
	}
	b := w.base()
	run := func(ctx context.Context, name string) (*exec.Result, error) {
		p, err := w.kernel.Prepare(ctx, b, call("tool:acme/"+name, nil))
		if err != nil {
			return nil, err
		}
		defer p.Close()
		return p.Run(ctx, nil)
	}
	w.probe.do = func(ctx context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		if a.Config["calls"] == nil {
			return gives("has " + fmt.Sprint(a.Config["token"]) + " " + strings.Join(a.Env,
				" ") + "; was told " + hush), nil
		}
		if r, err := run(ctx, "same"); err != nil ||
			!strings.Contains(fmt.Sprint(r.Value), "ACME_TOKEN="+redact.Mask) {
			t.Errorf("%+v, %v", r, err)
		}
		r, err := run(ctx, "none")
		if err != nil || strings.Contains(fmt.Sprint(r.Value), "ACME_TOKEN") ||
			!strings.HasSuffix(fmt.Sprint(r.Value), "was told "+redact.Mask) {
			t.Errorf("%+v, %v", r, err)
		}
		_, err = run(ctx, "other")
		if e := fault.Of(err); e.Code != fault.Denied || e.Details["by"] != "caller" ||
			e.Text !=
				`"tool:acme/other" needs the secret "OTHER" but may not have it: the call that started it doesn't have it` {
			t.Error(err)
		}
		return gives(nil), nil
	}
	if r, err := run(t.Context(), "top"); err != nil || r.Status != record.OK {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := run(t.Context(), "other"); err != nil || r.Status != record.OK {
		t.Errorf("%+v, %v", r, err)
	}
}
