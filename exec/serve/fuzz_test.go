package serve

import (
	"bytes"
	"testing"
	"time"
)

// FuzzParse: what is read of a file is written as it was.
func FuzzParse(f *testing.F) {
	good, err := encode([]Token{{Name: "a", Digest: digest("x"), Scopes: []Scope{Call, Admin}, Tenant: "t",
		Created: time.Unix(1, 0).UTC(), Expires: time.Unix(2, 0).UTC()},
		{Name: "b", Digest: digest("y"), Scopes: []Scope{Approve}, Created: time.Unix(1, 0).UTC()}})
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{good, nil, []byte("{}"), good[1:]} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parse(b)
		if err != nil {
			return
		}
		if again, err := encode(all); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s becomes %s, %v", b, again, err)
		}
	})
}
