package workspace

import (
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/lock/git"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/web"
)

// git returns the client for git repositories, or nil if no cache directory exists and none is required. It dials
// only addresses that the download client may dial.
func (l *Lock) git(client *web.Client) (*git.Client, error) {
	ofGit := func(r project.Requirement) bool { _, is := r.Source.Git(); return is }
	if l.Cache.Err != nil && slices.ContainsFunc(l.Yaml.Requires, ofGit) {
		return nil, l.Cache.Err
	}
	if l.Cache.Err != nil || l.Options.Git == nil {
		return nil, nil
	}
	o := l.Options.Git(l.Dir)
	o.Dir, o.Reach = filepath.Join(l.Cache.Path, "git"), client.Reach
	return git.New(o), nil
}
