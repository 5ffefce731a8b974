package starlark

import (
	"fmt"
	"net/url"
	"strings"

	star "go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"golang.org/x/net/html"
)

const (
	// MaxTokens bounds the tokens of a page, and maxAttributes the attributes of one tag.
	MaxTokens     = 1 << 20
	maxAttributes = 64
)

// pages returns the module html.
func pages() star.Value { return functions("html", map[string]call{"tokens": tokens}) }

// tokens implements html.tokens(text): the tokens of a page, each a tuple: ("text", text), ("start" or "alone", name,
// dict of attributes), ("end", name). It parses invalid HTML as browsers do.
func tokens(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var text string
	if err := star.UnpackArgs(b.Name(), args, named, "text", &text); err != nil {
		return nil, err
	}
	all := new(star.List)
	for tokenizer := html.NewTokenizer(strings.NewReader(text)); ; {
		kind := tokenizer.Next()
		if all.Len() == MaxTokens && kind != html.ErrorToken {
			return nil, fmt.Errorf("the page has more than %d tokens", MaxTokens)
		}
		var token star.Tuple
		switch kind {
		case html.ErrorToken: // the end
			return all, nil
		case html.TextToken:
			token = star.Tuple{star.String("text"), utf8Text(tokenizer.Text())}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := tokenizer.TagName()
			what := star.String("start")
			if kind == html.SelfClosingTagToken {
				what = "alone"
			}
			token = star.Tuple{what, utf8Text(name), attributes(tokenizer, more)}
		case html.EndTagToken:
			name, _ := tokenizer.TagName()
			token = star.Tuple{star.String("end"), utf8Text(name)}
		default: // comments and doctypes
			continue
		}
		if err := all.Append(token); err != nil {
			return nil, err
		}
	}
}

// attributes returns the attributes of the current tag. Among several with one name the first counts.
func attributes(z *html.Tokenizer, more bool) *star.Dict {
	dict := new(star.Dict)
	for n := 0; more && n < maxAttributes; n++ {
		var key, value []byte
		key, value, more = z.TagAttr()
		name := utf8Text(key)
		if _, again, _ := dict.Get(name); !again {
			dict.SetKey(name, utf8Text(value))
		}
	}
	return dict
}

func utf8Text(b []byte) star.String { return star.String(strings.ToValidUTF8(string(b), "\ufffd")) }

// addresses returns the module url.
func addresses() star.Value {
	return functions("url", map[string]call{"join": join, "parse": parse})
}

// join implements url.join(base, ref): the address of ref on a page at base; None if it is invalid.
func join(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var base, ref string
	if err := star.UnpackArgs(b.Name(), args, named, "base", &base, "ref", &ref); err != nil {
		return nil, err
	}
	from, err := url.Parse(base)
	if err != nil {
		return star.None, nil
	}
	to, err := from.Parse(ref)
	if err != nil {
		return star.None, nil
	}
	return star.String(to.String()), nil
}

// parse implements url.parse(text): a struct of scheme, host, path and query, a dict of the first value of each name;
// None if the address is invalid.
func parse(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var text string
	if err := star.UnpackArgs(b.Name(), args, named, "text", &text); err != nil {
		return nil, err
	}
	address, err := url.Parse(text)
	if err != nil {
		return star.None, nil
	}
	query := new(star.Dict)
	for part := range strings.SplitSeq(address.RawQuery, "&") {
		key, value, _ := strings.Cut(part, "=")
		k, err := url.QueryUnescape(key)
		if err != nil || k == "" {
			continue
		}
		v, err := url.QueryUnescape(value)
		if err != nil {
			continue
		}
		name := utf8Text([]byte(k))
		if _, again, _ := query.Get(name); !again {
			query.SetKey(name, utf8Text([]byte(v)))
		}
	}
	return starlarkstruct.FromStringDict(starlarkstruct.Default, star.StringDict{
		"scheme": star.String(address.Scheme), "host": utf8Text([]byte(address.Host)),
		"path":  utf8Text([]byte(address.Path)),
		"query": query,
	}), nil
}
