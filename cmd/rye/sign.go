package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func signCommand() command {
	return command{
		path: "sign", group: "trust", help: "Sign a file under a name.",
		more: "The signature is a comment line in the file. It holds for the bytes and for NAME: kind:id, as in tool:acme/fetch, or that of " +
			"a document: bundle:ID@VERSION, policy:NAME, revocations:NAME, rotation:RULE. Signatures of others stay; signing what this key " +
			"has signed changes nothing. --upgrade puts a signature in the place of one of the first format (v1), if the policy accepts " +
			"that one.\n\nExamples:\n\n    rye sign fetch.py --as tool:acme/fetch\n    rye sign --upgrade old.md --as directive:acme/old\n" +
			"    rye sign --dry-run fetch.py --as tool:acme/fetch --key release",
		new: func() runner { return new(signRun) }, schema: "sign/1", output: signAnswer{},
	}
}

type signRun struct {
	Files   []string `arg:"" name:"file" complete:"file" help:"A file."`
	As      string   `required:"" placeholder:"NAME" help:"What the file is to be used as."`
	Format  string   `enum:"v1,v2" default:"v2" help:"The format of the signature: ${enum}."`
	Upgrade bool     `help:"Replace a signature of the first format (v1)."`
	DryRun  bool     `help:"Say what would be done, and write nothing."`
	keyFlag
}

type signAnswer struct {
	Name     string `json:"name"`
	File     string `json:"file"`
	Key      string `json:"key"` // its fingerprint
	Format   string `json:"format"`
	Raw      string `json:"raw"`      // of the file as it is now, or would be
	Stripped string `json:"stripped"` // without signature lines
	Lines    int    `json:"lines"`    // signatures that the file carries now
	Changed  bool   `json:"changed"`
	DryRun   bool   `json:"dry_run"`
	Allowed  bool   `json:"allowed"` // the policy lets the file be used under this name now
}

func (*signRun) complete(_ context.Context, a *app, name, _ string) []candidate {
	if name == "key" {
		return completeKeys(a)
	}
	return nil
}

func (s signAnswer) text(t *terminal) {
	verb := "signed"
	switch {
	case !s.Changed:
		return
	case s.DryRun:
		verb = "would sign"
	}
	t.printf("%s %s as %s\n", verb, s.File, s.Name)
}

