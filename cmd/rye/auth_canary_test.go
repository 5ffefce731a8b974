package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas"
)

// looks is what a value looks like when programs have written it.
func looks(v string) []string {
	quoted, _ := json.Marshal(v)
	digits := hex.EncodeToString([]byte(v))
	all := []string{v, digits, strings.ToUpper(digits), url.QueryEscape(v), url.PathEscape(v), string(quoted),
		strconv.QuoteToASCII(v)}
	for _, before := range []string{"", "u", "u:", "u:p"} {
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
			base64.RawURLEncoding} {
			all = append(all, e.EncodeToString([]byte(before+v+"!")), e.EncodeToString([]byte(before+v)))
		}
	}
	return all
}

// leak writes a value wherever a tool can.
func leak(how, v string) error {
	all := looks(v)
	text := strings.Join(all, "\n") + "\n"
	switch how {
	case "sum": // which one it is, for who knows them
		fmt.Println(cas.Sum([]byte(v)))
	case "text":
		fmt.Fprint(os.Stderr, text)
		for i := range len(text) { // a byte at a time
			if _, err := os.Stdout.WriteString(text[i : i+1]); err != nil {
				return err
			}
		}
	case "json":
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"all": all, v: v, "in": map[string]any{"text": text}})
	case "error":
		fmt.Fprint(os.Stderr, text)
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"success": false,
			"error": map[string]any{"message": text}})
	case "tail": // the reason is the end of what it writes, cut anywhere
		fmt.Fprint(os.Stderr, strings.Repeat(v, 200))
		os.Exit(3)
	default:
		return fmt.Errorf("leak %q?", how)
	}
	return nil
}

// window is how much of a value, or of what it looks like, is too much.
const window = 12

// absent is "absent FILE…": of the line in the first file nothing is in any file of the test but these, whatever it
// looks like.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: absent FILE…")
	}
	v, _, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
	pieces := map[string]bool{}
	for _, form := range looks(v) {
		for i := 0; i+window <= len(form); i++ {
			pieces[form[i:i+window]] = true
		}
	}
	for i := range args {
		args[i] = ts.MkAbs(args[i])
	}
	seen := 0
	ts.Check(filepath.WalkDir(ts.MkAbs("."), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || slices.Contains(args, path) {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		for i := 0; i+window <= len(b); i++ {
			if pieces[string(b[i:i+window])] {
				ts.Fatalf("%s has %q", path, b[max(0, i-20):min(len(b), i+60)])
			}
		}
		return nil
	}))
	if seen < 30 || len(pieces) < 100 {
		ts.Fatalf("%d files were looked at, for %d pieces", seen, len(pieces))
	}
}
