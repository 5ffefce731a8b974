package portable

import "strings"

// stem returns the part of a name that Windows compares with devices and short names: up to the first dot behind
// the leading ones, without spaces at its end.
func stem(name string) string {
	front := 0
	for front < len(name) && name[front] == '.' {
		front++
	}
	if dot := strings.IndexByte(name[front:], '.'); dot >= 0 {
		name = name[:front+dot]
	}
	return strings.TrimRight(name, " ")
}

// device reports whether Windows opens a device instead of a file of this name, in any directory.
func device(name string) bool {
	if len(name) < 3 {
		return false
	}
	switch head(name) {
	case 'a'<<16 | 'u'<<8 | 'x', 'n'<<16 | 'u'<<8 | 'l', 'p'<<16 | 'r'<<8 | 'n':
		return len(stem(name)) == 3
	case 'c'<<16 | 'o'<<8 | 'n':
		rest := stem(name)[3:]
		return rest == "" || equalFold(rest, "in$") || equalFold(rest, "out$")
	case 'c'<<16 | 'o'<<8 | 'm', 'l'<<16 | 'p'<<8 | 't':
		switch rest := stem(name)[3:]; len(rest) {
		case 1:
			return '0' <= rest[0] && rest[0] <= '9'
		case 2:
			return rest == "¹" || rest == "²" || rest == "³"
		}
	case 'c'<<16 | 'l'<<8 | 'o':
		return equalFold(stem(name), "clock$")
	}
	return false
}

// head returns the first three bytes, in ASCII lower case, as one number.
func head(name string) uint32 {
	return uint32(lower(name[0]))<<16 | uint32(lower(name[1]))<<8 | uint32(lower(name[2]))
}

// equalFold reports whether name is want in ASCII lower case.
func equalFold(name, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i := 0; i < len(want); i++ {
		if lower(name[i]) != want[i] {
			return false
		}
	}
	return true
}

// shortName reports whether the stem ends in "~" and digits. The part before "~" may be empty or longer than eight
// characters, because file systems choose short names in different ways.
func shortName(name string) bool {
	s := stem(name)
	front := strings.TrimRight(s, digits)
	return len(front) < len(s) && strings.HasSuffix(front, "~")
}

// droppingNames holds, by length, the folded names of files and directories that version control, language tools
// and desktops create, and of rye's own working directory.
var droppingNames = [...][]string{
	3:  {".hg", ".jj"},
	4:  {".bzr", ".git", ".rye", ".svn"},
	5:  {".venv", "icon\r"},
	7:  {".apdisk"},
	8:  {".appledb", ".trashes", "__macosx"},
	9:  {".ds_store", "thumbs.db"},
	10: {".fseventsd", "lost+found"},
	11: {".lsoverride", "__pycache__", "desktop.ini", "ehthumbs.db"},
	12: {"$recycle.bin", ".appledouble", "node_modules"},
	13: {".appledesktop"},
	15: {".spotlight-v100", ".temporaryitems"},
	17: {"ehthumbs_vista.db"},
	23: {".documentrevisions-v100"},
	25: {"system volume information"},
}

// Droppings reports whether a file or directory of this name is left out when a tree is made, and refused in a
// received tree: the directories of version control, __pycache__, node_modules, .venv, leftovers of desktops and
// network file systems, and rye's own temporary directories. It compares folded names. Callers call it before
// CheckName, because some of these names are not portable.
func Droppings(name string) bool {
	var buf [32]byte
	if !isASCII(name) {
		b, ok := foldASCII(buf[:0], name)
		if !ok {
			return false
		}
		name = string(b)
	}
	return dropping(name)
}

// dropping is Droppings for an ASCII name.
func dropping(name string) bool {
	if len(name) < len(droppingNames) {
		for _, d := range droppingNames[len(name)] {
			if lower(name[0]) == d[0] && equalFold(name, d) {
				return true
			}
		}
	}
	return len(name) > 2 && name[0] == '.' && droppingPrefix(name)
}

// droppingPrefix reports whether a name that begins with a dot has one of the prefixes that systems complete with a
// number, or is the other half of a Macintosh file (AppleDouble).
func droppingPrefix(name string) bool {
	switch lower(name[1]) {
	case '_':
		return true
	case 'r', 't', 'n', 'f':
	default:
		return false
	}
	for _, rule := range [...]struct {
		prefix, rest string
		min          int
	}{
		{".rye-tmp-", "", 0},
		{".trash-", digits, 1},
		{".nfs", hexDigits, 8},
		{".fuse_hidden", hexDigits, 8},
	} {
		if len(name) < len(rule.prefix)+rule.min || !equalFold(name[:len(rule.prefix)], rule.prefix) {
			continue
		}
		return rule.rest == "" || strings.Trim(name[len(rule.prefix):], rule.rest) == ""
	}
	return false
}

const (
	digits    = "0123456789"
	hexDigits = "0123456789abcdefABCDEF"
)
