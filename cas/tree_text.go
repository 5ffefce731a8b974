package cas

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/rye-build/rye/cas/canon"
)

// treeSpec is the document that the package comment shows.
var treeSpec = canon.Spec{
	Format: "tree/2",
	Sections: []canon.Section{
		{Name: "files", Fields: []canon.Field{
			{Name: "digest", Max: int64(len(prefix) + 2*Size)},
			{Name: "size", Type: canon.Int},
			{Name: "mode", Max: int64(len("file"))},
		}},
		{Name: "dirs", Fields: []canon.Field{
			{Name: "digest", Max: int64(len(prefix) + 2*Size)},
		}},
	},
	MaxBytes:   MaxTreeBytes,
	MaxEntries: MaxTreeEntries,
}

const (
	inFiles = iota // the sections
	inDirs
)

const (
	atDigest = iota // the fields
	atSize
	atMode
)

// A treeCoder is the memory for writing or reading one tree.
type treeCoder struct {
	scan  *canon.Scanner
	names []byte  // the names read so far, concatenated
	ends  []int32 // of each name in names
	dirs  []Entry // the directories read so far
	folds []byte  // see checkTree
	spans []span
}

// coders is shared by all goroutines. Writing the tree of a directory takes a few microseconds even in a large
// project, and allocating this memory would be most of them.
var coders = sync.Pool{New: func() any {
	return &treeCoder{scan: canon.NewScannerBytes(nil, &treeSpec)}
}}

// maxPooled bounds the memory that the pool keeps after an unusually large tree.
const maxPooled = 1 << 20

// release returns c to the pool, without references to a caller's data.
func (c *treeCoder) release() {
	c.scan.ResetBytes(nil)
	clear(c.dirs)
	if cap(c.names) > maxPooled || cap(c.folds) > maxPooled {
		return
	}
	coders.Put(c)
}

// AppendTree appends the tree with these entries to dst. The entries must be sorted by the bytes of their names.
// For an invalid entry AppendTree returns a *TreeError and appends nothing. It allocates nothing if dst has room
// and all names are ASCII.
func AppendTree(dst []byte, entries []Entry) ([]byte, error) {
	c := coders.Get().(*treeCoder)
	defer c.release()
	if i, err := c.checkTree(entries); err != nil {
		return dst, &TreeError{Name: entries[i].Name, Err: err}
	}
	start, size := len(dst), len(treeFormat)+len(filesLine)+len(dirsLine)
	for i := range entries {
		size += len(entries[i].Name) + maxLine
	}
	if room := cap(dst) - start; room < size-len(entries)*len(maxSize) {
		dst = slices.Grow(dst, size)
	}
	out := append(dst, treeFormat...)
	out = appendSection(out, entries, filesLine, false)
	out = appendSection(out, entries, dirsLine, true)
	if len(entries) > MaxTreeEntries || len(out)-start > MaxTreeBytes {
		return dst, errTooLarge
	}
	return out, nil
}

// The constant text of a tree. checkTree accepts no name that would need an escape.
const (
	treeFormat = "rye: \"tree/2\"\n"
	filesLine  = "files:\n"
	dirsLine   = "dirs:\n"
	beginName  = "  \""
	beginHash  = "\": {digest: \"" + prefix
	beginSize  = "\", size: "
	endFile    = ", mode: \"file\"}\n"
	endExec    = ", mode: \"exec\"}\n"
	endDir     = "\"}\n"
	maxSize    = "9007199254740991"
	maxLine    = len(beginName+beginHash+beginSize+maxSize+endFile) + 2*Size // without the name
)

var errTooLarge = fmt.Errorf("tree: larger than %d entries or %d bytes", MaxTreeEntries, MaxTreeBytes)

