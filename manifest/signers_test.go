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

// A project's list of signers is read back as it was written, and in no other form.
func TestSigners(t *testing.T) {
	keys := []SignerKey{{keytest.Bob().Public(), "Bob <b@example.org>"}, {keytest.Alice().Public(), "two\nlines"}}
	b, err := AppendSigners(nil, keys)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSigners(strings.NewReader(string(b)))
	if err != nil || len(got) != 2 {
		t.Fatalf("%s: %v, %v", b, got, err)
	}
	for _, k := range got {
		if k.Public == keys[0].Public && k.Owner != keys[0].Owner || k.Public == keys[1].Public && k.Owner != "" {
			t.Errorf("%v", k)
		}
	}
	print := keys[0].Public.Fingerprint().String()
	for _, bad := range []string{strings.Replace(string(b), print, strings.Repeat("f", 64), 1),
		strings.Replace(string(b), "signers/2", "signers/3", 1), strings.Replace(string(b), "Bob ", `Bob\u202e `, 1),
		strings.TrimSuffix(string(b), "\n")} {
		if got, err := ReadSigners(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
