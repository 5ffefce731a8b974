package tlog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	merkle "golang.org/x/mod/sumdb/tlog"

	"github.com/rye-build/rye/cas/fault"
)

// The limits of a proof.
const (
	MaxProof  = MaxCheckpoint + 64<<10
	maxHashes = 63 // no tree is deeper
)

// A Proof shows offline that an entry is in a log: the file of tlog-proof, which lies beside an archive. Its extra
// data is the entry itself.
type Proof struct {
	Entry      []byte // nothing vouches for it before Verify
	Index      int64
	Hashes     []Hash
	Checkpoint []byte // the signed note
}

const proofHeader = "c2sp.org/tlog-proof@v1\n"

// ParseProof reads a proof. What it accepts, Append writes again byte for byte. It verifies nothing.
func ParseProof(b []byte) (*Proof, error) {
	p, err := parseProof(b)
	if err != nil {
		return nil, fault.New(fault.Parsing, "proof of inclusion: %v", err).From(err)
	}
	return p, nil
}

func parseProof(b []byte) (*Proof, error) {
	if len(b) > MaxProof {
		return nil, fmt.Errorf("it has more than %d bytes", MaxProof)
	}
	head, checkpoint, ok := bytes.Cut(b, []byte("\n\n"))
	if !ok {
		return nil, errors.New("it has no checkpoint")
	}
	p := &Proof{Checkpoint: checkpoint}
	rest, ok := strings.CutPrefix(string(head)+"\n", proofHeader)
	if !ok {
		return nil, fmt.Errorf("the first line is not %q", strings.TrimSpace(proofHeader))
	}
	lines := strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
	if extra, ok := strings.CutPrefix(lines[0], "extra "); ok {
		var err error
		p.Entry, err = base64.StdEncoding.Strict().DecodeString(extra)
		if err != nil || len(p.Entry) == 0 || strings.ContainsRune(extra, '\r') {
			return nil, errors.New("the extra data is not base64")
		}
		if len(p.Entry) > MaxEntry {
			return nil, fmt.Errorf("the extra data has more than %d bytes", MaxEntry)
		}
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return nil, errors.New("it has no index")
	}
	index, ok := strings.CutPrefix(lines[0], "index ")
	var err error
	if p.Index, err = strconv.ParseInt(index, 10, 64); !ok || err != nil || p.Index < 0 ||
		strconv.FormatInt(p.Index, 10) != index {
		return nil, errors.New("the index is not a number")
	}
	if len(lines)-1 > maxHashes {
		return nil, fmt.Errorf("it has more than %d hashes", maxHashes)
	}
	for _, line := range lines[1:] {
		raw, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(raw) != merkle.HashSize || len(line) != 44 {
			return nil, fmt.Errorf("%+q is not a hash", fault.Clip(line, 60))
		}
		p.Hashes = append(p.Hashes, Hash(raw))
	}
	return p, nil
}

// Append appends the proof as a file.
func (p *Proof) Append(dst []byte) []byte {
	dst = append(dst, proofHeader...)
	if len(p.Entry) > 0 {
		dst = append(dst, "extra "...)
		dst = base64.StdEncoding.AppendEncode(dst, p.Entry)
		dst = append(dst, '\n')
	}
	dst = append(strconv.AppendInt(append(dst, "index "...), p.Index, 10), '\n')
	for _, h := range p.Hashes {
		dst = append(append(dst, h.String()...), '\n')
	}
	return append(append(dst, '\n'), p.Checkpoint...)
}

// Verify opens the checkpoint of the proof with the log's key, asks the policies about it, and shows that the entry is
// in that log. It returns the entry, which the caller compares with what it is about.
func (p *Proof) Verify(log Key, policies ...*Policy) (*Entry, *Checkpoint, error) {
	checkpoint, err := OpenFor(p.Checkpoint, log, policies...)
	if err != nil {
		return nil, nil, err
	}
	if p.Index >= checkpoint.Size {
		return nil, nil, notIncluded(checkpoint, p.Index, errors.New("the log has fewer entries"))
	}
	if err := merkle.CheckRecord(p.Hashes, checkpoint.Size, checkpoint.Root, p.Index,
		merkle.RecordHash(p.Entry)); err != nil {
		return nil, nil, notIncluded(checkpoint, p.Index, err)
	}
	entry, err := ParseEntry(p.Entry)
	if err != nil {
		return nil, nil, err
	}
	return entry, checkpoint, nil
}

// OpenFor opens a checkpoint that each of the policies must believe.
func OpenFor(text []byte, log Key, policies ...*Policy) (*Checkpoint, error) {
	checkpoint, err := Open(text, log, keysOf(policies)...)
	if err != nil {
		return nil, err
	}
	for _, policy := range policies {
		if err := policy.Check(checkpoint, log); err != nil {
			return nil, err
		}
	}
	return checkpoint, nil
}

// Origin returns the name of the log that the proof claims to be of. Nothing vouches for it before Verify.
func (p *Proof) Origin() string {
	origin, _, _ := strings.Cut(string(p.Checkpoint), "\n")
	return origin
}

// keysOf returns the keys of the witnesses of several policies.
func keysOf(policies []*Policy) (keys []Key) {
	for _, p := range policies {
		for _, k := range p.Keys() {
			if !containsKey(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

func containsKey(keys []Key, k Key) bool {
	for _, other := range keys {
		if other.text == k.text {
			return true
		}
	}
	return false
}

func notIncluded(c *Checkpoint, index int64, err error) error {
	return fault.New(fault.Integrity, "the log %q at size %d does not have this entry at index %d", c.Origin, c.Size,
		index).From(err).On("log", c.Origin).On("index", index)
}
