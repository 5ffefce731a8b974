package session

import (
	"encoding/json"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A Report is the answer of every door to a call: the decisions about it, and its result.
type Report struct {
	Call   string     `json:"call"`
	Ref    string     `json:"ref"`
	Digest cas.Digest `json:"digest"`
	// "ok", "failed", "timeout", "cancelled", "refused"; "planned" for a dry run
	Status     string              `json:"status"`
	Result     json.RawMessage     `json:"result"`
	Exit       int                 `json:"exit"`
	Chain      []Link              `json:"chain"`
	Lock       cas.Digest          `json:"lock,omitzero"`
	Dev        bool                `json:"dev,omitempty"`
	Stranger   bool                `json:"stranger"`
	Grants     Grants              `json:"grants"`
	Risk       string              `json:"risk"`
	Derived    string              `json:"risk_derived,omitempty"` // why a tool that declares no risk has this one
	Sandbox    Sandbox             `json:"sandbox"`
	Unpinned   []MachineProgram    `json:"unpinned"`
	Pinned     []MachineProgram    `json:"pinned"`
	Packages   []packages.Artifact `json:"packages,omitempty"` // of the tool, as the lock calls them
	DurationMS int64               `json:"duration_ms"`
	Usage      map[string]int64    `json:"usage,omitempty"`
	Applied    []string            `json:"applied,omitempty"` // by the wrapper, such as another try
	Receipt    cas.Digest          `json:"receipt,omitzero"`
	Problems   []params.Problem    `json:"problems,omitempty"`
	Plan       *Planned            `json:"plan,omitempty"`
}

// A Link is an item of the chain.
type Link struct {
	Ref     string     `json:"ref"`
	Space   string     `json:"space"`
	Digest  cas.Digest `json:"digest"`
	Tree    cas.Digest `json:"tree,omitzero"`
	Signers []string   `json:"signers"`
}

// Grants are the grants of a call.
type Grants struct {
	Permissions []string `json:"permissions"`
	Read        []string `json:"read"`
	Write       []string `json:"write"`
	Network     []string `json:"network"`            // hosts, "*" for all
	Secrets     []string `json:"secrets"`            // by name
	Withheld    []string `json:"withheld,omitempty"` // secrets that it declares and may not have
}

// A Sandbox is the level that a call needs, and what was enforced.
type Sandbox struct {
	Need     string   `json:"need"`
	Level    string   `json:"level,omitempty"`
	Enforced []string `json:"enforced"`
}

// A MachineProgram is one that a call runs by.
type MachineProgram struct {
	Name    string     `json:"name"`
	Path    string     `json:"path"`
	Version string     `json:"version,omitempty"`
	Digest  cas.Digest `json:"digest,omitzero"` // zero for the data of a plugin, which it interprets
}

// Planned is the part of a Report that only a dry run has.
type Planned struct {
	Params json.RawMessage `json:"params"`
	Config json.RawMessage `json:"config"`
	Set    []string        `json:"set"` // variables that .env and the chain set
	Read   []string        `json:"read"`
	Write  []string        `json:"write"`
	// Undecided is set if the packages depend on a Python, which a dry run doesn't start.
	Undecided bool `json:"undecided,omitempty"`
	// Asks is why the call needs an approval.
	Asks string `json:"asks,omitempty"`
}

// NewReport returns the report of a plan.
func NewReport(plan *exec.Plan) *Report {
	tool, g := plan.Chain[0].Item, &plan.Grants
	report := &Report{
		Call: plan.ID(), Ref: tool.Ref.String(), Digest: tool.Raw, Dev: plan.Dev, Stranger: plan.Stranger,
		Result: json.RawMessage("null"), Lock: plan.Set, Packages: plan.Artifacts,
		Grants: Grants{g.Permissions.Strings(), g.Read, g.Write, g.Network.Hosts, g.Secrets, plan.Withheld()},
		Risk:   plan.Risk.String(), Derived: plan.Derived,
		Sandbox: Sandbox{Need: max(plan.Action.Sandbox.Level, floor.None).String()},
	}
	if !g.Network.Bound {
		report.Grants.Network = []string{"*"}
	}
	for _, l := range plan.Chain {
		report.Chain = append(report.Chain, Link{l.Item.Ref.String(), l.Item.Space.Label, l.Item.Raw, l.Tree,
			l.Signers})
	}
	for _, q := range plan.Programs {
		list := &report.Unpinned
		if q.Pinned {
			list = &report.Pinned
		}
		*list = append(*list, MachineProgram{q.Name, q.Path, q.Version, q.Digest})
	}
	return report
}

// AddPlan adds the findings of a dry run.
func (r *Report) AddPlan(p *exec.Plan) error {
	given, err := jcs.Append(nil, p.Params)
	if err != nil {
		return err
	}
	config, err := jcs.Append(nil, p.Config)
	if err != nil {
		return err
	}
	r.Status, r.Plan = "planned", &Planned{given, config, p.Keys, p.Action.Sandbox.Read,
		slices.Concat(p.Action.Sandbox.Write, p.Action.Sandbox.Data), p.Undecided, p.Asks}
	return nil
}

// AddResult adds the result of the call.
func (r *Report) AddResult(x *exec.Result) {
	r.Status, r.Exit, r.DurationMS, r.Usage, r.Problems, r.Applied = x.Status, x.Exit, x.Duration.Milliseconds(),
		x.Usage, x.Problems, x.Applied
	r.Sandbox.Level, r.Sandbox.Enforced, r.Receipt = x.Level.String(), x.Enforced, x.Digest
	if x.Data != "" {
		r.Unpinned = append(r.Unpinned, MachineProgram{Name: exec.PluginDataVariable, Path: x.Data})
	}
	if text, err := jcs.Append(nil, x.Value); err == nil {
		r.Result = text
	}
}
