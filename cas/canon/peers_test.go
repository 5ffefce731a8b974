//go:build peers

package canon_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// A reader of YAML that isn't ours (PyYAML, Debian's python3-yaml) finds in every good vector what we find.
// Its loader takes implicit types as YAML 1.1 says, so a string that we had left unquoted would show.
func TestPeerYAML(t *testing.T) {
	const script = `
import json, sys, yaml
for path in sys.argv[1:]:
    with open(path, "rb") as f:
        print(json.dumps(yaml.safe_load(f)))
`
	v, _ := loadVectors(t)
	args := []string{"-I", "-c", script}
	for _, c := range v.Good {
		args = append(args, filepath.Join(vectorDir, "good", c.Name+".yaml"))
	}
	cmd := exec.Command("/usr/bin/python3", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	for _, c := range v.Good {
		var got, want any
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		ours := json.NewDecoder(bytes.NewReader(vectorFile(t, "good", c.Name+".json")))
		ours.UseNumber()
		if err := ours.Decode(&want); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the peer reads\n%v\nand we\n%v", c.Name, got, want)
		}
	}
}
