package stage

import (
	"errors"
	"syscall"
)

// A settling brings a program's changes to the real directory.
type settling struct {
	*top
	asides []Aside
}

// settle brings the program's changes to the real directory, and removes the run's. After a crash it only adds: what
// the program removed stays, and what it replaced gets its new version beside it.
func (t *top) settle(crashed bool) ([]Aside, error) {
	s := &settling{top: t}
	var err error
	if t.made >= 0 {
		_ = syscall.Fchmod(t.made, 0o700) // the program may have changed it
		err = s.all(crashed)
		t.remove(t.made, "top", err)
	}
	t.remove(t.was, "was", nil)
	if gone := unlinkat(t.real, t.name, atRemovedir); err == nil && len(s.asides) == 0 {
		err = gone
	}
	return s.asides, err
}

func (t *top) remove(fd int, name string, failed error) {
	if fd < 0 || failed != nil {
		return
	}
	if name == "was" {
		list, _ := names(fd)
		for _, n := range list {
			_ = unlinkat(fd, n, 0)
		}
	}
	_ = unlinkat(t.run, name, atRemovedir)
}

func (s *settling) all(crashed bool) error {
	var began facts
	var before []string
	if s.was >= 0 {
		var err error
		if began, err = stat(s.was, "."); err == nil {
			before, err = names(s.was)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range before {
		if !crashed {
			s.removed(name, &began)
		}
	}
	list, err := names(s.made)
	for _, name := range list {
		s.entry(name, &began, crashed)
	}
	return err
}

// removed removes an entry of the real directory that the program removed, unless others wrote or replaced it.
func (s *settling) removed(name string, began *facts) {
	if _, err := stat(s.made, name); !errors.Is(err, syscall.ENOENT) {
		return
	}
	was, err := stat(s.was, name)
	real, gone := stat(s.real, name)
	if err != nil || gone != nil || !real.same(&was) || s.keeps(name) {
		return
	}
	// With a third link the program has only renamed it.
	if real.links <= 2 && real.written.after(began.written) {
		s.asides = append(s.asides, Aside{Name: []byte(name), Why: []byte("it was written meanwhile")})
		return
	}
	if err := unlinkat(s.real, name, 0); err != nil {
		s.asides = append(s.asides, Aside{Name: []byte(name), Why: []byte(err.Error())})
	}
}

// entry brings one entry of the program's directory to the real one.
func (s *settling) entry(name string, began *facts, crashed bool) {
	made, err := stat(s.made, name)
	if err != nil {
		return
	}
	if made.stub() {
		_ = unlinkat(s.made, name, 0)
		_ = unlinkat(s.made, name, atRemovedir)
		return
	}
	was, old := stat(s.was, name)
	real, missing := stat(s.real, name)
	switch {
	case old == nil && made.same(&was), missing == nil && made.same(&real):
		// In this order: a link in was alone would mean that the program removed the file.
		_ = unlinkat(s.was, name, 0)
		_ = unlinkat(s.made, name, 0)
		return
	case s.keeps(name):
		if to, err := readlinkat(s.made, name); err == nil && to == nowhere {
			_ = unlinkat(s.made, name, 0)
			return
		}
		s.aside(s.made, name, s.real, "", "no tool may create it")
		return
	case crashed, old != nil, missing != nil, !real.same(&was), real.kind() == syscall.S_IFDIR,
		real.written.after(made.born) && real.written.after(began.written):
		s.bring(s.made, name, s.real, "")
		return
	}
	// The program replaced a file that others left as it was.
	if rename(s.made, name, s.real, name, renameExchange) != nil {
		s.bring(s.made, name, s.real, "")
		return
	}
	if got, err := stat(s.made, name); err != nil || !got.same(&was) {
		_ = rename(s.made, name, s.real, name, renameExchange)
		s.bring(s.made, name, s.real, "")
		return
	}
	_ = unlinkat(s.was, name, 0)
	_ = unlinkat(s.made, name, 0)
}

// bring moves an entry to a directory in which it is new. A directory that exists there gets the entries of this one.
func (s *settling) bring(from int, name string, to int, prefix string) {
	err := s.move(from, name, to, name, prefix)
	if !errors.Is(err, syscall.EEXIST) {
		s.failed(name, prefix, err)
		return
	}
	here, e := openDir(from, name)
	if e == nil {
		defer syscall.Close(here)
		there, e := openDir(to, name)
		if e == nil {
			defer syscall.Close(there)
			s.failed(name, prefix, s.merge(here, there, prefix+name+"/"))
			_ = unlinkat(from, name, atRemovedir)
			return
		}
	}
	s.aside(from, name, to, prefix, "the project has another one by now")
}

func (s *settling) merge(from, to int, prefix string) error {
	list, err := names(from)
	for _, name := range list {
		s.bring(from, name, to, prefix)
	}
	return err
}

// aside moves an entry to a name that is free.
func (s *settling) aside(from int, name string, to int, prefix, why string) {
	const longest = 240
	short := name[:min(len(name), longest)]
	for n := 1; n <= maxNames; n++ {
		as := short + asideSuffix
		if n > 1 {
			as += "-" + digits(n)
		}
		err := s.move(from, name, to, as, prefix)
		switch {
		case errors.Is(err, syscall.EEXIST):
			continue
		case err != nil:
			s.failed(name, prefix, err)
		default:
			s.asides = append(s.asides, Aside{Name: []byte(prefix + name), As: []byte(prefix + as), Why: []byte(why)})
		}
		return
	}
	s.failed(name, prefix, syscall.EEXIST)
}

// failed notes an entry that can't be moved. The next run tries again.
func (s *settling) failed(name, prefix string, err error) {
	if err == nil {
		return
	}
	s.asides = append(s.asides, Aside{
		Name: []byte(prefix + name), As: []byte(s.name + "/top/" + prefix + name), Why: []byte(err.Error()),
	})
}

// move renames an entry and never replaces another one.
func (s *settling) move(from int, name string, to int, as, prefix string) error {
	err := rename(from, name, to, as, renameNoReplace)
	if err == nil || errors.Is(err, syscall.EEXIST) {
		return err
	}
	made, e := stat(from, name)
	if e != nil {
		return err
	}
	dir := made.kind() == syscall.S_IFDIR
	switch {
	case errors.Is(err, syscall.EACCES) && dir:
		// Only a directory that may be written can be moved to another one.
		mode := uint32(made.mode) & 0o7777
		fd, e := openDir(from, name)
		if e != nil {
			return err
		}
		defer syscall.Close(fd)
		if mode&0o700 == 0o700 || syscall.Fchmod(fd, mode|0o700) != nil {
			return err
		}
		err = s.move(from, name, to, as, prefix)
		_ = syscall.Fchmod(fd, mode)
	case !errors.Is(err, syscall.EINVAL):
	case dir: // as in NFS, which can only replace
		return s.moveDir(from, name, to, as, prefix, &made)
	default:
		return moveFile(from, name, to, as)
	}
	return err
}

// moveFile and moveDir do what move does, on file systems that can't rename without replacing.
func moveFile(from int, name string, to int, as string) error {
	if err := linkat(from, name, to, as); err != nil {
		return err
	}
	return unlinkat(from, name, 0)
}

func (s *settling) moveDir(from int, name string, to int, as, prefix string, made *facts) error {
	if err := syscall.Mkdirat(to, as, 0o700); err != nil {
		return err
	}
	here, err := openDir(from, name)
	if err != nil {
		return err
	}
	defer syscall.Close(here)
	there, err := openDir(to, as)
	if err != nil {
		return err
	}
	defer syscall.Close(there)
	if err = s.merge(here, there, prefix+as+"/"); err == nil {
		_ = syscall.Fchmod(there, uint32(made.mode)&0o7777)
		err = unlinkat(from, name, atRemovedir)
	}
	return err
}
