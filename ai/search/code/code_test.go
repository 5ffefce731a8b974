package code

import (
	"encoding/binary"
	"testing"
)

// TestDecoder: what is too short, or says that more follows than does, is bad and stays so.
func TestDecoder(t *testing.T) {
	b := binary.AppendUvarint(nil, 300)
	b = binary.AppendVarint(b, -5)
	b = append(b, 2, 'h', 'i')
	b = binary.LittleEndian.AppendUint64(b, 0x3ff8000000000000) // 1.5
	read := func(d *Decoder) bool {
		return d.Int() == 300 && d.Signed() == -5 && d.String() == "hi" && d.Float() == 1.5 && !d.Bad
	}
	if d := (Decoder{Text: string(b)}); !read(&d) || d.Text != "" {
		t.Errorf("%+v", d)
	}
	for n := range b {
		if d := (Decoder{Text: string(b[:n])}); read(&d) || !d.Bad || d.String() != "" || d.Fixed() != 0 {
			t.Errorf("the first %d bytes: %+v", n, d)
		}
	}
	for _, d := range []Decoder{{Text: string(binary.AppendUvarint(nil, 1<<41))},
		{Text: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}} {
		if d.Int() != 0 || !d.Bad {
			t.Errorf("%+v", d)
		}
	}
	if d := (Decoder{Text: "\x03abcdef"}); d.Count(2) != 3 || d.Bad {
		t.Errorf("%+v", d)
	}
	if d := (Decoder{Text: "\x04abcdef"}); d.Count(2) != 0 || !d.Bad {
		t.Errorf("%+v", d)
	}
}
