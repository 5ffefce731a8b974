package registries

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/reply"
	"github.com/rye-build/rye/exec/registry/door"
	"github.com/rye-build/rye/exec/serve"
)

type serveRun struct {
	dataFlags
	Listen      string   `placeholder:"ADDR" default:"127.0.0.1:7338" help:"Listen on ADDR (${default})."`
	TLSCert     string   `name:"tls-cert" placeholder:"FILE" complete:"file" help:"Certificate chain (PEM)."`
	TLSKey      string   `name:"tls-key" placeholder:"FILE" complete:"file" help:"Private key of the certificate (PEM)."`
	BehindProxy bool     `help:"Trust a proxy in front of this server to terminate TLS."`
	Host        []string `placeholder:"NAME" sep:"none" help:"Further name by which clients call this server (repeatable)."`
}

// listening is printed as soon as the server listens.
type listening struct {
	URL  string `json:"url"`
	Name string `json:"name"`
	Log  string `json:"log"`
	Key  string `json:"key"`
}

// Text prints nothing: where the server listens is a note.
func (listening) Text(*cli.Terminal) {}

// Run implements cli.Runner.
func (c *serveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	options := serve.Options{Listen: c.Listen, Proxied: c.BehindProxy, Hosts: c.Host, Now: app.Now,
		Tokens: &serve.Tokens{}, Warn: func(err error) { app.Term.Warn("%v", err) },
		Ready: func() error { return nil }}
	var err error
	if options.Certificate, err = c.certificate(app); err != nil {
		return nil, err
	}
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	if options.Proxied || options.Certificate != nil {
		options.Hosts = append(options.Hosts, data.Name())
	}
	server, err := serve.Listen(options)
	if err != nil {
		return nil, err
	}
	origin := "https://" + data.Name()
	if !options.Proxied && options.Certificate == nil {
		origin = strings.TrimSuffix(server.URL(""), "/")
		if data.issuers != nil {
			data.issuers.Audience = append(data.issuers.Audience, origin)
		}
	}
	scraper, err := secretIn(filepath.Join(data.dir, "metrics.token"))
	if err != nil {
		server.Close()
		return nil, err
	}
	(&door.Door{Registry: data.Registry, Blobs: data.files, Origin: origin, Warn: options.Warn,
		Metrics: data.metrics, Scraper: scraper, Proxied: c.BehindProxy}).Register(server)
	at := listening{server.URL(""), data.Name(), data.Log().String(), data.KeyOf().String()}
	if err := announce(app, at); err != nil {
		server.Close()
		return nil, err
	}
	go reissue(ctx, data, options.Warn)
	return nil, server.Run(ctx)
}

// reissueAfter is how often the server looks whether the list of advisories is to be issued again.
const reissueAfter = 10 * time.Minute

// reissue keeps the list of advisories fresh until ctx ends.
func reissue(ctx context.Context, data *data, warn func(error)) {
	for cas.Sleep(ctx, reissueAfter) == nil {
		if err := data.Reissue(ctx); err != nil && ctx.Err() == nil {
			warn(err)
		}
	}
}

// announce prints the server's address before the first request is answered.
func announce(app *cli.App, at listening) error {
	if !app.Term.Json {
		app.Term.Note("serving the registry %s at %s", at.Name, at.URL)
		return nil
	}
	line, err := reply.Data("registry-serve/1", at)
	if err != nil {
		return err
	}
	app.Term.Data.Write(line)
	return app.Term.Data.Flush()
}

// secretIn reads the token that reads the metrics, or makes one.
func secretIn(path string) (string, error) {
	text, err := osfile.ReadIfThere("the token", path, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		err = osfile.WriteFile(path, 0o600, true, osfile.BytesOf([]byte("ryem_"+rand.Text()+rand.Text()+"\n")))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		text, err = os.ReadFile(path)
	}
	return strings.TrimSpace(string(text)), err
}

// certificate reads the certificate that the flags name.
func (c *serveRun) certificate(app *cli.App) (*tls.Certificate, error) {
	switch {
	case c.TLSCert == "" && c.TLSKey == "":
		return nil, nil
	case c.TLSCert == "" || c.TLSKey == "":
		return nil, fault.New(fault.Validation, "--tls-cert and --tls-key must be given together")
	}
	pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, fault.New(fault.Config, "can't use the certificate %q with the key %q: %v", c.TLSCert, c.TLSKey,
			err).From(err)
	}
	return &pair, nil
}
