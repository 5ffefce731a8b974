// Package query is the language of searches: queries, scopes, words, and the places of a query's words in a text.
//
// # How a query goes through here
//
// Parse reads a query with a queryParser into Nodes, and ParseScope reads a scope. A search indexes texts with
// Tokenizer.Each, and matches terms with Node.Looks and phrases with Node.Occurrences. Places finds the words in a
// result's text, and Cut makes a Snippet of it.
//
// # Queries
//
//	shell command            both words, anywhere in a record; so does shell AND command
//	shell OR bash            either
//	NOT shell, -shell        not that word
//	(read OR write) -bash    parentheses
//	"run a command"          the words in a row, in one field
//	"run command"~5          both, in any order, at most five words apart from the first to the last; ~ alone is ~5
//	deploy*, *sys*, wr?te    any characters, one character
//	kubernets~, kubernets~2  words at most one or two typing errors away: a letter left out, added or replaced, or
//	                         two neighbours swapped
//	name:bash                the word in that field; also name:"a b", name:(a OR b), name:ba*
//
//	or     = and { "OR" and }
//	and    = not { [ "AND" ] not }
//	not    = "NOT" not | "-" not | [ field ":" ] ( word | phrase | "(" or ")" )
//
// NOT binds strongest, then AND, then OR. AND, OR and NOT are operators only in upper case: in lower case they are
// words, because people write sentences (RYE takes them in any case). A minus before another minus isn't an operator:
// --json is a word. In quotes everything is text but \" and \\. An empty query finds everything. A quote or
// parenthesis that is not closed, an operator without something on either side, or a word without a letter or digit
// is a *ParseError, with the column and what may help; it never means "everything".
//
// Fields are letters, then letters, digits, "_", "-" and "."; case doesn't count. A text with a colon needs quotes.
//
// # Words
//
// A word is letters and digits (and marks on them), compared without case by Unicode's simple folding; composed and
// decomposed characters are different. Han, Hiragana and Katakana characters are words of their own. Words joined by
// one "_", "-", "." or "/" are found by each of them, and wildcards and ~ also see the whole and the parts between
// slashes: rye/file-system is rye, file, system, file-system and rye/file-system. In a query such joined words are a
// phrase, so that file-system finds "file system". After 100 bytes a word is cut; longer wholes are left out.
package query
