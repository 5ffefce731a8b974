package manifest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

func TestSignerKeys(t *testing.T) {
	d := Document{Domain: sign.Manifest, Name: "bundle:a@1.0.0", ID: cas.Sum(nil)}
	for _, k := range []key.Private{keytest.Alice(), keytest.Bob()} {
		if err := d.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	keys := []SignerKey{{keytest.Bob().Public(), "Bob <b@example.org>"}, {keytest.Eve().Public(), "Eve"},
		{keytest.Alice().Public(), "two\nlines"}}
	b := AppendSignerKeys(nil, d.Signatures, keys)
	got, err := ParseSignerKeys(b, d.Signatures)
	if err != nil || len(got) != 2 || strings.Contains(string(b), keytest.Eve().Public().String()) {
		t.Fatalf("%s: %v, %v", b, got, err)
	}
	for _, k := range got {
		want := SignerKey{keytest.Alice().Public(), ""}
		if k.Public == keytest.Bob().Public() {
			want = keys[0]
		}
		if !reflect.DeepEqual(k, want) {
			t.Errorf("%v, want %v", k, want)
		}
	}
	lines := strings.SplitAfter(string(b), "\n")
	for _, bad := range []string{"", "x\n", lines[1] + lines[0], lines[0] + lines[0],
		strings.TrimSuffix(string(b), "\n"), string(b) + "\n",
		keytest.Eve().Public().String() + "\n", keytest.Alice().Public().String() + " \n",
		keytest.Alice().Public().String() + " a\u202eb\n"} {
		if got, err := ParseSignerKeys([]byte(bad), d.Signatures); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
