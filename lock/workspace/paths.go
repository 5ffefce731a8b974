package workspace

import (
	"path/filepath"

	"github.com/rye-build/rye/manifest/trust"
)

// Paths locates everything that belongs to a project and its user, and gives the version of the running rye.
type Paths struct {
	Dir     string // an absolute path: the search for the project begins here
	NoDir   error  // why Dir is empty
	Named   bool   // the user named Dir: if it is the project itself, any user may own it
	Package bool   // Dir is the project, even if it has neither rye.yaml nor .ai

	Version string // of the running rye, for the minimum version in rye.yaml; "devel" satisfies every minimum

	Policy   Place  // the root policy, if it isn't the user's
	PolicyID string // the expected id of the root policy; without Policy, the project's policy is the root

	User  Place // the base of the user space, which is its .ai
	Store Place // the object store
	State Place // data that can't be rebuilt
	Cache Place // data that rye rebuilds

	policies *trust.Reader // the workspace's reader; nil: each policy is parsed whenever it is read
}

// A Place is a directory or file, or the reason why it is unknown. The reason becomes an error when the place is
// needed.
type Place struct {
	Path   string
	Origin string // its source, for messages: "--store", "default"
	Err    error
}

// Below returns p with segments appended to its path.
func (p Place) Below(segments ...string) Place {
	if p.Err == nil {
		p.Path = filepath.Join(append([]string{p.Path}, segments...)...)
	}
	return p
}

// UserSpace returns the user's .ai.
func (p *Paths) UserSpace() Place { return p.User.Below(MarkerDir) }
