package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/manifest/policy"
)

// A SecretError says that a secret which a tool is granted can't be handed to it.
type SecretError struct {
	Ref model.Ref
	Err error // of package secret, as a *secret.NotSetError; or says what is wrong
}

func (e *SecretError) Error() string { return fmt.Sprintf("%q needs a secret: %v", e.Ref, e.Err) }

// Unwrap returns what is wrong.
func (e *SecretError) Unwrap() error { return e.Err }

// A Withholder is what keeps a secret from a tool.
type Withholder string

// What keeps secrets from tools.
const (
	ByPolicy Withholder = "policy" // exec.secrets of the root doesn't name the tool, or that of the project, if it says anything
	ByGrants Withholder = "grants" // it is a stranger's, and no entry of grants is for it
	ByCaller Withholder = "caller" // the call that makes this one doesn't have it
	ByDev    Withholder = "dev"    // nobody vouches for the tool, which is run with Dev
)

// A WithheldError says that a tool needs a secret that it may not have.
type WithheldError struct {
	Ref  model.Ref
	Name string
	By   Withholder
}

func (e *WithheldError) Error() string {
	why := "no policy lets it"
	switch e.By {
	case ByGrants:
		why = "it is somebody else's, and the policy grants it nothing"
	case ByCaller:
		why = "the call that makes this one doesn't have it"
	case ByDev:
		why = "it is run as nobody has signed it"
	}
	return fmt.Sprintf("%q needs the secret %q and may not have it: %s", e.Ref, e.Name, why)
}

// An ActionError is what a primitive says where that had a secret in it, without the secret.
type ActionError struct {
	Ref  model.Ref
	Text string
}

func (e *ActionError) Error() string { return fmt.Sprintf("%q can't be done: %s", e.Ref, e.Text) }

// Withheld returns the secrets that the tool declares and isn't granted.
func (p *Plan) Withheld() []string {
	return slices.DeleteFunc(slices.Clone(p.tool.Secrets), func(name string) bool { return slices.Contains(p.Grants.Secrets, name) })
}

// placeholders stand for secrets in the configuration that a plan shows: the variables of all that the tool declares, each as
// itself.
func (p *Plan) placeholders() (map[string]string, error) {
	vars := map[string]string{}
	for _, name := range p.tool.Secrets {
		v, err := secret.Variable(name)
		if err == nil && vars[v] != "" {
			err = &secret.NameError{Name: name, Reason: fmt.Sprintf("another one that the tool declares is %s as well", v)}
		}
		if err != nil {
			return nil, &SecretError{p.call.Ref, err}
		}
		vars[v] = "${" + v + "}"
	}
	return vars, nil
}

// secrets are the values that a call is handed, as variables, and what takes them, and those of the calls above it, out of
// what it says.
func (p *Plan) secrets(ctx context.Context) (vars map[string]string, all []string, err error) {
	vars = map[string]string{}
	for _, name := range p.tool.Secrets {
		if !slices.Contains(p.Grants.Secrets, name) {
			return nil, nil, p.withheld(name)
		}
		v, err := secret.Variable(name)
		value := ""
		if err == nil && p.kernel.Secrets == nil {
			err = &secret.NotSetError{Name: name}
		}
		if err == nil {
			value, err = p.kernel.Secrets(ctx, name)
		}
		if err != nil {
			return nil, nil, &SecretError{p.call.Ref, err}
		}
		vars[v] = value
		all = append(all, value)
	}
	if p.caller != nil {
		all = append(all, p.caller.secrets...)
	}
	total := 0
	for _, v := range slices.Concat(p.Env, all) {
		total += len(v) + 2
	}
	if total > env.MaxTotal {
		return nil, nil, &SecretError{p.call.Ref, fmt.Errorf("with them the environment has more than %d bytes", env.MaxTotal)}
	}
	return vars, all, nil
}

func (p *Plan) withheld(name string) error {
	by := ByGrants
	switch {
	case p.Dev:
		by = ByDev
	case p.kernel.Root == nil || !policy.MayHave(name, p.call.Ref.String(), p.kernel.Root, p.kernel.ProjectPolicy):
		by = ByPolicy
	case p.caller != nil && !slices.Contains(p.caller.Grants.Secrets, name):
		by = ByCaller
	}
	return &WithheldError{p.call.Ref, name, by}
}

// disclosed is the action with the secrets in it. The plan keeps the one without.
func (p *Plan) disclosed(vars map[string]string, r *redact.Redactor) (*primitive.Action, error) {
	a := p.Action
	if len(vars) == 0 {
		return &a, nil
	}
	var err error
	if a.Config, err = p.configure(vars); err != nil {
		return nil, &ActionError{p.call.Ref, r.Text(err.Error())}
	}
	a.Env = slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, again := vars[name]
		return again
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		a.Env = append(a.Env, name+"="+vars[name])
	}
	slices.Sort(a.Env)
	return &a, nil
}

// redacted is err as it may be shown and kept: if it, or what it wraps, has a secret in it, its text without.
func (p *Plan) redacted(r *redact.Redactor, err error) error {
	if err == nil || !says(r, err) {
		return err
	}
	return &ActionError{p.call.Ref, r.Text(err.Error())}
}

func says(r *redact.Redactor, err error) bool {
	if err == nil {
		return false
	}
	if text := err.Error(); r.Text(text) != text {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return says(r, e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(one error) bool { return says(r, one) })
	}
	return false
}

// A veil is a sink that is told everything but secrets.
type veil struct{ out, err *redact.Stream }

func newVeil(r *redact.Redactor, to primitive.Sink) *veil {
	over := func(s primitive.Stream) *redact.Stream {
		return r.Stream(func(b []byte) error { return to.Emit(s, b) })
	}
	return &veil{over(primitive.Stdout), over(primitive.Stderr)}
}

// Emit implements primitive.Sink.
func (v *veil) Emit(s primitive.Stream, b []byte) error {
	to := v.out
	if s == primitive.Stderr {
		to = v.err
	}
	_, err := to.Write(b)
	return err
}

// flush tells what was kept back, of standard output first.
func (v *veil) flush() error {
	if err := v.out.Flush(); err != nil {
		return err
	}
	return v.err.Flush()
}
