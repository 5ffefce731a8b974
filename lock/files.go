package lock

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// Files returns the files of pins from the project, or of pins from the user's space, sorted by path, each with the
// ref of a pin that it belongs to. It refuses whatever a set would refuse, so a caller that writes the files into a
// space writes only possible files of these items. It doesn't check that their bytes are available.
func Files(ctx context.Context, objects cas.Getter, label string, pins []file.Pin) ([]manifest.File, error) {
	assembly := newAssembly(&file.Lock{Pins: pins}, cas.Digest{}, objects, nil)
	if err := assembly.readTrees(ctx); err != nil {
		return nil, err
	}
	if assembly.place(); len(assembly.wrong) > 0 {
		return nil, assembly.refused()
	}
	files := assembly.loose(label)
	if len(assembly.wrong) > 0 {
		return nil, assembly.refused()
	}
	owners := make(map[string]string, len(files))
	own := func(name, ref string) {
		if owners[name] == "" {
			owners[name] = ref
		}
	}
	told := map[*directory]bool{}
	for i := range pins {
		pin := &pins[i]
		own(pin.Path, pin.Ref.String())
		d := assembly.trees[pin.Files]
		if d == nil || told[d] {
			continue
		}
		told[d] = true
		for j := range d.files {
			own(d.files[j].Path, pin.Ref.String())
		}
	}
	for i := range files {
		files[i].Ref = owners[files[i].Path]
	}
	return files, nil
}

// refused returns a *MissingError if every problem is a missing object, else a *RefusedError.
func (a *assembly) refused() error {
	for _, err := range a.wrong {
		if _, missing := errors.AsType[*MissingError](err); !missing {
			return &RefusedError{a.wrong}
		}
	}
	return a.wrong[0]
}

// checkPlace refuses a path that the pinned item can't have. The path must follow from the item's id below the
// directory of its kind, and some directories belong to no kind.
func checkPlace(pin *file.Pin) error {
	dir, rest, _ := strings.Cut(pin.Path, "/")
	if strings.TrimSuffix(rest, path.Ext(rest)) != pin.Ref.ID {
		return fmt.Errorf("%q is not its path", pin.Path)
	}
	reserved := model.IsAsset(dir)
	switch portable.Fold(dir) {
	case "auth", "bundles", "cache", "keys", "lockfiles", "logs", "outputs", "parsers", "threads", "trusted_keys",
		"vendor":
		reserved = true
	}
	if reserved {
		return fmt.Errorf("%q is not a valid path of an item", pin.Path)
	}
	return nil
}
