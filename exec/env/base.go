package env

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Files is what the package needs of a disk. Disk is the real one.
type Files interface {
	// Stat follows links.
	Stat(name string) (fs.FileInfo, error)
	// Open opens a file, or a directory as an fs.ReadDirFile.
	Open(name string) (fs.File, error)
	// Real returns where a path leads when all links are followed.
	Real(name string) (string, error)
}

const windows = runtime.GOOS == "windows"

// inherited are the variables that are taken from the host as they are, if they are plain.
var inherited = map[string]string{
	"LANG": plainName, "LANGUAGE": plainName, "TERM": plainName, "NO_COLOR": plainName, "TZ": plainName + "/,<>",
}

// needed are the variables that programs of Windows don't start without.
var needed = []string{"SYSTEMROOT", "WINDIR", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"}

const plainName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@+-:"

// barePath is the PATH where the host has none.
var barePath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// base returns what is taken from the host.
func (r *resolver) base() map[string]string {
	vars := map[string]string{}
	for name, v := range r.Host.Vars {
		chars, ok := inherited[name]
		if strings.HasPrefix(name, "LC_") && checkName(name) == nil {
			chars, ok = plainName, true
		}
		if ok && isPlain(v, chars) {
			vars[name] = v
		}
		if windows && slices.Contains(needed, strings.ToUpper(name)) {
			vars[name] = v
		}
	}
	vars["HOME"], vars["TMPDIR"] = r.Home, r.Temp
	if windows {
		vars["USERPROFILE"], vars["TEMP"], vars["TMP"] = r.Home, r.Temp, r.Temp
	}
	path := r.hostPath()
	vars["PATH"] = strings.Join(path, string(filepath.ListSeparator))
	return vars
}

// isPlain reports whether a value has no other characters, and no program could take it for a path. A time zone has
// slashes, and is relative to a directory of the system.
func isPlain(v, chars string) bool {
	other := func(r rune) bool { return !strings.ContainsRune(chars, r) }
	return len(v) <= 200 && !strings.ContainsFunc(v, other) && !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, ":") && !strings.Contains(v, "..")
}

// maxPath is how many entries of the host's PATH are looked at.
const maxPath = 256

// hostPath returns the entries of the host's PATH that programs may be found in.
func (r *resolver) hostPath() []string {
	var path []string
	host := r.Host.Vars["PATH"]
	if windows && host == "" {
		host = r.Host.Vars["Path"]
	}
	for i, dir := range filepath.SplitList(host) {
		if i == maxPath {
			break
		}
		if dir != "" {
			dir = filepath.Clean(dir)
		}
		if r.mayHold(dir) == "" && !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	if len(path) == 0 {
		return barePath
	}
	return path
}

// mayHold says why a directory may not be in PATH; "" if it may.
func (r *resolver) mayHold(dir string) string {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return "it is not an absolute path without . and .."
	}
	real, err := r.Files.Real(dir)
	if err != nil {
		return "it can't be read"
	}
	for _, f := range append([]string{r.Project, r.Home, r.Temp}, r.Forbidden...) {
		if inside(dir, f) || inside(real, f) {
			return "its files are not pinned"
		}
	}
	info, err := r.Files.Stat(real)
	switch {
	case err != nil || !info.IsDir():
		return "it is no directory"
	case isForeign(info):
		return "it belongs to another user"
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := r.Files.Stat(at)
		if err != nil || !windows && info.Mode().Perm()&0o002 != 0 && (at == real || info.Mode()&fs.ModeSticky == 0) {
			return "everybody may write to it"
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// inside reports whether a path is a directory or below it.
func inside(path, dir string) bool {
	if dir == "" {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}
