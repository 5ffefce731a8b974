package spec

import (
	"encoding/json"
	"testing"
)

// TestBytes: documents are written as the specification's own types write them, and what is read is written again.
func TestBytes(t *testing.T) {
	t.Parallel()
	const (
		small = `{"mediaType":"","digest":"","size":0}`
		full  = `{"mediaType":"a/b","digest":"sha256:00","size":7,"urls":["https://x"],"annotations":{"k":"v"},"data":"e30=",` +
			`"platform":{"architecture":"amd64","os":"linux","os.version":"1","os.features":["f"],"variant":"v"},"artifactType":"c/d"}`
	)
	for text, v := range map[string]any{
		`{"schemaVersion":0,"config":` + small + `,"layers":null}`: new(Manifest),
		`{"schemaVersion":2,"mediaType":"m","artifactType":"a","config":` + full + `,"layers":[` + small +
			`],"subject":` + full + `,"annotations":{"k":"v"}}`: new(Manifest),
		`{"schemaVersion":0,"manifests":null}`: new(Index),
		`{"schemaVersion":2,"mediaType":"m","artifactType":"a","manifests":[` + full + `,` + small + `],"subject":` +
			small + `,"annotations":{"k":"v"}}`: new(Index),
	} {
		err := json.Unmarshal([]byte(text), v)
		again, bad := json.Marshal(v)
		if err != nil || bad != nil || string(again) != text {
			t.Errorf("%v, %v: %s\nwant %s", err, bad, again, text)
		}
	}
}
