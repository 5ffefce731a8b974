//go:build unix

package fault

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// permit returns the command for a file that this user may not use: the chmod that allows it, if the modes of its own
// file or directory are the reason, else the one that shows them.
func permit(op, path string) string {
	at, need, gives := path, fs.FileMode(0), fs.FileMode(0)
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrPermission) && at != filepath.Dir(at) { // a directory above can't be searched
		at, need, gives = filepath.Dir(at), 0o100, 0o500
		info, err = os.Stat(at)
	}
	opens := strings.HasPrefix(op, "open") || strings.HasPrefix(op, "read")
	switch {
	case need != 0:
	case err != nil || !opens: // an entry of the directory can't be created, replaced or removed
		at, need, gives = filepath.Dir(path), 0o300, 0o700
		info, err = os.Stat(at)
	case info.IsDir():
		need, gives = 0o500, 0o500
	case info.Mode()&0o400 == 0:
		need, gives = 0o400, 0o400
	default:
		need, gives = 0o200, 0o200
	}
	if err != nil || info.Mode()&need == need || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return Command("ls -ld", at)
	}
	var letters strings.Builder
	for _, bit := range []struct {
		mode   fs.FileMode
		letter byte
	}{{0o400, 'r'}, {0o200, 'w'}, {0o100, 'x'}} {
		if gives&^info.Mode()&bit.mode != 0 {
			letters.WriteByte(bit.letter)
		}
	}
	return Command("chmod u+"+letters.String(), at)
}
