package workspace

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/tlog"
)

// WitnessFile is the file in an .ai that says which witnesses must have signed the checkpoints of registries' logs.
const WitnessFile = "logs.policy"

// witnesses returns the policies of the user and of the project with this .ai, which may be "". Both must be
// satisfied: a project can only demand more.
func (w *Workspace) witnesses(dotAI string) (all []*tlog.Policy, err error) {
	for _, dir := range []string{w.UserSpace().Path, dotAI} {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, WitnessFile)
		text, err := osfile.ReadIfThere("the policy of witnesses", path, tlog.MaxPolicy)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		policy, err := tlog.ParsePolicy(text)
		if err != nil {
			return nil, fault.Wrap(err, "%q: %v", path, err).On("path", path)
		}
		all = append(all, policy)
	}
	return all, nil
}
