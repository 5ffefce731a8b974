//go:build peers

package sign_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// Another implementation of format v2, from the package comment: it reads where the lines are from the text
// alone, hashes with b3sum and verifies with python3-cryptography (OpenSSL). It reads claims as JSON, one to a
// line, and prints what it found; with a seed it signs and prints a line.
const peer = `
import base64, hashlib, json, re, struct, subprocess, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

def b3(data):
    return subprocess.run(["b3sum", "--no-names"], input=data, stdout=subprocess.PIPE, check=True).stdout.decode().strip()

def field(s):
    b = s.encode()
    return struct.pack(">I", len(b)) + b

def message(c, time, digest, tree, fp):
    return c["domain"].encode() + b"\0" + b"".join(map(field, (c["name"], time, digest, tree or "", fp)))

def unbase64(s):
    return base64.urlsafe_b64decode(s + "=" * (-len(s) % 4))

LINE = re.compile(rb"(?:^|(?<=\xef\xbb\xbf))(?:#|//|--|<!--) rye:signed:v2:([0-9TZ:-]{20}):([0-9a-f]{64})(?:\+([0-9a-f]{64}))?:([A-Za-z0-9_-]{86}):([0-9a-f]{64})(?: -->)?\n", re.M)

for text in sys.stdin:
    c = json.loads(text)
    with open(c["path"], "rb") as f:
        data = f.read()
    if "seed" in c:
        k = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(c["seed"]))
        fp = b3(k.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        digest = b3(data)
        sig = k.sign(message(c, c["time"], digest, c.get("tree"), fp))
        print("rye:signed:v2:%s:%s%s:%s:%s" % (c["time"], digest, "+" + c["tree"] if c.get("tree") else "",
            base64.urlsafe_b64encode(sig).decode().rstrip("="), fp))
        continue
    keys = {b3(unbase64(k)): unbase64(k) for k in c["keys"]}
    found = list(LINE.finditer(data))
    content = LINE.sub(b"", data)
    signers = []
    for m in found:
        time, digest, tree, sig, fp = (g.decode() if g else None for g in m.groups())
        assert digest == b3(content), c
        assert tree == c.get("tree"), c
        Ed25519PublicKey.from_public_bytes(keys[fp]).verify(unbase64(sig), message(c, time, digest, tree, fp))
        signers.append(fp)
    assert signers == sorted(set(signers)), c
    print(json.dumps({"raw": "blake3:" + b3(data), "content": "blake3:" + b3(content), "signers": signers}))
`

