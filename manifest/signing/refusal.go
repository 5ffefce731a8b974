package signing

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// examined is the exam of a file, with its Subject.
type examined struct {
	*admission.Exam
	About Subject
}

// examine reads a file, verifies its signatures and asks the policies.
func examine(t *trust.Trust, s Subject, r io.ReadSeeker, purpose policy.Purpose) (examined, error) {
	e, err := t.Exam().Examine(s.Subject, r, purpose)
	return examined{e, s}, err
}

// refusal explains why a decision is no; it is nil for a yes.
func (e examined) refusal(trusted *trust.Trust) *fault.Error {
	decision := &e.Decision
	if decision.Allowed {
		return nil
	}
	name := fault.Quote(e.Name)
	failure := decision.Details(fault.New(decision.Code.Fault(), "%q, as %q, %s", e.About.File, e.Name,
		decision.Reason())).
		Because("policy    "+trusted.Describe(decision.Project)).On("rule", decision.Rule).On("file",
		e.About.File).On("name", e.Name)
	for _, l := range e.Signed.Lines {
		failure.Why = append(failure.Why, "signed    by "+l.Key.String())
	}
	switch decision.Code {
	case policy.NoRule:
		failure.Hint = []string{"rye trust check " + name}
		if decision.Rotation {
			failure.Hint = []string{"rye trust list"}
		}
	case policy.Unsigned:
		failure.Why = append(failure.Why, "a signature covers the whole file: read it first")
		failure.Hint = e.About.lookAndSign()
	case policy.BelowThreshold:
		failure.Hint = []string{"rye trust check " + name}
		if left := e.othersOf(trusted); len(left) > 0 {
			failure.Why = append(failure.Why, "to sign   "+strings.Join(left, ", "))
			failure.Hint = append(failure.Hint, "rye sign "+e.About.typed()+" --key OTHER")
		}
	case policy.UntrustedKey:
		failure.Hint = []string{"rye trust check " + name, "rye docs keys"}
	case policy.EvidenceOnly:
		failure.Hint = []string{"rye sign --upgrade " + e.About.typed(), "rye sign --upgrade --all"}
	case policy.FormatNotAccepted:
		failure.Why = append(
			failure.Why, "to upgrade it the rule has to accept v1: say so, sign with --upgrade, and take it back")
		failure.Hint = e.acceptV1(trusted)
	case policy.DigestRevoked:
		failure.Why = append(failure.Why, "revoked bytes are refused, regardless of who signed them")
		failure.Hint = []string{"rye trust list"}
	case policy.ListStale, policy.AdvisoriesStale:
		failure.Hint = []string{"rye trust update"}
	case policy.Advised:
		failure.Hint = []string{"rye update", "rye docs registry-trust"}
	default:
		failure.Hint = []string{"rye trust list"}
	}
	return failure
}

// lookAndSign returns the commands to inspect the subject and sign it.
func (s Subject) lookAndSign() []string {
	if s.Item {
		return []string{"rye show --source " + fault.Quote(s.Name), "rye sign " + s.typed()}
	}
	return []string{"less " + fault.Quote(s.File), "rye sign " + s.typed()}
}

// side returns the policy that decided, with its lists.
func (e examined) side(t *trust.Trust) *policy.Side {
	if e.Decision.Project && t.Project != nil {
		return &t.Project.Side
	}
	return &t.Root.Side
}

// ruleOf returns the rule that decided.
func (e examined) ruleOf(t *trust.Trust) (policy.Rule, bool) {
	rules := e.side(t).Policy.Sections().Rules
	i := slices.IndexFunc(rules, func(r policy.Rule) bool { return r.Glob == e.Decision.Rule })
	if i < 0 {
		return policy.Rule{}, false
	}
	return rules[i], true
}

// othersOf returns the keys of the rule that have not signed the file and would count.
func (e examined) othersOf(t *trust.Trust) (left []string) {
	s := e.side(t)
	r, _ := e.ruleOf(t)
	for _, name := range r.Keys {
		if k, _ := s.Policy.KeyNamed(name); s.KeyFault(k, t.Now) != policy.Admitted {
			continue
		}
		if !slices.ContainsFunc(e.Decision.Signers, func(v policy.Verdict) bool {
			return v.Name == name && v.Code == policy.Admitted
		}) {
			left = append(left, name)
		}
	}
	return left
}

// acceptV1 returns the commands that let a rule accept the first format while files are upgraded.
func (e examined) acceptV1(t *trust.Trust) []string {
	r, ok := e.ruleOf(t)
	if !ok || len(r.Keys) == 0 || e.Decision.Project {
		return []string{"rye trust list"}
	}
	add := "rye trust add " + fault.Quote(r.Keys[0]) + " --names " + fault.Quote(r.Glob) + " --accept "
	return []string{add + "v1", "rye sign --upgrade " + e.About.typed(), "rye sign --upgrade --all", add + "v2"}
}

// Broken adds the file's name, the likely cause and commands to an error about its signatures.
func (s Subject) Broken(err error) *fault.Error {
	failure := fault.Of(err)
	var wrong *sign.IntegrityError
	var invalid *sign.SignatureInvalidError
	var name *admission.NameError
	var ended *admission.ExpiredError
	switch {
	case errors.As(err, &name):
		failure.Text = fmt.Sprintf("%q is not %q", s.File, s.Name)
	case errors.As(err, &ended):
		failure.Text = fmt.Sprintf("%q expired at %s", s.Name, ended.Expires.UTC().Format(time.RFC3339))
	case errors.Is(err, admission.ErrChanged):
		failure.Text = fmt.Sprintf("%q was changed while it was read", s.File)
	case errors.As(err, &wrong):
		failure.Text = fmt.Sprintf("%q does not match its signed digest", s.File)
		if wrong.What == "tree" {
			failure.Text = fmt.Sprintf("the files beside %q do not match the signature", s.File)
		}
		if wrong.What != "lines" && len(failure.Hint) == 0 {
			failure.Why = append(failure.Why, "if the change is intended, sign it again")
			failure.Hint = s.lookAndSign()
			if wrong.What == "tree" { // the file itself is as it was
				failure.Hint[0] = "git diff " + fault.Quote(filepath.Dir(s.File))
			}
		}
	case errors.As(err, &invalid):
		failure.Text = fmt.Sprintf("%q: %s", s.File, invalid)
		failure.Why = append(failure.Why, "it was damaged, forged, or made for another name, as in a copied file",
			"if the content is intended, sign it again")
		failure.Hint = s.lookAndSign()
	case strings.Contains(failure.Text, strconv.Quote(s.File)):
		return failure
	default:
		failure.Text = fmt.Sprintf("%q: %s", s.File, failure.Text)
	}
	if failure.Err == nil {
		failure.Err = err
	}
	return failure.On("file", s.File).On("name", s.Name)
}
