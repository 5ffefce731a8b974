//go:build peers

package python_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A generator makes Python files that hold what a reader stumbles over. CPython accepts nearly all of them.
type generator struct{ *rand.Rand }

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) name() string {
	return g.one("A", "B", "CONFIG", "ENV_CONFIG", "__version__", "__category__", "_x", "name2", "match", "type",
		"ünï", "ﬁ", "A_B")
}

// space is what may stand between tokens.
func (g *generator) space() string { return g.one("", "", "", " ", "  ", "\t", " \\\n", "\f") }

// gap is what may stand between tokens in brackets.
func (g *generator) gap() string {
	return g.one("", "", " ", "\n", "\n  # a ' comment (\n\t", " \\\n", "\nA = 1,\n"[:1])
}

func (g *generator) text() string {
	prefix := g.one("", "", "", "", "r", "R", "u", "U")
	quote := g.one(`"`, `'`, `"""`, `'''`)
	var b strings.Builder
	for range g.IntN(6) {
		part := g.one("a", "é", "\u2028", "😀", " ", "#", "{", "A = 1", `"`, `'`, "\n", "\nA = 7\n", `\\`, `\n`, `\t`,
			`\'`, `\"`,
			"\\\n", `\x41`, `\101`, `\0`, `\777`, `\u00e9`, `\U0001f600`, `\q`, `\8`, `\ `, "'''", `"""`, `\N{DASH}`,
			`\ud800`, `\v\a\b\f\r`)
		raw := prefix == "r" || prefix == "R"
		switch {
		case strings.Contains(part, quote[:1]) && part[0] != '\\':
			continue
		case len(quote) == 1 && strings.Contains(part, "\n") && part != "\\\n":
			continue
		case part == `\N{DASH}` && !raw:
			part = g.one(`\N{EM DASH}`, "x", "x", "x")
		case part == `\ud800` && !raw:
			part = g.one(part, "y", "y", "y")
		}
		b.WriteString(part)
	}
	return prefix + quote + b.String() + quote
}

func (g *generator) number() string {
	return g.one("0", "00", "1", "42", "1_000", "0x1F", "0XaB_c", "0o17", "0b1_01", "123456789012345678901234567890",
		"0xFFFFFFFFFFFFFFFFFFFF", "1.5", "1.", ".5", "0.1", "1e16", "1E-7", "1e5", "1_0.0_1e1_0", "5e-324",
		"1.7976931348623157e308",
		"123456789.123456789", "1e22", "0.0", "0e0", "1e15", "0777.5", "1e999", "1j", "0.00001", "1e400j")
}

// literal is a literal, or nearly one.
func (g *generator) literal(depth int) string {
	if depth > 4 {
		return g.one("1", "''", "None")
	}
	switch g.IntN(14) {
	case 0, 1, 2:
		return g.text()
	case 3:
		s := g.text()
		for range g.IntN(3) {
			s += g.gap() + " " + g.text()
		}
		return "(" + s + ")"
	case 4, 5:
		return g.number()
	case 6:
		return g.one("-", "+", "- ") + g.one(g.number(), "("+g.number()+")")
	case 7:
		return g.one("None", "True", "False")
	case 8:
		return "(" + g.gap() + g.literal(depth+1) + g.gap() + ")"
	case 9:
		return g.row("(", ")", 2, depth)
	case 10:
		return g.row("[", "]", 0, depth)
	case 11:
		return g.one("set()", g.row("{", "}", 1, depth))
	}
	return g.dict(depth)
}

func (g *generator) row(open, end string, least, depth int) string {
	var b strings.Builder
	n := least + g.IntN(4)
	b.WriteString(open)
	for i := range n {
		b.WriteString(g.gap() + g.literal(depth+1) + g.gap())
		if i < n-1 || g.IntN(3) == 0 {
			b.WriteString(",")
		}
	}
	return b.String() + g.gap() + end
}

func (g *generator) dict(depth int) string {
	var b strings.Builder
	n := g.IntN(4)
	if g.IntN(20) == 0 {
		n = 40
	}
	b.WriteString("{")
	for i := range n {
		key := g.one(`"a"`, `'b'`, `"c" "d"`, `("e")`, "r'f'", `""`, fmt.Sprintf("'k%d'", g.IntN(100)))
		if g.IntN(30) == 0 {
			key = g.one("1", "None", "b'x'", "(1, 2)", "[1]", "*x")
		}
		b.WriteString(g.gap() + key + g.gap() + ":" + g.gap() + g.literal(depth+1) + g.gap())
		if i < n-1 || g.IntN(2) == 0 {
			b.WriteString(",")
		}
	}
	return b.String() + g.gap() + "}"
}

// expression is no literal.
func (g *generator) expression() string {
	return g.one("f()", `f"x"`, `f'{x!r:>{w}} {{}} {d["a"]}'`, `f"""{
x}"""`, `rf'{x:\d}'`, "b'x'", `"a" f"b"`, "x + 1", `"a" + "b"`, `"a" % 1`, "1 if x else 2", "1if x else 2", "lambda A=1, *b: A", "[1 for x in y]",
		"{**x}", "[*x]", "{'a': x}", "--1", "-True", "not 1", "...", "1 + 2j", "x[1]", "'a'.b", "{1}[0]", "()()",
		"a == 1", "A if A else 2", "{[1]}", "{{}: 1}",
		"(yield)"[1:1]+"a.b", "f(A=1)", "f(\nA=1,\n)", "f'{A=}'", "b'\\xff' b'y'", "0x1for x in y"[:3])
}

