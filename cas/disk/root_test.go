package disk

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/rye-build/rye/cas"
)

// TestForeignRoot: a chunk list that names another object is damage before its first byte is read. Otherwise a program
// gets gigabytes of another file before it learns that.
func TestForeignRoot(t *testing.T) {
	wanted, other := cas.Sum([]byte("wanted")), cas.Sum([]byte("other"))
	const size = 1 << 30
	root := encodeList(binary.LittleEndian.AppendUint64(other[:], size), 0, []listItem{{other, size}})
	_, err := new(Store).openLong(t.Context(), new(snapshot), cas.ID{Kind: cas.Blob, Digest: wanted}, nil, root)
	if e, ok := errors.AsType[*cas.DamagedError](err); !ok || e.Found != other || e.ID.Digest != wanted {
		t.Errorf("%v", err)
	}
}
