package recipe

import (
	"slices"
	"testing"

	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/policy/yamltree/schematest"
)

// What the reader accepts the schema accepts, and it names what the reader knows.
func TestSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	s := schematest.New(t, Schema())
	if want := slices.Sorted(slices.Values(order)); !slices.Equal(s.Keys(), want) {
		t.Errorf("the schema knows %q, the reader %q", s.Keys(), want)
	}
	for _, file := range []string{whole,
		"id: acme\nversion: 1.0.0-rc.1\nassets: []\nrequires: {acme/y: ~1.2, acme/z: \">=1.0 <2\"}\n"} {
		s.Follows([]byte(file), format)
	}
}

// What a schema can find of what the reader refuses.
func TestSchemaRefuses(t *testing.T) {
	s := schematest.New(t, Schema())
	const head = "id: acme/x\nversion: 1.0.0\n"
	for _, file := range []string{
		"version: 1.0.0\n", "id: acme/x\n", "id: ../x\nversion: 1.0.0\n", "id: acme/x\nversion: 1.0\n",
		head + "includ: [a]\n", head + "expires: soon\n", head + "include: .ai/tools/**\n",
		head + "include: [tools/acme/**]\n",
		head + "include: [\"prompt:acme/x\"]\n", head + "assets: [.ai/tools/x]\n",
		head + "assets: [docs/**, docs/**]\n",
		head + "assets: [\"/etc/passwd\"]\n", head + "exclude: [\"a?\"]\n", head + "exclude: [\"\"]\n",
		head + "allow-secret: [a]\n", head + "allow-secret: {a: \"\"}\n", head + "requires: {\"a b\": \"*\"}\n",
		head + "requires: {a: [b]}\n",
		head + "entrypoint: deploy\n", head + "description: \" x\"\n", head + "license: [MIT]\n",
	} {
		if why, ok := s.Refuses([]byte(file)); why == "" || !ok {
			t.Errorf("%q is accepted", file)
		}
		if _, err := Parse([]byte(file)); err == nil {
			t.Errorf("%q: the reader accepts it", file)
		}
	}
}

// format writes a recipe again in the layout of package yamltree.
func format(file []byte) ([]byte, error) {
	if _, err := Parse(file); err != nil {
		return nil, err
	}
	tree, err := yamltree.Parse(file)
	if err != nil {
		return nil, err
	}
	return tree.Format(), nil
}
