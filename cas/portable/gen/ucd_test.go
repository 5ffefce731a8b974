package gen

import (
	"bufio"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A record is one line of a file of the database: a range of code points and the fields after it.
type record struct {
	lo, hi rune
	fields []string
}

// read returns the records of a file after checking that its first line names the wanted version.
func read(ucd fs.FS, name, version string) ([]record, error) {
	f, err := ucd.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	head := "# " + strings.TrimSuffix(path.Base(name), ".txt") + "-" + version + ".txt"
	if !s.Scan() || s.Text() != head {
		return nil, fmt.Errorf("%q: first line is %q, expected %q", name, s.Text(), head)
	}
	var records []record
	for line := 2; s.Scan(); line++ {
		text, _, _ := strings.Cut(s.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		fields := strings.Split(text, ";")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		lo, hi, err := codeRange(fields[0])
		if err != nil || len(fields) < 2 {
			return nil, fmt.Errorf("%q line %d: not a record: %q", name, line, s.Text())
		}
		records = append(records, record{lo, hi, fields[1:]})
	}
	return records, s.Err()
}

// codeRange reads "0041" or "0041..005A".
func codeRange(s string) (lo, hi rune, err error) {
	first, last, isRange := strings.Cut(s, "..")
	if !isRange {
		last = first
	}
	if lo, err = codePoint(first); err != nil {
		return 0, 0, err
	}
	hi, err = codePoint(last)
	return lo, hi, err
}

func codePoint(s string) (rune, error) {
	n, err := strconv.ParseUint(s, 16, 21)
	return rune(n), err
}
