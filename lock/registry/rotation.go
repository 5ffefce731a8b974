package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/tlog"
)

// MaxRotation is the most bytes of a rotation.
const MaxRotation = 16 << 10

// RotationFile returns the name of the rotation that takes a log from a key to the next one.
func RotationFile(before tlog.Key) string { return rotationFile(keyID(before)) }

func rotationFile(before cas.Digest) string { return "rotations/" + hex(before) + ".yaml" }

// A Rotation says that a log goes on with another key, from the entries on that a checkpoint of the old key has. Both
// keys have signed it.
type Rotation struct {
	manifest.Document
	Registry    string // its name
	Before, Log tlog.Key
	Entries     int64 // of the checkpoint
	Root        tlog.Hash
	Time        time.Time
}

var rotationSpec = canon.Spec{
	Format: "registry-rotation/1",
	Header: []canon.Field{
		{Name: "name", Max: portable.MaxID},
		{Name: "before"},
		{Name: "log"},
		{Name: "entries", Type: canon.Int, Max: 1 << 53},
		{Name: "root", Max: 44},
		{Name: "time", Max: int64(len(time.RFC3339))},
	},
	MaxBytes:   MaxRotation,
	MaxEntries: 1,
}

const rotationTime = "2006-01-02T15:04:05Z"

// ParseRotation reads a rotation, which both keys must have signed.
func ParseRotation(b []byte) (*Rotation, error) {
	r, err := parseRotation(b)
	if err == nil {
		err = r.checkSignatures()
	}
	if err != nil {
		return nil, fault.New(fault.CodeOf(err), "the rotation of a log's key: %v", err).From(err)
	}
	return r, nil
}

func parseRotation(b []byte) (*Rotation, error) {
	if len(b) > MaxRotation {
		return nil, fault.New(fault.Parsing, "it has more than %d bytes", MaxRotation)
	}
	body, signatures, err := manifest.Split(b)
	if err != nil {
		return nil, err
	}
	scan := canon.NewScannerBytes(body, &rotationSpec)
	if !scan.Header() {
		return nil, scan.Err()
	}
	for scan.Scan() {
	}
	if scan.Err() != nil {
		return nil, scan.Err()
	}
	r := &Rotation{Registry: string(scan.HeaderStr(0)), Entries: scan.HeaderInt(3)}
	r.Document = manifest.Document{Domain: sign.Rotation, Name: "rotation:registry:" + r.Registry, ID: cas.Sum(body),
		Signatures: signatures}
	if err = CheckName(r.Registry); err == nil {
		r.Before, err = tlog.ParseKey(string(scan.HeaderStr(1)))
	}
	if err == nil {
		r.Log, err = tlog.ParseKey(string(scan.HeaderStr(2)))
	}
	if err != nil {
		return nil, fault.New(fault.Parsing, "%v", err).From(err)
	}
	root, err := base64.StdEncoding.Strict().DecodeString(string(scan.HeaderStr(4)))
	if err != nil || len(root) != len(r.Root) {
		return nil, fault.New(fault.Parsing, "root is not a hash")
	}
	r.Root = tlog.Hash(root)
	text := string(scan.HeaderStr(5))
	if r.Time, err = time.Parse(rotationTime, text); err != nil || r.Time.Format(rotationTime) != text {
		return nil, fault.New(fault.Parsing, "time is not a time such as %q", rotationTime)
	}
	switch {
	case !r.Before.IsLog() || !r.Log.IsLog():
		err = errors.New("before and log are keys of logs")
	case r.Before.Name != r.Log.Name || !strings.HasPrefix(r.Log.Name, r.Registry+"/"):
		err = errors.New("before and log are not of one log of this registry")
	case r.Before.Public() == r.Log.Public():
		err = errors.New("the new key is the old one")
	}
	if err != nil {
		return nil, fault.New(fault.Validation, "%v", err)
	}
	return r, nil
}

// checkSignatures refuses a rotation that one of its keys hasn't signed.
func (r *Rotation) checkSignatures() error {
	by, err := r.Check(func(f key.Fingerprint) (key.Public, bool) {
		for _, k := range []key.Public{r.Before.Public(), r.Log.Public()} {
			if k.Fingerprint() == f {
				return k, true
			}
		}
		return key.Public{}, false
	})
	if err == nil && len(by) != 2 {
		err = fault.New(fault.BelowThreshold, "both the old and the new key must have signed it")
	}
	return err
}

