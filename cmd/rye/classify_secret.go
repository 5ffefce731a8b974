package main

import (
	"errors"
	"fmt"

	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/secret"
)

// ofSecrets recognises what package secret says, and exec of secrets.
func (f *fault) ofSecrets() bool {
	var (
		withheld *exec.WithheldError
		needs    *exec.SecretError
		none     *secret.NotSetError
		expired  *secret.ExpiredError
		name     *secret.NameError
		value    *secret.ValueError
		ring     *secret.KeyringError
		damaged  *secret.DamagedError
		mode     *secret.ModeError
	)
	f.details = map[string]any{}
	if errors.As(f.err, &needs) {
		f.details["ref"] = needs.Ref.String()
	}
	about := func(c code, secret string, hint ...string) {
		f.code, f.details["secret"], f.hint = c, secret, hint
	}
	switch {
	case errors.As(f.err, &withheld):
		ref := withheld.Ref.String()
		about("POLICY_DENIED", withheld.Name, "rye docs secrets")
		f.details["ref"], f.details["by"] = ref, string(withheld.By)
		switch withheld.By {
		case exec.ByCaller:
			f.code = codeDenied
		case exec.ByDev:
			f.code, f.hint = "UNSIGNED", []string{"rye sign " + quoteArg(ref)}
		case exec.ByGrants:
			f.why = append(f.why, fmt.Sprintf("grants: {%q: []}, or with what else it may, in policy.yaml of the user lets it", ref))
		default:
			f.why = append(f.why, fmt.Sprintf("exec: {secrets: {%s: [%q]}} in policy.yaml of the user lets it, if the project's policy does", withheld.Name, ref))
		}
	case errors.As(f.err, &none):
		about("AUTH_REQUIRED", none.Name, "rye auth set "+quoteArg(none.Name))
		if v, err := secret.Variable(none.Name); err == nil {
			f.why = append(f.why, "nor is the variable "+v)
		}
	case errors.As(f.err, &expired):
		about("SESSION_EXPIRED", expired.Name, "rye auth set "+quoteArg(expired.Name))
	case errors.As(f.err, &name):
		about(codeValidation, name.Name, "rye docs secrets")
	case errors.As(f.err, &value):
		about(codeValidation, value.Name, "rye docs secrets")
		if needs != nil {
			f.code = codeConfig
		}
	case errors.As(f.err, &ring):
		about("UNAVAILABLE", ring.Name, "rye auth set "+quoteArg(ring.Name)+" --file")
		f.why = append(f.why, "a keyring may have to be opened by somebody, in a session on this machine")
	case errors.As(f.err, &damaged):
		f.code, f.details["path"] = "PARSING_ERROR", damaged.Path
		f.why = append(f.why, "what was kept is lost if there is no copy; out of the way, secrets can be set again")
		f.hint = []string{"mv " + quoteArg(damaged.Path) + " " + quoteArg(damaged.Path+".bad")}
	case errors.As(f.err, &mode):
		f.code, f.details["path"] = codeDenied, mode.Path
		f.hint = []string{"chmod go= " + quoteArg(mode.Path), "ls -ld " + quoteArg(mode.Path)}
	case needs != nil:
		f.code = "LIMIT_EXCEEDED"
	default:
		f.details = nil
		return false
	}
	return true
}
