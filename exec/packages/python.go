package packages

import (
	"errors"

	"github.com/rye-build/rye/manifest/jcs"
)

// Question is a Python program that prints the facts for choosing wheels and evaluating markers. ParsePython parses
// its output.
const Question = `import json, os, platform, sys, sysconfig
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

// A Python is an interpreter's description of itself.
type Python struct {
	Interpreter *Interpreter
	Markers     map[string]string
}

// ParsePython reads the answer to Question.
func ParsePython(v any) (*Python, error) {
	m, _ := v.(map[string]any)
	text := func(name string) string { s, _ := m[name].(string); return s }
	number := func(name string) int { n, _ := jcs.Number(m[name]); return int(n) }
	of := &Interpreter{Name: text("name"), Major: number("major"), Minor: number("minor")}
	of.Threads, _ = m["threads"].(bool)
	machine := Machine{Platform: text("platform"), Libc: text("libc"), Release: text("release"), Bits: number("bits")}
	of.Platforms = machine.Platforms()
	p := &Python{Interpreter: of, Markers: map[string]string{}}
	all, _ := m["markers"].(map[string]any)
	for name, v := range all {
		if s, ok := v.(string); ok {
			p.Markers[name] = s
		}
	}
	if of.Name == "" || of.Major != 3 || of.Minor < 1 || len(of.Platforms) == 0 || p.Markers["python_version"] == "" {
		return nil, errors.New("the answer is incomplete")
	}
	return p, nil
}
