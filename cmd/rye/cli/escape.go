// Escaping of text from untrusted sources before it reaches a terminal.

package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/flags"
)

// Escape makes text of any origin safe to print. Unprintable characters (controls, line ends, escape sequences,
// changes of direction, invisible characters, invalid UTF-8) become \n, \x1b, \u202e or the like. So no name or
// message can repaint a terminal or imitate another line. With ascii, everything outside ASCII is escaped too.
func Escape(s string, ascii bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s
	}
	quote := strconv.Quote
	if ascii {
		quote = strconv.QuoteToASCII
	}
	q := flags.Reveal(quote(s))
	return unquoted.Replace(q[1 : len(q)-1])
}

// unquoted undoes the escapes that only a quoted string needs, and spells control characters in one way.
var unquoted = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\a`, `\x07`, `\b`, `\x08`, `\f`, `\x0c`, `\v`, `\x0b`)

// Styled is text that is safe to print: constant, or already escaped.
type Styled string

// escapeArgs escapes every argument of a format that isn't Styled, a number or a bool.
func escapeArgs(args []any, ascii bool) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch styled := arg.(type) {
		case Styled:
			out[i] = string(styled)
		case string:
			out[i] = Escape(styled, ascii)
		case error:
			out[i] = Escape(styled.Error(), ascii)
		case fmt.Stringer:
			out[i] = Escape(styled.String(), ascii)
		case int, int64, uint64, float64, bool:
			out[i] = styled
		default:
			out[i] = Escape(fmt.Sprint(styled), ascii)
		}
	}
	return out
}
