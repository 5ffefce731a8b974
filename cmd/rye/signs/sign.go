package signs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

func SignCommand() cli.Command {
	return cli.Command{
		Path: "sign", Quiet: true, Group: "trust", Help: "Sign items, or a file under a name.",
		More: "An ITEM is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**'), or a file or directory below .ai; globs and --all mean items " +
			"of the project, or of the user space outside of projects. All are checked first, as rye check does, and if one is wrong none is signed. " +
			"A tool of several files is signed with its tree: the signature vouches for every file beside it.\n\n" +
			"Any other file needs --as NAME: kind:id, as in tool:acme/fetch, or the name of a document: bundle:ID@VERSION, policy:NAME, " +
			"revocations:NAME, rotation:RULE.\n\n" +
			"The signature is a comment line in the file, and holds for its bytes and its name. Signatures of others stay as " +
			"long as they hold, and those that no longer do go, which is said; signing what this key has signed changes nothing. --upgrade puts a signature in the place of one of the first format (v1), if the policy accepts " +
			"that one.\n\nExamples:\n\n    rye sign tool:acme/fetch\n    rye sign 'directive:acme/**' --dry-run\n    rye sign --all --key release\n" +
			"    rye sign fetch.py --as tool:acme/fetch\n    rye sign --upgrade directive:acme/old",
		New: func() cli.Runner { return new(SignRun) }, Schema: "sign/2", Output: &SignAnswer{},
	}
}

type SignRun struct {
	Items   []string `arg:"" optional:"" name:"item" complete:"own" help:"Refs, globs, files or directories."`
	As      string   `placeholder:"NAME" help:"Name under which to use the one file."`
	All     bool     `help:"Sign every item of the project."`
	Format  string   `enum:"v1,v2" default:"v2" help:"Signature format: ${enum}."`
	Upgrade bool     `help:"Replace a signature of the first format (v1)."`
	DryRun  bool     `help:"Show what would be done; write nothing."`
	trusts.KeyFlag
	shown map[string]content // what somebody has agreed to sign, by ref; nil: they named the items
	open  Opener
}

type SignAnswer struct {
	Files     []SignLine            `json:"files"`
	Problems  []spaces.CheckProblem `json:"problems"` // with an error among them nothing was signed
	Signed    int                   `json:"signed"`
	Unchanged int                   `json:"unchanged"` // signed by this key already
	DryRun    bool                  `json:"dry_run"`
}

type SignLine struct {
	Name     string `json:"name"`
	File     string `json:"file"`
	Key      string `json:"key"` // its fingerprint
	Format   string `json:"format"`
	Raw      string `json:"raw"`      // of the file as it is now, or would be
	Stripped string `json:"stripped"` // without signature lines
	Tree     string `json:"tree,omitempty"`
	Beside   int    `json:"beside"` // files of the tree
	Lines    int    `json:"lines"`  // signatures that the file carries now
	Changed  bool   `json:"changed"`
	Allowed  bool   `json:"allowed"`  // the policy lets the file be used under this name now
	Replaced int    `json:"replaced"` // signatures that went, because they no longer held
}

func (s *SignAnswer) Text(t *cli.Terminal) {
	spaces.PrintProblems(t, s.Problems)
	verb := "signed"
	if s.DryRun {
		verb = "would sign"
	}
	for _, f := range s.Files {
		if !f.Changed {
			continue
		}
		beside := ""
		if f.Beside > 0 {
			beside = ", with " + fault.Count(int64(f.Beside), "file") + " beside it"
		}
		instead := ""
		if f.Replaced > 0 {
			instead = ", in the place of " + fault.Count(int64(f.Replaced), "signature") + " that no longer held"
		}
		t.Printf("%s %s as %s%s%s\n", verb, f.File, f.Name, beside, instead)
	}
	if len(s.Files) > 1 {
		t.Note("%s %s; %d carried this signature already", verb, fault.Count(int64(s.Signed), "item"), s.Unchanged)
	}
}

// add counts what was done with a file.
func (s *SignAnswer) add(l SignLine) {
	s.Files = append(s.Files, l)
	if l.Changed {
		s.Signed++
	} else {
		s.Unchanged++
	}
}

