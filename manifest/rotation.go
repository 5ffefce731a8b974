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
	s := newScan(in, &rotationSpec, "")
	if !s.head() {
		return nil, s.Err()
	}
	for s.Scan() {
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	r := &Rotation{}
	if err := r.read(s); err != nil {
		return nil, badDocument("rotation", 0, err)
	}
	var err error
	if r.Document, err = s.document(sign.Rotation, "rotation:"+r.Step.Rule); err != nil {
		return nil, err
	}
	r.Step.ID = r.ID
	return r, nil
}

func (r *Rotation) read(s *scan) (err error) {
	p := &r.Step
	if p.Rule = string(s.HeaderStr(0)); !printable(p.Rule, 400) {
		return fmt.Errorf("%+q is not the glob of a rule", p.Rule)
	}
	for _, text := range s.HeaderStrs(1) {
		f, err := key.ParseFingerprint(string(text))
		if n := len(p.Before); err == nil && n > 0 && f.Compare(p.Before[n-1]) <= 0 {
			err = errors.New("before is not sorted, each key once")
		}
		if err != nil {
			return err
		}
		p.Before = append(p.Before, f)
	}
	if p.Retire, err = key.ParseFingerprint(string(s.HeaderStr(2))); err != nil {
		return err
	}
	if p.Key.Public, err = key.ParsePublic(string(s.HeaderStr(3))); err != nil {
		return err
	}
	p.Key.Name, p.Key.Owner = string(s.HeaderStr(4)), string(s.HeaderStr(5))
	for i, t := range []*time.Time{&p.Key.NotBefore, &p.Key.Expires, &p.Expires} {
		if h := 6 + i; s.HeaderHas(h) {
			var ok bool
			if *t, ok = parseTime(s.HeaderStr(h)); !ok || t.IsZero() {
				return fmt.Errorf("%s is not a time such as %q", rotationSpec.Header[h].Name, timeForm)
			}
		}
	}
	switch {
	case !printable(p.Key.Name, 64) || !plain(p.Key.Owner):
		return errors.New("name and owner of the key are not visible text")
	case !slices.Contains(p.Before, p.Retire):
		return errors.New("the key that retires is not among those before")
	case slices.Contains(p.Before, p.Key.Public.Fingerprint()):
		return errors.New("the new key is among those before")
	}
	return nil
}

// AppendRotation appends the document with the content of step, without signature lines, and returns it as
// ReadRotation would. Before may be in any order. It writes nothing that can't be read back.
func AppendRotation(dst []byte, step policy.Rotation) ([]byte, *Rotation, error) {
	e := canon.NewEncoderBytes(dst, &rotationSpec)
	var before []string
	for _, f := range sorted(step.Before, key.Fingerprint.String) {
		before = append(before, f.String())
	}
	e.HeaderStr(0, step.Rule)
	e.HeaderStrs(1, before)
	e.HeaderStr(2, step.Retire.String())
	e.HeaderStr(3, step.Key.Public.String())
	e.HeaderStr(4, step.Key.Name)
	for i, text := range []string{step.Key.Owner, timeText(step.Key.NotBefore), timeText(step.Key.Expires),
		timeText(step.Expires)} {
		if text != "" {
			e.HeaderStr(5+i, text)
		}
	}
	if err := e.Close(); err != nil {
		return dst, nil, err
	}
	read, err := ReadRotation(bytes.NewReader(e.Bytes()[len(dst):]))
	if err != nil {
		return dst, nil, err
	}
	return e.Bytes(), read, nil
}
