package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// vouch signs the tool and asks a policy that trusts the key, as "rye sign" and "rye verify" do.
func (d *demo) vouch() error {
	own, err := key.Generate(rand.Reader)
	if err != nil {
		return err
	}
	empty, err := policy.Parse(nil)
	if err != nil {
		return err
	}
	e, err := empty.AddKey(policy.Key{Name: "you", Public: own.Public()}, false)
	if err == nil {
		e, err = e.Policy.SetRule(policy.Rule{Glob: "**", Keys: []string{"you"}, Threshold: 1, Except: []string{"rye/**"}})
	}
	if err != nil {
		return err
	}
	d.trust = &trust{root: &authority{side: policy.Side{Policy: e.Policy}, origin: "demo"}, now: d.now}
	if err := d.signTool(own); err != nil {
		return err
	}
	x, err := d.verifyTool()
	if err != nil {
		return err
	}
	if f := x.refusal(d.trust); f != nil {
		return f
	}
	d.say("your key signs the tool, and your policy trusts your key", "tool:hello %s", x.Decision.Reason())
	return nil
}

// stranger takes the signature off and puts a good one by another key in its place.
func (d *demo) stranger() error {
	signed, err := os.ReadFile(d.tool())
	if err != nil {
		return err
	}
	bare, err := sign.Strip(signed, sign.StyleOf(d.tool()))
	if err == nil {
		err = os.WriteFile(d.tool(), bare, 0o600)
	}
	if err != nil {
		return err
	}
	other, err := key.Generate(rand.Reader)
	if err != nil {
		return err
	}
	if err := d.signTool(other); err != nil {
		return err
	}
	x, err := d.verifyTool()
	if err != nil {
		return err
	}
	f := x.refusal(d.trust)
	if f == nil || f.code != "UNTRUSTED_KEY" {
		return &fault{code: "UNTRUSTED_KEY", message: "a stranger's signature was taken", err: f}
	}
	d.say("a stranger signs it instead, with a key of their own", "refused, %s: tool:hello %s", f.code, x.Decision.Reason())
	return os.WriteFile(d.tool(), signed, 0o600)
}

// edit changes the signed tool and leaves the signature as it was.
func (d *demo) edit() error {
	signed, err := os.ReadFile(d.tool())
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.tool(), bytes.Replace(signed, []byte("hello"), []byte("hallo"), 1), 0o600); err != nil {
		return err
	}
	_, err = d.verifyTool()
	f := classify2(err)
	if f == nil || f.code != "INTEGRITY_FAILED" {
		return &fault{code: "INTEGRITY_FAILED", message: "a tool that was changed after signing was taken", err: err}
	}
	d.say("somebody changes one letter of the signed tool", "refused, %s: %s", f.code, f.message)
	return nil
}

func (d *demo) tool() string { return filepath.Join(d.dir, "copy", ".ai", "tools", "hello.py") }

func (d *demo) signTool(k key.Private) error {
	s, err := newSubject(d.tool(), "tool:hello")
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(d.tool())
	if err != nil {
		return err
	}
	out, err := sign.Sign(raw, s.Signing(), s.Claim(), k, d.now.Truncate(time.Second), nil)
	if err != nil {
		return fmt.Errorf("%q: %w", d.tool(), err)
	}
	return writeFile(d.tool(), 0o600, false, bytesOf(out))
}

func (d *demo) verifyTool() (examined, error) {
	s, err := newSubject(d.tool(), "tool:hello")
	if err != nil {
		return examined{}, err
	}
	file, err := s.open()
	if err != nil {
		return examined{}, err
	}
	defer file.Close()
	return d.trust.examine(s, file, policy.ToUse)
}
