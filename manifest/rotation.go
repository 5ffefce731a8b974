package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// rotationSpec is the document that the package comment shows.
var rotationSpec = canon.Spec{
	Format: "rotation/2",
	Header: []canon.Field{
		{Name: "rule", Max: 400},
		{Name: "before", Type: canon.Strings},
		{Name: "retire", Max: 64},
		{Name: "key", Max: 43},
		{Name: "name", Max: 64},
		{Name: "owner", Optional: true, Max: 200},
		{Name: "not-before", Optional: true, Max: int64(len(timeForm))},
		{Name: "key-expires", Optional: true, Max: int64(len(timeForm))},
		{Name: "expires", Optional: true, Max: int64(len(timeForm))},
	},
	MaxBytes:   64 << 10,
	MaxEntries: 1,
}

// A Rotation replaces one key by another in one rule of a policy. policy.Side.Rotate applies it, with the signers that
// Check returns.
type Rotation struct {
	Document

	Step policy.Rotation
}

// ReadRotation reads a rotation, with or without its signature lines.
func ReadRotation(in io.Reader) (*Rotation, error) {
	scan := newScan(in, &rotationSpec, "")
	if !scan.head() {
		return nil, scan.Err()
	}
	for scan.Scan() {
	}
	if scan.Err() != nil {
		return nil, scan.Err()
	}
	r := &Rotation{}
	if err := r.read(scan); err != nil {
		return nil, badDocument("rotation", 0, err)
	}
	var err error
	if r.Document, err = scan.document(sign.Rotation, "rotation:"+r.Step.Rule); err != nil {
		return nil, err
	}
	r.Step.ID = r.ID
	return r, nil
}

func (r *Rotation) read(scan *scan) (err error) {
	rotation := &r.Step
	if rotation.Rule = string(scan.HeaderStr(0)); !printable(rotation.Rule, 400) {
		return fmt.Errorf("%+q is not the glob of a rule", rotation.Rule)
	}
	for _, text := range scan.HeaderStrs(1) {
		f, err := key.ParseFingerprint(string(text))
		if n := len(rotation.Before); err == nil && n > 0 && f.Compare(rotation.Before[n-1]) <= 0 {
			err = errors.New("before is not sorted, each key once")
		}
		if err != nil {
			return err
		}
		rotation.Before = append(rotation.Before, f)
	}
	if rotation.Retire, err = key.ParseFingerprint(string(scan.HeaderStr(2))); err != nil {
		return err
	}
	if rotation.Key.Public, err = key.ParsePublic(string(scan.HeaderStr(3))); err != nil {
		return err
	}
	rotation.Key.Name, rotation.Key.Owner = string(scan.HeaderStr(4)), string(scan.HeaderStr(5))
	for i, t := range []*time.Time{&rotation.Key.NotBefore, &rotation.Key.Expires, &rotation.Expires} {
		if h := 6 + i; scan.HeaderHas(h) {
			var ok bool
			if *t, ok = parseTime(scan.HeaderStr(h)); !ok || t.IsZero() {
				return fmt.Errorf("%s is not a time such as %q", rotationSpec.Header[h].Name, timeForm)
			}
		}
	}
	switch {
	case !printable(rotation.Key.Name, 64) || !plain(rotation.Key.Owner):
		return errors.New("name and owner of the key are not visible text")
	case !slices.Contains(rotation.Before, rotation.Retire):
		return errors.New("the key that retires is not among those before")
	case slices.Contains(rotation.Before, rotation.Key.Public.Fingerprint()):
		return errors.New("the new key is among those before")
	}
	return nil
}

// AppendRotation appends the document with the content of step, without signature lines, and returns it as
// ReadRotation would. Before may be in any order. It writes nothing that can't be read back.
func AppendRotation(dst []byte, step policy.Rotation) ([]byte, *Rotation, error) {
	encoder := canon.NewEncoderBytes(dst, &rotationSpec)
	var before []string
	for _, f := range sorted(step.Before, key.Fingerprint.String) {
		before = append(before, f.String())
	}
	encoder.HeaderStr(0, step.Rule)
	encoder.HeaderStrs(1, before)
	encoder.HeaderStr(2, step.Retire.String())
	encoder.HeaderStr(3, step.Key.Public.String())
	encoder.HeaderStr(4, step.Key.Name)
	for i, text := range []string{step.Key.Owner, timeText(step.Key.NotBefore), timeText(step.Key.Expires),
		timeText(step.Expires)} {
		if text != "" {
			encoder.HeaderStr(5+i, text)
		}
	}
	if err := encoder.Close(); err != nil {
		return dst, nil, err
	}
	read, err := ReadRotation(bytes.NewReader(encoder.Bytes()[len(dst):]))
	if err != nil {
		return dst, nil, err
	}
	return encoder.Bytes(), read, nil
}
