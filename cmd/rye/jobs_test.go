package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// job is "job WHAT LOCK CHILD FILE": the file is what a process reads that runs CHILD, a thread of
// directive:acme/talk, with tokens that the machine of this home has signed, and that are WHAT. FILE.in has it as the
// input job of a directive.
func job(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: job WHAT LOCK CHILD FILE")
	}
	own, err := receipt.MachineKey(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "rye", "machine"))
	ts.Check(err)
	set, now, lasts := cas.Sum([]byte(ts.ReadFile(args[1]))), time.Now(), time.Hour
	const top = "acme/plan-1795000000-a2b3c"
	may, err := capability.ParseSet([]string{"execute:tool:acme/echo"})
	ts.Check(err)
	wide, by := may, own
	switch what := args[0]; what {
	case "valid", "long", "cut":
	case "forged":
		by = keytest.Seeded(9)
	case "widened":
		wide, err = capability.ParseSet([]string{"execute:tool:*"})
		ts.Check(err)
	case "expired":
		now, lasts = now.Add(-2*time.Hour), time.Minute
	case "foreign":
		set = cas.Sum(nil)
	default:
		ts.Fatalf("unknown job %q", what)
	}
	encode := func(t, parent *captoken.Token, k key.Private) string {
		if parent != nil {
			t.Parent, t.Depth = parent.ID, parent.Depth-1
		}
		text, err := t.Encode(k, now)
		ts.Check(err)
		return text
	}
	first := captoken.New(top, "directive:acme/plan", set, may, 10, now, lasts)
	texts := []string{encode(first, nil, own)}
	texts = append(texts, encode(captoken.New(args[2], "directive:acme/talk", set, wide, 9, now, lasts), first, by))
	switch args[0] {
	case "long":
		texts = slices.Concat(slices.Repeat(texts[:1], captoken.MaxChain), texts[1:])
	case "cut":
		texts = texts[1:]
	}
	j := &toolcall.Job{Thread: args[2],
		Child: &toolcall.DetachedChild{Parent: top, Inputs: map[string]any{}, Most: limits.None(), Tokens: texts}}
	ts.Check(j.Sign(own))
	text, err := json.Marshal(j)
	ts.Check(err)
	// The directive has it as a string in the JSON of a call.
	literal, err := json.Marshal(string(text))
	ts.Check(err)
	file, err := json.Marshal(map[string]string{"job": strings.ReplaceAll(string(literal), "{", `\u007b`)})
	ts.Check(err)
	ts.Check(errors.Join(os.WriteFile(ts.MkAbs(args[3]), text, 0o600),
		os.WriteFile(ts.MkAbs(args[3]+".in"), file, 0o600)))
}