// appendSection appends the directories, or all other entries, below a heading. Without entries it appends nothing.
func appendSection(dst []byte, entries []Entry, heading string, dirs bool) []byte {
	var text [2 * Size]byte
	for i := range entries {
		entry := &entries[i]
		if entry.Mode == Dir != dirs {
			continue
		}
		dst = append(append(dst, heading...), beginName...)
		heading = ""
		dst = append(append(dst, entry.Name...), beginHash...)
		putHex(&text, &entry.Digest)
		dst = append(dst, text[:]...)
		switch entry.Mode {
		case Dir:
			dst = append(dst, endDir...)
		case File:
			dst = append(strconv.AppendInt(append(dst, beginSize...), entry.Size, 10), endFile...)
		case Exec:
			dst = append(strconv.AppendInt(append(dst, beginSize...), entry.Size, 10), endExec...)
		}
	}
	return dst
}

// ParseTree appends the entries of the tree b to dst, sorted by name. It accepts only bytes that AppendTree writes.
// For others it returns a *canon.SyntaxError, a *canon.VersionError or a *TreeError, and appends nothing. The
// entries don't refer to b.
func ParseTree(dst []Entry, b []byte) ([]Entry, error) {
	c := coders.Get().(*treeCoder)
	defer c.release()
	return c.parse(dst, b)
}

