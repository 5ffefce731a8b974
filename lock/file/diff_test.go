package file

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/sign"
)

func parsed(t testing.TB, change func(l *Lock)) *Lock {
	t.Helper()
	l, err := Parse(encode(t, sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	change(l)
	if l, err = Parse(encode(t, l)); err != nil {
		t.Fatal(err)
	}
	return l
}

// Each case changes one thing; there and back again are told.
func TestDiff(t *testing.T) {
	base := parsed(t, func(*Lock) {})
	pin := func(id string) func(l *Lock) *Pin {
		return func(l *Lock) *Pin {
			ref, err := model.ParseRef(id)
			if err != nil {
				t.Fatal(err)
			}
			return l.Pin(ref)
		}
	}
	run, fetch, kit := pin("tool:acme/shop/run"), pin("tool:acme/base/fetch"), pin("tool-kit:a")
	alice, bob := prints("alice")[0], prints("bob")[0]
	other := project.Source{Where: "../base"}
	d := func(s string) string { return sum(s).String() }
	whole := " tree " + d("tree") + " files " + d("files") + " executable"
	const index = "index https://bundles.acme.example/index.yaml"
	for _, c := range []struct {
		name   string
		change func(l *Lock)
		there  []Change
		back   []Change
	}{
		{"requirement", func(l *Lock) { l.Requires = l.Requires[1:] },
			[]Change{{RequirementRemoved, "acme/base", "^2.1", ""}},
			[]Change{{RequirementAdded, "acme/base", "", "^2.1"}}},
		{"range", func(l *Lock) { l.Requires[0].Text = "^2" },
			[]Change{{RequirementChanged, "acme/base", "^2.1", "^2"}},
			[]Change{{RequirementChanged, "acme/base", "^2", "^2.1"}}},
		{"source of both", func(l *Lock) { l.Requires[0].Source, l.Bundles[0].Source = other, other },
			[]Change{{SourceChanged, "acme/base", index, "../base"}},
			[]Change{{SourceChanged, "acme/base", "../base", index}}},
		{"source of the bundle", func(l *Lock) { l.Bundles[0].Source = other },
			[]Change{{SourceChanged, "acme/base", index, "../base"}},
			[]Change{{SourceChanged, "acme/base", "../base", index}}},
		{"source of each", func(l *Lock) {
			l.Requires[0].Source, l.Bundles[0].Source = project.Source{Where: "../other"}, other
		}, []Change{{SourceChanged, "acme/base", index, "../other"}, {SourceChanged, "acme/base", index, "../base"}},
			[]Change{{SourceChanged, "acme/base", "../other", index}, {SourceChanged, "acme/base", "../base", index}}},
		{"bundle", func(l *Lock) { l.Bundles = l.Bundles[:1] },
			[]Change{{BundleRemoved, "acme/notes", "0.3.0", ""}}, []Change{{BundleAdded, "acme/notes", "", "0.3.0"}}},
		{"upgrade", func(l *Lock) { l.Bundles[0].Version, l.Bundles[0].Manifest = "2.2.0", sum("new") },
			[]Change{{BundleUpgraded, "acme/base", "2.1.4", "2.2.0"}},
			[]Change{{BundleDowngraded, "acme/base", "2.2.0", "2.1.4"}}},
		{"build of a bundle", func(l *Lock) { l.Bundles[0].Version = "2.1.4+b" },
			[]Change{{BundleUpgraded, "acme/base", "2.1.4", "2.1.4+b"}},
			[]Change{{BundleUpgraded, "acme/base", "2.1.4+b", "2.1.4"}}},
		{"replaced bundle", func(l *Lock) { l.Bundles[0].Manifest = sum("new") },
			[]Change{{BundleReplaced, "acme/base", "2.1.4 " + d("base"), "2.1.4 " + d("new")}},
			[]Change{{BundleReplaced, "acme/base", "2.1.4 " + d("new"), "2.1.4 " + d("base")}}},
		{"pin", func(l *Lock) { l.Pins = l.Pins[1:] },
			[]Change{{PinRemoved, "config:limits", d("limits"), ""}},
			[]Change{{PinAdded, "config:limits", "", d("limits")}}},
		{"file", func(l *Lock) { fetch(l).Digest = sum("new") },
			[]Change{{PinChanged, "tool:acme/base/fetch", d("fetch"), d("new")}},
			[]Change{{PinChanged, "tool:acme/base/fetch", d("new"), d("fetch")}}},
		{"tree", func(l *Lock) { run(l).Tree, run(l).Files = cas.Digest{}, cas.Digest{} },
			[]Change{{PinChanged, "tool:acme/shop/run", "0.1.0 " + d("run") + whole,
				"0.1.0 " + d("run") + " executable"}},
			[]Change{{PinChanged, "tool:acme/shop/run", "0.1.0 " + d("run") + " executable",
				"0.1.0 " + d("run") + whole}}},
		{"files", func(l *Lock) { run(l).Files, run(l).Mode = sum("new"), cas.File },
			[]Change{{PinChanged, "tool:acme/shop/run", "0.1.0 " + d("run") + whole,
				"0.1.0 " + d("run") + " tree " + d("tree") + " files " + d("new")}},
			[]Change{{PinChanged, "tool:acme/shop/run", "0.1.0 " + d("run") + " tree " + d("tree") + " files " +
				d("new"), "0.1.0 " + d("run") + whole}}},
		{"path", func(l *Lock) { run(l).Path = "tools/acme/shop/run.sh" },
			[]Change{{PinRenamed, "tool:acme/shop/run", "tools/acme/shop/run.py", "tools/acme/shop/run.sh"}},
			[]Change{{PinRenamed, "tool:acme/shop/run", "tools/acme/shop/run.sh", "tools/acme/shop/run.py"}}},
		{"version of an item", func(l *Lock) { kit(l).Version = "" },
			[]Change{{PinChanged, "tool-kit:a", "1.0.0-rc.1+b " + d("kit"), d("kit")}},
			[]Change{{PinChanged, "tool-kit:a", d("kit"), "1.0.0-rc.1+b " + d("kit")}}},
		{"space", func(l *Lock) {
			fetch(l).From, fetch(l).Path, fetch(l).Size, fetch(l).Mode = FromProject, "tools/acme/base/fetch.py", 9,
				cas.File
		},
			[]Change{{PinMoved, "tool:acme/base/fetch", "system:acme/base", "project"}},
			[]Change{{PinMoved, "tool:acme/base/fetch", "project", "system:acme/base"}}},
		{"another signer", func(l *Lock) { run(l).Signers = prints("bob", "mallory") },
			[]Change{{SignerRemoved, "tool:acme/shop/run", alice.String(), ""},
				{SignerAdded, "tool:acme/shop/run", "", prints("mallory")[0].String()}},
			[]Change{{SignerRemoved, "tool:acme/shop/run", prints("mallory")[0].String(), ""},
				{SignerAdded, "tool:acme/shop/run", "", alice.String()}}},
		{"fewer signers", func(l *Lock) { run(l).Signers = prints("alice") },
			[]Change{{SignerRemoved, "tool:acme/shop/run", bob.String(), ""}},
			[]Change{{SignerAdded, "tool:acme/shop/run", "", bob.String()}}},
		{"no signers", func(l *Lock) { fetch(l).Signers, fetch(l).Format = nil, sign.None },
			[]Change{{SignerRemoved, "tool:acme/base/fetch", prints("carol")[0].String(), ""}},
			[]Change{{SignerAdded, "tool:acme/base/fetch", "", prints("carol")[0].String()}}},
		{"format", func(l *Lock) { run(l).Format = sign.V1 },
			[]Change{{FormatLowered, "tool:acme/shop/run", "v2", "v1"}},
			[]Change{{FormatRaised, "tool:acme/shop/run", "v1", "v2"}}},
		{"interface", func(l *Lock) { run(l).Interface = cas.Digest{} },
			[]Change{{InterfaceChanged, "tool:acme/shop/run", d("i"), ""}},
			[]Change{{InterfaceChanged, "tool:acme/shop/run", "", d("i")}}},
		{"grants", func(l *Lock) { run(l).Grants = sum("more") },
			[]Change{{GrantsChanged, "tool:acme/shop/run", d("g"), d("more")}},
			[]Change{{GrantsChanged, "tool:acme/shop/run", d("more"), d("g")}}},
		{"program", func(l *Lock) { l.Toolchain = l.Toolchain[1:] },
			[]Change{{ToolchainRemoved, "node linux/amd64", "v22.1.0", ""}},
			[]Change{{ToolchainAdded, "node linux/amd64", "", "v22.1.0"}}},
		{"version of a program", func(l *Lock) { l.Toolchain[0].Version, l.Toolchain[0].Digest = "v23", sum("new") },
			[]Change{{ToolchainChanged, "node linux/amd64", "v22.1.0", "v23"}},
			[]Change{{ToolchainChanged, "node linux/amd64", "v23", "v22.1.0"}}},
		{"replaced program", func(l *Lock) { l.Toolchain[0].Digest = sum("new") },
			[]Change{{ToolchainReplaced, "node linux/amd64", "v22.1.0 " + d("n"), "v22.1.0 " + d("new")}},
			[]Change{{ToolchainReplaced, "node linux/amd64", "v22.1.0 " + d("new"), "v22.1.0 " + d("n")}}},
		{"artifact", func(l *Lock) { l.Artifacts = l.Artifacts[:1] },
			[]Change{{ArtifactRemoved, "pypi:requests@2.32.3:py3-none-any", d("requests"), ""}},
			[]Change{{ArtifactAdded, "pypi:requests@2.32.3:py3-none-any", "", d("requests")}}},
		{"replaced artifact", func(l *Lock) { l.Artifacts[1].Source = "sha256:" + strings.Repeat("0", 64) },
			[]Change{{ArtifactReplaced, "pypi:requests@2.32.3:py3-none-any",
				d("requests") + " sha256:" + strings.Repeat("7a", 32) + " 64928",
				d("requests") + " sha256:" + strings.Repeat("0", 64) + " 64928"}},
			[]Change{{ArtifactReplaced, "pypi:requests@2.32.3:py3-none-any",
				d("requests") + " sha256:" + strings.Repeat("0", 64) + " 64928",
				d("requests") + " sha256:" + strings.Repeat("7a", 32) + " 64928"}}},
		{"definition", func(l *Lock) { l.Definitions = l.Definitions[1:] },
			[]Change{{DefinitionRemoved, "mcp:files/read", d("read"), ""}},
			[]Change{{DefinitionAdded, "mcp:files/read", "", d("read")}}},
		{"changed definition", func(l *Lock) { l.Definitions[0].Digest = sum("new") },
			[]Change{{DefinitionChanged, "mcp:files/read", d("read"), d("new")}},
			[]Change{{DefinitionChanged, "mcp:files/read", d("new"), d("read")}}},
	} {
		changed := parsed(t, c.change)
		if got := Diff(base, changed); !reflect.DeepEqual(got, c.there) {
			t.Errorf("%s: got\n%q\nwant\n%q", c.name, got, c.there)
		}
		if got := Diff(changed, base); !reflect.DeepEqual(got, c.back) {
			t.Errorf("%s, back: got\n%q\nwant\n%q", c.name, got, c.back)
		}
	}
}

func TestWeakening(t *testing.T) {
	weak := map[Kind]bool{SourceChanged: true, PinMoved: true, SignerRemoved: true, FormatLowered: true,
		GrantsChanged: true, BundleReplaced: true, ToolchainReplaced: true, ArtifactReplaced: true}
	var all, want []Change
	for _, k := range []Kind{
		RequirementAdded, RequirementRemoved, RequirementChanged, SourceChanged, BundleAdded, BundleRemoved,
		BundleUpgraded, BundleDowngraded, BundleReplaced,
		PinAdded, PinRemoved, PinChanged, PinMoved, SignerAdded, SignerRemoved, FormatLowered, FormatRaised,
		InterfaceChanged, GrantsChanged,
		ToolchainAdded, ToolchainRemoved, ToolchainChanged, ToolchainReplaced, ArtifactAdded, ArtifactRemoved,
		ArtifactReplaced,
		DefinitionAdded, DefinitionRemoved, DefinitionChanged,
	} {
		c := Change{Kind: k, Name: "x"}
		if all = append(all, c); weak[k] {
			want = append(want, c)
		}
	}
	if got := Weakening(all); !reflect.DeepEqual(got, want) || len(want) != len(weak) {
		t.Errorf("%q, want %q", got, want)
	}
	if b, err := json.Marshal(Change{GrantsChanged, "tool:a", "", "x"}); err != nil ||
		string(b) != `{"kind":"grants_changed","name":"tool:a","to":"x"}` {
		t.Errorf("%s, %v", b, err)
	}
}