func (c *signRun) run(ctx context.Context, a *app) (answer, error) {
	if len(c.Files) > 1 {
		return nil, &fault{code: codeValidation, message: "--as names one file, and " + counted(int64(len(c.Files)), "file") + " are given",
			hint: []string{"rye sign " + quoteArg(c.Files[0]) + " --as NAME"}}
	}
	if c.Upgrade && c.Format == "v1" {
		return nil, &fault{code: codeValidation, message: "--upgrade and --format v1 are opposites"}
	}
	s, err := newSubject(c.Files[0], c.As)
	if err != nil {
		return nil, err
	}
	switch s.domain() {
	case sign.Token, sign.Transcript, sign.Audit:
		return nil, &fault{code: codeValidation, message: fmt.Sprintf("a %s is signed by what makes it, never by hand", s.kind)}
	}
	k, err := a.signingKey(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	// Signing needs no policy: the first thing somebody signs may well be before there is one.
	t, err := a.trust()
	if err != nil && !isNobody(err) {
		return nil, err
	}
	file, err := s.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ans, err := c.sign(a, s, file, k, t)
	if err != nil {
		return nil, s.broken(err)
	}
	return ans, nil
}

// isNobody reports whether an error says only that there is no policy yet.
func isNobody(err error) bool {
	f, ok := errors.AsType[*fault](err)
	return ok && f.code == "POLICY_DENIED" && f.details["policy"] != nil
}

func (c *signRun) sign(a *app, s subject, file *os.File, k signer, t *trust) (*signAnswer, error) {
	out, raw, err := c.signed(a, s, file, k, t)
	if err != nil {
		return nil, err
	}
	after, err := sign.ReadBytes(out, s.style)
	if err != nil {
		return nil, err
	}
	if s.domain() != sign.Item && c.Format == sign.V2.String() {
		// What says that it is something else, or isn't a document at all, is not signed as one.
		if err := s.checkIdentity(bytes.NewReader(out), after.Stripped, a.now()); err != nil {
			return nil, err
		}
	}
	ans := &signAnswer{Name: s.name, File: s.file, Key: k.Public().Fingerprint().String(), Format: after.Format.String(),
		Raw: after.Raw.String(), Stripped: after.Stripped.String(), Lines: max(len(after.Lines), 1), Changed: !bytes.Equal(out, raw), DryRun: c.DryRun}
	if ans.Changed && !c.DryRun {
		fi, err := file.Stat()
		if err != nil {
			return nil, err
		}
		if err := writeFile(s.file, fi.Mode().Perm(), false, bytesOf(out)); err != nil {
			return nil, err
		}
	}
	if !ans.Changed {
		a.term.note("%q is signed by %q already", s.file, k.name)
	}
	if t != nil {
		e, err := t.examine(s, bytes.NewReader(out), policy.ToUse)
		if err == nil {
			ans.Allowed = e.decision.Allowed
		}
		// What revokes or rotates counts by other sections of a policy than its names.
		if f := e.refusal(t); err == nil && f != nil && (s.domain() == sign.Item || s.domain() == sign.Manifest) {
			a.term.warn("that is not enough: %s", f.message)
		}
	}
	return ans, nil
}

// signed returns the file with the signature, and as it was.
func (c *signRun) signed(a *app, s subject, file io.ReadSeeker, k signer, t *trust) (out, raw []byte, err error) {
	if raw, err = io.ReadAll(io.LimitReader(file, maxSigned+1)); err != nil {
		return nil, nil, err
	}
	if len(raw) > maxSigned {
		return nil, nil, &fault{code: "LIMIT_EXCEEDED", message: fmt.Sprintf("%q has more than %s", s.file, byteSize(maxSigned))}
	}
	if c.Format == sign.V1.String() {
		out, err = c.signedV1(a, s, raw, k)
		return out, raw, err
	}
	body := raw
	before, err := sign.ReadBytes(raw, s.style)
	if err == nil && before.Format == sign.V1 && c.Upgrade {
		if body, err = upgraded(s, raw, t); err != nil {
			return nil, nil, err
		}
	}
	var known sign.Keys
	if t != nil {
		known = t.find
	}
	out, err = sign.Sign(body, s.style, s.claim(), k.Private, a.clock().UTC().Truncate(time.Second), known)
	if errors.Is(err, sign.ErrV1) {
		err = &fault{code: codeValidation, err: err, message: fmt.Sprintf("%q is signed in the first format (v1)", s.file),
			hint: []string{"rye sign --upgrade " + quoteArg(s.file) + " --as " + quoteArg(s.name)}}
	}
	return out, raw, err
}

// maxSigned bounds what is signed by hand, source files and documents: they are read into memory, for the check that
// follows.
const maxSigned = 32 << 20

// upgraded returns a file without its signature of the first format, if the policy accepts that one.
func upgraded(s subject, raw []byte, t *trust) ([]byte, error) {
	if t == nil {
		return nil, &fault{code: "POLICY_DENIED", message: "there is no policy that accepts a signature of the first format (v1)"}
	}
	e, err := t.examine(s, bytes.NewReader(raw), policy.ToShow)
	if err != nil {
		return nil, err
	}
	if f := e.refusal(t); f != nil {
		f.hint = []string{"rye trust check " + quoteArg(s.name)}
		return nil, f
	}
	return sign.StripV1(raw, s.style), nil
}

// signedV1 signs in the first format, unless this key has.
func (c *signRun) signedV1(a *app, s subject, raw []byte, k signer) ([]byte, error) {
	if before, err := sign.ReadBytes(raw, s.style); err == nil && before.Format == sign.V1 {
		own := func(id string) []key.Public {
			if id != k.Public().V1ID() {
				return nil
			}
			return []key.Public{k.Public()}
		}
		if _, err := sign.CheckV1(before, own); err == nil {
			return raw, nil
		}
	}
	return sign.SignV1(raw, s.style, k.Private, a.clock().UTC().Truncate(time.Second))
}
