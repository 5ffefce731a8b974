package places

import (
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/web"
)

// Registry opens the registry or image layout that an argument names. Progress may be nil.
func Registry(a *cli.App, text string, p *cli.Progress) (*oci.Place, oci.Reference, error) {
	ref, err := oci.ParseReference(text)
	if err != nil {
		return nil, ref, err
	}
	o := oci.Options{PlainHTTP: a.Globals.PlainHTTP, Progress: p.Add, Again: func(err error, in time.Duration) { AskedAgain(a, err, in) }}
	switch {
	case ref.Dir != "":
		dir := a.Absolute(cli.Setting{Value: ref.Dir})
		if dir.Err != nil {
			return nil, ref, dir.Err
		}
		o.Dir = dir.Value
	case a.IsOffline():
		return nil, ref, fault.New(fault.Offline, "%s is not on this machine, and --offline is set", ref).On("reference", ref.String()).
			Try("rye bundle pull " + oci.LayoutScheme + "DIR")
	default:
		o.Transport = web.New(webOptions(a, false)).Transport()
	}
	place, err := oci.Open(ref, o)
	return place, ref, err
}

// Spool is the directory of layers that came from registries and aren't used yet.
func Spool(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, "oci"), s.Err
}
