package env

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

// ModulePath is the variable with the directories that the launchers of runtimes load modules from.
const ModulePath = "RYE_MODULE_PATH"

// PackagePath is the variable with the directory of the tool's packages: for Python the directory that import
// searches, for Node the directory that contains node_modules. Only rye sets it.
const PackagePath = "RYE_PACKAGE_PATH"

// Thread is the variable with the id of the thread that calls the tool. Only rye sets it.
const Thread = "RYE_THREAD"

func refused(name, why string) error {
	return fmt.Errorf("the variable %q can't be set: %s", name, why)
}

// loading lists the variables that make a program load code before it starts.
var loading = map[string]bool{
	"BASH_ENV": true, "ENV": true, "SHELLOPTS": true, "BASHOPTS": true, "PROMPT_COMMAND": true, "PS4": true,
	"IFS": true, "CDPATH": true,
	"ZDOTDIR": true, "FPATH": true, "BASH_LOADABLES_PATH": true,
	"NODE_OPTIONS": true, "NODE_PATH": true, "NODE_REPL_EXTERNAL_MODULE": true, "NODE_COMPILE_CACHE": true,
	"PERL5LIB": true, "PERL5OPT": true, "PERL5DB": true, "PERLLIB": true, "RUBYOPT": true, "RUBYLIB": true,
	"GEM_HOME": true, "GEM_PATH": true, "BUNDLE_GEMFILE": true, "TCLLIBPATH": true, "TCL_LIBRARY": true,
	"JAVA_TOOL_OPTIONS": true, "JDK_JAVA_OPTIONS": true, "_JAVA_OPTIONS": true, "CLASSPATH": true,
	"PHPRC": true, "PHP_INI_SCAN_DIR": true, "R_PROFILE": true, "R_PROFILE_USER": true, "R_ENVIRON": true,
	"R_ENVIRON_USER": true, "R_LIBS": true,
	"R_LIBS_USER": true, "R_LIBS_SITE": true, "R_HOME": true, "JULIA_DEPOT_PATH": true, "JULIA_PROJECT": true,
	"GUILE_LOAD_COMPILED_PATH": true,
	"OPENSSL_CONF":             true, "OPENSSL_MODULES": true, "OPENSSL_ENGINES": true, "GCONV_PATH": true,
	"LOCPATH": true, "NLSPATH": true,
	"HOSTALIASES": true, "RESOLV_HOST_CONF": true, "GETCONF_DIR": true, "GLIBC_TUNABLES": true,
	"GUILE_LOAD_PATH": true, "JULIA_LOAD_PATH": true,
	"GIT_EXEC_PATH": true, "GIT_SSH": true, "GIT_SSH_COMMAND": true, "GIT_ASKPASS": true, "SSH_ASKPASS": true,
	"GIT_EXTERNAL_DIFF": true,
	// where git finds its configuration
	"GIT_DIR": true, "GIT_COMMON_DIR": true, "XDG_CONFIG_HOME": true, "XDG_CONFIG_DIRS": true,
	"GIT_PROXY_COMMAND": true, "GIT_TEMPLATE_DIR": true, "GIT_EDITOR": true, "GIT_PAGER": true,
}

var loadingPrefixes = [...]string{"LD_", "DYLD_", "PYTHON", "LUA_", "BASH_FUNC_", "DOTNET_", "CORECLR_", "COR_",
	"COMPLUS_", "GIT_CONFIG", "NPM_CONFIG_",
	"MALLOC_", "ERL_", "TCL8_", "TCL9_", "__PYVENV_"}

// private lists the variables with private directories.
var private = map[string]bool{"HOME": true, "TMPDIR": true, "TEMP": true, "TMP": true, "USERPROFILE": true}

// reserved returns an error if a chain may not set a variable to a value that isn't empty. Case is ignored, as on
// Windows.
func reserved(name string) error {
	upper := strings.ToUpper(name)
	switch {
	case upper == ModulePath:
		return nil
	case private[upper]:
		return refused(name, "it is a private directory")
	case strings.HasPrefix(upper, "RYE_") || upper == "USER_SPACE":
		return refused(name, "it is reserved for rye")
	case loading[upper] || hasPrefix(upper, loadingPrefixes[:]):
		return refused(name, "it loads other code before the tool's; use "+ModulePath+" for modules")
	}
	return nil
}

// ours lists the variables that rye and its launchers read.
var ours = map[string]bool{"RYE_STORE": true, "RYE_OFFLINE": true, "RYE_TRUST": true, "RYE_KEY": true,
	"RYE_KEY_PASSPHRASE": true, ModulePath: true, PackagePath: true, Thread: true}

// reservedForInterpreters returns an error if the var of an interpreter may not have this name.
func reservedForInterpreters(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	upper := strings.ToUpper(name)
	switch {
	case ours[upper] || upper == "PATH":
		return refused(name, "it is used otherwise")
	case strings.HasPrefix(upper, "RYE_"):
		return nil
	}
	return reserved(name)
}

// Check returns an error if a link's configuration or parameters may not set a variable. Only env_config sets PATH.
func Check(name, v string) error {
	switch {
	case strings.EqualFold(name, "PATH"):
		return refused(name, "env_config sets it")
	case strings.IndexByte(v, 0) >= 0:
		return fmt.Errorf("the value of %q contains a NUL byte", name)
	case len(name)+len(v) > MaxVariable:
		return fmt.Errorf("the variable %q has more than %d bytes", name, MaxVariable)
	}
	if err := checkName(name); err != nil {
		return err
	}
	return reserved(name)
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// checkName checks the name of a variable.
func checkName(name string) error {
	if name != "" && !portable.Spelled(name, portable.Letters+"_", portable.Digits, len(name)) {
		return fmt.Errorf("%q is not a valid variable name: use letters, digits and _, without a digit first", name)
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a variable name must have 1 to %d characters, not %d", maxName, len(name))
	}
	return nil
}

const maxName = 200
