package spaces

import (
	"fmt"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

type DriftLine struct {
	Kind     string `json:"kind"`
	Ref      string `json:"ref"`
	File     string `json:"file"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Only     string `json:"only"` // "line-endings", "mode" where nothing else differs
}

func DriftLineOf(d *lock.Difference) DriftLine {
	line := DriftLine{Kind: string(d.Kind), Ref: d.Ref.String(), File: d.Path, Expected: places.DigestText(d.Expected), Found: places.DigestText(d.Found)}
	switch {
	case d.OnlyLineEndings:
		line.Only = "line-endings"
	case d.OnlyMode:
		line.Only = "mode"
	}
	if line.File != "" {
		line.File = workspace.MarkerDir + "/" + line.File
	}
	return line
}

// RuleText says which rule of a policy admitted a file, and how many keys have signed it.
func RuleText(rule string, threshold, signed int) string {
	return fmt.Sprintf("%q, threshold: %d, signed by %s", rule, threshold, fault.Count(int64(signed), "key"))
}

type SpacePath struct{ Space, Path string }

// TreeLine is the other files of a tool.
type TreeLine struct {
	Digest string         `json:"digest"`
	Dir    string         `json:"dir"` // in the space
	Files  []TreeFileLine `json:"files"`
}

type TreeFileLine struct {
	Path   string `json:"path"`
	Mode   string `json:"mode"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

type SignerLine struct {
	Key     string `json:"key"`  // its fingerprint
	Name    string `json:"name"` // in the policy; empty if it has none
	Owner   string `json:"owner"`
	Format  string `json:"format"`
	Time    string `json:"time"` // as the signature says: information
	Verdict string `json:"verdict"`
}

// SignerLines joins what policy says of each signer with when they say to have signed.
func SignerLines(au *trust.Authority, e places.Examined, verdicts []policy.Verdict) (lines []SignerLine) {
	for _, v := range verdicts {
		l := SignerLine{Key: v.Key.String(), Name: v.Name, Format: v.Format.String(), Verdict: v.Code.String()}
		if k, ok := au.Side.Policy.Key(v.Key); ok {
			l.Owner = k.Owner
		}
		for _, s := range e.Signers {
			if s.Key.Fingerprint() == v.Key && !s.Time.IsZero() {
				l.Time = s.Time.Format(time.RFC3339)
			}
		}
		lines = append(lines, l)
	}
	return lines
}
