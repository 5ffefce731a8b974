package discover_test

import (
	"testing"

	"github.com/rye-build/rye/exec/discover"
	"github.com/rye-build/rye/lock/web"
)

// FuzzHost: whatever a host says, what can be added has an address under the rules of package web.
func FuzzHost(f *testing.F) {
	f.Add([]byte(entries(card)), []byte(listed(entry("say", "skill-md", "say/SKILL.md", "sha256:0"))))
	f.Add([]byte(entries(`{"identifier":"a","type":"application/ai-catalog+json","url":"ai-catalog.json"}`)),
		[]byte(`{"version":"0.2.0","skills":[{"name":"a","files":[{"path":"SKILL.md","digest":"sha256:0"}]}]}`))
	f.Add([]byte(entries(`{"identifier":"a","type":"application/agent-skills+md","url":"//b\\@c/%2e%2e/"}`)),
		[]byte(""))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		h := &host{files: map[string]string{catalogue: string(first), index: string(second)}}
		all, err := discover.Host(t.Context(), h.fetch, at)
		if err != nil {
			return
		}
		for _, found := range all {
			if found.Refused != "" {
				continue
			}
			if _, err := web.Parse(found.Address); err != nil {
				t.Errorf("%+v: %v", found, err)
			}
		}
		if len(h.asked) > 20 {
			t.Errorf("%d requests", len(h.asked))
		}
	})
}
