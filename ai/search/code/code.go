// Package code is the decoding of a search index: varints, texts after their length, and numbers of 8 bytes.
package code

import (
	"encoding/binary"
	"math"
)

// A Decoder splits a text. After invalid input it is Bad and returns zero values.
type Decoder struct {
	Text string
	Bad  bool
}

// Take returns the next n bytes.
func (d *Decoder) Take(n int) string {
	if d.Bad || n < 0 || n > len(d.Text) {
		d.Bad, d.Text = true, ""
		return ""
	}
	s := d.Text[:n]
	d.Text = d.Text[n:]
	return s
}

func (d *Decoder) uint() (n uint64) {
	for shift := 0; shift < 64 && len(d.Text) > 0; shift += 7 {
		c := d.Text[0]
		d.Text = d.Text[1:]
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	d.Bad, d.Text = true, ""
	return 0
}

// Int reads a number up to 1<<40.
func (d *Decoder) Int() int {
	n := d.uint()
	if n > 1<<40 {
		d.Bad, d.Text = true, ""
		return 0
	}
	return int(n)
}

// Count reads the number of the following elements, each of at least size bytes: damaged input can't cause a large
// allocation.
func (d *Decoder) Count(size int) int {
	n := d.Int()
	if n > len(d.Text)/size {
		d.Bad, d.Text = true, ""
		return 0
	}
	return n
}

// Signed reads a number that may be negative.
func (d *Decoder) Signed() int64 {
	n := d.uint()
	return int64(n>>1) ^ -int64(n&1)
}

// String reads a text with its length before it.
func (d *Decoder) String() string { return d.Take(d.Int()) }

// Fixed reads a number of 8 bytes, little-endian.
func (d *Decoder) Fixed() uint64 {
	s := d.Take(8)
	if d.Bad {
		return 0
	}
	return binary.LittleEndian.Uint64([]byte(s))
}

// Float reads a number with a fraction.
func (d *Decoder) Float() float64 { return math.Float64frombits(d.Fixed()) }
