package legacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

const at = "lockfiles/rye/file-system/write@1.0.0.lock.json"

var a, b, c = strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)

// first is a lock as it was written: two spaces, and no line end at the end.
var first = fmt.Sprintf(`{
  "lockfile_version": 1,
  "generated_at": "2026-02-18T08:25:21.344139+00:00",
  "root": {
    "tool_id": "rye/file-system/write",
    "version": "1.0.0",
    "integrity": "%[1]s"
  },
  "resolved_chain": [
    {
      "item_id": "rye/file-system/write",
      "space": "system:rye-os",
      "tool_type": "python",
      "executor_id": "rye/core/runtimes/python/script",
      "integrity": "%[1]s"
    },
    {
      "item_id": "rye/core/runtimes/python/script",
      "space": "project",
      "tool_type": "runtime",
      "executor_id": "rye/core/primitives/subprocess",
      "integrity": "%[2]s"
    },
    {
      "item_id": "rye/core/primitives/subprocess",
      "space": "user",
      "tool_type": "primitive",
      "executor_id": null,
      "integrity": "%[3]s"
    }
  ],
  "registry": null,
  "verified_deps": null
}`, a, b, c)

func TestGolden(t *testing.T) {
	l, err := Parse(at, []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, "testdata/write.json", append(got, '\n'))
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ old, new, err string }{
		{first, "", `, line 1, column 1: expected a value, found the end`},
		{first, first[:200], `, line 7, column 44: a string without end`},
		{first, first + "x", `, line 34, column 2: more behind the value`},
		{first, strings.Repeat("[", 1<<19), `, line 1, column 65: nested more than 64 deep`},
		{first, strings.Repeat(" ", maxBytes+1), `: it has more than 1048576 bytes`},
		{first, "[]", `: the lock: expected an object, found an array`},
		{"\"root\": {\n", "\"generated_at\": 1, \"root\": {\n",
			`, line 4, column 3: duplicate name "generated_at"`},
		{`"lockfile_version": 1`, `"lockfile_version": 2`, `: lockfile_version: expected 1, found 2`},
		{`"lockfile_version": 1`, `"lockfile_version": "1"`, `: lockfile_version: expected 1, found a text`},
		{`"lockfile_version"`, `"version"`, `: lockfile_version: expected 1, found nothing`},
		{`"generated_at": "2026-02-18T08:25:21.344139+00:00"`, `"generated_at": true`,
			`: generated_at: expected a text, found a truth value`},
		{`"root": {`, `"root": [], "no": {`, `: root: expected an object, found an array`},
		{`"tool_id": "rye/file-system/write"`, `"tool_id": ""`, `: root.tool_id: it is empty`},
		{`"tool_id": "rye/file-system/write"`, `"tool_id": {}`, `: root.tool_id: expected a text, found an object`},
		{`"tool_id": "rye/file-system/write"`, `"tool_id": "` + strings.Repeat("x", 201) + `"`,
			`: root.tool_id: it has more than 200 bytes`},
		{`"tool_id": "rye/file-system/write"`, `"tool_id": "rye/file-system/read"`,
			`: it is a lock of tool:rye/file-system/read in version "1.0.0": expected the path "lockfiles/rye/file-system/read@1.0.0.lock.json"`},
		{`"version": "1.0.0"`, `"version": "1.0.1"`,
			`: it is a lock of tool:rye/file-system/write in version "1.0.1": expected the path "lockfiles/rye/file-system/write@1.0.1.lock.json"`},
		{`"version": "1.0.0"`, `"version": "../x"`, `: root.version: "../x" is not a version`},
		{`"version": "1.0.0"`, `"version": null`, `: root.version: expected a text, found nothing`},
		{`"resolved_chain": [`, `"resolved_chain": 1, "no": [`, `: resolved_chain: expected an array, found a number`},
		{`"resolved_chain": [`, `"resolved_chain": [` + strings.Repeat("null,", 64),
			`: resolved_chain: it has more than 64 links`},
		{`"resolved_chain": [`, `"resolved_chain": [null,`, `: resolved_chain[0]: expected an object, found nothing`},
		{`"space": "user"`, `"space": "users"`, `: resolved_chain[2].space: "users" is not a space`},
		{`"space": "user"`, `"space": "system:../x"`, `: resolved_chain[2].space: "system:../x" is not a space`},
		{`"space": "user",`, ``, `: resolved_chain[2].space: expected a text, found nothing`},
		{`"tool_type": "runtime"`, `"tool_type": 1`, `: resolved_chain[1].tool_type: expected a text, found a number`},
		{c, strings.ToUpper(c), `: resolved_chain[2].integrity: "` + strings.ToUpper(c) +
			`" is not 64 lower-case hexadecimal digits`},
		{c, "", `: resolved_chain[2].integrity: it is empty`},
	} {
		text := strings.Replace(first, c.old, c.new, 1)
		l, err := Parse(at, []byte(text))
		if want := fmt.Sprintf("lock of the first format %q%s", at, c.err); l != nil || fmt.Sprint(err) != want {
			t.Errorf("%.100q:\ngot  %v\nwant %s", c.new, err, want)
		}
	}
	for _, id := range []string{"../x", "a//b", "_x", "a b"} {
		_, err := Parse(at, []byte(strings.Replace(first, "rye/file-system/write", id, 1)))
		if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), "root.tool_id: ") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestRead(t *testing.T) {
	second := strings.NewReplacer("rye/file-system/write", "acme/x", "1.0.0", "0.0.0").Replace(first)
	files := fstest.MapFS{
		at:                                 {Data: []byte(first)},
		"lockfiles/acme/x@0.0.0.lock.json": {Data: []byte(second)},
		"lockfiles/acme/y@0.0.0.lock.json": {Data: []byte(second)},
		"lockfiles/acme/link@1.lock.json":  {Data: []byte("x@0.0.0.lock.json"), Mode: fs.ModeSymlink},
		"lockfiles/README.md":              {Data: []byte("x")},
		"lockfiles/dir@1.lock.json/x":      {Data: []byte("x")},
		"lockfiles/bad@1.lock.json":        {Data: []byte("{")},
		"tools/x@1.lock.json":              {Data: []byte("{")},
		"lockfiles/large@1.lock.json":      {Data: make([]byte, 2*maxBytes)},
		"lockfiles/" + strings.Repeat("x/", 500) + "deep@1.lock.json": {Data: []byte(first)},
	}
	locks, errs := Read(files)
	if len(locks) != 2 || locks[0].Tool.ID != "acme/x" || locks[1].Path != at || locks[1].Version != "1.0.0" {
		t.Errorf("%+v", locks)
	}
	var got []string
	for _, err := range errs {
		got = append(got, fmt.Sprintf("%.150s", err))
	}
	want := `lock of the first format "lockfiles/acme/link@1.lock.json": is not a regular file
lock of the first format "lockfiles/acme/y@0.0.0.lock.json": it is a lock of tool:acme/x in version "0.0.0": expected the path "lockfiles/acme/x@0.0.0
lock of the first format "lockfiles/bad@1.lock.json", line 1, column 2: expected a name in double quotes
lock of the first format "lockfiles/large@1.lock.json": it has more than 1048576 bytes`
	if len(got) != 5 || strings.Join(got[:4], "\n") != want ||
		!strings.HasSuffix(errs[4].Error(), ": the path has more than 1000 bytes") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if locks, errs := Read(fstest.MapFS{"tools/x": {}}); len(locks)+len(errs) > 0 {
		t.Errorf("%v %v", locks, errs)
	}
	if _, errs := Read(fstest.MapFS{Dir: {Data: []byte("x")}}); len(errs) != 1 ||
		errs[0].Error() != `lock of the first format "lockfiles": is not a directory` {
		t.Errorf("%v", errs)
	}
	many := fstest.MapFS{}
	for i := range maxFiles + 2 {
		many[fmt.Sprintf("lockfiles/x%d@1.lock.json", i)] = &fstest.MapFile{}
	}
	if _, errs := Read(many); len(errs) != maxFiles+1 || !errors.Is(errs[maxFiles], errMany) {
		t.Errorf("%d errors", len(errs))
	}
	if _, errs := Read(brokenFS{files}); len(errs) == 0 || !errors.Is(errs[0], fs.ErrPermission) {
		t.Errorf("%v", errs)
	}
}