// DecodeTree checks all of b, then calls visit for each entry of the tree, sorted by name. It ends with the first
// error of visit.
func DecodeTree(b []byte, visit func(Entry) error) error {
	entries, err := ParseTree(nil, b)
	if err != nil {
		return err
	}
	for i := range entries {
		if err := visit(entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *treeCoder) parse(dst []Entry, b []byte) ([]Entry, error) {
	if out, ok := c.quick(dst, b); ok {
		return out, nil
	}
	return c.slow(dst, b)
}

// quick parses a valid tree. If ok is false, slow parses the bytes again and finds the error.
func (c *treeCoder) quick(dst []Entry, data []byte) (out []Entry, ok bool) {
	if len(data) > MaxTreeBytes || !bytes.HasPrefix(data, []byte(treeFormat)) {
		return nil, false
	}
	c.begin()
	data = data[len(treeFormat):]
	first := len(dst)
	if bytes.HasPrefix(data, []byte(filesLine)) {
		if dst, data, ok = c.quickSection(dst, data[len(filesLine):], false); !ok {
			return nil, false
		}
	}
	if bytes.HasPrefix(data, []byte(dirsLine)) {
		if c.dirs, data, ok = c.quickSection(c.dirs, data[len(dirsLine):], true); !ok {
			return nil, false
		}
	}
	if len(data) > 0 || len(c.ends) > MaxTreeEntries {
		return nil, false
	}
	dst, _, err := c.finish(dst, first)
	return dst, err == nil
}

// quickSection reads one or more entries up to the end of their section.
func (c *treeCoder) quickSection(dst []Entry, data []byte, dirs bool) (out []Entry, rest []byte, ok bool) {
	for bytes.HasPrefix(data, []byte(beginName)) {
		data = data[len(beginName):]
		n := bytes.IndexByte(data, '"')
		if n < 0 || len(data) < n+len(beginHash)+2*Size || string(data[n:n+len(beginHash)]) != beginHash {
			return nil, nil, false
		}
		c.names = append(c.names, data[:n]...)
		c.ends = append(c.ends, int32(len(c.names)))
		data = data[n+len(beginHash):]
		dst = append(dst, Entry{Mode: Dir})
		e := &dst[len(dst)-1]
		if !getHex(&e.Digest, (*[2 * Size]byte)(data)) {
			return nil, nil, false
		}
		data = data[2*Size:]
		if dirs {
			if !bytes.HasPrefix(data, []byte(endDir)) {
				return nil, nil, false
			}
			data = data[len(endDir):]
		} else if data, ok = e.quickFile(data); !ok {
			return nil, nil, false
		}
		ok = true
	}
	return dst, data, ok
}

// quickFile reads the fields that only files have.
func (e *Entry) quickFile(data []byte) (rest []byte, ok bool) {
	if !bytes.HasPrefix(data, []byte(beginSize)) {
		return nil, false
	}
	data = data[len(beginSize):]
	i := 0
	for ; i < len(data) && i < 16 && '0' <= data[i] && data[i] <= '9'; i++ {
		e.Size = e.Size*10 + int64(data[i]-'0')
	}
	if i == 0 || i > 1 && data[0] == '0' {
		return nil, false
	}
	switch data = data[i:]; {
	case bytes.HasPrefix(data, []byte(endFile)):
		e.Mode = File
	case bytes.HasPrefix(data, []byte(endExec)):
		e.Mode = Exec
	default:
		return nil, false
	}
	return data[len(endFile):], true
}

// begin prepares c for reading a tree.
func (c *treeCoder) begin() { c.names, c.ends, c.dirs = c.names[:0], c.ends[:0], c.dirs[:0] }

// finish assembles the tree from the files in dst, from first on, and the directories and names in c. bad is the
// index of the entry that err is about.
func (c *treeCoder) finish(dst []Entry, first int) (out []Entry, bad int, err error) {
	c.name(dst[first:], c.dirs)
	dst = merge(dst, first, c.dirs)
	bad, err = c.checkTree(dst[first:])
	return dst, first + bad, err
}

// slow parses a tree with a Scanner, which reports errors with their lines.
func (c *treeCoder) slow(dst []Entry, b []byte) ([]Entry, error) {
	scanner := c.scan
	scanner.ResetBytes(b)
	if scanner.Header() && len(scanner.Comments()) > 0 {
		return dst, scanner.Errorf("signature lines are not allowed in a tree")
	}
	c.begin()
	first := len(dst)
	for scanner.Scan() {
		e, err := c.entry()
		if err != nil {
			return dst[:first], &TreeError{Line: scanner.Line(), Name: string(scanner.Key()), Err: err}
		}
		c.names = append(c.names, scanner.Key()...)
		c.ends = append(c.ends, int32(len(c.names)))
		if e.Mode == Dir {
			c.dirs = append(c.dirs, e)
		} else {
			dst = append(dst, e)
		}
	}
	if err := scanner.Err(); err != nil {
		return dst[:first], err
	}
	dst, bad, err := c.finish(dst, first)
	if err != nil {
		return dst[:first], &TreeError{Line: lineOf(dst[first:], bad-first), Name: dst[bad].Name, Err: err}
	}
	return dst, nil
}

// entry returns the scanner's current entry, without its name.
func (c *treeCoder) entry() (entry Entry, err error) {
	s := c.scan
	if entry.Digest, err = ParseDigest(s.Str(atDigest)); err != nil {
		return entry, err
	}
	if s.Section() == inDirs {
		entry.Mode = Dir
		return entry, nil
	}
	entry.Size = s.Int(atSize)
	switch string(s.Str(atMode)) {
	case "file":
		entry.Mode = File
	case "exec":
		entry.Mode = Exec
	default:
		return entry, errMode
	}
	return entry, nil
}

// name sets the names of the entries. All names share one allocation.
func (c *treeCoder) name(files, dirs []Entry) {
	names, from := string(c.names), int32(0)
	for i, end := range c.ends {
		name := names[from:end]
		from = end
		if i < len(files) {
			files[i].Name = name
		} else {
			dirs[i-len(files)].Name = name
		}
	}
}

// merge inserts dirs into the entries of dst from first on. Both are sorted; merge works from the end.
func merge(dst []Entry, first int, dirs []Entry) []Entry {
	f := len(dst) - 1
	dst = append(dst, dirs...)
	d := len(dirs) - 1
	for i := len(dst) - 1; d >= 0 && f >= first; i-- {
		if dst[f].Name > dirs[d].Name {
			dst[i] = dst[f]
			f--
		} else {
			dst[i] = dirs[d]
			d--
		}
	}
	copy(dst[first:], dirs[:d+1])
	return dst
}

// lineOf returns the line number of entry i. The order is: the format line, the heading and the lines of files, the
// heading and the lines of directories.
func lineOf(entries []Entry, i int) int {
	isDir := entries[i].Mode == Dir
	line := 3
	if isDir && slices.ContainsFunc(entries, func(e Entry) bool { return e.Mode != Dir }) {
		line++
	}
	for j := range entries {
		if entries[j].Mode == Dir != isDir && isDir || entries[j].Mode == Dir == isDir && j < i {
			line++
		}
	}
	return line
}
