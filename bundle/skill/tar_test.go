package skill

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestDisputed: a tar whose files have other names or bytes for other readers is refused.
func TestDisputed(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]tar.Header{
		"sparse": {{Name: "greet/other", Typeflag: tar.TypeReg, Mode: 0o644, Size: 512, PAXRecords: map[string]string{
			"GNU.spArse.major": "1", "GNU.spArse.minor": "0", "GNU.spArse.realsize": "9",
			"GNU.spArse.name": "greet/zeros"}}},
		"a name for all": {{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "greet/b"}},
			{Name: "greet/a", Typeflag: tar.TypeReg, Mode: 0o644}},
		"": {{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "commit"}},
			{Name: "greet/a", Typeflag: tar.TypeReg, Mode: 0o644}},
	} {
		var b, packed bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range append(headers, tar.Header{Name: "greet/SKILL.md", Typeflag: tar.TypeReg, Mode: 0o644,
			Size: int64(len(greet))}) {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			text := greet
			if h.Size == 512 {
				text = "0\n" + strings.Repeat("\x00", 510) // of parts with data there are none
			}
			if _, err := io.WriteString(w, text[:h.Size]); err != nil {
				t.Fatal(err)
			}
		}
		z := gzip.NewWriter(&packed)
		closed := w.Close()
		_, err := z.Write(bytes.ReplaceAll(b.Bytes(), []byte("spArse"), []byte("sparse")))
		if err := errors.Join(closed, err, z.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadArchive(packed.Bytes()); (err == nil) != (name == "") || err != nil &&
			!strings.Contains(err.Error(), "where readers disagree") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
