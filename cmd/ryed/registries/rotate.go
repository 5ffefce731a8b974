package registries

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
)

type rotateRun struct{ dataFlags }

// rotated is what clients are told to compare.
type rotated struct {
	Name    string `json:"name"`
	Before  string `json:"before"`
	Log     string `json:"log"`
	Entries int64  `json:"entries"`
	File    string `json:"file"` // of the rotation, below the registry's address
}

// Text implements cli.Answer.
func (r rotated) Text(t *cli.Terminal) {
	t.Printf("%s\n", r.Log)
	if r.File == "" {
		t.Note("the rotation that was interrupted is complete")
		return
	}
	t.Note("the log of %s goes on after %d entries with this key, instead of %s", r.Name, r.Entries, r.Before)
	t.Note("tell clients, who run: rye trust add --rotation https://%s/%s", r.Name, r.File)
	t.Note("the old key is no longer there: make a new backup")
}

// nextKeyFile has the new key until it replaces that of the log.
const nextKeyFile = "keys/log.next.pem"

// Run implements cli.Runner.
func (c *rotateRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	path := filepath.Join(data.dir, filepath.FromSlash(nextKeyFile))
	next, err := keyIn(path)
	if err != nil {
		return nil, err
	}
	if next.Public() == data.Log().Public() { // an earlier one was interrupted at its end
		return rotated{Name: data.Name(), Log: data.Log().String()}, os.Remove(path)
	}
	if err := app.Confirm(ctx, "replace the key of the log of "+data.Name()+
		"? No other process may serve it."); err != nil {
		return nil, err
	}
	made, err := data.Rotate(ctx, next)
	if err != nil {
		return nil, err
	}
	if err := osfile.WriteFile(filepath.Join(data.dir, filepath.FromSlash(logKeyFile)), 0o600, false,
		osfile.BytesOf(next.PEM())); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	// Opened with the new key, the registry completes it.
	again, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	return rotated{data.Name(), made.Before.String(), made.Log.String(), made.Entries,
		registry.RotationFile(made.Before)}, nil
}
