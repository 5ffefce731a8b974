package archive

import (
	"strconv"

	"github.com/rye-build/rye/cas"
)

const blockSize = 512

// Offsets of the fields of a header.
const (
	atMode, atUID, atGID, atSize, atTime, atSum = 100, 108, 116, 124, 136, 148
	atType, atMagic, atMajor, atMinor           = 156, 257, 329, 337

	nameSize  = 100
	octalSize = 11 // digits of a size
)

const (
	regular  = '0'
	extended = 'x'
)

// padding returns the number of zeros after a content of n bytes.
func padding(n int64) int64 { return -n & (blockSize - 1) }

var zeros [2 * blockSize]byte

// appendHeader appends the header of an entry, with its pax record if the name is long.
func appendHeader(dst []byte, name string, mode cas.Mode, size int64) []byte {
	if len(name) > nameSize {
		record := paxRecord(name)
		dst = appendBlock(dst, "pax", cas.File, int64(len(record)), extended)
		dst = append(dst, record...)
		dst = append(dst, zeros[:padding(int64(len(record)))]...)
		name = name[:nameSize]
	}
	return appendBlock(dst, name, mode, size, regular)
}

// paxRecord returns the record with an entry's name. Its length counts itself.
func paxRecord(name string) string {
	rest := " path=" + name + "\n"
	n := len(rest)
	for n != len(strconv.Itoa(n))+len(rest) {
		n = len(strconv.Itoa(n)) + len(rest)
	}
	return strconv.Itoa(n) + rest
}

func appendBlock(dst []byte, name string, mode cas.Mode, size int64, kind byte) []byte {
	from := len(dst)
	dst = append(dst, zeros[:blockSize]...)
	data := dst[from:]
	copy(data, name)
	octal(data[atMode:], 7, 0o644)
	if mode == cas.Exec {
		octal(data[atMode:], 7, 0o755)
	}
	octal(data[atUID:], 7, 0)
	octal(data[atGID:], 7, 0)
	octal(data[atSize:], octalSize, size)
	octal(data[atTime:], octalSize, 0)
	data[atType] = kind
	copy(data[atMagic:], "ustar\x0000")
	octal(data[atMajor:], 7, 0)
	octal(data[atMinor:], 7, 0)

	sum := 8 * int64(' ') // the field itself counts as spaces
	for _, c := range data {
		sum += int64(c)
	}
	octal(data[atSum:], 6, sum)
	data[atSum+7] = ' '
	return dst
}

// octal writes n in octal digits. The NUL after them is already there.
func octal(b []byte, digits int, n int64) {
	for i := digits - 1; i >= 0; i-- {
		b[i] = '0' + byte(n&7)
		n >>= 3
	}
}

// sizeOf reads the size in a header, or returns -1 if its form isn't ours.
func sizeOf(b []byte) (n int64) {
	for _, c := range b[atSize : atSize+octalSize] {
		if c < '0' || c > '7' {
			return -1
		}
		n = n<<3 | int64(c-'0')
	}
	return n
}
