package stage

import (
	"errors"
	"os"
	"syscall"
)

// A Top is a directory in which a program may create everything but the names in Keep, which may be missing.
//
// The kernel can't forbid a missing name: a mount needs something to cover, and Landlock knows no names. So the
// program sees another directory in place of this one, on the same file system. It has what the real one has:
// directories are mounted, files are hard links. A missing name to keep is a read-only mount of a link that leads
// nowhere: reading says that it doesn't exist, and it can't be removed or replaced. When the program has ended, its
// new entries are renamed into the real directory. Nothing that others made or wrote meanwhile is replaced: the
// program's version then gets another name, an Aside.
//
// The links change the time of the last change (ctime) of the files, and nothing else of the real directory's entries.
// Whatever the program did at the top is seen by others when it has ended.
//
// That directory is .rye-new-N/top in the real one, locked while its stage lives. Beside it, was has the links of the
// beginning. A stage that is killed leaves both, and Recover, called before the next run, does the rest.
type Top struct {
	Path []byte
	Keep [][]byte
}

// An Aside is an entry of a Top that has another name than its program gave it.
type Aside struct {
	Name []byte // below the Top, as the program named it
	As   []byte // where it is; empty: what the program did to Name is undone
	Why  []byte
}

const (
	runPrefix = ".rye-new-"
	// asideSuffix comes after the name of an Aside, before a number.
	asideSuffix = ".rye-new"
	// nowhere is the destination of the links for missing names. The program sees /usr read-only.
	nowhere = "/usr/.kept-by-rye"
	// stubMode marks an empty file or directory that is only there to be mounted on.
	stubMode = 0o1000
	// maxNames bounds the search for a name that is free.
	maxNames = 1000
)

// A top is a Top that is laid out.
type top struct {
	path string
	keep [][]byte
	real int    // the real directory
	name string // of the run's directory in it
	run  int    // the run's directory, locked
	made int    // the directory that the program sees
	was  int    // the links of the beginning
}

// layOut makes the directory that the program sees, and mounts it over the real one.
func (t *Top) layOut() (made *top, err error) {
	made = &top{path: string(t.Path), keep: t.Keep, real: -1, run: -1, made: -1, was: -1}
	if err = (&Mount{Path: t.Path, How: Writable}).mount(); err != nil {
		return nil, err
	}
	if made.real, err = openDir(atCwd, made.path); err == nil {
		err = made.fill()
	}
	if err != nil {
		_, _ = made.finish()
		return nil, &os.PathError{Op: "lay out", Path: made.path, Err: err}
	}
	return made, nil
}

func (t *top) fill() error {
	facts, err := stat(t.real, ".")
	if err != nil {
		return err
	}
	if err := t.begin(); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		fd   *int
	}{{"was", &t.was}, {"top", &t.made}} {
		if err := syscall.Mkdirat(t.run, d.name, 0o700); err != nil {
			return err
		}
		if *d.fd, err = openDir(t.run, d.name); err != nil {
			return err
		}
	}
	// Who may write there is who may write in the real directory.
	_ = syscall.Fchown(t.made, int(facts.uid), int(facts.gid))
	if err := syscall.Fchmod(t.made, uint32(facts.mode)&0o7777); err != nil {
		return err
	}
	list, err := names(t.real)
	if err != nil {
		return err
	}
	seen, err := mountOver(t.made, "", t.real, "", false)
	if err != nil {
		return err
	}
	defer syscall.Close(seen)
	for _, name := range list {
		if isRun(name) {
			continue
		}
		err := t.show(seen, name)
		if err != nil && !errors.Is(err, syscall.ENOENT) { // others may remove it meanwhile
			return err
		}
	}
	for _, name := range t.keep {
		name := string(name)
		_, err := stat(t.made, name)
		if err == nil {
			continue
		}
		if err = symlinkat(nowhere, t.made, name); err != nil {
			return err
		}
		if err = closed(mountOver(t.made, name, seen, name, true)); err != nil {
			return err
		}
	}
	return nil
}

// begin makes and locks the run's directory.
func (t *top) begin() error {
	for n := 1; n <= maxNames; n++ {
		name := runPrefix + digits(n)
		switch err := syscall.Mkdirat(t.real, name, 0o700); {
		case errors.Is(err, syscall.EEXIST):
			continue
		case err != nil:
			return err
		}
		if fd := lockRun(t.real, name); fd >= 0 {
			t.name, t.run = name, fd
			return nil
		}
	}
	return syscall.EEXIST
}

// lockRun opens and locks the directory of a run, and returns -1 if another process has it or has removed it.
func lockRun(dir int, name string) int {
	fd, err := openDir(dir, name)
	if err != nil {
		return -1
	}
	opened, err := stat(fd, ".")
	if err == nil {
		err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if now, e := stat(dir, name); err != nil || e != nil || !now.same(&opened) {
		syscall.Close(fd)
		return -1
	}
	return fd
}

// isRun reports whether a name is that of a run's directory.
func isRun(name string) bool {
	n := len(runPrefix)
	_, number := parse([]byte(name[min(n, len(name)):]))
	return number && name[:n] == runPrefix
}

// show makes an entry of the real directory visible to the program.
func (t *top) show(seen int, name string) error {
	facts, err := stat(t.real, name)
	if err != nil {
		return err
	}
	kept := t.keeps(name)
	if kind := facts.kind(); !kept && (kind == syscall.S_IFREG || kind == syscall.S_IFLNK) &&
		linkat(t.real, name, t.made, name) == nil {
		// In this order: a link in was alone would mean that the program removed the file.
		return linkat(t.real, name, t.was, name)
	}
	if facts.kind() == syscall.S_IFDIR {
		err = syscall.Mkdirat(t.made, name, stubMode)
	} else {
		err = syscall.Mknodat(t.made, name, syscall.S_IFREG|stubMode, 0)
	}
	if err != nil {
		return err
	}
	return closed(mountOver(t.real, name, seen, name, kept))
}

// keeps reports whether a name must not be created, in any case of its ASCII letters.
func (t *top) keeps(name string) bool {
	for _, keep := range t.keep {
		same := len(keep) == len(name)
		for i := 0; same && i < len(name); i++ {
			same = lower(keep[i]) == lower(name[i])
		}
		if same {
			return true
		}
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// finish unmounts the directory, when nothing of the program is left, and brings the program's changes to the real
// one.
func (t *top) finish() ([]Aside, error) {
	defer t.close()
	if t.real < 0 {
		return nil, nil
	}
	_ = syscall.Unmount(t.path, syscall.MNT_DETACH)
	if t.run < 0 {
		return nil, nil
	}
	return t.settle(false)
}

func (t *top) close() {
	for _, fd := range []int{t.was, t.made, t.run, t.real} {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}

// Recover finishes the runs of a directory whose stages were killed: it brings what their programs created into the
// directory. It removes and replaces nothing there.
func Recover(path string, keep [][]byte) (asides []Aside, err error) {
	dir, err := openDir(atCwd, path)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(dir)
	list, err := names(dir)
	for _, name := range list {
		if !isRun(name) {
			continue
		}
		t := &top{path: path, keep: keep, real: dir, name: name, made: -1, was: -1}
		if t.run = lockRun(dir, name); t.run < 0 {
			continue
		}
		t.was, _ = openDir(t.run, "was")
		t.made, _ = openDir(t.run, "top")
		more, e := t.settle(true)
		asides, err = append(asides, more...), errors.Join(err, e)
		t.real = -1
		t.close()
	}
	return asides, err
}