type peerClaim struct {
	Path   string   `json:"path"`
	Domain string   `json:"domain"`
	Name   string   `json:"name"`
	Tree   string   `json:"tree,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Seed   string   `json:"seed,omitempty"`
	Time   string   `json:"time,omitempty"`
}

func askPeer(t *testing.T, claims []peerClaim) []string {
	t.Helper()
	var in, out, stderr bytes.Buffer
	for _, c := range claims {
		if err := json.NewEncoder(&in).Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/usr/bin/python3", "-I", "-c", peer)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(claims) {
		t.Fatalf("%d answers to %d questions", len(lines), len(claims))
	}
	return lines
}

// The peer finds in the good vectors what vectors.json says.
func TestPeersVectors(t *testing.T) {
	var set vectorSet
	b, err := os.ReadFile(filepath.Join(vectorDir, "vectors.json"))
	if err == nil {
		err = json.Unmarshal(b, &set)
	}
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	byText := map[string]key.Private{}
	for _, k := range rfcKeys(t) {
		keys = append(keys, k.Public().String())
		byText[k.Public().String()] = k
	}
	var claims []peerClaim
	var want []string
	for _, v := range set.Good {
		if v.Format != "v2" {
			continue
		}
		claims = append(claims, peerClaim{Path: filepath.Join(vectorDir, "good", v.File), Domain: v.Domain,
			Name: v.Name, Tree: strings.TrimPrefix(v.Tree, "blake3:"), Keys: keys})
		var signers []string
		for _, s := range v.Signers {
			signers = append(signers, fmt.Sprintf("%q", byText[s].Public().Fingerprint()))
		}
		want = append(want, fmt.Sprintf(`{"raw": %q, "content": %q, "signers": [%s]}`, v.Raw, v.Content,
			strings.Join(signers, ", ")))
	}
	for i, got := range askPeer(t, claims) {
		if got != want[i] {
			t.Errorf("%s: the peer says\n%s, and we\n%s", claims[i].Path, got, want[i])
		}
	}
}

// Files of many kinds, signed by us and read by the peer, and signed by the peer and read by us.
func TestPeersGenerated(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	keys := []key.Private{alice, bob, carol}
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.Public().String())
	}
	var ours, theirs []peerClaim
	var contents [][]byte
	styles := []sign.Style{sign.Hash, sign.Slashes, sign.Angle, sign.Dashes}
	heads := []string{"", "#!/bin/x\n", "---\n", "\ufeff", "# coding: utf-8\n", "\r\n", "\ufeff---\r\n"}
	for i := range 150 {
		content := []byte(heads[i%len(heads)])
		for range rnd.IntN(2000) {
			content = append(content, byte(rnd.IntN(256)))
		}
		if i%10 == 0 {
			content = append(content, make([]byte, 200_000)...)
		}
		c := sign.Claim{Domain: sign.Item, Name: fmt.Sprintf("tool:demo/n%d", i)}
		pc := peerClaim{Path: filepath.Join(dir, fmt.Sprint(i)), Domain: string(c.Domain), Name: c.Name, Keys: texts}
		if i%3 == 0 {
			c.Tree = cas.Sum(content)
			pc.Tree = c.Tree.String()[7:]
		}
		file := content
		for _, k := range keys[:1+i%3] {
			var err error
			if file, err = sign.Sign(file, styles[i%4], c, k, now.Add(time.Duration(i)*time.Hour), nil); err != nil {
				t.Fatal(err)
			}
		}
		write := func(path string, b []byte) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(pc.Path, file)
		ours = append(ours, pc)
		pc.Path += ".content"
		write(pc.Path, content)
		pc.Seed, pc.Time = strings.Repeat("01", 32), "2026-11-20T09:00:00Z"
		theirs = append(theirs, pc)
		contents = append(contents, content)
	}
	for i, got := range askPeer(t, ours) {
		if want := fmt.Sprintf(`"content": %q`, cas.Sum(contents[i])); !strings.Contains(got, want) {
			t.Errorf("%d: the peer says %s, and we %s", i, got, want)
		}
		var answer struct{ Signers []string }
		if err := json.Unmarshal([]byte(got), &answer); err != nil || len(answer.Signers) != 1+i%3 {
			t.Errorf("%d: the peer says %s, %v", i, got, err)
		}
	}
	for i, got := range askPeer(t, theirs) {
		l, err := sign.ParseLine(got)
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		tree, _ := cas.ParseDigest("blake3:" + theirs[i].Tree)
		c := sign.Claim{Domain: sign.Item, Name: theirs[i].Name, Tree: tree}
		if _, err := sign.CheckLines([]sign.Line{l}, cas.Sum(contents[i]), c, known(alice)); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

// The openssl program verifies a signature over the message that the vector gives.
func TestPeersOpenSSL(t *testing.T) {
	dir := t.TempDir()
	file := mustSign(t, example, sign.Hash, alice)
	l := mustRead(t, file, sign.Hash).Lines[0]
	for name, b := range map[string][]byte{"msg": sign.Message(claim, l), "sig": l.Sig[:],
		"pub.pem": alice.Public().PEM()} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "pub.pem", "-rawin", "-in", "msg",
		"-sigfile", "sig")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, out, hex.Dump(sign.Message(claim, l)))
	}
	// What is signed is what runs: Python and sh take the signed files, coding line included.
	for name, text := range map[string]string{"a.py": "# -*- coding: latin-1 -*-\nprint('\xe9' == chr(233))\n",
		"b.py": "#!/usr/bin/python3\n# coding: latin-1\nprint('\xe9' == chr(233))\n",
		"c.py": "\n# coding: latin-1\nprint('\xe9' == chr(233))\n", "d.py": "\ufeffprint(True)\n",
		"e.py": "#!/usr/bin/python3\r\nprint(True)\r\n"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, mustSign(t, text, sign.Hash, alice, bob), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("/usr/bin/python3", "-I", path).CombinedOutput(); err != nil ||
			strings.TrimSpace(string(out)) != "True" {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
}
