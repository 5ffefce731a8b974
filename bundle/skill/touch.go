package skill

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas/fault"
)

// Touches is everything that a skill could use if its scripts ran, as far as its text shows.
type Touches struct {
	Tools     []string `json:"allowed_tools"` // requested by the author
	Scripts   []Script `json:"scripts"`
	Hosts     []string `json:"hosts"`     // in URLs, in scripts and SKILL.md
	Paths     []string `json:"paths"`     // outside of a project, in scripts and SKILL.md
	Variables []string `json:"variables"` // environment variables that look like secrets, in scripts
	Commands  []string `json:"commands"`  // commands that a client runs when it loads the skill: see Runs
}

// A Script is a file that can be run.
type Script struct {
	Path        string `json:"path"`
	Interpreter string `json:"interpreter"` // empty for native code
	Executable  bool   `json:"executable"`
}

// interpreters are the interpreters of files without a "#!" line.
var interpreters = map[string]string{".sh": "sh", ".bash": "bash", ".zsh": "zsh", ".fish": "fish", ".py": "python3",
	".js":  "node",
	".mjs": "node", ".cjs": "node", ".ts": "node", ".rb": "ruby", ".pl": "perl", ".php": "php", ".lua": "lua",
	".ps1": "powershell",
	".bat": "cmd", ".cmd": "cmd", ".go": "go", ".r": "Rscript", ".awk": "awk", ".tcl": "tclsh"}

var patterns = sync.OnceValue(func() [3]*regexp.Regexp {
	return [3]*regexp.Regexp{
		regexp.MustCompile(
			`(?i)\b(?:https?|wss?|ftp|ssh)://(?:[^\s/@"'<>]*@)?([a-z0-9.-]+\.[a-z0-9-]+|localhost|\[[0-9a-f:]+\])`),
		regexp.MustCompile(`(?:^|[\s"'=(:` + "`" +
			`>])((?:~|\$HOME|\$\{HOME\})/[\w./-]*|/(?:etc|usr|var|home|root|tmp|opt|dev|proc|sys|run|mnt|Users|Library)/[\w./-]*)`),
		regexp.MustCompile(`\b([A-Z][A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS)[A-Z0-9_]*)\b`),
	}
})

// Touches returns everything that a skill could use.
func (s *Skill) Touches() Touches {
	touches := Touches{Tools: append([]string{}, s.AllowedTools...), Scripts: []Script{}}
	var found [3]map[string]bool
	for i := range found {
		found[i] = map[string]bool{}
	}
	for i := range s.Files {
		file := &s.Files[i]
		sc, ok := scriptOf(file)
		if ok {
			touches.Scripts = append(touches.Scripts, sc)
		}
		if !ok && file.Path != Main || !isText(file.Bytes) {
			continue
		}
		for k, p := range patterns() {
			if k == 2 && !ok {
				continue
			}
			for _, m := range p.FindAllSubmatch(file.Bytes, 1000) {
				found[k][strings.TrimRight(string(m[1]), ".")] = true
			}
		}
	}
	touches.Commands = append(append([]string{}, Runs(s.Body)...), s.Hooks...)
	touches.Hosts, touches.Paths, touches.Variables = list(found[0]), list(found[1]), list(found[2])
	return touches
}

// running matches the three forms of a command in a text: !`x`, !{x}, or a block that begins with ```!.
var running = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?m)!`([^`\n]+)`|!\\{([^}\n]+)\\}|^[ \t]*```![ \t]*\r?\n((?s:.*?))^[ \t]*```")
})

// Runs returns the commands in a skill or command that some clients run before a model reads the text.
func Runs(text []byte) (all []string) {
	for _, m := range running().FindAllSubmatch(text, 100) {
		all = append(all, fault.Clip(OneLine(string(bytes.Join(m[1:], nil))), 200))
	}
	return all
}

func list(m map[string]bool) []string { return append([]string{}, slices.Sorted(maps.Keys(m))...) }

// scriptOf returns a file as a Script if it can be run.
func scriptOf(file *File) (Script, bool) {
	sc := Script{Path: file.Path, Executable: file.Exec}
	if rest, ok := bytes.CutPrefix(file.Bytes, []byte("#!")); ok {
		first, _ := line(rest)
		words := strings.Fields(string(first))
		if len(words) > 0 && path.Base(words[0]) == "env" {
			words = words[1:]
			for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
				words = words[1:]
			}
		}
		if len(words) > 0 {
			sc.Interpreter = path.Base(words[0])
		}
		return sc, true
	}
	sc.Interpreter = interpreters[strings.ToLower(path.Ext(file.Path))]
	return sc, file.Exec || sc.Interpreter != ""
}
