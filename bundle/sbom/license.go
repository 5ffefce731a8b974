package sbom

import "strings"

// known are names of licences on SPDX's list that are in use. What isn't here is written as a text of its own, which is
// never wrong.
var known = set(`0BSD AFL-3.0 AGPL-3.0-only AGPL-3.0-or-later Apache-1.1 Apache-2.0 Artistic-2.0 BSD-1-Clause BSD-2-Clause
	BSD-2-Clause-Patent BSD-3-Clause BSD-3-Clause-Clear BSD-4-Clause BSL-1.0 BlueOak-1.0.0 CC-BY-3.0 CC-BY-4.0
	CC-BY-NC-4.0 CC-BY-NC-SA-4.0 CC-BY-ND-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC0-1.0 CDDL-1.0 CDDL-1.1 CECILL-2.1 ECL-2.0 EPL-1.0
	EPL-2.0 EUPL-1.1 EUPL-1.2 GFDL-1.3-only GFDL-1.3-or-later GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later ISC
	LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later MIT MIT-0 MPL-1.1 MPL-2.0 MS-PL MulanPSL-2.0 NCSA
	OFL-1.1 OSL-3.0 PostgreSQL Python-2.0 Unlicense UPL-1.0 WTFPL Zlib`)

var knownExceptions = set(`Autoconf-exception-3.0 Bison-exception-2.2 Classpath-exception-2.0 GCC-exception-3.1 LLVM-exception`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// maxNesting is how deep parentheses may stand in an expression.
const maxNesting = 20

// isExpression reports whether a text is an expression by SPDX 2.3, appendix D, of names that are known.
//
//	expression = term *((" AND " / " OR ") term)
//	term       = "(" expression ")" / license [" WITH " exception]
func isExpression(text string) bool {
	text = strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)
	e := expression{words: strings.Fields(text)}
	return e.expression(0) && len(e.words) == 0
}

type expression struct{ words []string }

func (e *expression) take() (word string) {
	if len(e.words) > 0 {
		word, e.words = e.words[0], e.words[1:]
	}
	return word
}

func (e *expression) next(words ...string) bool {
	for _, w := range words {
		if len(e.words) > 0 && e.words[0] == w {
			e.take()
			return true
		}
	}
	return false
}

func (e *expression) expression(depth int) bool {
	if !e.term(depth) {
		return false
	}
	for e.next("AND", "OR") {
		if !e.term(depth) {
			return false
		}
	}
	return true
}

func (e *expression) term(depth int) bool {
	if e.next("(") {
		return depth < maxNesting && e.expression(depth+1) && e.next(")")
	}
	name := e.take()
	if !known[name] && !known[strings.TrimSuffix(name, "+")] {
		return false
	}
	return !e.next("WITH") || knownExceptions[e.take()]
}
