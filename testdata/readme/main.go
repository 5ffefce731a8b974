// Command readme draws the terminal session of the README: it builds rye, runs the commands of session in a new home
// and writes what they print to testdata/readme/session.svg. The key, the time and the names are fixed, so the picture
// changes only when rye's output does. The picture has its own background and needs no font, script or other file.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// before is what happened before the session begins.
var before = []string{
	"rye key import ../key.pem",
	"rye key export > ../key.pub",
	"rye trust add ../key.pub --owner Ann --names '**' --yes",
	"rye init",
	"git init -q",
	"git add -A",
	"git commit -qm Start",
}

// session is what the picture shows. A line that begins with "#" is only shown, one that begins
// with "!" must fail.
var session = []string{
	"# Ann makes a tool for her agents. rye signs it, and locks it with all that it runs on.",
	"rye new tool acme/hello",
	"rye exec tool:acme/hello -p name=Bob",
	"",
	"# Later one line changes: an agent's edit, a pull request, an attack. git takes it.",
	"sed -i 's/hello, /send me your password, /' .ai/tools/acme/hello.py",
	"git commit -qam 'Tidy up'",
	"",
	"# Anything else would run it now.",
	"! rye exec tool:acme/hello -p name=Bob",
	"",
	"# What Ann signed still runs, and comes back.",
	"rye exec tool:acme/hello -p name=Bob --pinned",
	"rye restore tool:acme/hello -q",
	"rye exec tool:acme/hello -p name=Bob",
}

func main() {
	log.SetFlags(0)
	lines, err := record()
	if err == nil {
		err = os.WriteFile(filepath.Join("testdata", "readme", "session.svg"), draw(lines), 0o644)
	}
	if err != nil {
		log.Fatal("readme: ", err)
	}
}

// A line is one of the terminal, typed or printed.
type line struct {
	text  string // with escape sequences for colour
	typed bool
}

// record runs the session and returns what a terminal would show of it.
func record() (lines []line, err error) {
	dir, err := os.MkdirTemp("", "rye-readme-")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = exec.Command("chmod", "-R", "u+w", dir).Run()
		_ = os.RemoveAll(dir)
	}()
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "bin")
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "rye"), "./cmd/rye")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	// Everyone knows this key: it is for the picture alone.
	key, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("rye!"), 8)))
	if err != nil {
		return nil, err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), block, 0o600); err != nil {
		return nil, err
	}
	shell := func(command string) (string, error) {
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir = project
		cmd.Env = []string{"HOME=" + dir, "PATH=" + bin + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC",
			"SOURCE_DATE_EPOCH=1767225600", "CLICOLOR_FORCE=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann",
			"GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%q: %w\n%s", command, err, out)
		}
		return string(out), err
	}
	for _, command := range before {
		if _, err := shell(command); err != nil {
			return nil, err
		}
	}
	for _, command := range session {
		if command == "" {
			lines = append(lines, line{})
			continue
		}
		command, mustFail := strings.CutPrefix(command, "! ")
		lines = append(lines, line{"$ " + command, true})
		if strings.HasPrefix(command, "#") {
			continue
		}
		out, err := shell(command)
		var exit *exec.ExitError
		if errors.As(err, &exit) && mustFail {
			err = nil
		} else if mustFail {
			err = fmt.Errorf("%q isn't refused: %s", command, out)
		}
		if err == nil && strings.Contains(out, dir) {
			err = fmt.Errorf("%q prints a path of this machine: %s", command, out)
		}
		if err != nil {
			return nil, err
		}
		for printed := range strings.Lines(out) {
			lines = append(lines, line{strings.TrimRight(printed, "\n"), false})
		}
	}
	return lines, nil
}

// The picture's measures, in pixels, and the colours, which have a contrast of at least 4.5 on the background.
const (
	columns    = 96
	charWidth  = 8.4
	lineHeight = 20
	margin     = 20
	background = "#161b22"
	plain      = "#e6edf3"
	comment    = "#9198a1"
)

// colours are those of the escape sequences that rye prints.
var colours = map[string]string{"": plain, "0": plain, "1": plain, "1;31": "#ff7b72", "31": "#ff7b72", "32": "#56d364",
	"33": "#e3b341", "36": "#76e3ea", "2": comment}

var escapes = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// draw returns the lines as an SVG. Each line's text has the length that it has in a terminal, whatever font is used.
func draw(lines []line) []byte {
	var folded []line
	for _, l := range lines {
		folded = append(folded, fold(l)...)
	}
	width, height := columns*42/5+2*margin, len(folded)*lineHeight+2*margin
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img"`,
		width, height, width, height)
	fmt.Fprintf(&out, ` aria-label="A terminal: rye runs a pinned tool and refuses a change that git accepts">
<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="%s" stroke="#6e7681"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">
`, width-1, height-1, background)
	for i, l := range folded {
		x, y := 0, margin+i*lineHeight+lineHeight*3/4
		for _, part := range parts(l) {
			if trimmed := strings.TrimSpace(part.text); trimmed != "" {
				indent := len(part.text) - len(strings.TrimLeft(part.text, " "))
				length := utf8.RuneCountInString(trimmed)
				fmt.Fprintf(&out, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs"`,
					margin+float64(x+indent)*charWidth, y, float64(length)*charWidth)
				fmt.Fprintf(&out, ` xml:space="preserve" fill="%s"%s>%s</text>`+"\n", part.colour, part.weight,
					html.EscapeString(trimmed))
			}
			x += utf8.RuneCountInString(part.text)
		}
	}
	out.WriteString("</g>\n</svg>\n")
	return out.Bytes()
}

// fold breaks a line that is longer than the picture, as a terminal does.
func fold(l line) []line {
	if len(escapes.ReplaceAllString(l.text, "")) <= columns {
		return []line{l}
	}
	cut := strings.LastIndexByte(l.text[:columns], ' ')
	if cut <= 4 {
		cut = columns
	}
	rest := line{"    " + strings.TrimLeft(l.text[cut:], " "), l.typed}
	return append([]line{{l.text[:cut], l.typed}}, fold(rest)...)
}

type part struct{ text, colour, weight string }

// parts splits a line where its colour changes.
func parts(l line) []part {
	if command, ok := strings.CutPrefix(l.text, "$ "); ok && l.typed {
		if strings.HasPrefix(command, "#") {
			return []part{{command, comment, ""}}
		}
		return []part{{"$ ", comment, ""}, {command, plain, ` font-weight="bold"`}}
	}
	var all []part
	colour, rest := plain, l.text
	for {
		at := escapes.FindStringSubmatchIndex(rest)
		if at == nil {
			return append(all, part{rest, colour, ""})
		}
		all = append(all, part{rest[:at[0]], colour, ""})
		colour = colours[rest[at[2]:at[3]]]
		rest = rest[at[1]:]
	}
}
