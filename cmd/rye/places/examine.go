package places

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// A Subject is a file under the name that somebody wants to use it by.
type Subject struct {
	exam.Subject
	File string
	Item bool // of a space, which is called by its name alone
}

// Typed is how a command line names the subject.
func (s Subject) Typed() string {
	if s.Item {
		return fault.Quote(s.Name)
	}
	return fault.Quote(s.File) + " --as " + fault.Quote(s.Name)
}

// NewSubject wants a name that can be taken apart. Whether it is one, and may be signed, is for the rooms below to
// say.
func NewSubject(file, name string) (Subject, error) {
	kind, id, ok := strings.Cut(name, ":")
	if !ok || kind == "" || id == "" {
		return Subject{}, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is not a name: expected kind:id", name),
			Hint: []string{"rye help verify"}, Details: map[string]any{"name": name}}
	}
	return Subject{Subject: exam.Subject{Name: name, Style: sign.StyleOf(file)}, File: filepath.Clean(file)}, nil
}

// Open opens the file, which must stand where it is named: where a link leads is the choice of whoever laid it, and a
// project is full of files that somebody else has laid.
func Open(a *cli.App, s Subject) (*os.File, error) {
	if err := RefuseLinks(a, s.File); err != nil {
		return nil, err
	}
	f, err := osfile.OpenRegular(s.File)
	if other, ok := errors.AsType[*fault.Error](err); ok {
		other.Code = fault.Validation // a directory is the wrong argument, not an unreadable file
	}
	if errors.Is(err, fs.ErrNotExist) {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("there is no file %q", s.File)
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(s.File); err == nil && !os.SameFile(opened, named) {
			err = sign.ErrChanged
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// RefuseLinks refuses a path whose end is a link, or that goes through a linked directory below the working directory
// or the project. What lies above is the user's own affair.
func RefuseLinks(a *cli.App, file string) error {
	wd, err := a.Getwd()
	if err != nil {
		return err
	}
	roots := []string{wd}
	if p, err := OpenProject(a); err == nil {
		roots = append(roots, p.Root)
	}
	for _, dir := range slices.Clone(roots) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			roots = append(roots, real)
		}
	}
	if !filepath.IsAbs(file) {
		// As the system reads "..", which is of the directory as it lies on disk.
		if real, err := filepath.EvalSymlinks(wd); err == nil {
			wd = real
		}
		file = filepath.Join(wd, file)
	}
	below := func(dir string) bool {
		return slices.ContainsFunc(roots, func(root string) bool {
			rel, err := filepath.Rel(root, dir)
			return err == nil && rel != "." && filepath.IsLocal(rel)
		})
	}
	for at := file; at == file || below(at); at = filepath.Dir(at) {
		if fi, err := os.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a symbolic link, and nothing is signed, verified or written through one", at),
				Hint: []string{"ls -l " + fault.Quote(at)}, Details: map[string]any{"reason": "link", "path": at}}
		}
	}
	return nil
}

// An Examined file is what was found about it, with where it is.
type Examined struct {
	*exam.Exam
	About Subject
}

// Examine reads a file, verifies its signatures and asks the policies.
func Examine(t *trust.Trust, s Subject, r io.ReadSeeker, purpose policy.Purpose) (Examined, error) {
	e, err := t.Exam().Examine(s.Subject, r, purpose)
	return Examined{e, s}, err
}

// Refusal says why a decision is no; nil if it is yes.
func (e Examined) Refusal(t *trust.Trust) *fault.Error {
	d := &e.Decision
	if d.Allowed {
		return nil
	}
	name := fault.Quote(e.Name)
	f := &fault.Error{Code: d.Code.Fault(), Text: fmt.Sprintf("%q, as %q, %s", e.About.File, e.Name, d.Reason())}
	f.Why = append(f.Why, "policy    "+t.Describe(d.Project))
	f.Details = map[string]any{"rule": d.Rule, "file": e.About.File, "name": e.Name}
	d.Details(f)
	for _, l := range e.Signed.Lines {
		f.Why = append(f.Why, "signed    by "+l.Key.String())
	}
	switch d.Code {
	case policy.NoRule:
		f.Hint = []string{"rye trust check " + name}
		if d.Rotation {
			f.Hint = []string{"rye trust list"}
		}
	case policy.Unsigned:
		f.Why = append(f.Why, "whoever signs it vouches for it: look at it first")
		f.Hint = e.About.lookAndSign()
	case policy.BelowThreshold:
		f.Hint = []string{"rye trust check " + name}
		if left := e.othersOf(t); len(left) > 0 {
			f.Why = append(f.Why, "to sign   "+strings.Join(left, ", "))
			f.Hint = append(f.Hint, "rye sign "+e.About.Typed()+" --key OTHER")
		}
	case policy.UntrustedKey:
		f.Hint = []string{"rye trust check " + name, "rye trust add KEYFILE --owner OWNER --names GLOB"}
	case policy.EvidenceOnly:
		f.Hint = []string{"rye sign --upgrade " + e.About.Typed(), "rye sign --upgrade --all"}
	case policy.FormatNotAccepted:
		f.Why = append(f.Why, "to upgrade it the rule has to accept v1: say so, sign with --upgrade, and take it back")
		f.Hint = e.acceptV1(t)
	case policy.DigestRevoked:
		f.Why = append(f.Why, "whoever signed it: what is revoked is not used")
		f.Hint = []string{"rye trust list"}
	case policy.ListStale:
		f.Hint = []string{"rye trust update"}
	default:
		f.Hint = []string{"rye trust list"}
	}
	return f
}

