package env

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/osfile"
)

// Files is the part of a file system that this package reads. Disk is the real one.
type Files interface {
	// Stat follows links.
	Stat(name string) (fs.FileInfo, error)
	// Open opens a file, or a directory as an fs.ReadDirFile.
	Open(name string) (fs.File, error)
	// Real returns a path with all symbolic links resolved.
	Real(name string) (string, error)
}

const windows = runtime.GOOS == "windows"

// inherited lists the variables taken from the host, with the characters allowed in their values.
var inherited = map[string]string{
	"LANG": plainName, "LANGUAGE": plainName, "TERM": plainName, "NO_COLOR": plainName, "TZ": plainName + "/,<>",
}

// needed lists the variables that programs on Windows need to start.
var needed = []string{"SYSTEMROOT", "WINDIR", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "NUMBER_OF_PROCESSORS",
	"PROCESSOR_ARCHITECTURE"}

const plainName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@+-:"

// barePath is the PATH if no entry of the host's is usable.
var barePath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// base returns the variables taken from the host.
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

// isPlain reports whether a value has only these characters, and can't be a path. A time zone may contain slashes,
// but is relative to a system directory.
func isPlain(v, chars string) bool {
	other := func(r rune) bool { return !strings.ContainsRune(chars, r) }
	return len(v) <= 200 && !strings.ContainsFunc(v, other) && !strings.HasPrefix(v, "/") &&
		!strings.HasPrefix(v, ":") && !strings.Contains(v, "..")
}

// maxPath bounds the considered entries of the host's PATH.
const maxPath = 256

// hostPath returns the usable entries of the host's PATH.
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

// mayHold returns why a directory may not be in PATH; "" if it may.
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
	info, err := r.stat(real)
	switch {
	case err != nil || !info.IsDir():
		return "it is not a directory"
	case osfile.OwnedByOther(info):
		return "it belongs to another user"
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := r.stat(at)
		if err != nil || !windows && info.Mode().Perm()&0o002 != 0 && (at == real || info.Mode()&fs.ModeSticky == 0) {
			return "any user may write to it"
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// stat caches each directory, since those of PATH share parent directories.
func (r *resolver) stat(dir string) (fs.FileInfo, error) {
	if info := r.dirs[dir]; info != nil {
		return info, nil
	}
	info, err := r.Files.Stat(dir)
	if err == nil {
		r.dirs[dir] = info
	}
	return info, err
}

// inside reports whether a clean path is a directory or below it.
func inside(path, dir string) bool {
	// fast path: most are not, and Rel is slow
	if dir == "" || !windows && !strings.HasPrefix(path, filepath.Clean(dir)) {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}
