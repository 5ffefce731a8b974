package build

import (
	"cmp"
	"encoding/json"
	"runtime"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/manifest/jcs"
)

// MediaType is the media type of an action.
const MediaType = "application/vnd.rye.action.v2"

// An Action is everything that a result depends on.
type Action struct {
	Chain     []Link         `json:"chain"`
	Env       []string       `json:"env"`
	Grants    cas.Digest     `json:"grants"`
	Inputs    cas.Digest     `json:"inputs"`
	MediaType string         `json:"media_type"`
	Outputs   []string       `json:"outputs"`
	Packages  cas.Digest     `json:"packages,omitzero"`
	Params    map[string]any `json:"params"`
	Platform  string         `json:"platform"`
	Toolchain []Program      `json:"toolchain"`
}

// A Link is one item of a chain.
type Link struct {
	Digest cas.Digest `json:"digest"`
	Ref    string     `json:"ref"`
	Tree   cas.Digest `json:"tree,omitzero"`
}

// A Program is a program that the chain starts.
type Program struct {
	Digest  cas.Digest `json:"digest"`
	Name    string     `json:"name"`
	Version string     `json:"version,omitempty"`
}

// ActionOf returns the action of a prepared call.
func ActionOf(plan *exec.Plan, inputs cas.Digest, outputs []string) (*Action, error) {
	action := &Action{
		Chain: []Link{}, Env: exec.BuildEnv(), Inputs: inputs, MediaType: MediaType, Outputs: outputs,
		Packages: packages.Digest(plan.Artifacts),
		Params:   plan.Params, Platform: runtime.GOOS + "/" + runtime.GOARCH, Toolchain: []Program{},
	}
	if action.Params == nil {
		action.Params = map[string]any{}
	}
	for _, l := range plan.Chain {
		action.Chain = append(action.Chain, Link{l.Item.Raw, l.Item.Ref.String(), l.Tree})
	}
	for _, q := range plan.Programs {
		action.Toolchain = append(action.Toolchain, Program{q.Digest, q.Name, q.Version})
	}
	slices.SortFunc(action.Toolchain, func(a, b Program) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Digest.Compare(b.Digest))
	})
	action.Toolchain = slices.Compact(action.Toolchain)
	var err error
	action.Grants, err = plan.Chain[0].Item.Model.Grants().Hash()
	return action, err
}

// Append appends the record to dst.
func (a *Action) Append(dst []byte) ([]byte, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return jcs.Canonical(dst, b)
}

// parseAction parses the output of Append, or returns nil.
func parseAction(b []byte) *Action {
	a := new(Action)
	if err := json.Unmarshal(b, a); err != nil {
		return nil
	}
	if again, err := a.Append(nil); err != nil || string(again) != string(b) {
		return nil
	}
	return a
}
