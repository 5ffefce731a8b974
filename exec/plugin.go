package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/chain"
)

// allow adds what the project lets the server of a plugin do to what the tool declares.
func (p *Plan) allow(b *Base) error {
	plugin := p.chain.Plugin
	if plugin == nil || b.Allow == nil {
		return nil
	}
	server := ""
	for _, it := range p.chain.Chain.Links {
		if dir, name := path.Split(it.Ref.ID); it.Model.Tool.Plugin != "" && dir == plugin.ID+"/servers/" {
			server = name
		}
	}
	rights, err := b.Allow(plugin.ID, server)
	if err == nil {
		p.tool, p.variables, err = chain.Allow(p.tool, rights)
	}
	if err != nil {
		return ConfigError(p.call.Ref, err)
	}
	return nil
}

// addPluginNames adds the template names of the chain's plugin, if it has one. A call that depends on its action alone
// gets no data of the plugin.
func (p *Plan) addPluginNames(names map[string]string) error {
	plugin := p.chain.Plugin
	if plugin == nil {
		return nil
	}
	names[chain.PluginRoot] = filepath.Join(p.copied.Dir, chain.PluginDir)
	if !p.chain.Data || p.call.Build || p.tool.Pure {
		return nil
	}
	var err error
	switch {
	case len(plugin.Vouchers) > 0:
		p.data, err = p.dataOf(plugin)
	case p.scratch != nil:
		p.data = filepath.Join(p.scratch.Dir, "data")
	}
	if p.data != "" {
		names[chain.PluginData] = p.data
	}
	return err
}

// dataOf returns the directory with the data of a plugin: that of the first voucher who has one already, so that
// another signature more doesn't lose it.
func (p *Plan) dataOf(plugin *chain.Plugin) (string, error) {
	if p.kernel.Data == "" {
		return "", fault.New(fault.Unavailable, "%q needs a directory for the data of the plugin %q: none is set",
			p.call.Ref, plugin.ID).On("ref", p.call.Ref.String()).On("plugin", plugin.ID)
	}
	first := ""
	for _, voucher := range plugin.Vouchers {
		owner := fmt.Appendf(nil, "project %q\ntenant %q\nbundle %q\nvoucher %q\n", p.project, p.call.Tenant,
			plugin.ID, voucher)
		_, digits, _ := strings.Cut(cas.Sum(owner).String(), ":")
		dir := filepath.Join(p.kernel.Data, strings.ReplaceAll(plugin.ID, "/", "_")+"-"+digits[:dataDigits])
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
		if first == "" {
			first = dir
		}
	}
	return first, nil
}

// dataDigits is how many digits of the digest of its owner follow the plugin's id in the name of its directory.
const dataDigits = 32

// makeData creates the directory with the data of the plugin.
func (p *Plan) makeData() error {
	if p.data == "" {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(p.data), 0o700)
	if err == nil {
		err = os.Mkdir(p.data, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(p.data); err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "open", Path: p.data, Err: errors.New("not a directory")}
		}
	}
	if err != nil {
		return fault.Wrap(err, "the directory for the data of the plugin %q: %v", p.chain.Plugin.ID, err).On("ref",
			p.call.Ref.String()).On("path", p.data)
	}
	return nil
}

// PluginDataVariable is the variable with the directory of its data that a plugin's server has.
const PluginDataVariable = "PLUGIN_DATA"

// interprets reports whether the call could run code from the data of its plugin now, which nothing pins: a program of
// the machine can interpret it.
func (p *Plan) interprets() bool {
	if p.data == "" || len(p.Programs) == 0 {
		return false
	}
	entries, _ := os.ReadDir(p.data) // a missing one is empty
	return len(entries) > 0
}