// A brokenFS opens directories alone.
type brokenFS struct{ fstest.MapFS }

func (f brokenFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "0"+suffix) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Open(name)
}

func (f brokenFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "lockfiles/acme" {
		return nil, fs.ErrPermission
	}
	return f.MapFS.ReadDir(name)
}

func TestCheck(t *testing.T) {
	l, err := Parse(at, []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]string{
		" tool:rye/file-system/write": a, "system:rye-os tool:rye/file-system/write": a,
		"project tool:rye/core/runtimes/python/script": b, "user tool:rye/core/primitives/subprocess": c,
	}
	integrity := func(tool model.Ref, space string) (string, error) {
		if s, ok := now[space+" "+tool.String()]; ok {
			return s, nil
		}
		return "", fs.ErrNotExist
	}
	if d := l.Check(integrity); len(d) > 0 {
		t.Errorf("%v", d)
	}
	now[" tool:rye/file-system/write"] = c
	delete(now, "user tool:rye/core/primitives/subprocess")
	d := l.Check(integrity)
	if len(d) != 2 || d[0].String() != "tool:rye/file-system/write: expected sha256 "+a+", found "+c ||
		d[1].String() != "tool:rye/core/primitives/subprocess from user: expected sha256 "+c+": file does not exist" ||
		!errors.Is(d[1].Err, fs.ErrNotExist) {
		t.Errorf("%v", d)
	}
}

