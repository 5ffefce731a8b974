package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/secret"
)

// Withheld returns the secrets that the tool declares and isn't granted.
func (p *Plan) Withheld() []string {
	return slices.DeleteFunc(slices.Clone(p.tool.Secrets), func(name string) bool {
		return slices.Contains(p.Grants.Secrets, name)
	})
}

// placeholders returns the variables of the tool's secrets for the configuration that a plan shows: ${NAME} stays
// ${NAME}.
func (p *Plan) placeholders() (map[string]string, error) {
	vars := map[string]string{}
	for _, name := range p.tool.Secrets {
		v, err := secret.Variable(name)
		if err == nil && vars[v] != "" {
			err = fault.New(fault.Validation, "two secrets of the tool, one of them %q, are both the variable %s",
				name, v).On("secret", name).Try("rye docs secrets")
		}
		if err != nil {
			return nil, p.noSecret(err)
		}
		vars[v] = "${" + v + "}"
	}
	return vars, nil
}

// secrets returns the values that a call receives, as variables, and all values to remove from its output: its own and
// those of the calls above it.
func (p *Plan) secrets(ctx context.Context) (vars map[string]string, all []string, err error) {
	vars = map[string]string{}
	for _, name := range p.tool.Secrets {
		if !slices.Contains(p.Grants.Secrets, name) {
			return nil, nil, p.withheld(name)
		}
		variable, err := secret.Variable(name)
		value := ""
		if err == nil && p.kernel.Secrets == nil {
			err = secret.NotSet(name)
		}
		if err == nil {
			value, err = p.kernel.Secrets(ctx, name)
		}
		if err != nil {
			return nil, nil, p.noSecret(err)
		}
		vars[variable] = value
		if again := p.variables[name]; again != "" {
			if err := env.Check(again, value); err != nil {
				return nil, nil, p.noSecret(fault.New(fault.Config, "%v", err))
			}
			vars[again] = value
		}
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
		return nil, nil, p.noSecret(fault.New(fault.Limit, "with its secrets, the environment has more than %d bytes",
			env.MaxTotal))
	}
	return vars, all, nil
}

// noSecret returns the error that a secret which the tool is granted can't be handed to it.
func (p *Plan) noSecret(err error) error {
	err = fmt.Errorf("%q needs a secret: %w", p.call.Ref, err)
	if e, ok := fault.Find(err); ok {
		e.Err = err
		return e.On("ref", p.call.Ref.String())
	}
	return err
}

// withheld returns the error that the tool may not have a secret, with the reason and what would allow it.
func (p *Plan) withheld(name string) error {
	ref := p.call.Ref.String()
	refuse := func(code fault.Code, by, why string) *fault.Error {
		return fault.New(code, "%q needs the secret %q but may not have it: %s", ref, name, why).On("ref",
			ref).On("secret", name).On("by", by)
	}
	switch {
	case p.Dev:
		return refuse(fault.Unsigned, "dev", "--dev runs it unsigned").Try(fault.Command("rye sign", ref))
	case !p.policies.MayHave(name, p.call.Ref):
		return refuse(fault.Policy, "policy", "no policy allows it").Try("rye docs secrets").
			Because(fmt.Sprintf(
				"to allow it: exec: {secrets: {%s: [%q]}} in your policy.yaml; a project's policy must allow it too if it lists secrets",
				name, ref))
	case p.caller != nil && !p.caller.unbound && !slices.Contains(p.caller.Grants.Secrets, name):
		return refuse(fault.Denied, "caller", "the call that started it doesn't have it").Try("rye docs secrets")
	}
	return refuse(fault.Policy, "grants", "it was signed by another person, and the policy grants it nothing").
		Try("rye docs secrets").
		Because(fmt.Sprintf("to allow it: grants: {%q: []}, or a list of permissions, in your policy.yaml", ref))
}

// hidden returns an error with the redacted text and without the original as its cause.
func (p *Plan) hidden(r *redact.Redactor, err error) error {
	return fault.New(fault.Failed, "%q failed: %s", p.call.Ref, r.Text(err.Error())).On("ref", p.call.Ref.String())
}

// disclosed is the action with the secrets in it. The plan keeps the one without.
func (p *Plan) disclosed(vars map[string]string, r *redact.Redactor) (*primitive.Action, error) {
	action := p.Action
	if len(vars) == 0 {
		return &action, nil
	}
	var err error
	if action.Config, err = p.configure(vars); err != nil {
		return nil, p.hidden(r, err)
	}
	action.Env = slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, again := vars[name]
		return again
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		action.Env = append(action.Env, name+"="+vars[name])
	}
	slices.Sort(action.Env)
	return &action, nil
}

// redacted returns err, or if it or its cause contains a secret, an error with the redacted text.
func (p *Plan) redacted(r *redact.Redactor, err error) error {
	if err == nil || !says(r, err) {
		return err
	}
	return p.hidden(r, err)
}

func says(redactor *redact.Redactor, err error) bool {
	if err == nil {
		return false
	}
	if text := err.Error(); redactor.Text(text) != text {
		return true
	}
	if e, ok := err.(*fault.Error); ok {
		if text := fmt.Sprint(e.Why, e.Hint, e.Details); redactor.Text(text) != text {
			return true
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return says(redactor, e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(one error) bool { return says(redactor, one) })
	}
	return false
}
