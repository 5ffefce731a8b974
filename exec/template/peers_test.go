//go:build peers

package template

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What a caller sends reaches a program as the argument that it is, whatever language reads it.
func TestHostileArguments(t *testing.T) {
	script := filepath.Join(t.TempDir(), "tool.sh")
	if err := os.WriteFile(script, []byte("for a in \"$@\"; do printf '%s\\0' \"$a\"; done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, v := range hostile {
		if !strings.Contains(v, "\x00") && len(v) < 100_000 {
			values = append(values, v)
		}
	}
	for name, argv := range map[string]string{
		"python": `python3, "-I", "-S", "-c", "import sys, json; json.dump(sys.argv[1:], sys.stdout)"`,
		"node":   `node, "-e", "process.stdout.write(JSON.stringify(process.argv.slice(1)))", "--"`,
		"bash":   `bash, "--noprofile", "--norc", "-p", "` + script + `"`,
	} {
		n := names()
		n.Params = map[string]any{}
		var declared, want []string
		for i, v := range values {
			p := fmt.Sprintf("p%d", i)
			argv += fmt.Sprintf(`, "{%s}", "pre{%s}post"`, p, p)
			declared, want = append(declared, p), append(want, v, "pre"+v+"post")
			n.Params[p] = v
		}
		n.Declares = declares(declared...)
		f, err := config(t, "args: ["+argv+"]").Fill(n)
		if err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, a := range f.Config["args"].([]any) {
			args = append(args, a.(string))
		}
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		if name == "bash" {
			got = strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		} else if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
}
