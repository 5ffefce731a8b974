package legacy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/manifest/sign"
)

// This file compares the pins of a lock with the current tools.

// A Difference is a pin of a lock that the current tool doesn't match.
type Difference struct {
	Tool            model.Ref
	Space           string // the space in the lock; empty for the locked tool, which is looked for everywhere
	Expected, Found string // integrities
	Err             error  // instead of Found; fs.ErrNotExist if the tool is gone
}

// String describes the difference for the user.
func (d *Difference) String() string {
	place := ""
	if d.Space != "" {
		place = " from " + d.Space
	}
	if d.Err != nil {
		return fmt.Sprintf("%s%s: expected sha256 %s: %v", d.Tool, place, d.Expected, d.Err)
	}
	return fmt.Sprintf("%s%s: expected sha256 %s, found %s", d.Tool, place, d.Expected, d.Found)
}

// Check compares the tool and its chain with their current state: integrity returns the Integrity of a tool in the
// space with a label, or for the label "" of the tool that a ref resolves to. The lock doesn't apply to another
// version of the tool; the caller checks that.
func (l *Lock) Check(integrity func(tool model.Ref, space string) (string, error)) []Difference {
	var all []Difference
	look := func(d Difference) {
		if d.Found, d.Err = integrity(d.Tool, d.Space); d.Err != nil || d.Found != d.Expected {
			all = append(all, d)
		}
	}
	look(Difference{Tool: l.Tool, Expected: l.Integrity})
	for _, link := range l.Chain {
		look(Difference{Tool: link.Tool, Space: link.Space, Expected: link.Integrity})
	}
	return all
}

// Integrity returns the first format's integrity of a tool's bytes. Signatures of either format don't change it.
func Integrity(name string, file []byte) (string, error) {
	if len(file) > sign.MaxV1 {
		return "", fmt.Errorf("the file has more than %d bytes, the limit of the first format", sign.MaxV1)
	}
	if signed, err := sign.ReadBytes(file, sign.StyleOf(name)); err == nil && signed.Format == sign.V2 {
		if file, err = sign.Strip(file, sign.StyleOf(name)); err != nil {
			return "", err
		}
	}
	if !utf8.Valid(file) {
		return "", errors.New("the file is not UTF-8: the first format signs only text")
	}
	above := shebang(file)
	rest := sign.StripV1(file, sign.Hash|sign.V1Tool)[above:]
	rest = rest[shebang(rest):]
	rest = bytes.ReplaceAll(rest, []byte("\r\n"), []byte("\n"))
	rest = bytes.ReplaceAll(rest, []byte("\r"), []byte("\n"))
	sum := sha256.Sum256(rest)
	return hex.EncodeToString(sum[:]), nil
}

// shebang returns the length of the first line if that begins with "#!/", however it ends.
func shebang(b []byte) int {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0 || !bytes.HasPrefix(b, []byte("#!/")):
		return 0
	case bytes.HasPrefix(b[i:], []byte("\r\n")):
		return i + 2
	}
	return i + 1
}
