package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/sandbox/landlock"
	"github.com/rye-build/rye/exec/sandbox/stage"
)

// system lists the paths that programs need to start, read the clock and check a certificate. None of them belongs to
// a user, and none of /etc is readable by root alone.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/timezone",
	"/etc/locale.alias", "/etc/locale.conf", "/etc/terminfo", "/etc/inputrc", "/etc/magic", "/etc/mime.types",
	"/etc/fonts",
	"/etc/os-release", "/etc/lsb-release", "/etc/debian_version", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
	"/etc/host.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/ca-certificates.conf",
	"/etc/crypto-policies",
	"/etc/gitconfig", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust/extracted",
	"/dev/random", "/dev/urandom", "/sys/devices/system/cpu",
}

// systemWrite lists devices that store nothing.
var systemWrite = []string{"/dev/null", "/dev/zero", "/dev/full"}

// facts lists the files of /proc that describe only the machine. In a namespace a program gets its own whole /proc
// instead.
var facts = []string{
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
	"/proc/filesystems",
	"/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/proc/sys/kernel/version",
	"/proc/sys/kernel/cap_last_cap",
	"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max", "/proc/sys/vm/overcommit_memory",
	"/proc/sys/vm/max_map_count",
}

// forbidden lists directories that a Spec can't name, nor anything below them.
var forbidden = []string{"/proc", "/sys", "/dev"}

// memory is the exception: a Spec may name files in shared memory.
const memory = "/dev/shm/"

// A view is the part of the file tree that a program gets. For each file the nearest listed path above it decides.
type view struct {
	modes    map[string]int // by path
	listed   []string
	mayMount bool
	flat     bool                // lay out no directory
	keep     map[string][]string // the names to keep, by directory
	missing  map[string]bool     // the directories in which one of them is missing
	closed   string              // a directory in which nothing can be created, because a name to keep is missing
	tops     []stage.Top
	rules    []landlock.Rule
	mounts   []stage.Mount
}

// newView makes the rules and mounts for a Spec. Its paths must be clean and absolute, exist, and have no links in
// them.
func newView(s Spec, mayMount bool) (*view, error) {
	view := &view{modes: map[string]int{}, mayMount: mayMount, flat: s.Stays, keep: map[string][]string{},
		missing: map[string]bool{}}
	var kept []string // those that exist
	for _, path := range s.Keep {
		dir := filepath.Dir(path)
		view.keep[dir] = append(view.keep[dir], filepath.Base(path))
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			view.missing[dir] = true
		} else {
			kept = append(kept, path)
		}
	}
	for _, list := range []struct {
		paths []string
		mode  int
	}{{s.Read, stage.Readable}, {s.Write, stage.Writable}, {s.Data, stage.Data}, {kept, stage.Readable},
		{s.Deny, stage.Hidden}} {
		for _, path := range list.paths {
			if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
				return nil, fmt.Errorf("%q is not a clean absolute path", path)
			}
			switch {
			case list.mode == stage.Hidden:
			case path == "/" || !strings.HasPrefix(path, memory) &&
				slices.ContainsFunc(forbidden, func(n string) bool {
					return path == n || strings.HasPrefix(path, n+"/")
				}):
				return nil, fmt.Errorf("%q can't be given to a program", path)
			default:
				real, err := osfile.Real(path)
				if err != nil {
					return nil, fmt.Errorf("%q can't be given to a program: %w", path, err)
				}
				if real != path {
					return nil, fmt.Errorf("%q has a symbolic link in it: name %s instead", path, real)
				}
			}
			view.modes[path] = list.mode
		}
	}
	for _, p := range system {
		view.addSystem(p, false)
	}
	for _, p := range systemWrite {
		view.addSystem(p, true)
	}
	if mayMount {
		view.addSystem("/proc", false)
	} else {
		for _, p := range facts {
			view.addSystem(p, false)
		}
	}
	view.listed = slices.Sorted(maps.Keys(view.modes)) // directories before their content
	for _, p := range view.listed {
		if view.modes[p] == stage.Data && slices.ContainsFunc(view.below(p), func(inside string) bool {
			return view.modes[inside] != stage.Hidden
		}) {
			return nil, fmt.Errorf("nothing in %q can be given to a program in another way", p)
		}
		if err := view.place(p); err != nil {
			return nil, err
		}
	}
	return view, nil
}

// add adds a rule for a path in a mode.
func (v *view) add(path string, mode int) {
	v.rules = append(v.rules, landlock.Rule{Path: []byte(path), Write: mode == stage.Writable || mode == stage.Data,
		NoExec: mode == stage.Data})
}

