package spaces

import (
	"fmt"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/signing"
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

// A SignerLine is what a policy says about one signer.
type SignerLine = signing.SignerLine
