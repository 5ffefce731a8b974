package fetch

import (
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html"
)

// This file reads the pages of a "simple" index (PEP 503).

// links parses a page of a simple index and returns the locations of files by the sha256 in their links. It skips
// malformed links. Only https addresses and addresses on the page's server count.
func links(page, address string) map[string]place {
	found := map[string]place{}
	from, err := url.Parse(address)
	if err != nil {
		return found
	}
	tokens := html.NewTokenizer(strings.NewReader(page))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		name, more := tokens.TagName()
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken || string(name) != "a" {
			continue
		}
		var key, value []byte
		for string(key) != "href" && more {
			key, value, more = tokens.TagAttr()
		}
		to, err := from.Parse(strings.TrimSpace(string(value)))
		if err != nil || string(key) != "href" || to.Scheme != "https" &&
			(to.Scheme != from.Scheme || to.Host != from.Host) {
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
