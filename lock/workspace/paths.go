package workspace

import (
	"path/filepath"

	"github.com/rye-build/rye/manifest/trust"
)

// Paths says where everything is that belongs to a project and its user, and which rye reads it.
type Paths struct {
	Dir     string // an absolute path: the project is the nearest ancestor
	NoDir   error  // why there is no Dir
	Named   bool   // the user named Dir: if it is the project itself, any user may own it
	Package bool   // Dir is the project, even if it has neither rye.yaml nor .ai

	Version string // of the rye that runs, which a rye.yaml may ask for; "devel" is new enough for all

	Policy   Place  // the root policy, where it isn't the user's
	PolicyID string // what the root policy must be; the project's policy counts where no other is named

	User  Place // the base of the user space, which is its .ai
	Store Place // the object store
	State Place // memory that can't be rebuilt
	Cache Place // what rye rebuilds

	policies *trust.Reader // of a workspace; nil: each is parsed whenever it is read
}

// A Place is a directory or file, or the reason why there is none. The reason becomes an error where the place is
// needed.
type Place struct {
	Path   string
	Origin string // what chose it, for messages: "--store", "default"
	Err    error
}

// Below returns p with more segments of a path.
func (p Place) Below(segments ...string) Place {
	if p.Err == nil {
		p.Path = filepath.Join(append([]string{p.Path}, segments...)...)
	}
	return p
}

// UserSpace is the user's .ai.
func (p *Paths) UserSpace() Place { return p.User.Below(MarkerDir) }
