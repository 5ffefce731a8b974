package sign_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

const vectorDir = "../../testdata/vectors/manifest/sign"

// A vector of vectors.json is a file of good or bad, what it is asked for as, and what is said of it. The keys
// are those of package key's vectors. Updating makes all of it; other programs check it (peers_test.go).
type vector struct {
	File    string   `json:"file"`
	Kind    string   `json:"kind,omitempty"` // directive, tool or knowledge, for rules of the first format
	Domain  string   `json:"domain,omitempty"`
	Name    string   `json:"name,omitempty"`
	Tree    string   `json:"tree,omitempty"`
	Format  string   `json:"format,omitempty"`
	Raw     string   `json:"raw,omitempty"`
	Content string   `json:"content,omitempty"`
	Signers []string `json:"signers,omitempty"` // public keys
	Message string   `json:"message,omitempty"` // that the first signed, in hexadecimal digits
	Error   string   `json:"error,omitempty"`
}

type vectorSet struct {
	Good []vector `json:"good"`
	Bad  []vector `json:"bad"`
}

var kinds = map[string]sign.Style{"directive": sign.V1Directive, "tool": sign.V1Tool, "knowledge": sign.V1Knowledge}

// rfcKeys are the keys of package key's vectors.
func rfcKeys(t testing.TB) (keys []key.Private) {
	t.Helper()
	var v struct{ Good []struct{ Seed string } }
	b, err := os.ReadFile("../../testdata/vectors/manifest/key/vectors.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range v.Good {
		seed, _ := hex.DecodeString(g.Seed)
		k, err := key.Generate(bytes.NewReader(seed))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	return keys
}

// judge fills in what is said of a file.
func judge(t testing.TB, v vector, file []byte) vector {
	t.Helper()
	keys := rfcKeys(t)
	style := sign.StyleOf(v.File) | kinds[v.Kind]
	v.Format, v.Raw, v.Content, v.Signers, v.Message, v.Error = "", "", "", nil, "", ""
	s, err := sign.ReadBytes(file, style)
	var signers []sign.Signer
	if err == nil && s.Format == sign.V1 {
		signers, err = sign.CheckV1(s, func(id string) (found []key.Public) {
			for _, k := range keys {
				if k.Public().V1ID() == id {
					found = append(found, k.Public())
				}
			}
			return found
		})
	} else if err == nil {
		signers, err = sign.Check(s, claimOf(t, v), known(keys...))
	}
	if err != nil {
		v.Error = err.Error()
		return v
	}
	v.Format, v.Raw, v.Content = s.Format.String(), s.Raw.String(), s.Stripped.String()
	for _, g := range signers {
		v.Signers = append(v.Signers, g.Key.String())
	}
	if s.Format == sign.V2 {
		v.Message = hex.EncodeToString(sign.Message(claimOf(t, v), s.Lines[0]))
	}
	return v
}

func claimOf(t testing.TB, v vector) sign.Claim {
	t.Helper()
	c := sign.Claim{Domain: sign.Domain(v.Domain), Name: v.Name}
	if v.Tree != "" {
		var err error
		if c.Tree, err = cas.ParseDigest(v.Tree); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	return goldentest.File(t, filepath.Join(vectorDir, name), got)
}

const example = "#!/usr/bin/env python3\n__version__ = \"1.0.0\"\nprint(\"hi\")\n"

// goodVectors returns files and who signs them.
func goodVectors(t *testing.T) (list []vector, files [][]byte) {
	keys := rfcKeys(t)
	add := func(v vector, content string, signers ...key.Private) {
		v.Domain = "rye/v2/item"
		if strings.HasPrefix(v.Name, "bundle:") {
			v.Domain = "rye/v2/manifest"
		}
		file := []byte(content)
		for _, k := range signers {
			var err error
			if file, err = sign.Sign(file, sign.StyleOf(v.File), claimOf(t, v), k, now, nil); err != nil {
				t.Fatal(err)
			}
		}
		list, files = append(list, v), append(files, file)
	}
	add(vector{File: "example.py", Name: "tool:demo/hi"}, example, keys[0])
	add(vector{File: "three.py", Name: "tool:demo/hi"}, example, keys...)
	add(vector{File: "tree.py", Name: "tool:demo/hi", Tree: cas.Sum([]byte("tree")).String()}, example, keys[0])
	add(vector{File: "manifest.yaml", Name: "bundle:demo@1.0.0"}, "rye: \"manifest/2\"\nid: \"demo\"\n", keys[1])
	add(vector{File: "no-newline.sh", Name: "tool:demo/hi"}, "echo hi", keys[0])
	add(vector{File: "empty.sh", Name: "tool:demo/hi"}, "", keys[0])
	add(vector{File: "coding.py", Name: "tool:demo/hi"}, "#!/usr/bin/python3\n# -*- coding: latin-1 -*-\nx = '\xe9'\n",
		keys[0])
	add(vector{File: "crlf.py", Name: "tool:demo/hi"}, "#!/usr/bin/python3\r\nx = 1\r\n", keys[0])
	add(vector{File: "bom.py", Name: "tool:demo/hi"}, "\ufeffx = 1\n", keys[0])
	add(vector{File: "front.md", Name: "knowledge:demo/k"}, "---\ntitle: K\n---\n\n# K\n", keys[0], keys[2])
	add(vector{File: "plain.md", Name: "directive:demo/d"}, "# D\n\n```\n# rye:signed:v2: is text here\n```\n",
		keys[0])
	add(vector{File: "decl.xml", Name: "knowledge:demo/x"}, "<?xml version=\"1.0\"?>\n<a/>\n", keys[0])
	add(vector{File: "node.js", Name: "tool:demo/hi"}, "#!/usr/bin/env node\nconsole.log(1)\n", keys[0])
	add(vector{File: "doc.lua", Name: "tool:demo/hi"}, "---\n-- what it does\nprint(1)\n", keys[0])
	v1 := func(v vector, content string) {
		file, err := sign.SignV1([]byte(content), sign.StyleOf(v.File)|kinds[v.Kind], keys[0], now)
		if err != nil {
			t.Fatal(err)
		}
		list, files = append(list, v), append(files, file)
	}
	for i, text := range v1Texts {
		v1(vector{File: fmt.Sprintf("v1-%s%s", text.kind, text.ext), Kind: text.kind}, v1Texts[i].text)
	}
	return list, files
}

// badVectors returns files that are made from the example.
func badVectors(t *testing.T, files map[string]string) (list []vector, bad [][]byte) {
	one, three, v1 := files["example.py"], files["three.py"], files["v1-tool.py"]
	lines := strings.SplitAfter(three, "\n") // #!, three lines, the rest
	line := strings.SplitAfter(one, "\n")[1]
	add := func(name, content string) {
		if content == one {
			t.Errorf("%s is no other file", name)
		}
		list = append(list, vector{File: name + ".py", Domain: "rye/v2/item", Name: "tool:demo/hi"})
		bad = append(bad, []byte(content))
	}
	replace := func(name, old, new string) { add(name, strings.Replace(one, old, new, 1)) }
	sig := line[strings.LastIndex(line, ":")-86 : strings.LastIndex(line, ":")]
	rest := strings.Join(lines[4:], "")

	add("unsigned", example)
	replace("content", "hi", "ho")
	replace("shebang", "python3", "python2")
	replace("only-line-ends", "1.0.0\"\nprint(\"hi\")\n", "1.0.0\"\r\nprint(\"hi\")\r\n")
	add("all-line-ends", strings.ReplaceAll(one, "\n", "\r\n"))
	add("line-ends-and-content", strings.ReplaceAll(strings.Replace(one, "hi", "ho", 1), "\n", "\r\n"))
	replace("line-end-of-line", line, strings.TrimSuffix(line, "\n")+"\r\n")
	replace("time", "2026-11-20T09:00:00Z", "2026-11-20T09:00:01Z")
	replace("time-fraction", "09:00:00Z", "09:00:00.0Z")
	replace("time-lower-case", "T09:00:00Z", "t09:00:00z")
	replace("time-zone", "09:00:00Z", "09:00:00+00:00")
	replace("no-such-day", "2026-11-20", "2026-11-31")
	replace("leap-second", "09:00:00Z", "23:59:60Z")
	replace("digest", ":c4e5", ":c4e6")
	replace("digest-upper-case", ":c4e5", ":C4E5")
	replace("digest-prefix", ":c4e5", ":blake3:c4e5")
	replace("tree-added", "bfe8eb:", "bfe8eb+"+strings.Repeat("1", 64)+":")
	replace("tree-empty", "bfe8eb:", "bfe8eb+:")
	replace("tree-zero", "bfe8eb:", "bfe8eb+"+strings.Repeat("0", 64)+":")
	replace("signature-flipped", sig, "A"+sig[1:])
	replace("signature-pad-bits", sig, sig[:85]+"x")
	replace("signature-padded", sig, sig+"==")
	replace("signature-63-bytes", sig, sig[:84])
	replace("signature-65-bytes", sig, sig+"A")
	replace("signature-standard-alphabet", sig, sig[:20]+"+/"+sig[22:])
	replace("signature-line-end", sig, sig[:40]+"\n"+sig[40:])
	replace("signature-cr", sig, sig[:40]+"\r"+sig[41:])
	replace("signature-empty", sig, "")
	replace("signature-s-plus-l", sig, sPlusL(t, sig))
	replace("signature-zero", sig, strings.Repeat("A", 86))
	replace("fingerprint-of-another", ":6c31", ":6c32")
	replace("fingerprint-upper-case", ":6c31", ":6C31")
	replace("fingerprint-short", "0f0062", "0f006")
	replace("space-at-end", line, strings.TrimSuffix(line, "\n")+" \n")
	replace("space-in-front", "# rye", "#  rye")
	replace("other-comment", "# rye", "// rye")
	replace("version-3", ":v2:", ":v3:")
	replace("version-leading-zero", ":v2:", ":v02:")
	replace("version-absent", ":v2:", ":")
	add("first-of-all", line+strings.Replace(one, line, "", 1))
	add("one-line-lower", lines[0]+"\n"+line+rest)
	add("at-the-end", strings.Replace(one, line, "", 1)+line)
	add("unsorted", lines[0]+lines[2]+lines[1]+lines[3]+rest)
	add("two-by-one-key", lines[0]+lines[1]+lines[1]+lines[2]+rest)
	add("apart", lines[0]+lines[1]+"\n"+lines[2]+lines[3]+rest)
	add("one-bad-of-three", strings.Replace(three, lines[2], strings.Replace(lines[2], "09:00:00Z", "09:00:01Z", 1),
		1))
	add("17-lines", lines[0]+strings.Repeat(line, 17)+rest)
	add("v1-beside-v2", lines[0]+line+strings.SplitAfter(v1, "\n")[0]+rest)
	add("v2-beside-v1", lines[0]+strings.SplitAfter(v1, "\n")[0]+line+rest)
	add("v1-alone", v1)
	add("line-alone-without-end", strings.TrimSuffix(line, "\n"))
	list = append(list, vector{File: "other-name.py", Domain: "rye/v2/item", Name: "tool:demo/ho"},
		vector{File: "other-domain.py", Domain: "rye/v2/manifest", Name: "tool:demo/hi"},
		vector{File: "no-tree.py", Domain: "rye/v2/item", Name: "tool:demo/hi", Tree: cas.Sum(nil).String()})
	bad = append(bad, []byte(one), []byte(one), []byte(files["tree.py"]))
	for _, c := range []struct{ name, kind, from, old, new string }{
		{"v1-directive", "directive", "v1-directive.md", "\"t\"", "\"u\""},
		{"v1-tool", "tool", "v1-tool.py", "hi", "ho"},
		{"v1-knowledge", "knowledge", "v1-knowledge.md", "Body", "body"},
		{"v1-signature", "tool", "v1-tool.py", "Wl0", "Wl1"}, {"v1-pad-bits", "tool", "v1-tool.py", "Cw==", "Cx=="},
		{"v1-unpadded", "tool", "v1-tool.py", "Cw==", "Cw"},
		{"v1-key", "tool", "v1-tool.py", "7f2d", "7f2e"},
		{"v1-no-directive", "directive", "v1-directive.md", "</directive>", "</directives>"},
		{"v1-not-first", "tool", "v1-tool.py", "# rye", "\n# rye"},
		{"v1-not-utf8", "tool", "v1-tool.py", "hi", "h\xff"},
	} {
		list = append(list, vector{File: c.name + filepath.Ext(c.from), Kind: c.kind, Domain: "rye/v2/item",
			Name: "tool:demo/hi"})
		bad = append(bad, []byte(strings.Replace(files[c.from], c.old, c.new, 1)))
	}
	return list, bad
}

// TestVectors makes the vectors anew and compares.
func TestVectors(t *testing.T) {
	var set vectorSet
	good, files := goodVectors(t)
	byName := map[string]string{}
	for i, v := range good {
		byName[v.File] = string(golden(t, "good/"+v.File, files[i]))
		set.Good = append(set.Good, judge(t, v, files[i]))
		if e := set.Good[i].Error; e != "" {
			t.Errorf("%s: %s", v.File, e)
		}
	}
	bad, files := badVectors(t, byName)
	for i, v := range bad {
		golden(t, "bad/"+v.File, files[i])
		set.Bad = append(set.Bad, judge(t, v, files[i]))
		if set.Bad[i].Error == "" {
			t.Errorf("%s is accepted", v.File)
		}
	}
	b, err := json.MarshalIndent(set, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "vectors.json", append(b, '\n'))
	for dir, list := range map[string][]vector{"good": set.Good, "bad": set.Bad} {
		found, err := os.ReadDir(filepath.Join(vectorDir, dir))
		if err != nil || len(found) != len(list) {
			t.Errorf("%s holds %d files for %d vectors, %v", dir, len(found), len(list), err)
		}
	}
}

// sPlusL returns the signature with the group order added to S: the same to who doesn't look.
func sPlusL(t *testing.T, text string) string {
	t.Helper()
	order, _ := hex.DecodeString("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
	b := unbase64(t, text)
	carry := 0
	for i := range 32 {
		carry += int(b[32+i]) + int(order[i])
		b[32+i], carry = byte(carry), carry>>8
	}
	return base64url(b)
}

// The examples of the package comment are vectors.
func TestDocExample(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"example.py", "v1-tool.py"} {
		b, err := os.ReadFile(filepath.Join(vectorDir, "good", name))
		if err != nil {
			t.Fatal(err)
		}
		comment := "//\t" + strings.ReplaceAll(strings.TrimSuffix(string(b), "\n"), "\n", "\n//\t") + "\n"
		if !strings.Contains(string(doc), comment) {
			t.Errorf("doc.go doesn't hold\n%s", comment)
		}
	}
}

// The errors of a file that was damaged and of one that was never good are of one type each.
func TestVectorTypes(t *testing.T) {
	for name, want := range map[string]any{
		"content.py": new(*sign.IntegrityError), "time.py": new(*sign.SignatureInvalidError),
		"version-3.py": new(*sign.VersionError), "unsorted.py": new(*sign.IntegrityError),
		"fingerprint-of-another.py": new(*sign.UnknownKeyError),
		"signature-s-plus-l.py":     new(*sign.SignatureInvalidError), "17-lines.py": new(*sign.IntegrityError),
		"v1-beside-v2.py": new(*sign.IntegrityError),
	} {
		b, err := os.ReadFile(filepath.Join(vectorDir, "bad", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := check(string(b), sign.StyleOf(name), claim, rfcKeys(t)...); !errors.As(err, want) {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
}
