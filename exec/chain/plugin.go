package chain

import (
	"context"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/manifest"
)

// A Plugin is the bundle of a plugin, whose files a tool runs with. The policies admit its manifest and revoke none of
// its files: the function that returns it has asked them.
type Plugin struct {
	ID    string
	Files []manifest.File // all files that its manifest lists, sorted by path
	Bytes cas.Getter      // has them; readers hash what they get

	// Space is the label of the space with the plugin's own items. An item of another space that names the plugin
	// counts as another signer's, even if the user signed it.
	Space string
	Own   bool // a key of the user admits the manifest
	// Agreed means that the user has been shown what the items in Space declare, and said yes: they get that, in the
	// sandbox for strangers.
	Agreed bool

	// Vouchers say who vouches for the bundle: the fingerprints of its admitted signers, or for an unsigned one its
	// source. Each has its own data of the plugin. Without any, the data is removed with the call.
	Vouchers []string
}

// Plugins returns the bundle of a plugin by its id.
type Plugins func(ctx context.Context, id string) (*Plugin, error)

// PluginDir is the directory of a plugin's files in the copy.
const PluginDir = "plugin"

// The template names of the directory of a plugin's files, and of the directory that the plugin may write.
const (
	PluginRoot = "plugin_root"
	PluginData = "plugin_data"
)

// withPlugin adds the files of the plugin that a link names, if it names one, and reports whether the user has agreed
// to what the link declares.
func (s *Source) withPlugin(ctx context.Context, it *ai.Item, chain *Chain, from *files) (agreed bool, _ error) {
	tool := it.Model.Tool
	chain.Data = chain.Data || template.Mentions(tool.Config, PluginData) ||
		template.Mentions(tool.EnvConfig, PluginData)
	if tool.Plugin == "" {
		return false, nil
	}
	found, err := s.plugin(ctx, it, chain.Plugin)
	if err != nil {
		return false, err // which names the item, or the bundle
	}
	own := it.Space.Label == found.Space
	agreed = own && found.Agreed
	if !own || !found.Own {
		chain.Own, chain.Foreign = false, chain.Foreign || !agreed
	}
	if chain.Plugin != nil {
		return agreed, nil
	}
	chain.Plugin = found
	for i := range found.Files {
		f := &found.Files[i]
		if _, known := from.at[f.Digest]; !known {
			from.at[f.Digest] = source{get: found.Bytes, size: f.Size}
		}
		chain.Parts = append(chain.Parts, materialise.Part{Path: path.Join(PluginDir, f.Path),
			ID: cas.ID{Kind: cas.Blob, Digest: f.Digest}, Mode: f.Mode, Size: f.Size})
	}
	return agreed, nil
}

// plugin returns the plugin that a link names. Its files are those of its signer, so only an item below its id may use
// them, and a bundle's item only those of its own bundle.
func (s *Source) plugin(ctx context.Context, it *ai.Item, before *Plugin) (*Plugin, error) {
	id := it.Model.Tool.Plugin
	refuse := func(code fault.Code, format string, args ...any) error {
		return fault.New(code, format, args...).On("ref", it.Ref.String()).On("plugin", id).Try("rye docs plugins")
	}
	if !strings.HasPrefix(it.Ref.ID, id+"/") {
		return nil, refuse(fault.Denied, "%q can't use the files of the plugin %q: only items below its id can",
			it.Ref, id)
	}
	if before != nil && before.ID != id {
		return nil, refuse(fault.Validation, "%q uses the files of the plugin %q, and a tool that runs it those of %q",
			it.Ref, id, before.ID)
	}
	if s.Plugins == nil {
		return nil, refuse(fault.NotLocked, "%q needs the plugin %q, which is not locked", it.Ref, id)
	}
	found, err := s.Plugins(ctx, id)
	if err != nil {
		return nil, err
	}
	if it.Space.Level == ai.System && it.Space.Label != found.Space {
		return nil, refuse(fault.Denied, "%q of %s can't use the files of the plugin %q: it is another bundle", it.Ref,
			it.Space.Label, id)
	}
	return found, nil
}

// ReadPlugin returns the plugin in a directory, which is no bundle yet: its files as they are now, without those that
// rye has made of it. Symbolic links are the files that they lead to. The items of the space with this label may use
// them; the caller has shown them to the user, and got a yes.
func ReadPlugin(ctx context.Context, id, space string, root fs.FS, listing *plugin.Listing) (*Plugin, error) {
	dir := &directory{root: root, paths: map[cas.Digest]string{}}
	found := &Plugin{ID: id, Bytes: dir, Space: space, Agreed: true}
	for i := range listing.Files {
		f := &listing.Files[i]
		if f.Path == plugin.Namespace || strings.HasPrefix(f.Path, plugin.Namespace+"/") {
			continue
		}
		digest, size, err := dir.sum(ctx, f.Path)
		if err != nil {
			return nil, err
		}
		dir.paths[digest] = f.Path
		found.Files = append(found.Files, manifest.File{Path: f.Path, Digest: digest, Size: size, Mode: f.Mode()})
	}
	return found, nil
}

// A directory has the files of a plugin by their digests.
type directory struct {
	root  fs.FS
	paths map[cas.Digest]string
}

// sum returns the digest and the size of a file.
func (d *directory) sum(ctx context.Context, name string) (cas.Digest, int64, error) {
	if ctx.Err() != nil {
		return cas.Digest{}, 0, context.Cause(ctx)
	}
	file, err := d.root.Open(name)
	if err != nil {
		return cas.Digest{}, 0, err
	}
	defer file.Close()
	h := cas.NewHasher()
	n, err := io.Copy(h, file)
	return h.Digest(), n, err
}

// Get implements cas.Getter. Readers hash the bytes again.
func (d *directory) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	file, err := d.root.Open(d.paths[id.Digest])
	if err != nil {
		return cas.Object{}, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: info.Size()}, file), nil
}
