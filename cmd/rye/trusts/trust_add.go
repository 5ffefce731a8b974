package trusts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

type trustAddRun struct {
	Public      string        `arg:"" optional:"" name:"key" complete:"file" help:"Public key, or a digest with --as."`
	As          string        `placeholder:"NAME" help:"Admit the digest KEY by itself, under this name alone."`
	From        string        `placeholder:"PLACE" complete:"file" help:"Take the key with --fingerprint from an archive, index or project."`
	Fingerprint string        `placeholder:"DIGITS" help:"Fingerprint the key must have; nothing is asked then."`
	Owner       string        `placeholder:"TEXT" help:"Owner of the key."`
	Name        string        `placeholder:"NAME" help:"Name in the policy; default: from the file's name or owner."`
	Names       []string      `placeholder:"GLOB" help:"Names the key may sign."`
	Threshold   *int          `placeholder:"N" help:"Signatures required for those names."`
	Accept      string        `enum:"v1,v2," default:"" blank:"" placeholder:"FORMAT" help:"Accepted signature formats: v1 (both) or v2."`
	NotBefore   string        `placeholder:"DATE" help:"Start of validity, such as 2027-01-31."`
	Expires     string        `placeholder:"DATE" help:"Expiry, such as 2027-12-31."`
	Rotation    string        `placeholder:"FILE" complete:"file" xor:"what" help:"Apply a key rotation; also the URL of a registry's."`
	space       string        // of the id of the bundle in --from: its first segment
	claim       *source.Claim // of --from, as it was shown; nil: it is read there
}

