package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPicture: the committed picture is the one that the README shows, and has only text on a background of its own:
// nothing in it runs, or is fetched when someone looks at it.
func TestPicture(t *testing.T) {
	picture, err := os.ReadFile("session.svg")
	readme, err2 := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(readme, []byte("](testdata/readme/session.svg)")) {
		t.Error("the README doesn't show the session")
	}
	attributes := []string{"xmlns", "width", "height", "viewBox", "role", "aria-label", "x", "y", "rx", "fill",
		"stroke", "font-family", "font-size", "font-weight", "textLength", "lengthAdjust", "space"}
	var text strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if !slices.Contains([]string{"svg", "rect", "g", "text"}, token.Name.Local) {
				t.Errorf("an element %q", token.Name.Local)
			}
			for _, a := range token.Attr {
				if !slices.Contains(attributes, a.Name.Local) || strings.Contains(a.Value, "url") {
					t.Errorf("an attribute %s=%q", a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			text.Write(token)
		case xml.ProcInst, xml.Directive:
			t.Errorf("%v", token)
		}
	}
	for _, command := range session {
		if !strings.Contains(text.String(), strings.TrimPrefix(command, "! ")) {
			t.Errorf("the picture lacks %q", command)
		}
	}
}

// TestDraw: lines are folded like in a terminal, and colours are those that rye printed.
func TestDraw(t *testing.T) {
	long := strings.Repeat("word ", 30)
	folded := fold(line{text: long})
	if len(folded) != 2 || len(folded[0].text) > columns || !strings.HasPrefix(folded[1].text, "    word") {
		t.Errorf("%+v", folded)
	}
	got := parts(line{text: "\x1b[1;31merror: \x1b[0mno"})
	want := []part{{"", plain, ""}, {"error: ", colours["1;31"], ""}, {"no", plain, ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if svg := string(draw([]line{{text: "a<b&c"}})); !strings.Contains(svg, ">a&lt;b&amp;c</text>") {
		t.Error(svg)
	}
}