// Append appends the rotation, signed by both keys.
func (r *Rotation) Append(dst []byte, before, log key.Private) ([]byte, error) {
	encoder := canon.NewEncoderBytes(nil, &rotationSpec)
	encoder.HeaderStr(0, r.Registry)
	encoder.HeaderStr(1, r.Before.String())
	encoder.HeaderStr(2, r.Log.String())
	encoder.HeaderInt(3, r.Entries)
	encoder.HeaderStr(4, r.Root.String())
	encoder.HeaderStr(5, r.Time.UTC().Format(rotationTime))
	if err := encoder.Close(); err != nil {
		return dst, err
	}
	made, err := parseRotation(encoder.Bytes())
	if err != nil {
		return dst, err
	}
	for _, k := range []key.Private{before, log} {
		if err := made.Sign(k, made.Time); err != nil {
			return dst, err
		}
	}
	if err := made.checkSignatures(); err != nil {
		return dst, err
	}
	return manifest.Join(dst, encoder.Bytes(), made.Signatures), nil
}

// lastKey returns the number and the id of the key that a log was seen with last; 0 if it never was.
func lastKey(journal *rollback.Journal, origin string) (number int64, id cas.Digest, err error) {
	all, err := journal.Seen()
	if err != nil {
		return 0, id, err
	}
	for i := range all {
		step := &all[i]
		if step.Source != origin || step.Name != keyName {
			continue
		}
		n, err := strconv.ParseInt(step.Position, 10, 64)
		if err != nil {
			return 0, id, err
		}
		if n > number {
			number, id = n, step.ID
		}
	}
	return number, id, nil
}

// rotation reads the rotation by which a key with an id was replaced; fs.ErrNotExist if the registry has none.
func (c *Client) rotation(ctx context.Context, before cas.Digest) (*Rotation, error) {
	text, err := c.Read(ctx, rotationFile(before), MaxRotation)
	if err != nil {
		return nil, err
	}
	r, err := ParseRotation(text)
	if err == nil && (keyID(r.Before) != before || r.Log.Name != c.At.Log.Name) {
		err = errors.New("the registry's rotation is of another key")
	}
	return r, err
}

// alarmed returns the error for a log whose key isn't the expected one: an alarm, or what a person may do if the
// registry has a rotation by the key with this id.
func (c *Client) alarmed(ctx context.Context, before cas.Digest, alarm error) error {
	if c.Fetch == nil {
		return alarm
	}
	r, err := c.rotation(ctx, before)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return alarm
	case err != nil:
		return fault.Of(alarm).Because("its rotation of the key is not believed: " +
			fault.Clip(fault.Of(err).Text, 300))
	}
	return fault.New(fault.UntrustedKey, "the log %q has a new key since %s", r.Log.Name, r.Time.Format(time.RFC3339)).
		From(alarm).On("log", r.Log.Name).On("before", r.Before.String()).On("key", r.Log.String()).
		Because("before  "+r.Before.String(), "now     "+r.Log.String(),
			"both have signed that; compare it with what the registry's host has told you").
		Try("rye trust add --rotation " + fault.Quote(c.At.URL+"/"+rotationFile(before)))
}

// Follow lets a log go on with the new key of a rotation, which is that of c: a person has said so. The newest
// checkpoint must be signed by it, and continue the one of the old key that the rotation names, and all that was
// remembered.
func (c *Client) Follow(ctx context.Context, r *Rotation) error {
	number, id, err := lastKey(c.Journal, r.Log.Name)
	if err != nil {
		return err
	}
	if number > 0 && id != keyID(r.Before) && id != keyID(r.Log) {
		return fault.Of(otherKey(r.Before, nil)).Because("the rotation is by a key that the log wasn't seen with last")
	}
	view, err := c.readView(ctx)
	if err != nil {
		return err
	}
	if err := view.Extends(ctx, &tlog.Checkpoint{Origin: r.Log.Name, Size: r.Entries, Root: r.Root}); err != nil {
		return c.about(fault.Wrap(err, "the log doesn't continue what its old key has signed: %v", err))
	}
	if id != keyID(r.Log) {
		step := rollback.Step{Source: r.Log.Name, Name: keyName, Position: strconv.FormatInt(number+1, 10),
			ID: keyID(r.Log), At: c.Now()}
		if err := c.Journal.Record(ctx, step); err != nil {
			return err
		}
	}
	return c.remember(ctx, view)
}

// sameKey refuses another key for a log than that with which it was seen last.
func (c *Client) sameKey(ctx context.Context) error {
	last, err := sameKey(ctx, c.Journal, c.At.Log, c.Now())
	if err != nil && !last.IsZero() {
		err = c.alarmed(ctx, last, err)
	}
	return err
}
