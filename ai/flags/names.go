package flags

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// own are the names of the tools that rye offers to agents.
var own = []string{"search", "load", "execute", "sign"}

// alike maps characters to similar ASCII ones. A few scripts suffice, because names of tools are short and mostly
// ASCII.
var alike = strings.NewReplacer(
	"а", "a", "в", "b", "с", "c", "ԁ", "d", "е", "e", "ё", "e", "һ", "h", "і", "i", "ј", "j", "к", "k", "ӏ", "l", "м",
	"m", "н", "h", "о", "o", "р", "p",
	"ԛ", "q", "ѕ", "s", "т", "t", "у", "y", "ѵ", "v", "ԝ", "w", "х", "x", "ү", "y", "г", "r",
	"α", "a", "β", "b", "ε", "e", "η", "n", "ι", "i", "κ", "k", "ν", "v", "ο", "o", "ρ", "p", "σ", "o", "τ", "t", "υ",
	"u", "χ", "x", "γ", "y", "ω", "w",
	"ı", "i", "ɡ", "g", "ɑ", "a", "ß", "b", "ⅼ", "l", "ⅰ", "i", "ⅴ", "v", "ⅽ", "c", "ⅾ", "d", "ⅿ", "m", "ℓ", "l", "℮",
	"e",
	"0", "o", "1", "l", "|", "l", "!", "l", "5", "s", "rn", "m", "vv", "w", "i", "l",
)

// Skeleton returns a form that is equal for names that a person may confuse: without case, separators and invisible
// characters, and with similar characters replaced.
func Skeleton(name string) string {
	var text strings.Builder
	for _, char := range name {
		switch {
		case char >= 0xff01 && char <= 0xff5e: // full width
			char -= 0xfee0
		case char >= 0x1d400 && char <= 0x1d6a3: // mathematical letters, in alphabets of 52
			if char = (char - 0x1d400) % 52; char < 26 {
				char += 'A'
			} else {
				char += 'a' - 26
			}
		}
		if unicode.IsLetter(char) || unicode.IsNumber(char) || char == '|' || char == '!' {
			text.WriteRune(unicode.ToLower(char))
		}
	}
	return alike.Replace(alike.Replace(text.String())) // the second pass joins characters that the first made
}

// Others are the names of other servers' tools, by server.
type Others map[string][]string

// Names returns the findings about the names of a server's tools, by name.
func Names(names []string, others Others) map[string][]Flag {
	found := map[string][]Flag{}
	skeletons := map[string][]string{}
	for _, name := range names {
		s := Skeleton(name)
		skeletons[s] = append(skeletons[s], name)
	}
	foreign := map[string][]string{} // "SERVER/TOOL" by skeleton
	for _, server := range slices.Sorted(maps.Keys(others)) {
		for _, name := range others[server] {
			s := Skeleton(name)
			foreign[s] = append(foreign[s], server+"/"+name)
		}
	}
	for _, name := range names {
		if strings.ContainsAny(name, "\t\r\n") {
			found[name] = append(found[name], newFlag(Control, "name", "contains a tab or a line break"))
		}
		text := Skeleton(name)
		for _, other := range skeletons[text] {
			if other != name {
				found[name] = append(found[name], newFlag(Lookalike, "name", "looks like %q", other))
				break
			}
		}
		if list := foreign[text]; len(list) > 0 {
			found[name] = append(found[name], newFlag(Shadowing, "name",
				"is, or looks like, the tool %q of another server", list[0]))
		}
		for _, reserved := range own {
			if text == Skeleton(reserved) || text == Skeleton("rye_"+reserved) {
				found[name] = append(found[name], newFlag(Shadowing, "name", "is, or looks like, %q of rye", reserved))
			}
		}
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "rye_") || strings.HasPrefix(lower, "rye-") {
			found[name] = append(found[name], newFlag(Shadowing, "name", "begins like the tools of rye"))
		}
	}
	return found
}

// Mentions returns a finding if a text names a tool of another server.
func Mentions(where, text string, others Others) []Flag {
	for _, server := range slices.Sorted(maps.Keys(others)) {
		for _, name := range others[server] {
			if mentions(text, name) {
				return []Flag{newFlag(Mention, where, "names the tool %q of the server %q", name, server)}
			}
		}
	}
	return nil
}

// mentions reports whether a text names a tool. A name that may be an ordinary word counts only in quotes or before
// "tool".
func mentions(text, name string) bool {
	if name == "" {
		return false
	}
	special := strings.ContainsAny(name, "_-./:") || strings.ToLower(name[1:]) != name[1:]
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(name)
		at = from + 1
		if from > 0 && isWord(text[from-1]) || to < len(text) && isWord(text[to]) {
			continue
		}
		quoted := from > 0 && to < len(text) && strings.IndexByte("`\"'", text[from-1]) >= 0 &&
			text[to] == text[from-1]
		if special || quoted || strings.HasPrefix(strings.TrimLeft(text[to:], " "), "tool") {
			return true
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
