package fetch

import (
	"html"
	"net/url"
	"path"
	"strings"
)

// links reads a page of a simple index: where the files are whose links have a sha256, by that digest. What it can't read
// is no link. Only https addresses count, and those of the page's own server.
func links(page, address string) map[string]place {
	found := map[string]place{}
	from, err := url.Parse(address)
	if err != nil {
		return found
	}
	for page != "" {
		i := strings.IndexByte(page, '<')
		if i < 0 {
			break
		}
		page = page[i+1:]
		if strings.HasPrefix(page, "!--") {
			_, page, _ = strings.Cut(page, "-->")
			continue
		}
		if len(page) < 2 || page[0]|0x20 != 'a' || !space(page[1]) {
			continue
		}
		var href string
		href, page = anchor(page[1:])
		to, err := from.Parse(strings.TrimSpace(html.UnescapeString(href)))
		if err != nil || to.Scheme != "https" && (to.Scheme != from.Scheme || to.Host != from.Host) {
			continue
		}
		digits, ok := strings.CutPrefix(to.Fragment, "sha256=")
		if !ok || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
			continue
		}
		to.Fragment = ""
		found["sha256:"+digits] = place{path.Base(to.Path), to.String()}
	}
	return found
}

// anchor reads the attributes of a tag, and returns the href and what follows the tag.
func anchor(text string) (href, rest string) {
	seen := false
	for {
		text = strings.TrimLeft(text, " \t\r\n\f/")
		if text == "" {
			return href, ""
		}
		if text[0] == '>' {
			return href, text[1:]
		}
		n := strings.IndexAny(text, " \t\r\n\f/>=")
		if n < 0 {
			return href, ""
		}
		name := text[:max(n, 1)]
		text = strings.TrimLeft(text[max(n, 1):], " \t\r\n\f")
		value, given := strings.CutPrefix(text, "=")
		if !given {
			continue
		}
		value = strings.TrimLeft(value, " \t\r\n\f")
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			value, text, _ = strings.Cut(value[1:], value[:1])
		} else {
			n := strings.IndexAny(value, " \t\r\n\f>")
			if n < 0 {
				n = len(value)
			}
			value, text = value[:n], value[n:]
		}
		if strings.EqualFold(name, "href") && !seen {
			href, seen = value, true
		}
	}
}

func space(c byte) bool { return strings.IndexByte(" \t\r\n\f/", c) >= 0 }
