package portable

import "strings"

// stem returns what Windows looks at for a device or a short name: up to the first dot that isn't in front,
// without spaces at its end.
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

// equalFold reports whether name in ASCII lower case is want.
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

// shortName reports whether the stem ends in "~" and digits. There may be nothing before the "~" and there is
// no limit of eight: what exactly a file system makes up for a name is its own affair.
func shortName(name string) bool {
	s := stem(name)
	front := strings.TrimRight(s, digits)
	return len(front) < len(s) && strings.HasSuffix(front, "~")
}

// droppingNames holds, by length, the folded names of what version control, language tools and desktops
// leave behind, and of rye's own working directory.
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

// Droppings reports whether name is of a file or directory that is left out when a tree is made, and refused
// when it stands in a tree that is received: the directories of version control, __pycache__, node_modules,
// .venv, what desktops and network file systems leave behind, and rye's own temporary directories. Names are
// compared after folding. It is asked before CheckName, since some of them are not portable.
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

// droppingPrefix reports whether a name that begins with a dot is one of those whose rest is a number that
// a system made up, or the other half of a Macintosh file (AppleDouble).
func droppingPrefix(name string) bool {
	switch lower(name[1]) {
	case '_':
		return true
	case 'r', 't', 'n', 'f':
	default:
		return false
	}
	for _, p := range [...]struct {
		prefix, rest string
		min          int
	}{
		{".rye-tmp-", "", 0},
		{".trash-", digits, 1},
		{".nfs", hexDigits, 8},
		{".fuse_hidden", hexDigits, 8},
	} {
		if len(name) < len(p.prefix)+p.min || !equalFold(name[:len(p.prefix)], p.prefix) {
			continue
		}
		return p.rest == "" || strings.Trim(name[len(p.prefix):], p.rest) == ""
	}
	return false
}

const (
	digits    = "0123456789"
	hexDigits = "0123456789abcdefABCDEF"
)
