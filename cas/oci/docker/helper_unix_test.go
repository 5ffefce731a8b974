//go:build unix

package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
)

// TestHelpers: helpers that answer, know nothing, print rubbish, print without end, or leave a program behind that
// holds their output. Nothing that they print is shown.
func TestHelpers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for name, c := range map[string]struct {
		script string
		want   oci.Credential
		why    string
	}{
		"answers": {`read host; echo "{\"ServerURL\":\"$host\",\"Username\":\"$host\",\"Secret\":\"canary\"}"`,
			oci.Credential{User: "a.example", Password: "canary"}, ""},
		"token": {`echo '{"Username":"<token>","Secret":"canary"}'`, oci.Credential{Token: "canary"}, ""},
		"none":  {`echo credentials not found in native keychain; exit 1`, oci.Credential{}, ""},
		"leaves": {`echo '{"Username":"u","Secret":"canary"}'; sleep 30 2>/dev/null &`,
			oci.Credential{User: "u", Password: "canary"}, ""},
		"rubbish": {`printf 'canary \033[31m'; echo canary >&2`, oci.Credential{}, "its answer is not JSON"},
		"fails":   {`echo '{"Username":"u","Secret":"canary"}'; exit 3`, oci.Credential{}, "exit status 3"},
		"endless": {`exec yes canary`, oci.Credential{}, "its answer has more than 1048576 bytes"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte("#!/bin/sh\n"+c.script+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "config.json")
		if err := os.WriteFile(path, []byte(`{"credsStore": "`+name+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Credential(t.Context(), path, "a.example")
		if got != c.want || (err == nil) != (c.why == "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err == nil {
			continue
		}
		f := fault.Of(err)
		if said := f.Text + strings.Join(f.Why, "\n"); f.Code != fault.AuthRequired ||
			!strings.Contains(said, c.why) || strings.Contains(said, "canary") {
			t.Errorf("%s: %s, %q, %q", name, f.Code, f.Text, f.Why)
		}
	}

	// One that hangs, and whose child holds its output, is left.
	hang := filepath.Join(dir, "docker-credential-hangs")
	if err := os.WriteFile(hang, []byte("#!/bin/sh\nsleep 30 2>/dev/null\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), 10*time.Millisecond, hang, "a.example"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hangs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(ctx, "hangs", "a.example", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
