package registries

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/tlog"
)

type restoreRun struct {
	Dir    string   `arg:"" complete:"dir" help:"Data directory of the restored registry."`
	From   string   `placeholder:"DIR" complete:"dir" help:"Backup that is restored."`
	Seen   []string `placeholder:"FILE" complete:"file" sep:"none" help:"Newest checkpoint of a mirror or a client (repeatable)."`
	NewLog bool     `help:"Begin a new log with a new key."`
	Name   string   `placeholder:"HOST" help:"Name of the registry with the new log."`
	storeFlags
}

type restored struct {
	Dir     string `json:"dir"`
	Name    string `json:"name"`
	Log     string `json:"log"`
	Key     string `json:"key"`
	Signing bool   `json:"signing"` // the public log gets new entries
	NewLog  bool   `json:"new_log"`
	// Stopped are the private namespaces whose logs get no new entries.
	Stopped []string `json:"stopped"`
	registry.Restored
}

// Text implements cli.Answer.
func (r restored) Text(t *cli.Terminal) {
	for _, line := range r.Wrong {
		t.Printf("%s\n", line)
	}
	t.Printf("%s  %s, %s, %s\n", r.Name, fault.Count(r.Entries, "entry"), fault.Count(r.Archives, "archive"),
		cli.ByteSize(float64(r.Bytes)))
	if r.Rows > 0 {
		t.Note("accounts and tokens are those of the backup: a token that was removed later is valid again")
	}
	if r.NewLog {
		t.Note("clients refuse the new log until rye.yaml says, in registries:")
		t.Note("  log: %q", r.Log)
	}
	if r.Signing {
		t.Note("the registry can be served")
	}
	for _, space := range r.Stopped {
		t.Note("the private namespace %s gets nothing new yet: --seen its newest checkpoint", space)
	}
}

// Run implements cli.Runner.
func (c *restoreRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir, from := app.Absolute(cli.Setting{Value: c.Dir}), app.Absolute(cli.Setting{Value: c.From, Origin: "--from"})
	if err := errors.Join(dir.Err, from.Err); err != nil {
		return nil, err
	}
	switch {
	case c.NewLog && (c.Name == "" || c.From == ""):
		return nil, fault.New(fault.Validation, "--new-log needs --from and a new --name").
			Because("the origin of a log is its registry's name, and clients remember what that log has shown")
	case !c.NewLog && c.Name != "":
		return nil, fault.New(fault.Validation, "--name needs --new-log: a restored registry keeps its name")
	case c.From == "" && len(c.Seen) == 0:
		return nil, fault.New(fault.Validation, "restore needs --from, or --seen for a registry that is restored").
			Try("ryed registry restore " + fault.Quote(c.Dir) + " --from BACKUP")
	}
	var seen [][]byte
	for _, path := range c.Seen {
		text, err := osfile.ReadSmall(path, tlog.MaxProof)
		if err != nil {
			return nil, err
		}
		seen = append(seen, text)
	}
	if c.From == "" {
		return c.resume(ctx, app, dir.Value, seen)
	}
	// A directory that doesn't exist must not be made by looking for a backup there.
	if _, err := os.Stat(from.Value); err != nil {
		return nil, err
	}
	files, err := blobs.OpenLocal(from.Value, nil)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	backup, err := registry.ReadBackup(ctx, files)
	if err != nil {
		return nil, err
	}
	done, err := c.restore(ctx, app, dir.Value, &registry.Restore{From: files, Backup: backup, Seen: seen,
		NewLog: c.NewLog})
	if err != nil {
		return nil, err
	}
	data, err := (&dataFlags{Data: dir.Value, storeFlags: c.storeFlags}).open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	answer := c.answer(data)
	answer.Restored = *done
	if answer.Signing, err = data.Signing(ctx); err != nil {
		return nil, err
	}
	if answer.Stopped, err = data.Stopped(ctx); err != nil {
		return nil, err
	}
	if len(done.Wrong) > 0 {
		return answer, fault.New(fault.Integrity, "the backup lacks %s of the registry",
			fault.Count(int64(len(done.Wrong)), "file")).Answer()
	}
	return answer, nil
}

