package exec_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/env"
)

// TestBuild: a step of a build has nothing of the machine, the user or the project, whatever its tool declares.
func TestBuild(t *testing.T) {
	w := newWorld(t).with("pure: true", "network: [api.example.com]", "files: {read: [src]}", "secrets: [token]",
		"config: {project: '{project_path}'}", "env_config: {env: {LEVEL: high, TZ: Mars}}")
	w.put(map[string]string{"src/a": "a"})
	for name, v := range map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C", "TERM": "xterm", "NO_COLOR": "1",
		"TZ": "Asia/Tokyo"} {
		w.kernel.Host.Vars[name] = v
	}
	w.policy += "\nexec: {dotenv: project}\n"
	w.kernel.DotEnv = func() ([]env.Variable, error) {
		return []env.Variable{{Name: "FROM_FILE", Value: "x", Line: 1}}, nil
	}
	c := call(x, nil)
	c.Build = true
	p := w.prepare(c)
	if info, err := os.Stat(p.Work); err != nil || !info.IsDir() || p.Action.Dir != p.Work ||
		p.Config["project"] != p.Work {
		t.Errorf("it works in %q, told %v (%v)", p.Action.Dir, p.Config["project"], err)
	}
	s := p.Action.Sandbox
	if !slices.Contains(s.Write, p.Work) || slices.Contains(s.Read, filepath.Join(w.project, "src")) ||
		s.Network.All || len(s.Network.Hosts) > 0 {
		t.Errorf("it may %+v", s)
	}
	if len(p.Grants.Read)+len(p.Grants.Write)+len(p.Grants.Secrets) > 0 || !p.Grants.Network.Bound {
		t.Errorf("it is granted %+v", p.Grants)
	}
	names := []string{}
	for _, v := range p.Env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	want := []string{"HOME", "LANG", "LEVEL", "PATH", "SOURCE_DATE_EPOCH", "TMPDIR", "TZ"}
	has := func(v string) bool { return slices.Contains(p.Env, v) }
	if runtime.GOOS != "windows" && (!slices.Equal(names, want) || !has("PATH=/usr/local/bin:/usr/bin:/bin")) {
		t.Errorf("its environment is %q", p.Env)
	}
	if !has("TZ=Mars") || !has("LANG=C.UTF-8") || !has("LEVEL=high") {
		t.Errorf("its environment is %q", p.Env)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.Work); !errors.Is(err, os.ErrNotExist) {
		t.Error("its directory stays")
	}

	// Without the word that it is pure it makes nothing; and what its chain says of PATH holds.
	w = newWorld(t).with()
	c = call(x, nil)
	c.Build = true
	if e := w.refused(c); fault.CodeOf(e) != fault.Validation ||
		e.Error() != `"tool:acme/x" isn't declared pure, so a build can't use it` {
		t.Error(e)
	}
	if runtime.GOOS == "windows" {
		return
	}
	w = newWorld(t).with("pure: true", "env_config: {env: {PATH: /usr/bin}}")
	c = call(x, nil)
	c.Build = true
	if p := w.prepare(c); !slices.Contains(p.Env, "PATH=/usr/bin") {
		t.Errorf("its environment is %q", p.Env)
	}
}
