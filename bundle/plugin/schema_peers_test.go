//go:build peers

package plugin

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/exec/npmtest"
)

// validate reads {schemas: {file: schema}, documents: [{file, text}]} and prints for each document why it is invalid,
// "" if it is valid, or null if it isn't JSON.
const validate = `
const Ajv = require(process.argv[1] + "/dist/2020").default
const given = JSON.parse(require("fs").readFileSync(0))
const ajv = new Ajv({allErrors: true})
const checks = {}
for (const file in given.schemas) checks[file] = ajv.compile(JSON.parse(given.schemas[file]))
console.log(JSON.stringify(given.documents.map(({file, text}) => {
	let document
	try { document = JSON.parse(text) } catch { return null }
	const check = checks[file]
	return check(document) ? "" : ajv.errorsText(check.errors)
})))
`

// TestAjv: Ajv, which checks schemas strictly as JSON Schema 2020-12, decides by ours as the reader does.
func TestAjv(t *testing.T) {
	type document struct {
		File string `json:"file"`
		Text string `json:"text"`
	}
	var given struct {
		Schemas   map[string]string `json:"schemas"`
		Documents []document        `json:"documents"`
	}
	given.Schemas = map[string]string{ManifestFile: Schema(ManifestFile), ServersFile: Schema(ServersFile)}
	at := map[document]int{}
	for _, v := range verdicts(t) {
		d := document{v.file, string(v.text)}
		if _, have := at[d]; !have {
			at[d] = len(given.Documents)
			given.Documents = append(given.Documents, d)
		}
	}
	input, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(npmtest.Bin(t), "node"), "-e", validate,
		npmtest.Install(t, "ajv@8.20.0"))
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		if failed, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v: %s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	var why []*string
	if err := json.Unmarshal(out, &why); err != nil || len(why) != len(given.Documents) {
		t.Fatalf("%v: %s", err, out)
	}
	decide(t, func(v verdict) (string, bool) {
		answer := why[at[document{v.file, string(v.text)}]]
		if answer == nil {
			return "", false
		}
		return *answer, true
	})
}
