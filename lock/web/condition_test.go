package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// readIf gets all of an address by a conditional request; "unchanged" if there is nothing to read.
func (w *world) readIf(t *testing.T, path, tag string) (text, now string, err error) {
	t.Helper()
	r, now, err := w.GetIf(t.Context(), w.url("public.example", path), 100, tag)
	if err != nil {
		return "", "", err
	}
	if r == nil {
		return "unchanged", now, nil
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), now, err
}

// TestGetIf: a file that hasn't changed costs no bytes, and what a server says about that is not taken as it comes.
func TestGetIf(t *testing.T) {
	tag, status, asked := `"one"`, 0, []string(nil)
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		asked = r.Header.Values("If-None-Match")
		if strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(rw, r, "/a", http.StatusFound)
			return
		}
		if tag != "" {
			rw.Header()["Etag"] = strings.Split(tag, "\n")
		}
		switch {
		case status != 0:
			rw.WriteHeader(status)
		case r.Header.Get("If-None-Match") == tag && tag != "":
			rw.WriteHeader(http.StatusNotModified)
		default:
			send("hello")(rw, r)
		}
	})
	check := func(name, path, etag, text, now string) {
		t.Helper()
		gotText, gotTag, err := w.readIf(t, path, etag)
		if err != nil || gotText != text || gotTag != now {
			t.Errorf("%s: %q, %s, %v", name, gotText, gotTag, err)
		}
	}
	refused := func(name, etag string, want error) {
		t.Helper()
		_, _, err := w.readIf(t, "/a", etag)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	check("a new file", "/a", "", "hello", `"one"`)
	if len(asked) > 0 {
		t.Errorf("sent %q for a file that isn't kept", asked)
	}
	check("the same file", "/a", `"one"`, "unchanged", `"one"`)
	check("another version", "/a", `"two"`, "hello", `"one"`)
	check("behind a redirect", "/moved", `"one"`, "unchanged", `"one"`)
	check("a tag that is none", "/a", `one`, "hello", `"one"`)
	if len(asked) > 0 {
		t.Errorf("sent %q, which is no tag", asked)
	}
	tag = ""
	check("a file without a tag", "/a", `"one"`, "hello", "")

	// A server marks a tag as weak, or says nothing of it.
	status = http.StatusNotModified
	for _, said := range []string{`W/"one"`, `"one"`, ""} {
		tag = said
		check("unchanged, "+said, "/a", `"one"`, "unchanged", `"one"`)
	}
	tag = `"two"`
	refused("unchanged, with another tag", `"one"`, errOtherTag)
	_, _, err := w.readIf(t, "/a", "")
	if e := (*StatusError)(nil); !errors.As(err, &e) || e.Status != http.StatusNotModified {
		t.Errorf("unchanged, which never was asked: %v", err)
	}
	if _, _, err := w.Get(t.Context(), w.url("public.example", "/a"), 9); err == nil {
		t.Error("unchanged, without a condition")
	}
	for _, bad := range []string{`one`, `"one`, `"`, `"o ne"`, `"on"e"`, `W/one`, `"é"`, "\"a\"\n\"b\"",
		`"` + strings.Repeat("a", maxTag) + `"`} {
		for _, status = range []int{0, http.StatusNotModified} {
			tag = bad
			refused(fmt.Sprintf("the tag %q with %d", bad, status), `"one"`, errTag)
		}
	}
	if _, _, err := w.GetIf(t.Context(), "ftp://public.example", 9, ""); err == nil {
		t.Error("another scheme")
	}
}

// TestGetIfAgain: what a broken body is continued with is asked for in any case.
func TestGetIfAgain(t *testing.T) {
	var asked []string
	w := newWorld(t, limits{pauses: shortly()}, func(rw http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("If-None-Match"))
		rw.Header().Set("ETag", `"two"`)
		if len(asked) == 1 {
			rw.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(rw, "he")
			return
		}
		send("hello")(rw, r)
	})
	text, tag, err := w.readIf(t, "/a", `"one"`)
	if err != nil || text != "hello" || tag != `"two"` || fmt.Sprint(asked) != `["one" ]` {
		t.Errorf("%q, %s, %v, asked %q", text, tag, err, asked)
	}
}

// FuzzIsTag: what counts as a tag is one header value without surprises.
func FuzzIsTag(f *testing.F) {
	for _, seed := range []string{`"a"`, `W/"a"`, `""`, `"`, `a`, "\"\r\n\"", `"é"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !IsTag(s) {
			return
		}
		if len(s) > maxTag || strings.ContainsAny(s, " \r\n\x00") ||
			!strings.HasSuffix(s, `"`) || strings.Count(s, `"`) != 2 {
			t.Errorf("%q is a tag", s)
		}
	})
}
