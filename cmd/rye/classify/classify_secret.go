package classify

import (
	"errors"
	"fmt"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/secret"
)

// ofSecrets recognises what package secret says, and exec of secrets.
func ofSecrets(f *fault.Error) bool {
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
	f.Details = map[string]any{}
	if errors.As(f.Err, &needs) {
		f.Details["ref"] = needs.Ref.String()
	}
	about := func(c fault.Code, secret string, hint ...string) {
		f.Code, f.Details["secret"], f.Hint = c, secret, hint
	}
	switch {
	case errors.As(f.Err, &withheld):
		ref := withheld.Ref.String()
		about(fault.Policy, withheld.Name, "rye docs secrets")
		f.Details["ref"], f.Details["by"] = ref, string(withheld.By)
		switch withheld.By {
		case exec.ByCaller:
			f.Code = fault.Denied
		case exec.ByDev:
			f.Code, f.Hint = fault.Unsigned, []string{"rye sign " + fault.Quote(ref)}
		case exec.ByGrants:
			f.Why = append(f.Why, fmt.Sprintf("grants: {%q: []}, or with what else it may, in policy.yaml of the user lets it", ref))
		default:
			f.Why = append(f.Why, fmt.Sprintf("exec: {secrets: {%s: [%q]}} in policy.yaml of the user lets it, if the project's policy does", withheld.Name, ref))
		}
	case errors.As(f.Err, &none):
		about(fault.AuthRequired, none.Name, "rye auth set "+fault.Quote(none.Name))
		if v, err := secret.Variable(none.Name); err == nil {
			f.Why = append(f.Why, "nor is the variable "+v)
		}
	case errors.As(f.Err, &expired):
		about(fault.SessionExpired, expired.Name, "rye auth set "+fault.Quote(expired.Name))
	case errors.As(f.Err, &name):
		about(fault.Validation, name.Name, "rye docs secrets")
	case errors.As(f.Err, &value):
		about(fault.Validation, value.Name, "rye docs secrets")
		if needs != nil {
			f.Code = fault.Config
		}
	case errors.As(f.Err, &ring):
		about(fault.Unavailable, ring.Name, "rye auth set "+fault.Quote(ring.Name)+" --file")
		f.Why = append(f.Why, "a keyring may have to be opened by somebody, in a session on this machine")
	case errors.As(f.Err, &damaged):
		f.Code, f.Details["path"] = fault.Parsing, damaged.Path
		f.Why = append(f.Why, "what was kept is lost if there is no copy; out of the way, secrets can be set again")
		f.Hint = []string{"mv " + fault.Quote(damaged.Path) + " " + fault.Quote(damaged.Path+".bad")}
	case errors.As(f.Err, &mode):
		f.Code, f.Details["path"] = fault.Denied, mode.Path
		f.Hint = []string{"chmod go= " + fault.Quote(mode.Path), "ls -ld " + fault.Quote(mode.Path)}
	case needs != nil:
		f.Code = fault.Limit
	default:
		f.Details = nil
		return false
	}
	return true
}
