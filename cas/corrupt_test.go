package cas_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"testing"

	"github.com/rye-build/rye/cas"
)

// corrupting returns a store that gives out what change makes of an object's length and bytes, under the
// object's name and without hashing them. It is not a cas.Visitor; visitingAll makes it one.
func corrupting(g cas.Getter, change func(id cas.ID, b []byte) (size int64, changed []byte)) cas.Getter {
	return corrupt{g, change}
}

type corrupt struct {
	from   cas.Getter
	change func(cas.ID, []byte) (int64, []byte)
}

func (c corrupt) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := c.from.Get(ctx, id)
	if err != nil {
		return cas.Object{}, err
	}
	defer o.Close()
	b, err := io.ReadAll(o)
	if err != nil {
		return cas.Object{}, err
	}
	size, changed := c.change(id, b)
	return cas.Object{Info: cas.Info{ID: id, Size: size}, ReadCloser: io.NopCloser(bytes.NewReader(changed))}, nil
}

// visitingAll returns g as a cas.Visitor that has no order of its own.
func visitingAll(g cas.Getter) cas.Getter { return visiting{g} }

type visiting struct{ cas.Getter }

func (v visiting) Visit(ctx context.Context, ids []cas.ID, visit func(i int, o cas.Object) error) error {
	for i, id := range ids {
		o, err := v.Get(ctx, id)
		if err != nil {
			return err
		}
		err = visit(i, o)
		o.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// damages yields what may become of the bytes b: each byte with a bit flipped, cut off at each place, longer at
// either end, with two bytes swapped, and others altogether. For large b it is a sample.
func damages(b []byte) iter.Seq2[string, []byte] {
	step := max(1, len(b)/500)
	if testing.Short() {
		step *= 10 // one goroutine, again and again
	}
	return func(yield func(string, []byte) bool) {
		for i := 0; i < len(b); i += step {
			flipped := bytes.Clone(b)
			flipped[i] ^= 1 << (i % 8)
			if !yield(fmt.Sprintf("bit %d of byte %d flipped", i%8, i), flipped) ||
				!yield(fmt.Sprintf("cut off at %d", i), b[:i:i]) {
				return
			}
			if i > 0 && b[i] != b[i-1] {
				swapped := bytes.Clone(b)
				swapped[i-1], swapped[i] = b[i], b[i-1]
				if !yield(fmt.Sprintf("byte %d swapped with the one before", i), swapped) {
					return
				}
			}
		}
		_ = yield("a byte more", append(bytes.Clone(b), 0)) &&
			yield("a newline more", append(bytes.Clone(b), '\n')) &&
			yield("a byte in front", append([]byte{0}, b...)) &&
			yield("twice", append(append(bytes.Clone(b), b...), 'x')) &&
			yield("other bytes", append([]byte("rye: \"tree/2\"\n"), b...)) &&
			yield("zeros", make([]byte, len(b)+1))
	}
}
