package registries

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/blobs/s3"
	"github.com/rye-build/rye/exec/registry/pipeline"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/exec/registry/rows/postgres"
	"github.com/rye-build/rye/exec/registry/witness"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/tlog"
)

// dataFlags name the data directory.
type dataFlags struct {
	Data string `required:"" placeholder:"DIR" complete:"dir" help:"Directory with everything that the registry has."`
	Name string `placeholder:"HOST" help:"Name of a new registry: the host by which clients reach it."`
	storeFlags
}

// storeFlags say where rows and files are, if that isn't the data directory.
type storeFlags struct {
	Database     string `placeholder:"URL" help:"Keep what changes in PostgreSQL: postgres://USER@HOST/DATABASE."`
	PasswordFile string `placeholder:"FILE" complete:"file" help:"File with the database's password (0600); or PGPASSWORD, PGPASSFILE."`
	Objects      string `placeholder:"URL" help:"Keep files in a bucket: s3://HOST/BUCKET[/PREFIX]."`
	KeyFile      string `placeholder:"FILE" complete:"file" help:"File with the bucket's credentials (0600); or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."`
}

// data is an open data directory.
type data struct {
	*registry.Registry
	dir     string
	rows    rows.Store
	files   blobs.Store
	metrics *registry.Metrics
	issuers *pipeline.Issuers // nil: there are none
}

// Close closes the stores.
func (d *data) Close() error { return d.rows.Close() }

// A config is the content of config.json. The first start writes its name.
type config struct {
	Name     string            `json:"name"`
	URL      string            `json:"url,omitempty"` // of the pages
	Signup   registry.Signup   `json:"signup,omitempty"`
	Issuers  []pipeline.Issuer `json:"issuers,omitempty"`  // whose tokens let pipelines publish
	Inside   []string          `json:"inside,omitempty"`   // further private hosts that the server may connect to
	Reserved []string          `json:"reserved,omitempty"` // namespaces that can't be claimed, beside rye's own
}

// The files of the data directory that aren't in the stores.
const (
	configFile   = "config.json"
	policyFile   = "witnesses.policy"
	logKeyFile   = "keys/log.pem"
	indexKeyFile = "keys/index.pem"
)

