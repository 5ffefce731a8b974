package audits

import (
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/session"
)

// Dirs are the directories of what is kept of this user's calls.
func Dirs(a *cli.App) (session.AuditDirs, error) {
	s := a.Dir(cli.StatePlace)
	if s.Err != nil {
		return session.AuditDirs{}, s.Err
	}
	return session.AuditIn(s.Value), nil
}