func (c *restoreRun) answer(d *data) restored {
	return restored{Dir: c.Dir, Name: d.Name(), Log: d.Log().String(), Key: d.KeyOf().String(), NewLog: c.NewLog,
		Stopped: []string{}, Restored: registry.Restored{Wrong: []string{}}}
}

// resume shows a registry that is restored the newest checkpoints that its host knows.
func (c *restoreRun) resume(ctx context.Context, app *cli.App, dir string, seen [][]byte) (cli.Answer, error) {
	data, err := (&dataFlags{Data: dir, storeFlags: c.storeFlags}).open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	answer := c.answer(data)
	// All must be the log's before any of them lets it go on.
	for _, text := range seen {
		if _, err := data.Seen(ctx, registry.Host, text); err != nil {
			return nil, err
		}
	}
	for _, text := range seen {
		sighting, err := data.Resume(ctx, text)
		if err != nil {
			return nil, err
		}
		if sighting.Private == "" {
			answer.Entries, answer.Shown = sighting.Entries, sighting.Entries
		}
	}
	if answer.Signing, err = data.Signing(ctx); err != nil {
		return nil, err
	}
	if answer.Stopped, err = data.Stopped(ctx); err != nil {
		return nil, err
	}
	return answer, nil
}

// restore makes the registry in a data directory.
func (c *restoreRun) restore(ctx context.Context, app *cli.App, dir string, r *registry.Restore) (*registry.Restored,
	error) {
	files, err := c.files(dir, r.Backup)
	if err != nil {
		return nil, err
	}
	if err := place(dir, files, false); err != nil {
		return nil, err
	}
	d := &data{dir: dir}
	if r.To, err = c.prepare(ctx, app, d); err != nil {
		return nil, err
	}
	defer d.Close()
	known, err := parseConfig(configFile, []byte(files[configFile]))
	if err != nil {
		return nil, err
	}
	r.To.Name = known.Name
	if r.To.LogKey, err = key.ParsePrivatePEM([]byte(files[logKeyFile])); err != nil {
		return nil, err
	}
	if r.To.IndexKey, err = key.ParsePrivatePEM([]byte(files[indexKeyFile])); err != nil {
		return nil, err
	}
	r.Begun = func() error { return place(dir, files, true) }
	return r.Run(ctx)
}

// files returns what the data directory will have beside the stores: what the backup has, and keys that it doesn't
// have but the directory.
func (c *restoreRun) files(dir string, backup *registry.Backup) (map[string]string, error) {
	files := map[string]string{}
	for _, name := range []string{configFile, policyFile, logKeyFile, indexKeyFile} {
		if text, ok := backup.Files[name]; ok { // no other name is one of a data directory
			files[name] = text
		}
	}
	known, err := parseConfig(configFile, []byte(files[configFile]))
	if err != nil {
		return nil, err
	}
	known.Name = backup.Name
	if c.NewLog {
		known.Name = c.Name
		delete(files, logKeyFile)
	}
	text, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	files[configFile] = string(text) + "\n"
	for _, name := range []string{logKeyFile, indexKeyFile} {
		if _, ok := files[name]; ok {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		text, err := osfile.ReadIfThere("the key", path, 64<<10)
		switch {
		case err == nil:
			files[name] = string(text)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case name == logKeyFile && c.NewLog:
			made, err := key.Generate(rand.Reader)
			if err != nil {
				return nil, err
			}
			files[name] = string(made.PEM())
		default:
			return nil, fault.New(fault.NotFound, "the backup has no private keys, and %q is missing", path).
				Because("without its keys a registry can't go on: copy them there first").
				Try(fault.Command("mkdir -p", filepath.Dir(path)), "cp KEY "+fault.Quote(path))
		}
	}
	return files, nil
}

// place writes the files of a data directory, or only looks whether it may. It never replaces another file.
func place(dir string, files map[string]string, write bool) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		there, err := osfile.ReadIfThere("the file", path, tlog.MaxPolicy)
		switch {
		case err == nil && bytes.Equal(there, []byte(files[name])):
			continue
		case err == nil:
			return fault.New(fault.Conflict, "%q is there already: a backup is restored into an empty place", path).
				On("path", path)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case !write:
			continue
		}
		if err := osfile.WriteFile(path, 0o600, true, osfile.BytesOf([]byte(files[name]))); err != nil {
			return err
		}
	}
	return nil
}