// open opens the data directory, and makes it at the first start.
func (f *dataFlags) open(ctx context.Context, app *cli.App) (*data, error) {
	setting := app.Absolute(cli.Setting{Value: f.Data, Origin: "--data"})
	if setting.Err != nil {
		return nil, setting.Err
	}
	config, err := f.config(ctx, setting.Value)
	if err != nil {
		return nil, err
	}
	d := &data{dir: setting.Value}
	options, err := f.prepare(ctx, app, d)
	if err != nil {
		return nil, err
	}
	options.Name, options.Metrics = config.Name, registry.NewMetrics()
	options.URL, options.Signup, options.Reserved = config.URL, config.Signup, config.Reserved
	d.metrics = options.Metrics
	for _, k := range []struct {
		name string
		to   *key.Private
	}{{logKeyFile, &options.LogKey}, {indexKeyFile, &options.IndexKey}} {
		if *k.to, err = keyIn(filepath.Join(d.dir, filepath.FromSlash(k.name))); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if options.Witness, err = witnesses(d.dir, &options, config.Inside); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.issuers, err = issuers(config, &options); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.issuers != nil {
		options.Issuers = d.issuers
	}
	if d.Registry, err = registry.Open(ctx, options); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// prepare makes the directories of a data directory, and opens its stores.
func (f *storeFlags) prepare(ctx context.Context, app *cli.App, d *data) (registry.Options, error) {
	options := registry.Options{Now: app.Now, TempDir: filepath.Join(d.dir, "tmp"),
		Below: []*ai.Space{find.LibrarySpace()}, TXT: net.DefaultResolver.LookupTXT,
		Warn: func(err error) { app.Term.Warn("%v", err) }}
	for _, sub := range []string{"keys", "tmp"} {
		if err := os.MkdirAll(filepath.Join(d.dir, sub), 0o700); err != nil {
			return options, err
		}
	}
	err := f.stores(ctx, app, d, options.TempDir)
	options.Rows, options.Blobs = d.rows, d.files
	return options, err
}

// stores opens the stores that the flags name, or those of the data directory.
func (f *storeFlags) stores(ctx context.Context, app *cli.App, d *data, spool string) (err error) {
	if f.Objects != "" {
		d.files, err = s3.Open(ctx, s3.Options{Address: f.Objects, CredentialsFile: f.KeyFile, Spool: spool})
	} else {
		d.files, err = blobs.OpenLocal(filepath.Join(d.dir, "files"), nil)
	}
	if err != nil {
		return err
	}
	if f.Database != "" {
		d.rows, err = postgres.Open(ctx, postgres.Options{Address: f.Database, PasswordFile: f.PasswordFile,
			Secrets: secrets(app)})
	} else {
		d.rows, err = rows.OpenLocal(filepath.Join(d.dir, "rows"), nil)
	}
	return err
}

// secrets returns the files in which PostgreSQL's clients look for a password that the environment doesn't have.
func secrets(app *cli.App) (paths []string) {
	if app.Env("PGPASSWORD") == "" {
		if path := app.Env("PGPASSFILE"); path != "" {
			paths = append(paths, path)
		} else if home := app.Home(); home.Err == nil {
			paths = append(paths, filepath.Join(home.Value, ".pgpass"))
		}
	}
	if path := app.Env("PGSERVICEFILE"); path != "" && app.Env("PGSERVICE") != "" {
		paths = append(paths, path)
	}
	return paths
}

// witnesses returns what asks the witnesses of the data directory's policy; nil without one.
func witnesses(dir string, o *registry.Options, inside []string) (registry.Witness, error) {
	path := filepath.Join(dir, policyFile)
	text, err := osfile.ReadIfThere("the policy of witnesses", path, tlog.MaxPolicy)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	policy, err := tlog.ParsePolicy(text)
	if err != nil {
		return nil, fault.Wrap(err, "%q: %v", path, err).On("path", path)
	}
	log, err := tlog.NewKey(o.Name+"/"+client.LogDir, o.LogKey.Public())
	if err != nil {
		return nil, err
	}
	// The owner of a witness's name must not lead this server to its own network.
	fetch := web.New(web.Options{Stranger: true, Inside: inside})
	return &witness.Client{Policy: policy, Log: log, Web: fetch, Warn: o.Warn}, nil
}

// config returns the registry's configuration, with the name that its first start has set.
func (f *dataFlags) config(ctx context.Context, dir string) (*config, error) {
	path := filepath.Join(dir, configFile)
	text, err := osfile.ReadIfThere("the configuration", path, 64<<10)
	if err == nil {
		known, err := parseConfig(path, text)
		if err != nil {
			return nil, err
		}
		if f.Name != "" && f.Name != known.Name {
			return nil, fault.New(fault.Conflict, "the registry in %q is named %q: a registry keeps its name", dir,
				known.Name)
		}
		return known, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if f.Name == "" {
		return nil, fault.New(fault.Validation, "there is no registry in %q yet: a new one needs a name", dir).
			Because("it stands in the names of its indexes and its log, and never changes").
			Try("ryed registry serve --data " + fault.Quote(dir) + " --name registry.example.com")
	}
	if err := client.CheckName(f.Name); err != nil {
		return nil, fault.New(fault.Validation, "--name: %v", err).From(err)
	}
	made := &config{Name: f.Name}
	text, err = json.Marshal(made)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := osfile.LockFile(ctx, path+".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	return made, osfile.WriteFile(path, 0o600, false, osfile.BytesOf(append(text, '\n')))
}

// parseConfig reads config.json.
func parseConfig(path string, text []byte) (*config, error) {
	known := new(config)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(known); err != nil {
		return nil, fault.New(fault.Config, "%q is not a configuration: %v", path, err).From(err)
	}
	return known, nil
}

// keyIn reads a private key, or makes one.
func keyIn(path string) (key.Private, error) {
	text, err := osfile.ReadIfThere("the key", path, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		made, err := key.Generate(rand.Reader)
		if err != nil {
			return key.Private{}, err
		}
		err = osfile.WriteFile(path, 0o600, true, osfile.BytesOf(made.PEM()))
		if !errors.Is(err, fs.ErrExist) {
			return made, err
		}
		text, err = os.ReadFile(path)
		if err != nil {
			return key.Private{}, err
		}
		return key.ParsePrivatePEM(text)
	}
	if err != nil {
		return key.Private{}, err
	}
	return key.ParsePrivatePEM(text)
}
