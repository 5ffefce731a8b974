package cas

import "encoding/binary"

// The functions here convert eight hexadecimal digits at a time: the tree of a directory of ten thousand files has
// ten thousand digests to write and read.

const (
	eachByte   = 0x0101010101010101
	eachNibble = 0x0f * eachByte
)

// digits turns eight numbers below 16, one in each byte, into hexadecimal digits.
func digits(n uint64) uint64 {
	letter := (n + 6*eachByte) >> 4 & eachByte
	return n + '0'*eachByte + letter*('a'-'0'-10)
}

// putHex writes d in lower-case hexadecimal digits.
func putHex(dst *[2 * Size]byte, d *Digest) {
	for i := 0; i < Size; i += 4 {
		n := uint64(binary.BigEndian.Uint32(d[i:]))
		n = (n | n<<16) & 0x0000ffff0000ffff
		n = (n | n<<8) & 0x00ff00ff00ff00ff
		n = (n | n<<4) & eachNibble
		binary.BigEndian.PutUint64(dst[2*i:], digits(n))
	}
}

// getHex reads digits that putHex wrote, and reports whether src has no others.
func getHex(d *Digest, src *[2 * Size]byte) bool {
	var wrong uint64
	for i := 0; i < Size; i += 4 {
		x := binary.BigEndian.Uint64(src[2*i:])
		n := x&eachNibble + x>>6&eachByte*9
		wrong |= n&^eachNibble | digits(n&eachNibble) ^ x
		n = (n | n>>4) & 0x00ff00ff00ff00ff
		n = (n | n>>8) & 0x0000ffff0000ffff
		n |= n >> 16
		binary.BigEndian.PutUint32(d[i:], uint32(n))
	}
	return wrong == 0
}
