package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// pages returns the man pages by file name: rye.1 and one for each command, made from what "rye help" prints.
func (b *build) pages() (map[string][]byte, error) {
	help := func(words ...string) (text string, err error) {
		out, err := b.run("", b.tool, append([]string{"help", "--json"}, words...)...)
		var answer struct {
			Data struct {
				Text string `json:"text"`
			} `json:"data"`
		}
		if err == nil {
			err = json.Unmarshal(out, &answer)
		}
		return answer.Data.Text, err
	}
	out, err := b.run("", b.tool, "help", "--json")
	if err != nil {
		return nil, err
	}
	var front struct {
		Data struct {
			Text     string `json:"text"`
			Commands []struct {
				Command string `json:"command"`
				Help    string `json:"help"`
			} `json:"commands"`
		} `json:"data"`
	}
	if err := json.Unmarshal(out, &front); err != nil {
		return nil, err
	}
	text := front.Data.Text
	for _, topic := range []string{"commands", "environment", "errors"} {
		page, err := help(topic)
		if err != nil {
			return nil, err
		}
		if topic == "commands" {
			// The front page names the commands too.
			before, more, _ := strings.Cut(text, "\nEvery day:\n")
			_, flags, _ := strings.Cut(more, "\nGlobal flags:\n")
			flags, _, _ = strings.Cut(flags, "\nExit status:")
			text = before + "\nGlobal flags:\n" + flags + "\nCommands:\n" + heading.ReplaceAllString(page, "\n$1")
			continue
		}
		text += "\n" + strings.ToUpper(topic[:1]) + topic[1:] + ":\n\n" + heading.ReplaceAllString(page, "$1:\n")
	}
	pages := map[string][]byte{"rye.1": b.page("", text)}
	seen := map[string]bool{}
	for _, c := range front.Data.Commands {
		words := strings.Fields(c.Command)
		for n := range words {
			command := strings.Join(words[:n+1], " ")
			if seen[command] {
				continue
			}
			seen[command] = true
			if text, err = help(words[:n+1]...); err != nil {
				return nil, err
			}
			pages["rye-"+strings.ReplaceAll(command, " ", "-")+".1"] = b.page(command, text)
		}
	}
	return pages, nil
}

var (
	// heading is the line above a list in a page of help.
	heading = regexp.MustCompile(`(?m)^([A-Z][A-Za-z ]*):\n`)
	// entry is a line of such a list: a term, and what it means behind at least two spaces.
	entry = regexp.MustCompile(`^ {2,6}(\S.*?)(?: {2,}(?:\* )?(\S.*))?$`)
)

// page turns the help of a command into a man page. Text becomes paragraphs, what is indented by four or more is kept
// as it is, and in a section's list each line has a term.
func (b *build) page(command, text string) []byte {
	name := strings.ReplaceAll(strings.TrimSpace("rye "+command), " ", "-")
	usage, rest, _ := strings.Cut(text, "\n\n")
	title, rest, _ := strings.Cut(rest, "\n")
	var out bytes.Buffer
	fmt.Fprintf(&out, ".TH %s 1 %s \"rye %s\" \"rye\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n%s\n.fi\n",
		strings.ToUpper(name), b.when.Format("2006-01-02"), b.version, name,
		roff(strings.ToLower(title[:1])+strings.TrimSuffix(title[1:], ".")),
		roff(strings.TrimPrefix(usage, "Usage: ")))
	section := "Description"
	if strings.TrimSpace(rest) != "" && !heading.MatchString(firstLine(rest)) {
		fmt.Fprintln(&out, ".SH DESCRIPTION")
	}
	gap, literal, indent := false, false, 0
	paragraph := func() {
		if !bytes.HasSuffix(out.Bytes(), []byte(".SH "+strings.ToUpper(section)+"\n")) {
			fmt.Fprintln(&out, ".PP")
		}
	}
	for line := range strings.Lines(rest) {
		line = strings.TrimRight(line, "\n")
		if literal && !strings.HasPrefix(line, "    ") && line != "" {
			fmt.Fprintln(&out, ".fi\n.RE")
			literal = false
		}
		term := entry.FindStringSubmatch(line)
		list := section != "Description" && section != "Examples"
		width := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case line == "":
			gap = true
			continue
		case heading.MatchString(line + "\n"):
			section = strings.TrimSuffix(line, ":")
			if section == "Global flags" && command != "" {
				fmt.Fprintln(&out, ".SH GLOBAL FLAGS\nThese are in \\fBrye\\fR(1).")
				return append(out.Bytes(), ".SH SEE ALSO\n\\fBrye\\fR(1)\n"...)
			}
			fmt.Fprintf(&out, ".SH %s\n", strings.ToUpper(section))
			indent = 0
		case list && term != nil && (indent == 0 || width <= indent+4):
			if indent == 0 {
				indent = width
			}
			fmt.Fprintf(&out, ".TP\n\\fB%s\\fR\n", roff(term[1]))
			if term[2] != "" {
				fmt.Fprintln(&out, roff(term[2]))
			}
		case !list && width >= 2:
			if !literal {
				literal = true
				paragraph()
				fmt.Fprintln(&out, ".RS 4\n.nf")
			} else if gap {
				fmt.Fprintln(&out)
			}
			fmt.Fprintln(&out, roff(strings.TrimPrefix(line, "    ")))
		default:
			if gap && width == 0 {
				paragraph()
			}
			fmt.Fprintln(&out, roff(strings.TrimSpace(line)))
		}
		gap = false
	}
	if literal {
		fmt.Fprintln(&out, ".fi\n.RE")
	}
	return out.Bytes()
}

func firstLine(text string) string {
	text = strings.TrimLeft(text, "\n")
	return text[:strings.IndexByte(text+"\n", '\n')] + "\n"
}

// roff escapes text, so that troff prints these characters.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "`", `\(ga`, "'", `\(aq`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