func (c *trustAddRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.As != "" || strings.HasPrefix(c.Public, "blake3:") {
		return c.digest(ctx, app)
	}
	switch {
	case c.Rotation != "" && (c.Public != "" || len(c.Names) > 0 || c.Threshold != nil ||
		c.Owner+c.Name+c.NotBefore+c.Expires+c.Accept+c.From+c.Fingerprint != ""):
		return nil, fault.New(fault.Validation, "--rotation can't be combined with a key or other flags")
	case c.Rotation != "":
		return c.rotate(ctx, app)
	case c.From != "" && (c.Public != "" || c.Fingerprint == ""):
		// What the place is shows the fingerprints of its signers.
		shows := fault.Command("rye bundle verify", c.From)
		place := app.Absolute(cli.Setting{Value: c.From, Origin: "--from"})
		if _, err := os.Stat(filepath.Join(place.Value, ".ai", source.SignersFile)); place.Err == nil && err == nil {
			shows = fault.Command("rye fetch -C", c.From)
		}
		return nil, fault.New(fault.Validation, "--from needs --fingerprint and takes no KEY").Try(shows)
	case c.Public == "" && c.From == "":
		return nil, fault.New(fault.Validation, "expected KEY, --from or --rotation").Try("rye help trust add")
	case (c.Threshold != nil || c.Accept != "") && len(c.Names) == 0:
		return nil, fault.New(fault.Validation, "--threshold and --accept need --names").
			Try("rye help trust add")
	case c.Threshold != nil && *c.Threshold < 1:
		return nil, fault.New(fault.Validation, "--threshold must be at least 1")
	}
	k, err := c.key(ctx, app)
	if err != nil {
		return nil, err
	}
	for _, glob := range c.Names {
		if err := KnownKind(ctx, app, glob); err != nil {
			app.Term.Warn("%q covers nothing: %s", glob, fault.Of(err).Text)
		}
	}
	add := trust.Addition{Key: k, Named: c.Name != "", Names: c.Names, Threshold: c.Threshold, Accept: c.Accept}
	var lost []trust.Loss
	var second *policy.OwnerError
	vouches := false
	question := fmt.Sprintf("trust %s of %q?", k.Public.Fingerprint().Short(), cmp.Or(k.Owner, k.Name))
	if c.Fingerprint != "" {
		question = ""
	}
	own, _ := KeyLines(app) // without the keys no loss is reported
	ans, err := paths.EditPolicy(ctx, app, paths.Edit{
		Question: question,
		Edit: trust.Edit{Change: func(root *policy.Side) (*policy.Policy, error) {
			var after *policy.Policy
			if after, second, err = add.To(root.Policy); second != nil && c.Fingerprint != "" {
				return nil, second // never without a question
			} else if err == nil {
				lost = add.Losses(own, root.Policy, after)
				named, _ := after.Key(k.Public.Fingerprint())
				vouches = len(after.RulesNaming(named.Name)) > 0
			}
			return after, err
		}},
		Before: func() {
			app.Term.Note("key          %s", k.Public)
			app.Term.Note("fingerprint  %s", k.Public.Fingerprint())
			app.Term.Note("owner        %s", OrDash(k.Owner))
			if !k.Expires.IsZero() && !app.Now().Before(k.Expires) {
				app.Term.Warn("the key expired on %s: it vouches for nothing", yamltree.DateText(k.Expires))
			}
			for _, l := range lost {
				app.Term.Warn(
					"your own key %q may no longer vouch for %s, which %q allows now: rye trust add %s --names %s",
					l.Key, l.Names, l.Rule, l.Key, fault.Quote(l.Names))
			}
			if second != nil {
				app.Term.Warn("%q has a key already: a second one may be an impostor's", k.Owner)
				app.Term.Warn("known  %s (%s)", second.Known.Public.Fingerprint(), second.Known.Name)
				app.Term.Warn("new    %s", k.Public.Fingerprint())
			}
		},
	})
	if f, ok := fault.Find(err); ok && second != nil && f.Code == fault.Approval {
		f.Code, f.Text = fault.Policy, fmt.Sprintf("%q has another key already, and this one was not confirmed",
			k.Owner)
		f.Why = []string{"known  " + second.Known.Public.Fingerprint().String(),
			"new    " + k.Public.Fingerprint().String()}
		f.Details = map[string]any{"reason": "second-key", "owner": k.Owner,
			"known": second.Known.Public.Fingerprint().String(), "new": k.Public.Fingerprint().String()}
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	if len(ans.Changes) > 0 && !vouches {
		app.Term.Note("it vouches for nothing yet: add names with --names")
	}
	return ans, nil
}

// key reads the key and its properties from the flags, or from the policy for a known key.
func (c *trustAddRun) key(ctx context.Context, app *cli.App) (k policy.Key, err error) {
	au, err := paths.Paths(app).RootPolicy()
	if err != nil && (au == nil || !errors.Is(err, fs.ErrNotExist)) {
		return k, err
	}
	known, byName := au.Side.Policy.KeyNamed(c.Public)
	if byName {
		k.Public = known.Public
	} else if k.Public, err = c.read(ctx, app); err != nil {
		return k, err
	} else {
		known, _ = au.Side.Policy.Key(k.Public.Fingerprint())
	}
	// For a known key, the flags needn't repeat its properties.
	if known.Name != "" && (c.Owner == "" || c.Owner == known.Owner || known.Owner == "") &&
		(c.Name == "" || c.Name == known.Name) {
		c.Name, k = known.Name, known
		k.Owner = cmp.Or(k.Owner, c.Owner)
	} else if k.Owner = c.Owner; k.Owner == "" && c.From == "" {
		return k, fault.New(fault.Validation, "--owner is required: whose key is it?").
			Because("fingerprint  " + k.Public.Fingerprint().String()).Try(app.With("--owner", c.name()))
	} else if k.Name = c.Name; k.Name == "" {
		k.Name = c.name()
	}
	date := func(flag, text string, to *time.Time) (err error) {
		if text != "" {
			*to, err = ParseDate(flag, text)
		}
		return err
	}
	err = cmp.Or(date("--not-before", c.NotBefore, &k.NotBefore), date("--expires", c.Expires, &k.Expires))
	return k, err
}

// read reads the public key. It must have the fingerprint of --fingerprint, if that is set.
func (c *trustAddRun) read(ctx context.Context, app *cli.App) (public key.Public, err error) {
	if c.From == "" {
		if public, err = paths.ReadPublic(ctx, app, c.Public); err != nil {
			return public, addOwnKeyHint(app, c.Public, err)
		}
		if found := public.Fingerprint().String(); c.Fingerprint != "" && found != c.Fingerprint {
			err = fault.New(fault.Integrity, "%q is another key", c.Public).Because("expected  "+c.Fingerprint,
				"found     "+found)
		}
		return public, err
	}
	claim := c.claim
	if claim == nil {
		read, err := readClaim(ctx, app, c.From)
		if err != nil {
			return public, err
		}
		claim = &read
	}
	for _, k := range claim.Keys {
		if k.Public.Fingerprint().String() == c.Fingerprint {
			c.Owner = cmp.Or(c.Owner, k.Owner)
			_, id, _ := strings.Cut(claim.Name, ":")
			c.space, _, _ = strings.Cut(id, "/")
			return k.Public, nil
		}
	}
	return public, fault.New(fault.NotFound, "%q has no key with the fingerprint %s", c.From,
		c.Fingerprint).Try(fault.Command("rye bundle verify", c.From))
}

// readClaim reads the unverified signers of an archive, an index or an image.
func readClaim(ctx context.Context, a *cli.App, place string) (source.Claim, error) {
	if !oci.IsReference(place) {
		if !strings.Contains(place, "://") {
			place = a.Absolute(cli.Setting{Value: place}).Value
		}
		return source.ReadClaim(ctx, paths.Fetcher(a), place)
	}
	at, ref, err := paths.Registry(a, place, nil)
	if err != nil {
		return source.Claim{}, err
	}
	name := cmp.Or(ref.Digest, ref.Tag)
	if name == "" {
		if name, err = remote.Newest(ctx, at); err != nil {
			return source.Claim{}, err
		}
	}
	r, err := remote.Open(ctx, at, name, bundle.VerifyOptions{})
	if err != nil {
		return source.Claim{}, err
	}
	return source.Claim{Name: r.Name, Keys: r.Keys}, nil
}

// AddFrom trusts a key of an archive or an index, whose claim was shown, for names.
func AddFrom(ctx context.Context, a *cli.App, path string, claim source.Claim, f key.Fingerprint, names []string) (
	cli.Answer, error) {
	return (&trustAddRun{From: path, claim: &claim, Fingerprint: f.String(), Names: names}).Run(ctx, a)
}

// addOwnKeyHint adds to an error how to trust one of the user's own keys, if one has that name.
func addOwnKeyHint(a *cli.App, name string, err error) error {
	if key.CheckName(name) != nil {
		return err
	}
	dir, notFound := paths.KeysDir(a)
	if notFound == nil {
		_, notFound = dir.Public(name)
	}
	if notFound != nil {
		return err
	}
	f := fault.Of(err)
	f.Why = []string{"it is one of your keys, but the policy doesn't contain it under this name"}
	f.Hint = []string{"rye key export " + name + " > " + name + ".pem",
		"rye trust add " + name + ".pem --owner " + name}
	return f
}

// name makes a name for the key from its file, its owner, or the bundle that it comes with.
func (c *trustAddRun) name() string {
	file, _, _ := strings.Cut(filepath.Base(c.Public), ".")
	if _, err := key.ParsePublic(c.Public); err == nil {
		file = ""
	}
	owner, _, _ := strings.Cut(c.Owner, "<")
	return cmp.Or(key.Slug(file), key.Slug(owner), key.Slug(c.space), "key")
}

// ParseDate parses a day or a second in UTC. "" is the zero time.
func ParseDate(flag, text string) (time.Time, error) {
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil || text == "" {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fault.New(fault.Validation, "%s is %q, not a date as in 2027-01-31 or 2027-01-31T18:00:00Z",
		flag, text)
}

// rotate applies a rotation document.
func (c *trustAddRun) rotate(ctx context.Context, app *cli.App) (cli.Answer, error) {
	file, err := c.readRotation(ctx, app)
	if err != nil {
		return nil, err
	}
	if isLogRotation(file) {
		return c.rotateLog(ctx, app, file)
	}
	doc, err := manifest.ReadRotation(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", c.Rotation, err)
	}
	fresh := doc.Step.Key.Public
	ans, err := paths.EditPolicy(ctx, app, paths.Edit{
		Question: fmt.Sprintf("replace %s with %s in the rule %q?", doc.Step.Retire.Short(),
			fresh.Fingerprint().Short(), doc.Step.Rule),
		Edit: paths.Lists(app).Rotation(ctx, doc, paths.Paths(app).RootPolicyFile().Path, c.Rotation),
		Before: func() {
			app.Term.Note("new  %s", fresh.Fingerprint())
			app.Term.Note("old  %s", doc.Step.Retire)
		},
	})
	if err != nil {
		return nil, err
	}
	return ans, followRotation(app, doc.Step.Retire, fresh)
}

// followRotation makes a user's new key the default key if the old one was.
func followRotation(app *cli.App, old key.Fingerprint, fresh key.Public) error {
	lines, err := KeyLines(app)
	if err != nil {
		return err
	}
	find := func(f key.Fingerprint) int {
		return slices.IndexFunc(lines, func(l trust.KeyState) bool { return l.Fingerprint == f.String() })
	}
	from, to := find(old), find(fresh.Fingerprint())
	if from < 0 || to < 0 {
		app.Term.Note("the old key's signatures are refused now: once the owner has signed with the new key, run " +
			"rye update in each project")
		return nil
	}
	if !lines[from].Default {
		app.Term.Note(
			"the old key's signatures are refused now: run rye sign --all --key %s, then rye lock in each project",
			fault.Quote(lines[to].Name))
		return nil
	}
	dir, err := paths.KeysDir(app)
	if err != nil {
		return err
	}
	app.Term.Note("%q is now the default key", lines[to].Name)
	app.Term.Note("the old key's signatures are refused now: run rye sign --all, then rye lock in each project")
	return dir.SetDefault(lines[to].Name)
}

// KnownKind refuses a name or a glob with an unknown kind, which is most often a typing error.
func KnownKind(ctx context.Context, a *cli.App, name string) error {
	kind, _, ok := strings.Cut(name, ":")
	if !ok || strings.Contains(kind, "*") || admission.Domain(kind+":x") != sign.Item {
		return nil
	}
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil // the kinds are unknown
	}
	defer v.Close()
	_, err = v.CheckKind(kind)
	return err
}