// lookAndSign are the commands for what somebody has to vouch for.
func (s Subject) lookAndSign() []string {
	if s.Item {
		return []string{"rye show --source " + fault.Quote(s.Name), "rye sign " + s.Typed()}
	}
	return []string{"less " + fault.Quote(s.File), "rye sign " + s.Typed()}
}

// side is the policy that decided, with its lists.
func (e Examined) side(t *trust.Trust) *policy.Side {
	if e.Decision.Project && t.Project != nil {
		return &t.Project.Side
	}
	return &t.Root.Side
}

// ruleOf returns the rule that decided.
func (e Examined) ruleOf(t *trust.Trust) (policy.Rule, bool) {
	rules := e.side(t).Policy.Sections().Rules
	i := slices.IndexFunc(rules, func(r policy.Rule) bool { return r.Glob == e.Decision.Rule })
	if i < 0 {
		return policy.Rule{}, false
	}
	return rules[i], true
}

// othersOf returns the keys of the rule that don't count for the file yet, and would.
func (e Examined) othersOf(t *trust.Trust) (left []string) {
	s := e.side(t)
	r, _ := e.ruleOf(t)
	for _, name := range r.Keys {
		if k, _ := s.Policy.KeyNamed(name); s.KeyFault(k, t.Now) != policy.Admitted {
			continue
		}
		if !slices.ContainsFunc(e.Decision.Signers, func(v policy.Verdict) bool { return v.Name == name && v.Code == policy.Admitted }) {
			left = append(left, name)
		}
	}
	return left
}

// acceptV1 are the commands by which a rule takes what is signed in the first format, for as long as it takes.
func (e Examined) acceptV1(t *trust.Trust) []string {
	r, ok := e.ruleOf(t)
	if !ok || len(r.Keys) == 0 || e.Decision.Project {
		return []string{"rye trust list"}
	}
	add := "rye trust add " + fault.Quote(r.Keys[0]) + " --names " + fault.Quote(r.Glob) + " --accept "
	return []string{add + "v1", "rye sign --upgrade " + e.About.Typed(), "rye sign --upgrade --all", add + "v2"}
}

// Broken adds to an error about a file's own signatures what a person needs beside it.
func (s Subject) Broken(err error) *fault.Error {
	f := fault.Of(err)
	var wrong *sign.IntegrityError
	var invalid *sign.SignatureInvalidError
	var name *exam.NameError
	var ended *exam.ExpiredError
	switch {
	case errors.As(err, &name):
		f.Text = fmt.Sprintf("%q is not %q", s.File, s.Name)
	case errors.As(err, &ended):
		f.Text = fmt.Sprintf("%q expired at %s", s.Name, ended.Expires.UTC().Format(time.RFC3339))
	case errors.Is(err, exam.ErrChanged):
		f.Text = fmt.Sprintf("%q was changed while it was read", s.File)
	case errors.As(err, &wrong):
		f.Text = fmt.Sprintf("%q is not as it was signed", s.File)
		if wrong.What == "tree" {
			f.Text = fmt.Sprintf("a file beside %q is not as it was signed", s.File)
		}
		if wrong.What != "lines" && len(f.Hint) == 0 {
			f.Why = append(f.Why, "whoever meant the change signs again")
			f.Hint = s.lookAndSign()
			if wrong.What == "tree" { // the file itself is as it was
				f.Hint[0] = "git diff " + fault.Quote(filepath.Dir(s.File))
			}
		}
	case errors.As(err, &invalid):
		f.Text = fmt.Sprintf("%q: %s", s.File, invalid)
		f.Why = append(f.Why, "it was damaged, forged, or made for another name")
	case strings.Contains(f.Text, strconv.Quote(s.File)):
		return f
	default:
		f.Text = fmt.Sprintf("%q: %s", s.File, f.Text)
	}
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details["file"], f.Details["name"] = s.File, s.Name
	return f
}