// TestIntegrity compares with what a signature of the first format says, however the file is signed.
func TestIntegrity(t *testing.T) {
	private, err := key.Generate(bytes.NewReader(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, file := range []string{
		"", "x", "x = 1\n", "x\r\ny\rz\n", "#!/bin/sh\necho\n", "#!/bin/sh\n#!/bin/sh\n#!/bin/sh\necho\n",
		"#!/bin/sh\r\n#!/bin/sh\recho",
		"#!/bin/sh", "#! /bin/sh\necho\n", "# coding: utf-8\nx\n",
		"#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\"\"\"é\"\"\"\n", "\ufeffx\n",
		"# rye:validated:2026-01-01T00:00:00Z:" + a + "\nx\n", "# rye:signed: no\nx\n",
		"#!/bin/sh\n# kiwi-mcp:signed:x\n#!/bin/sh\nx\n",
	} {
		signed, err := sign.SignV1([]byte(file), sign.Hash|sign.V1Tool, private, now)
		if err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		s, err := sign.ReadBytes(signed, sign.Hash|sign.V1Tool)
		if err != nil || s.V1 == nil {
			t.Fatalf("%q: %v", file, err)
		}
		want := fmt.Sprintf("%x", s.V1.SHA256)
		forms := map[string][]byte{"unsigned": []byte(file), "v1": signed}
		// Where a file ends within its first line there is no place for a signature.
		bare := sign.StripV1([]byte(file), sign.Hash|sign.V1Tool)
		if v2, err := sign.Sign(bare, sign.Hash, sign.Claim{Domain: sign.Item, Name: "tool:x"}, private, now,
			nil); err == nil {
			forms["v2"] = v2
		} else if file != "#!/bin/sh" {
			t.Errorf("%q: %v", file, err)
		}
		for form, b := range forms {
			if got, err := Integrity("x.py", b); err != nil || got != want {
				t.Errorf("%q, %s: got %s, %v, want %s", file, form, got, err, want)
			}
		}
		if got, _ := Integrity("x.py", append(signed, '.')); got == want {
			t.Errorf("%q: a changed file has the same", file)
		}
	}
	if _, err := Integrity("x.py", []byte("\xff")); err == nil {
		t.Error("not UTF-8, and read")
	}
	if _, err := Integrity("x.py", make([]byte, sign.MaxV1+1)); err == nil {
		t.Error("too large, and read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(first))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Parse(at, b)
		if _, ours := errors.AsType[*Error](err); err != nil && !ours {
			t.Fatalf("%T", err)
		}
		if err != nil {
			return
		}
		if l.Tool.ID != "rye/file-system/write" || l.Version != "1.0.0" || len(l.Integrity) != 64 ||
			len(l.Chain) > maxLinks {
			t.Fatalf("%+v", l)
		}
		// What other readers of JSON see is the same.
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if root, ok := v["root"].(map[string]any); !ok || root["integrity"] != l.Integrity {
			t.Fatalf("%+v", v)
		}
	})
}
