package audits

import (
	"encoding/hex"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/session"
)

// AuditGroup is what "rye audit" alone shows.
func AuditGroup() cli.Command {
	return cli.Command{
		Path: "audit", Group: "run", Help: "Inspect and verify the log of calls.",
		Aka: []string{"log", "history", "journal"},
		More: "Each call is written down before it begins, in audit/ of the state directory, and signed by a key of this machine. " +
			"Your own key vouches for the machine's: on its own where it needs no passphrase, else with rye audit vouch. " +
			"Parameters and results aren't kept, only their digests.",
	}
}

// Dirs are the directories of what is kept of this user's calls.
func Dirs(a *cli.App) (session.AuditDirs, error) {
	s := a.Dir(cli.StatePlace)
	if s.Err != nil {
		return session.AuditDirs{}, s.Err
	}
	return session.AuditIn(s.Value), nil
}

// ReceiptPath is where a directory has the receipt of a digest.
func ReceiptPath(dir string, d cas.Digest) string {
	return filepath.Join(dir, hex.EncodeToString(d[:])+".json")
}
