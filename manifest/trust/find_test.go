package trust

import (
	"fmt"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
)

func TestFindKey(t *testing.T) {
	begins := map[string]string{} // first digits, and whose they are
	p, err := policy.Parse([]byte("rye: policy/2\n"))
	var twins string
	for i := 0; twins == "" && err == nil; i++ {
		k := keytest.Named(fmt.Sprint("key", i)).Public()
		name, digits := fmt.Sprint("k", i), k.Fingerprint().String()[:4]
		if begins[digits] != "" {
			twins = digits
		}
		begins[digits] = name
		p, err = p.AddKey(policy.Key{Name: name, Public: k, Owner: name}, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range p.Sections().Keys {
		for _, text := range []string{k.Name, k.Public.Fingerprint().String(), k.Public.Fingerprint().Short()} {
			if found, err := FindKey(p, text); err != nil || found.Name != k.Name {
				t.Errorf("%s: %v, %v", text, found.Name, err)
			}
		}
	}
	for text, code := range map[string]fault.Code{twins: fault.Ambiguous, "k": fault.NotFound, "": fault.NotFound,
		twins[:3]: fault.NotFound, "zzzz": fault.NotFound} {
		if _, err := FindKey(p, text); err == nil || fault.CodeOf(err) != code {
			t.Errorf("%q: %v", text, err)
		}
	}
}
