package create

import (
	"context"
	"encoding/json"
	"path"
	"strings"
	"unicode"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

// ForItem returns the recipe of a bundle of one item: the item, which is the entrypoint, the other files of its tree,
// its version and its description. The licence, the requirements and what is allowed of its files are those of the
// project's own recipe, which may be nil.
func ForItem(ctx context.Context, admitter *ai.Admitter, it *ai.Item, id string, own *recipe.Recipe) (*recipe.Recipe,
	error) {
	if err := manifest.CheckVersion(it.Model.Version); err != nil {
		return nil, fault.New(fault.Validation, "%q has no version that a bundle can have: %v", it.Ref, err).
			On("ref", it.Ref.String()).Because("a bundle of one item has the version of the item")
	}
	anchor, err := admitter.Anchor(ctx, it)
	if err != nil {
		return nil, err
	}
	include := []string{dotAI + "/" + it.Path}
	if anchor != nil {
		include = append(include, path.Join(dotAI, anchor.Dir, anchor.Below)+"/**")
	}
	text, err := json.Marshal(map[string]any{"id": id, "version": it.Model.Version, "entrypoint": it.Ref.String(),
		"description": oneLine(it.Model.Description), "include": include})
	if err != nil {
		return nil, err
	}
	r, err := recipe.Parse(text) // YAML reads JSON, too
	if err != nil {
		return nil, fault.New(fault.Validation, "%q can't be a bundle %q: %v", it.Ref, id, err).From(err)
	}
	if own != nil {
		r.License, r.Requires, r.AllowSecret, r.Executable = own.License, own.Requires, own.AllowSecret, own.Executable
	}
	return r, nil
}

// oneLine returns the first line of a text, as a recipe can have it.
func oneLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, text))
}
