package declared

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/value"
)

// A Risk is the worst effect of a call. Risks are ordered.
type Risk uint8

// The risks.
const (
	Read Risk = iota
	Write
	Infra
	Money
	Destructive
)

var riskNames = []string{"read", "write", "infra", "money", "destructive"}

// String returns the name of a risk.
func (r Risk) String() string {
	if int(r) < len(riskNames) {
		return riskNames[r]
	}
	return fmt.Sprintf("risk %d", uint8(r))
}

// ParseRisk parses the name of a risk.
func ParseRisk(name string) (Risk, bool) {
	i := slices.Index(riskNames, name)
	return Risk(max(i, 0)), i >= 0
}

// effectRisk returns the risk of an effect. Unknown effects have the highest.
func effectRisk(effect string) Risk {
	word := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(effect)), ":")
	if r, ok := ParseRisk(word); ok {
		return r
	}
	switch word {
	case "none", "pure", "compute", "filesystem-read":
		return Read
	case "filesystem", "filesystem-write", "network", "http", "io":
		return Write
	case "system", "process":
		return Infra
	}
	return Destructive
}

// risk reads the risk: the declared one, or else that of the worst declared effect. Pure alone is Read.
func (d *reader) risk(tool *Tool) {
	effects, worst := d.Words("effects"), Read
	for _, e := range effects {
		worst = max(worst, effectRisk(e))
	}
	tool.Risk = Destructive // unless everything below is sound
	val := d.Fields.Get("risk")
	declared, ok := ParseRisk(val.String())
	switch {
	case val.IsNull() && d.Has("effects"):
		return
	case val.IsNull() && len(effects) == 0:
		if tool.NoRisk = !tool.Pure || !d.Fields.Get("effects").IsNull(); !tool.NoRisk {
			tool.Risk = Read
		}
		return
	case val.IsNull():
		declared = worst
	case val.Kind != value.Text:
		d.Once(val, "risk", "Field 'risk' must be a string, got %s", fields.TypeName(val))
		return
	case !ok:
		d.Once(val, "risk", "Field 'risk' must be one of ['read', 'write', 'infra', 'money', 'destructive'], got %s%s",
			fields.Show(val), fields.Suggest(val.Text, riskNames))
		return
	case declared < worst:
		d.Warn(val, "risk", "the risk is declared as %s, the effects as %s", declared, worst)
	}
	if tool.Pure && declared > Read {
		d.Bad(fields.OrElse(val, d.Fields.Get("pure")), "pure",
			"a tool that is pure has no other risk than read, this one has %s", declared)
	}
	tool.Risk = declared
}

// A Reach is what a call may do. The risk of a tool that declares none is derived from it.
type Reach struct {
	Network     bool // to any host
	Secrets     bool // at least one
	Permissions []capability.Capability
	Write       []string // paths of the project
	Unconfined  bool     // no sandbox enforces the rest
}

// outputs is the directory that a call of risk Read may write.
const outputs = ".ai/outputs"

// Risk derives the risk, and returns the reason as a clause about the tool.
func (r *Reach) Risk() (Risk, string) {
	var worst []string
	if r.Unconfined {
		worst = append(worst, "no sandbox confines it")
	}
	if r.Network {
		worst = append(worst, "it may use the network")
	}
	if r.Secrets {
		worst = append(worst, "it gets secrets")
	}
	if slices.ContainsFunc(r.Permissions, acts) {
		worst = append(worst, "it may run or sign other items")
	}
	if len(worst) > 0 {
		return Destructive, strings.Join(worst, ", and ")
	}
	if slices.ContainsFunc(r.Write, func(path string) bool {
		return path != outputs && !strings.HasPrefix(path, outputs+"/")
	}) {
		return Write, "it may write files of the project"
	}
	return Read, "it gets no network, secrets or other items, and writes no project file"
}

// acts reports whether a capability allows more than to find and load items.
func acts(c capability.Capability) bool {
	return c.Allows(capability.Execute) || c.Allows(capability.Sign)
}

// DeriveRisk returns the risk that a sandboxed call has which gets all that the tool declares, and the reason. If the
// tool declares its risk, that is returned, and the reason is "".
func (t *Tool) DeriveRisk() (Risk, string) {
	return t.RiskOf(&Reach{Network: t.Network.All || len(t.Network.Hosts) > 0, Secrets: len(t.Secrets) > 0,
		Permissions: t.Permissions, Write: t.Files.Write})
}

// Lends reports whether the tool is for running others, as runtimes and primitives are: then the other's risk counts.
func (t *Tool) Lends() bool { return t.Primitive || t.Type == "runtime" }

// RiskOf returns the risk of a call, and the reason if it is derived, otherwise "".
func (t *Tool) RiskOf(r *Reach) (Risk, string) {
	if !t.NoRisk {
		return t.Risk, ""
	}
	return r.Risk()
}
