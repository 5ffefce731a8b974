package key

import (
	"math/big"
	"slices"
)

// torsion has the y coordinates, little-endian, of the eight points whose order divides eight.
var torsion = [5][32]byte{
	{},  // two points of order 4
	{1}, // the neutral element
	{0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, // order 2
	{0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
		// two of order 8
		0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
	{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		// two of order 8
		0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
}

// smallOrder reports whether b is one of the eight points, in the canonical encoding or with the sign of a zero.
func smallOrder(b *[32]byte) bool {
	y := *b
	y[31] &= 0x7f // the sign of x
	return slices.Contains(torsion[:], y)
}

// checkPoint returns an error unless b is the canonical encoding of a point on the curve -x²+y² = 1+dx²y² that is not
// of small order.
func checkPoint(b *[32]byte) error {
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	coord := bigEndian(b)
	coord.SetBit(coord, 255, 0)
	if coord.Cmp(prime) >= 0 {
		return invalid("a number that is not reduced encodes the point: it has a second spelling")
	}
	// This comes before the curve, because the sign of a zero, the other second spelling, is possible only here.
	if smallOrder(b) {
		return invalid("a point of small order: one signature would hold for many messages")
	}
	// There is an x if (y²-1)/(dy²+1) is a square, which it is if the product of the two is; d is -121665/121666,
	// and multiplying both by -121666 leaves 121666(1-y²) and 121665y²-121666. Neither is zero here.
	y2 := new(big.Int).Mul(coord, coord)
	u := new(big.Int).Mul(big.NewInt(121666), new(big.Int).Sub(big.NewInt(1), y2))
	v := new(big.Int).Sub(new(big.Int).Mul(big.NewInt(121665), y2), big.NewInt(121666))
	if u.Mul(u, v).Mod(u, prime); big.Jacobi(u, prime) != 1 {
		return invalid("no point on the curve")
	}
	return nil
}

func bigEndian(b *[32]byte) *big.Int {
	r := *b
	slices.Reverse(r[:])
	return new(big.Int).SetBytes(r[:])
}
