package audits

import (
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/session"
)

// Dirs returns the directories of this user's audit log, receipts and machine key.
func Dirs(a *cli.App) (session.AuditDirs, error) {
	s := a.Dir(cli.StatePlace)
	if s.Err != nil {
		return session.AuditDirs{}, s.Err
	}
	return session.AuditIn(s.Value), nil
}
