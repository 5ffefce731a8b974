package archive

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rye-build/rye/cas"
)

// A keeper is a sink that is a store.
type keeper struct {
	*log
	store cas.Memory
}

func (k *keeper) File(e Entry, r io.Reader) error {
	_, err := k.store.Put(context.Background(), cas.Blob, r)
	return err
}

// again checks that what was accepted is what we would write of it.
func again(t *testing.T, b []byte) {
	k := &keeper{log: new(log)}
	h, err := Read(t.Context(), bytes.NewReader(b), k)
	if err != nil {
		return
	}
	var out bytes.Buffer
	if err := Write(t.Context(), &out, h.Body, h.List.Signatures, &k.store); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unpack(t, out.Bytes()), unpack(t, b)) {
		t.Error("accepted, and not what we write")
	}
}

func FuzzTar(f *testing.F) {
	plain := unpack(f, demo(f).write(f))
	f.Add(plain)
	f.Add(plain[:len(plain)-512])
	f.Add(bytes.ToUpper(plain))
	z, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithZeroFrames(true))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, plain []byte) { again(t, z.EncodeAll(plain, nil)) })
}

func FuzzArchive(f *testing.F) {
	b := demo(f).write(f)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 4, 0x58, 1, 0, 0, 0x99, 0xe9, 0xd8, 0x51})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 1<<20 {
			again(t, b)
		}
	})
}
