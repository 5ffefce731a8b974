package env

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A manager is a version manager: a program that installs several versions of others.
type manager struct {
	binary  string   // the default
	version string   // the variable that selects a version; %s is the binary
	homes   []string // its own variables
}

var managers = map[string]manager{
	"pyenv": {"python", "PYENV_VERSION", []string{"PYENV_ROOT"}},
	"rbenv": {"ruby", "RBENV_VERSION", []string{"RBENV_ROOT"}},
	"asdf":  {"", "ASDF_%s_VERSION", []string{"ASDF_DIR", "ASDF_DATA_DIR"}},
	"nvm":   {"node", "", []string{"NVM_DIR"}},
}

const (
	askTime   = 5 * time.Second
	maxAnswer = 4096
)

// managed finds a program through a version manager.
func (r *resolver) managed(ctx context.Context, wanted *wanted) (Program, error) {
	if wanted.manager == "nvm" {
		// It is a shell function, so it can't be started.
		return r.nvm(wanted)
	}
	asked, err := r.byName(wanted.manager)
	if err != nil {
		return Program{}, err
	}
	if r.Host.Ask == nil {
		return Program{}, fmt.Errorf("can't ask %s: starting it is not allowed here", wanted.manager)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := r.Host.Ask.Run(ctx, asked.Path, []string{"which", wanted.binary}, r.managerEnv(wanted))
	switch {
	case ctx.Err() != nil:
		return Program{}, fmt.Errorf("no answer from %s: %w", wanted.manager, ctx.Err())
	case err != nil:
		return Program{}, &NotFoundError{What: wanted.binary + " " + wanted.version,
			Tried: []string{asked.Path + " which " + wanted.binary + ": " + err.Error()}}
	}
	path := strings.TrimSuffix(strings.TrimSuffix(string(answer), "\n"), "\r")
	if len(path) > maxAnswer || !filepath.IsAbs(path) || strings.ContainsFunc(path, unicode.IsControl) {
		return Program{}, fmt.Errorf("%s did not answer with an absolute path", wanted.manager)
	}
	p, err := r.first(wanted.binary, []string{path})
	if err != nil {
		return p, err
	}
	asked.Name, asked.Type, asked.For = wanted.manager, "manager", p.Path
	p.next = append(p.next, asked)
	p.Version = wanted.version
	return p, nil
}

// managerEnv returns the environment for a version manager, whose files are in the user's real home.
func (r *resolver) managerEnv(wanted *wanted) []string {
	manager := managers[wanted.manager]
	vars := map[string]string{"PATH": r.given, "HOME": r.Host.Vars["HOME"]}
	for _, name := range manager.homes {
		if v := r.Host.Vars[name]; filepath.IsAbs(v) {
			vars[name] = v
		}
	}
	if windows {
		for _, name := range needed {
			vars[name] = r.Host.Vars[name]
		}
	}
	name := manager.version
	if wanted.manager == "asdf" {
		plugin := wanted.binary
		if strings.HasPrefix(plugin, "python") {
			plugin = "python"
		}
		if plugin == "node" || plugin == "npm" || plugin == "npx" {
			plugin = "nodejs"
		}
		name = fmt.Sprintf(manager.version, strings.ToUpper(strings.ReplaceAll(plugin, "-", "_")))
	}
	vars[name] = wanted.version
	return (&Env{Vars: vars}).List()
}

// nvm finds a version of node in the directories of nvm: the newest one that begins with the requested numbers.
func (r *resolver) nvm(wanted *wanted) (Program, error) {
	home := r.Host.Vars["NVM_DIR"]
	if !filepath.IsAbs(home) {
		home = filepath.Join(r.Host.Vars["HOME"], ".nvm")
	}
	dir := filepath.Join(home, "versions", "node")
	missing := &NotFoundError{What: wanted.binary + " " + wanted.version, Tried: []string{dir}}
	if !filepath.IsAbs(dir) {
		return Program{}, missing
	}
	f, err := r.Files.Open(dir)
	if err != nil {
		missing.Err = notAbsence(err)
		return Program{}, missing
	}
	defer f.Close()
	list, ok := f.(fs.ReadDirFile)
	if !ok {
		return Program{}, missing
	}
	entries, err := list.ReadDir(10_000)
	if err != nil && len(entries) == 0 {
		return Program{}, missing
	}
	want, ok := numbers(strings.TrimPrefix(wanted.version, "v"))
	if !ok {
		return Program{}, fmt.Errorf("%q is not a version of node: expected 1 to 3 numbers", wanted.version)
	}
	var best []int
	for _, e := range entries {
		have, ok := numbers(strings.TrimPrefix(e.Name(), "v"))
		if ok && len(have) == 3 && strings.HasPrefix(e.Name(), "v") && slices.Equal(have[:len(want)], want) &&
			slices.Compare(have, best) > 0 {
			best = have
		}
	}
	if best == nil {
		return Program{}, missing
	}
	version := fmt.Sprintf("%d.%d.%d", best[0], best[1], best[2])
	p, err := r.first(missing.What, []string{filepath.Join(dir, "v"+version, "bin", wanted.binary)})
	p.Version = version
	return p, err
}

// numbers parses 1 to 3 numbers separated by dots.
func numbers(s string) ([]int, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 3 {
		return nil, false
	}
	list := make([]int, len(parts))
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || strconv.Itoa(n) != p {
			return nil, false
		}
		list[i] = n
	}
	return list, true
}
