package policy

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of policy.yaml, for editors. It rejects most of the files that Parse rejects, and no
// others.
func Schema() string { return schema }

// Parse reads a policy file. It skips the signature lines: the caller decides whether the policy counts.
func Parse(file []byte) (*Policy, error) {
	if len(file) > yamltree.MaxBytes {
		return nil, &yamltree.Error{Family: "policy", Msg: fmt.Sprintf("is longer than %d bytes", yamltree.MaxBytes)}
	}
	data, err := sign.Strip(file, sign.Hash)
	if err != nil {
		return nil, err
	}
	rules := &Policy{
		id:    cas.Sum(data),
		names: map[string]int{}, prints: map[key.Fingerprint]int{}, digests: map[cas.Digest]int{},
	}
	if rules.tree, err = yamltree.Parse(data); err == nil {
		err = rules.read()
	}
	var where *yamltree.Error
	if errors.As(err, &where) {
		where.Family = "policy"
		// Messages count the lines of the whole file; only "---" may precede the signatures.
		if where.Line > 0 {
			where.Line += bytes.Count(file, []byte("\n")) - bytes.Count(data, []byte("\n"))
		}
	}
	if err != nil {
		return nil, err
	}
	return rules, nil
}

// Find finds a key of this policy for package sign.
func (p *Policy) Find(f key.Fingerprint) (key.Public, bool) {
	k, ok := p.Key(f)
	return k.Public, ok
}

// FindV1 returns the keys that match the 16 digits in a line of the first format.
func (p *Policy) FindV1(id string) []key.Public {
	var found []key.Public
	for _, k := range p.sections.Keys {
		if k.Public.V1ID() == id {
			found = append(found, k.Public)
		}
	}
	return found
}
