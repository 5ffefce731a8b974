package tlog

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	merkle "golang.org/x/mod/sumdb/tlog"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// MaxCheckpoint is the most bytes of a checkpoint with its signatures.
const MaxCheckpoint = 64 << 10

// maxSize is the most entries of a log. x/mod's tlog never returns for a tree of 2^62 entries.
const maxSize = 1 << 60

// A Hash is a SHA-256 hash of the tree.
type Hash = merkle.Hash

// A Checkpoint is a signed state of a log. It is immutable.
type Checkpoint struct {
	Origin string
	Size   int64 // number of entries
	Root   Hash
	Body   string // what is signed
	Text   []byte // the note, signatures included

	times map[string]time.Time // of the verified cosignatures, by the text of their witness' key
}

// Open reads a checkpoint that must be signed by the log's key. Signatures of these witnesses are verified, too: a
// wrong one is an error. Other signatures are kept in Text, and don't count.
func Open(text []byte, log Key, witnesses ...Key) (*Checkpoint, error) {
	if len(text) > MaxCheckpoint {
		return nil, invalidCheckpoint(log, fault.Parsing, "it has more than %d bytes", MaxCheckpoint)
	}
	known := []note.Verifier{verifier{log}}
	for i, w := range witnesses { // two policies may name one witness
		if w.IsWitness() && !containsKey(witnesses[:i], w) {
			known = append(known, verifier{w})
		}
	}
	opened, err := note.Open(text, note.VerifierList(known...))
	var invalid *note.InvalidSignatureError
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &invalid):
		return nil, invalidCheckpoint(log, fault.SignatureInvalid, "the signature by %q is invalid", invalid.Name)
	case errors.As(err, &unverified), err == nil && !signedBy(opened, log):
		return nil, invalidCheckpoint(log, fault.Unsigned, "the key %s did not sign it", log)
	case err != nil:
		return nil, invalidCheckpoint(log, fault.Parsing, "%v", err)
	}
	checkpoint, err := parseBody(opened.Text)
	if err != nil {
		return nil, invalidCheckpoint(log, fault.Parsing, "%v", err)
	}
	if checkpoint.Origin != log.Name {
		return nil, invalidCheckpoint(log, fault.Integrity, "it is one of %q", checkpoint.Origin)
	}
	checkpoint.Text, checkpoint.times = text, map[string]time.Time{}
	for _, w := range witnesses {
		for _, sig := range opened.Sigs {
			if w.IsWitness() && sig.Name == w.Name && sig.Hash == w.hash {
				raw, _ := base64.StdEncoding.DecodeString(sig.Base64)
				seconds, _ := cosignatureTime(raw[4:])
				checkpoint.times[w.text] = time.Unix(seconds, 0).UTC()
			}
		}
	}
	return checkpoint, nil
}

func signedBy(n *note.Note, k Key) bool {
	for _, sig := range n.Sigs {
		if sig.Name == k.Name && sig.Hash == k.hash {
			return true
		}
	}
	return false
}

func invalidCheckpoint(log Key, code fault.Code, format string, args ...any) error {
	return fault.New(code, "checkpoint of the log %q: "+format, append([]any{log.Name}, args...)...).
		On("log", log.Name)
}

// parseBody reads the three lines of a checkpoint. Further lines are allowed by the format and refused here, because
// no witness and no monitor vouches for them.
func parseBody(body string) (*Checkpoint, error) {
	lines := strings.Split(body, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] == "" {
		return nil, errors.New("expected three lines: origin, size and root")
	}
	c := &Checkpoint{Origin: lines[0], Body: body}
	var err error
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 0 || c.Size > maxSize ||
		strconv.FormatInt(c.Size, 10) != lines[1] {
		return nil, errors.New("the second line is not a size")
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != merkle.HashSize || len(lines[2]) != 44 {
		return nil, errors.New("the third line is not a hash")
	}
	c.Root = Hash(root)
	return c, nil
}

// bodyOf returns what a log signs.
func bodyOf(origin string, size int64, root Hash) string {
	return origin + "\n" + strconv.FormatInt(size, 10) + "\n" + root.String() + "\n"
}

// Sign returns the checkpoint of a log at a size.
func Sign(log Key, private key.Private, size int64, root Hash) ([]byte, error) {
	return note.Sign(&note.Note{Text: bodyOf(log.Name, size, root)},
		signer{verifier: verifier{log}, private: private})
}

// Cosign adds a witness' signature to a checkpoint.
func Cosign(c *Checkpoint, witness Key, private key.Private, at time.Time) ([]byte, error) {
	line, err := note.Sign(&note.Note{Text: c.Body}, signer{verifier{witness}, private, at})
	if err != nil {
		return nil, err
	}
	return append(c.Text[:len(c.Text):len(c.Text)], line[len(c.Body)+1:]...), nil
}

// Merge adds the lines of signatures that a witness has answered. Lines of other keys are dropped; the result is
// opened again.
func (c *Checkpoint) Merge(lines []byte, log Key, witness Key, others ...Key) (*Checkpoint, error) {
	answered, err := note.Open(append([]byte(c.Body+"\n"), lines...), note.VerifierList(verifier{witness}))
	if err != nil {
		return nil, invalidCheckpoint(log, fault.SignatureInvalid, "the answer of the witness %q: %v", witness.Name,
			err)
	}
	text := c.Text[:len(c.Text):len(c.Text)]
	for _, sig := range answered.Sigs {
		text = append(text, "— "+sig.Name+" "+sig.Base64+"\n"...)
	}
	return Open(text, log, append(others, witness)...)
}

// CosignedAt returns when a witness has signed the checkpoint. Only the witnesses given to Open count.
func (c *Checkpoint) CosignedAt(witness Key) (time.Time, bool) {
	at, ok := c.times[witness.text]
	return at, ok
}

// Cosigned returns how many of the witnesses given to Open have signed the checkpoint.
func (c *Checkpoint) Cosigned() int { return len(c.times) }
