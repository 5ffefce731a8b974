package portable

// A class is the reason to refuse a code point, or mark for one whose neighbours need a check; 0 is neither.
type class uint8

const (
	mark class = 1 + iota // allowed: a combining mark, of non-zero combining class
	control
	ignorable
	unassigned
	surrogate
	noncharacter
	privateUse
)

// rule returns the rule that refuses the class, if any.
func (c class) rule() string {
	return [...]string{
		mark:         "",
		control:      ruleControl,
		ignorable:    ruleIgnorable,
		unassigned:   ruleUnassigned,
		surrogate:    ruleUTF8,
		noncharacter: ruleNoncharacter,
		privateUse:   rulePrivateUse,
	}[c]
}

func (c class) what() string {
	return [...]string{
		control:      "a control character or a line separator",
		ignorable:    "invisible",
		unassigned:   "not assigned in Unicode " + Unicode,
		surrogate:    "a surrogate",
		noncharacter: "not a character",
		privateUse:   "for private use",
	}[c]
}

// A span is consecutive code points of one class.
type span struct {
	lo, hi rune
	class  class
}

// classify returns the class of char, which must be at most unicode.MaxRune.
func classify(char rune) class {
	if page := uint32(char) >> 8; clean[page/64]>>(page%64)&1 == 1 || ' ' <= char && char < 0x7f {
		return 0
	}
	lo, hi := 0, len(spans)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); spans[mid].hi < char {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(spans) && spans[lo].lo <= char {
		return spans[lo].class
	}
	return 0
}

// A kind is the check that a byte requires of its segment; 0 is none. A segment's kinds are the union of its bytes'
// kinds.
type kind uint8

const (
	odd   kind = 1 << iota // forbidden, or a reason for judge: not ASCII, or "~"
	slash                  // ends the segment
)

// kinds lets Check read an ordinary path once, without a branch per byte.
var kinds = [256]kind{
	odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	'\\': odd, ':': odd, '<': odd, '>': odd, '"': odd, '|': odd, '?': odd, '*': odd, '~': odd,
	'/':  slash,
	0x7f: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	0x90: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	0xa0: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	0xb0: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	0xc0: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	0xd0: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	0xe0: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
	0xf0: odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd, odd,
}
