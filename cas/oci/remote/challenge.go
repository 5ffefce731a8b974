package remote

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

// parseChallenge reads WWW-Authenticate: the scheme, in lower case, and what it says, up to where it is wrong.
func parseChallenge(s string) (scheme string, params map[string]string) {
	scheme, rest := word(s)
	scheme, params = strings.ToLower(scheme), map[string]string{}
	for {
		name, after := word(strings.TrimLeft(rest, " \t"))
		after, ok := strings.CutPrefix(strings.TrimLeft(after, " \t"), "=")
		if name == "" || !ok {
			return scheme, params
		}
		value, end := word(strings.TrimLeft(after, " \t"))
		if quoted, err := strconv.QuotedPrefix(end); value == "" && err == nil {
			if value, err = strconv.Unquote(quoted); err != nil {
				return scheme, params
			}
			end = end[len(quoted):]
		} else if value == "" {
			return scheme, params
		}
		params[name] = value
		if rest, ok = strings.CutPrefix(strings.TrimLeft(end, " \t"), ","); !ok {
			return scheme, params
		}
	}
}

// word is the token of HTTP at the beginning of a text.
func word(s string) (token, rest string) {
	i := strings.IndexFunc(s, func(c rune) bool {
		return !strings.ContainsRune(portable.Letters+portable.Digits+"!#$%&'*+-.^_`|~", c)
	})
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// merge joins scopes: each resource once, with all that is to be done with it, in order.
func merge(a, b []string) (all []string) {
	actions := map[string][]string{}
	for _, scope := range append(slices.Clone(a), b...) {
		i := strings.LastIndexByte(scope, ':')
		if i < 0 || !strings.Contains(scope[:i], ":") {
			all = append(all, scope)
			continue
		}
		actions[scope[:i]] = append(actions[scope[:i]], strings.FieldsFunc(scope[i+1:], func(c rune) bool {
			return c == ','
		})...)
	}
	for resource, do := range actions {
		if slices.Contains(do, "*") {
			do = []string{"*"}
		}
		if slices.Sort(do); len(do) > 0 {
			all = append(all, resource+":"+strings.Join(slices.Compact(do), ","))
		}
	}
	slices.Sort(all)
	return all
}
