package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/unpack"
)

// question is what a Python is asked about itself: what chooses among wheels, and answers markers.
const question = `import json, os, platform, sys, sysconfig
libc = ""
if sys.platform == "linux":
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        pass
    if not libc and "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        libc = "musl"
print(json.dumps({
    "name": sys.implementation.name,
    "major": sys.version_info[0],
    "minor": sys.version_info[1],
    "threads": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "platform": sysconfig.get_platform(),
    "libc": libc,
    "release": platform.mac_ver()[0],
    "bits": 64 if sys.maxsize > 2**32 else 32,
    "markers": {
        "implementation_name": sys.implementation.name,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_system": platform.system(),
        "python_full_version": platform.python_version(),
        "python_version": "%d.%d" % sys.version_info[:2],
        "sys_platform": sys.platform,
    },
}))
`

// asking is how many seconds a Python has for its answer.
const asking = 60

// A python is what one has said.
type python struct {
	of      *unpack.Interpreter
	markers map[string]string
}

// python asks the Python that will run which wheels it takes, once for each. It runs where the tool will, but reads nothing
// of the project and reaches nobody.
func (p *Plan) python(ctx context.Context) (*unpack.Interpreter, map[string]string, error) {
	s, ok := p.primitive.(primitive.Starter)
	var names []string
	if ok {
		names = s.Starts(p.Config)
	}
	if len(names) != 1 || p.fromChain(names[0]) {
		return nil, nil, errors.New("its chain starts no Python of this machine, which would have to be asked which wheels it takes")
	}
	path := p.Action.Programs[names[0]].Path
	key := path
	for _, q := range p.Programs {
		if q.Path == path {
			key = q.Digest.String() + " " + path
		}
	}
	if known, ok := p.kernel.pythons.Load(key); ok {
		return known.(*python).of, known.(*python).markers, nil
	}
	a := p.Action
	a.Config = map[string]any{"command": names[0], "args": []any{"-I", "-S", "-B", "-X", "utf8", "-c", question}, "timeout": int64(asking)}
	a.Dir, a.Files = p.scratch.Home, primitive.Files{}
	a.Sandbox.Network = sandbox.Network{}
	a.Sandbox.Read, a.Sandbox.Write = []string{p.copied.Root}, []string{p.scratch.Home, p.scratch.Temp}
	for _, q := range p.found {
		a.Sandbox.Read = append(a.Sandbox.Read, p.kernel.around(q)...)
	}
	r, err := p.primitive.Run(ctx, &a, nil)
	if err != nil {
		return nil, nil, err
	}
	if r.Failed {
		return nil, nil, fmt.Errorf("%q doesn't say which wheels it takes: %s", path, r.Failure)
	}
	said, err := heard(r.Value)
	if err != nil {
		return nil, nil, fmt.Errorf("%q doesn't say which wheels it takes: %w", path, err)
	}
	p.kernel.pythons.Store(key, said)
	return said.of, maps.Clone(said.markers), nil
}

// heard reads the answer.
func heard(v any) (*python, error) {
	m, _ := v.(map[string]any)
	text := func(name string) string { s, _ := m[name].(string); return s }
	number := func(name string) int {
		switch n := m[name].(type) {
		case int64:
			return int(n)
		case float64:
			return int(n)
		}
		return 0
	}
	machine := unpack.Machine{Platform: text("platform"), Libc: text("libc"), Release: text("release"), Bits: number("bits")}
	said := &python{of: &unpack.Interpreter{Name: text("name"), Major: number("major"), Minor: number("minor")}, markers: map[string]string{}}
	said.of.Threads, _ = m["threads"].(bool)
	said.of.Platforms = machine.Platforms()
	all, _ := m["markers"].(map[string]any)
	for name, v := range all {
		if s, ok := v.(string); ok {
			said.markers[name] = s
		}
	}
	if said.of.Name == "" || said.of.Major != 3 || said.of.Minor < 1 || len(said.of.Platforms) == 0 || said.markers["python_version"] == "" {
		return nil, errors.New("it says something else")
	}
	return said, nil
}