func (g *generator) simple() string {
	n, sp := g.name(), g.space
	switch g.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
		return n + sp() + "=" + sp() + g.literal(0)
	case 6:
		return n + sp() + ":" + sp() + g.one("int", "'int'", "dict[str, int]",
			"x if y else z") + sp() + "=" + sp() + g.literal(0)
	case 7:
		return n + " = " + g.expression()
	case 8:
		return g.one(n+": int", n+" += 1", n+" = A = 1", "A, "+n+" = 1, 2", "(A, [*"+n+", b.c]) = x", n+".a = 1",
			n+"[A] = 2", n+"[0], B = 1, 2",
			"(A, B)[0].c = 1", "("+n+") = 1", "(("+n+")) = 'p'", "("+n+"): int = 3", n+" //= 2", n+" <<= 1", "[A] = x",
			"f(A).b = B = 2", n+" = 1, 2", n+" = 1,")
	case 9:
		return g.one("del "+n, "del ("+n+"), x[A]", "import os", "import "+n, "import a.b as "+n, "from x import *",
			"from .x import (a as "+n+", B,)",
			"import A.b, c", "from . import "+n)
	case 10:
		return g.one("pass", "print(A)", "'text'", "x == 1", "assert A, 'b'", "x", "(A := 3)", "lambda: 0", "f(A=1)",
			"A < 1", "(\nA\n)", "global A"[:0]+"...")
	case 11:
		return n + " = " + g.literal(0) + sp() + "; " + g.name() + "=" + g.literal(2)
	case 12:
		return n + " = 1" + " # " + g.one("comment", "'''", "\\", "(")
	}
	return n + " = " + g.literal(0)
}

func (g *generator) compound() string {
	in := g.one("  ", "\t", "    ", "\t  ")
	body := "\n" + in + "A = 5\n" + in + g.one("pass", "x = '''\nA = 8\n'''", "f(\nA = 1\n)",
		"if x:\n"+in+in+"B = 1\n"+in+in+"C = 2", "# c\n\n"+in+"y = [\n]",
		"if x: pass\n# c\n"+in+"else: pass", "x = 1 \\\n+ 2")
	n := g.name()
	return g.one("def "+n+"(a=1, *, b: int = 2) -> 'x':"+body, "class "+n+"(B):"+body, "if x:"+body+"\nelse:"+body,
		"for A in y:"+body, "async def "+n+"():"+body,
		"@dec(A=1)\n@d\ndef f():"+body, "with x as A:"+body, "try:"+body+"\nexcept E as e:"+body+"\nfinally: pass",
		"if x: A = 1; B = 2", "while x: A = 2", "class "+n+": pass",
		"match x:\n"+in+"case {'a': A}:\n"+in+in+"A = 1\n"+in+"case _: pass", "def "+n+"(): return 1",
		"for x in y: A = 1", "try: A = 1\nexcept: pass", "if x:\n"+in+"pass\nelif y: A = 1",
		"if (x and\ny):"+body)
}

// file makes a file.
func (g *generator) file() string {
	var b strings.Builder
	b.WriteString(g.one("", "", "", "\ufeff", "#!/usr/bin/env python3\n", "# -*- coding: utf-8 -*-\n",
		"\n# vim: set fileencoding=UTF_8 :\n", "\f\n", "\n\n"))
	b.WriteString(g.one("", "", g.text()+"\n", `"""Doc.`+"\nA = 9\n__version__ = '9'\n"+`"""`+"\n", "'a' 'b'; A = 1\n",
		"('x'\n'y')\n", "f'no'\n", "b'no'\n"))
	for range g.IntN(12) {
		if g.IntN(4) == 0 {
			b.WriteString(g.compound())
		} else {
			b.WriteString(g.simple())
		}
		b.WriteString(g.one("\n", "\n", "\n", "\n\n", " # c\n", "\n\f\n", "\n  # indented\n", "\n\t\n"))
	}
	b.WriteString(g.one("", "A = 3", "# end", "if x: pass", "   ", "A = 'x' \\\n'y'"))
	s := b.String()
	switch g.IntN(10) {
	case 0:
		s = strings.ReplaceAll(s, "\n", "\r\n")
	case 1:
		s = strings.ReplaceAll(s, "\n", "\r")
	}
	return s
}

// spoil changes a few bytes.
func (g *generator) spoil(s string) string {
	if s == "" {
		return g.simple()
	}
	b := []byte(s)
	for range 1 + g.IntN(2) {
		i := g.IntN(len(b))
		switch g.IntN(4) {
		case 0:
			b = append(b[:i:i], b[min(len(b), i+1+g.IntN(3)):]...)
		case 1:
			b = append(b[:i:i], append([]byte(g.one("'", `"`, "(", ")", "\\", "\n", " ", "\t", "=", ":", ",", "#", "1",
				"_", ".", "f", "{", "}", ";", "e", "0x", "\n ")), b[i:]...)...)
		case 2:
			j := g.IntN(len(b))
			b[i], b[j] = b[j], b[i]
		case 3:
			j := min(len(b), i+g.IntN(30))
			b = append(b[:j:j], append([]byte(string(b[i:j])), b[j:]...)...)
		}
		if len(b) == 0 {
			return "A = 1"
		}
	}
	return string(b)
}
