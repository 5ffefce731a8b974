package registries

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/manifest/tlog"
)

type backupRun struct {
	dataFlags
	Dir         string `arg:"" complete:"dir" help:"Directory of the backup."`
	WithoutKeys bool   `help:"Leave the private keys out."`
}

type backedUp struct {
	Dir  string `json:"dir"`
	Keys bool   `json:"keys"` // private keys are in the backup
	registry.BackedUp
}

// Text implements cli.Answer.
func (b backedUp) Text(t *cli.Terminal) {
	for _, line := range b.Wrong {
		t.Printf("%s\n", line)
	}
	t.Printf("%s  %s, %s, %s\n", b.Dir, fault.Count(b.Entries, "entry"), fault.Count(b.Archives, "archive"),
		cli.ByteSize(float64(b.Bytes)))
	t.Note("copied %s; removed %d", fault.Count(int64(b.Copied), "file"), b.Removed)
	if b.Keys {
		t.Note("it has the private keys of the log and of the indexes: keep it as safe as the registry")
	}
}

// kept returns the files of the data directory that a backup has.
func kept(dir string, keys bool) (map[string]string, error) {
	files := map[string]string{}
	names := []string{configFile, policyFile}
	if keys {
		names = append(names, logKeyFile, indexKeyFile)
	}
	for _, name := range names {
		text, err := osfile.ReadIfThere("the file", filepath.Join(dir, filepath.FromSlash(name)), tlog.MaxPolicy)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = string(text)
	}
	return files, nil
}

// Run implements cli.Runner.
func (c *backupRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	to := app.Absolute(cli.Setting{Value: c.Dir})
	if to.Err != nil {
		return nil, to.Err
	}
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	files, err := kept(data.dir, !c.WithoutKeys)
	if err != nil {
		return nil, err
	}
	copied, err := blobs.OpenLocal(to.Value, nil)
	if err != nil {
		return nil, err
	}
	defer copied.Close()
	// Of two backups at once, each would remove what only the other one names.
	unlock, err := osfile.LockFile(ctx, to.Value+".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	done, err := data.Backup(ctx, copied, files)
	if err != nil {
		return nil, err
	}
	answer := backedUp{c.Dir, !c.WithoutKeys, *done}
	if len(done.Wrong) > 0 {
		return answer, fault.New(fault.Integrity, "the backup lacks %s of the registry",
			fault.Count(int64(len(done.Wrong)), "file")).Answer()
	}
	return answer, nil
}