func (c *SignRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Upgrade && c.Format == "v1" {
		return nil, &fault.Error{Code: fault.Validation, Text: "--upgrade and --format v1 are opposites"}
	}
	switch {
	case c.All && len(c.Items) > 0:
		return nil, &fault.Error{Code: fault.Validation, Text: "--all means every item: no other is to be named", Hint: []string{"rye sign --all"}}
	case c.As == "" && !c.All && len(c.Items) == 0:
		return nil, &fault.Error{Code: fault.Validation, Text: "\"rye sign\" needs <item>, or --all", Hint: []string{"rye help sign"}}
	case c.As == "":
		return c.signItems(ctx, a)
	case len(c.Items) != 1:
		f := &fault.Error{Code: fault.Validation, Text: "--as names one file, and " + fault.Count(int64(len(c.Items)), "file") + " are given"}
		if len(c.Items) > 0 {
			f.Hint = []string{"rye sign " + fault.Quote(c.Items[0]) + " --as NAME"}
		}
		return nil, f
	}
	s, err := places.NewSubject(c.Items[0], c.As)
	if err != nil {
		return nil, err
	}
	if err := places.RefuseLinks(a, s.File); err != nil {
		return nil, err
	}
	ref, _, err := itemAt(ctx, a, s)
	switch {
	case err != nil:
		return nil, err
	case ref == s.Name:
		return c.signItems(ctx, a)
	case ref != "":
		// Its signature as the item that it is would go.
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is %q, and can't be %q as well", s.File, ref, s.Name),
			Hint: []string{"rye sign " + fault.Quote(ref)}, Details: map[string]any{"file": s.File, "ref": ref}}
	}
	return c.signFile(ctx, a, s)
}

// signFile signs a file under a name that somebody gives it.
func (c *SignRun) signFile(ctx context.Context, a *cli.App, s places.Subject) (cli.Answer, error) {
	switch exam.Domain(s.Name) {
	case sign.Token, sign.Transcript, sign.Audit:
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("a %s is signed by what makes it, never by hand", s.Kind())}
	}
	k, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	// Signing needs no policy: the first thing somebody signs may well be before there is one.
	t, err := places.OpenTrust(a)
	if err != nil && !trust.IsMissing(err) {
		return nil, err
	}
	file, err := places.Open(a, s)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l, no, err := c.Sign(a, s, file, k, t)
	if err != nil {
		return nil, s.Broken(err)
	}
	if !l.Changed {
		a.Term.Note("%q is signed by %q already", s.File, k.Name)
	}
	if no != nil {
		a.Term.Warn("that is not enough: %s", no.Text)
	}
	ans := &SignAnswer{Problems: []spaces.CheckProblem{}, DryRun: c.DryRun}
	ans.add(l)
	return ans, nil
}

// Sign signs an open file and puts it in its place. no says why policy still doesn't let it be used.
func (c *SignRun) Sign(a *cli.App, s places.Subject, file *os.File, k trusts.Signer, t *trust.Trust) (l SignLine, no *fault.Error, err error) {
	fi, err := file.Stat()
	if err != nil {
		return l, nil, err
	}
	out, raw, err := c.signed(a, s, file, k, t)
	if err != nil {
		return l, nil, err
	}
	if l, no, err = c.line(a, s, out, raw, k, t); err != nil || !l.Changed || c.DryRun {
		return l, no, err
	}
	// What was read is what is signed: whoever has put another file there meanwhile keeps it.
	now, err := os.Lstat(s.File)
	if err == nil && (!os.SameFile(fi, now) || fi.Size() != now.Size() || !fi.ModTime().Equal(now.ModTime())) {
		err = sign.ErrChanged
	}
	if err != nil {
		return l, nil, err
	}
	d, err := osfile.OpenDir(filepath.Dir(s.File), 0)
	if err != nil {
		return l, nil, err
	}
	defer d.Close()
	return l, no, d.Write(filepath.Base(s.File), fi.Mode().Perm(), false, out)
}

