package bundle

import (
	"net/url"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

// mentioned returns the hosts of URLs in text, and the paths that lead out of the bundle.
func mentioned(text string) (hosts, places []string) {
	for _, word := range strings.FieldsFunc(withoutTags(text), func(c rune) bool {
		return strings.ContainsRune(" \t\r\n\"'<>()`,;", c)
	}) {
		if host := hostOf(word); host != "" {
			hosts = append(hosts, host)
		} else if isPlace(word) {
			places = append(places, word)
		}
	}
	return hosts, places
}

// withoutTags removes closing tags such as "</x>", which look like paths. It keeps the path in "cat </etc/passwd".
func withoutTags(text string) string {
	if !strings.Contains(text, "</") {
		return text
	}
	var out strings.Builder
	for {
		i := strings.Index(text, "</")
		if i < 0 {
			out.WriteString(text)
			return out.String()
		}
		name, rest, ends := strings.Cut(text[i+2:], ">")
		if ends && isName(strings.TrimRight(name, " \t\r\n")) {
			out.WriteString(text[:i] + " ")
			text = rest
			continue
		}
		out.WriteString(text[:i+2])
		text = text[i+2:]
	}
}

// isName reports whether s can be the name of an element.
func isName(s string) bool {
	return portable.Spelled(s, portable.Letters+portable.Digits+"_-.:", "", len(s))
}

// hostOf returns the host of a URL.
func hostOf(word string) string {
	i := strings.Index(word, "://")
	if i < 1 {
		return ""
	}
	u, err := url.Parse(word)
	if err != nil {
		// A placeholder can make the URL invalid: then take the text in the host's place.
		host, _, _ := strings.Cut(word[i+3:], "/")
		return host
	}
	return u.Host
}

// isPlace reports whether a word is a path outside the bundle.
func isPlace(word string) bool {
	for _, prefix := range []string{"~/", "../", "$HOME", "${HOME", "%USERPROFILE%", `\\`} {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	if len(word) > 2 && word[1] == ':' && (word[2] == '\\' || word[2] == '/') {
		return true
	}
	return len(word) > 1 && word[0] == '/' && word[1] != '/' || strings.Contains(word, "/../")
}
