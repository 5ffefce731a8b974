package registry

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzBackup: what is accepted of a backup is what is written again.
func FuzzBackup(f *testing.F) {
	for _, text := range []string{`account/ada {"name":"ada"}`, "a {}", "a  {}", "a {} ", "a {\"b\": 1}", " {}",
		"a []", "a", "é {}", "a {\"b\":\"<\"}"} {
		f.Add([]byte(text))
	}
	whole, err := json.MarshalIndent(&Backup{Format: backupFormat, Name: "registry.example",
		Files: map[string]string{"config.json": "{}"}}, "", "  ")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(whole, '\n'))
	if _, err := parseBackup(append(whole, '\n')); err != nil {
		f.Error(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if row, err := parseRow(text); err == nil && !bytes.Equal(appendRow(nil, row), append(text, '\n')) {
			t.Errorf("%q is written as %q", text, appendRow(nil, row))
		}
		if b, err := parseBackup(text); err == nil {
			again, err := json.MarshalIndent(b, "", "  ")
			if err != nil || !bytes.Equal(append(again, '\n'), text) {
				t.Errorf("%q is written as %q", text, again)
			}
		}
	})
}