// line says what a file is once it is signed, which is held against what it is to be.
func (c *SignRun) line(a *cli.App, s places.Subject, out, raw []byte, k trusts.Signer, t *trust.Trust) (l SignLine, no *fault.Error, err error) {
	after, err := sign.ReadBytes(out, s.Signing())
	if err != nil {
		return l, nil, err
	}
	if s.IsDocument() && c.Format == sign.V2.String() {
		// What says that it is something else, or isn't a document at all, is not signed as one.
		text := out
		if cas.Sum(raw) == after.Stripped {
			text = raw // where nobody has signed yet, lines are counted as the file has them
		}
		if _, err := s.Identify(bytes.NewReader(text), after.Stripped, a.Now()); err != nil {
			return l, nil, err
		}
	}
	l = SignLine{Name: s.Name, File: s.File, Key: k.Public().Fingerprint().String(), Format: after.Format.String(),
		Raw: after.Raw.String(), Stripped: after.Stripped.String(), Lines: max(len(after.Lines), 1), Changed: !bytes.Equal(out, raw)}
	if l.Changed {
		l.Replaced = c.replaced(s, raw, after)
	}
	if !s.Tree.IsZero() {
		l.Tree = s.Tree.String()
	}
	if t == nil {
		return l, nil, nil
	}
	e, err := places.Examine(t, s, bytes.NewReader(out), policy.ToUse)
	if err != nil {
		return l, nil, nil // whoever verifies it is told
	}
	l.Allowed = e.Decision.Allowed
	// What revokes counts by another section of a policy than its names.
	if exam.Domain(s.Name) != sign.Revocations && exam.Domain(s.Name) != sign.Policy {
		no = e.Refusal(t)
	}
	return l, no, nil
}

// replaced counts the signatures that a file had and hasn't any more. One that --upgrade puts another in the place of
// may well have fitted.
func (c *SignRun) replaced(s places.Subject, raw []byte, after sign.Signed) (n int) {
	before, _ := sign.ReadBytes(raw, s.Signing()) // what is wrong with the lines is why they went
	for _, l := range before.Lines {
		if !slices.Contains(after.Lines, l) {
			n++
		}
	}
	if before.V1 != nil && !c.Upgrade {
		n++
	}
	return n
}

// signed returns the file with the signature, and as it was.
func (c *SignRun) signed(a *cli.App, s places.Subject, file io.ReadSeeker, k trusts.Signer, t *trust.Trust) (out, raw []byte, err error) {
	if raw, err = io.ReadAll(io.LimitReader(file, MaxSigned+1)); err != nil {
		return nil, nil, err
	}
	if len(raw) > MaxSigned {
		return nil, nil, &fault.Error{Code: fault.Limit, Text: fmt.Sprintf("%q has more than %s", s.File, cli.ByteSize(MaxSigned))}
	}
	if c.Format == sign.V1.String() {
		out, err = c.signedV1(a, s, raw, k)
		return out, raw, err
	}
	body := raw
	before, err := sign.ReadBytes(raw, s.Signing())
	if err == nil && before.Format == sign.V1 && c.Upgrade {
		if body, err = upgraded(s, raw, t); err != nil {
			return nil, nil, err
		}
	}
	var known sign.Keys
	if t != nil {
		known = t.Exam().Find
	}
	out, err = sign.Sign(body, s.Signing(), s.Claim(), k.Private, a.Clock().UTC().Truncate(time.Second), known)
	if errors.Is(err, sign.ErrV1) {
		err = &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is signed in the first format (v1)", s.File),
			Hint: []string{"rye sign --upgrade " + s.Typed()}}
	}
	return out, raw, err
}

// MaxSigned bounds what is signed by hand, source files and documents: they are read into memory, for the check that
// follows.
const MaxSigned = 32 << 20

// upgraded returns a file without its signature of the first format, if the policy accepts that one.
func upgraded(s places.Subject, raw []byte, t *trust.Trust) ([]byte, error) {
	if t == nil {
		return nil, &fault.Error{Code: fault.Policy, Text: "there is no policy that accepts a signature of the first format (v1)"}
	}
	e, err := places.Examine(t, s, bytes.NewReader(raw), policy.ToShow)
	if err != nil {
		return nil, err
	}
	if f := e.Refusal(t); f != nil {
		if e.Decision.Code != policy.FormatNotAccepted {
			f.Hint = []string{"rye trust check " + fault.Quote(s.Name)}
		}
		return nil, f
	}
	return sign.StripV1(raw, s.Signing()), nil
}

// signedV1 signs in the first format, unless this key has.
func (c *SignRun) signedV1(a *cli.App, s places.Subject, raw []byte, k trusts.Signer) ([]byte, error) {
	if before, err := sign.ReadBytes(raw, s.Signing()); err == nil && before.Format == sign.V1 {
		own := func(id string) []key.Public {
			if id != k.Public().V1ID() {
				return nil
			}
			return []key.Public{k.Public()}
		}
		if _, err := sign.CheckV1(before, own); err == nil {
			return raw, nil
		}
	} else if err == nil && before.Format == sign.V2 {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is signed in format v2, which a signature of the first format (v1) doesn't stand beside", s.File)}
	}
	return sign.SignV1(raw, s.Signing(), k.Private, a.Clock().UTC().Truncate(time.Second))
}