func (v *view) addSystem(path string, write bool) {
	v.rules = append(v.rules, landlock.Rule{Path: []byte(path), Write: write, System: true})
}

// below returns the listed paths below a path that need another mode.
func (v *view) below(path string) (list []string) {
	mode := v.modes[path]
	for _, p := range v.listed {
		if strings.HasPrefix(p, path+"/") && v.modes[p] != mode && (mode == stage.Writable || mode == stage.Data ||
			v.modes[p] == stage.Hidden || v.modes[p] == stage.Data) {
			list = append(list, p)
		}
	}
	return list
}

// place adds the rules and mounts of a listed path.
func (v *view) place(path string) error {
	mode := v.modes[path]
	if mode == stage.Hidden {
		return nil
	}
	inside := v.below(path)
	missing := mode == stage.Writable && v.missing[path]
	laid := missing && v.mayMount && !v.flat && v.canMount(inside) && unix.Access(path, unix.W_OK|unix.X_OK) == nil
	switch {
	case laid:
		v.tops = append(v.tops, stage.Top{Path: []byte(path), Keep: raw(v.keep[path])})
	case v.mayMount && (mode == stage.Writable || mode == stage.Data):
		v.mounts = append(v.mounts, stage.Mount{Path: []byte(path), How: mode})
	}
	if len(inside) == 0 && !missing {
		v.add(path, mode)
		return nil
	}
	if laid || v.mayMount && !missing && v.canMount(inside) {
		if !laid { // the stage adds the rule for the directory that is laid out
			v.add(path, mode)
		}
		for _, p := range inside {
			ofTop := laid && filepath.Dir(p) == path && slices.Contains(v.keep[path], filepath.Base(p))
			if v.modes[p] != stage.Data && !ofTop { // else it is mounted by itself
				v.mounts = append(v.mounts, stage.Mount{Path: []byte(p), How: v.modes[p]})
			}
		}
		return nil
	}
	if missing {
		v.closed = path
	}
	// A rule applies to everything below its path, so each entry of the directory gets its own rule, except entries
	// that lead to listed paths.
	if mode == stage.Writable && !slices.ContainsFunc(inside, func(p string) bool {
		return v.modes[p] == stage.Hidden || v.modes[p] == stage.Data
	}) {
		v.add(path, stage.Readable)
	}
	return v.split(path, mode)
}

// canMount reports whether all paths exist, so that something can be mounted over them, and no path is listed below a
// hidden one.
func (v *view) canMount(inside []string) bool {
	for _, p := range inside {
		if real, err := osfile.Real(p); err != nil || real != p {
			return false
		}
		if v.modes[p] != stage.Hidden {
			continue
		}
		for other := range v.modes {
			if strings.HasPrefix(other, p+"/") {
				return false
			}
		}
	}
	return true
}

// maxSplit bounds the rules for entries of directories.
const maxSplit = 4096

func (v *view) split(dir string, mode int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%q can't be read: %w", dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if _, listed := v.modes[path]; listed || e.Type()&os.ModeSymlink != 0 {
			continue
		}
		onTheWay := slices.ContainsFunc(v.listed,
			func(other string) bool { return strings.HasPrefix(other, path+"/") })
		if onTheWay {
			if err := v.split(path, mode); err != nil {
				return err
			}
			continue
		}
		if len(v.rules) > maxSplit {
			return fmt.Errorf("%q has too many entries to hide some of them", dir)
		}
		v.add(path, mode)
	}
	return nil
}

// path removes the directories from PATH that a program can't see. A shell would find a program there, such as a
// version manager's, fail to start it, and not search further.
func (v *view) path(env []string) []string {
	env = slices.Clone(env)
	for i, variable := range env {
		list, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		dirs := slices.DeleteFunc(filepath.SplitList(list), func(dir string) bool {
			real, err := osfile.Real(dir)
			return err != nil || !slices.ContainsFunc(v.rules, func(r landlock.Rule) bool {
				at := string(r.Path)
				return under(dir, at) || under(real, at) || strings.HasPrefix(at, real) && filepath.Dir(at) == real
			})
		})
		if len(dirs) > 0 { // an empty PATH means the current directory
			env[i] = "PATH=" + strings.Join(dirs, ":")
		}
	}
	return env
}

// under reports whether a path is another one or below it.
func under(path, at string) bool {
	rest, below := strings.CutPrefix(path, at)
	return below && (rest == "" || rest[0] == '/')
}

// regular returns the real path of a regular file. A rule for a directory would allow everything in it.
func regular(path string) (string, error) {
	real, err := osfile.Real(path)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = unix.EACCES
	}
	if err != nil {
		return "", fmt.Errorf("start %q: %w", path, err)
	}
	return real, nil
}
