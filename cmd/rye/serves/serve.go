package serves

import (
	"context"
	"crypto/tls"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/reply"
	"github.com/rye-build/rye/exec/gateway"
	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/serve"
)

type serveRun struct {
	Listen      string   `placeholder:"ADDR" default:"127.0.0.1:7337" help:"Listen on ADDR (${default})."`
	TLSCert     string   `name:"tls-cert" placeholder:"FILE" complete:"file" help:"Certificate chain (PEM)."`
	TLSKey      string   `name:"tls-key" placeholder:"FILE" complete:"file" help:"Private key of the certificate (PEM)."`
	BehindProxy bool     `help:"Trust a proxy in front of this server to terminate TLS."`
	Host        []string `placeholder:"NAME" sep:"none" help:"Further name by which clients call this server (repeatable)."`
	Rate        int      `placeholder:"N" default:"6000" help:"Requests per token and minute (${default})."`
	offered
}

// listening is printed as soon as the server listens.
type listening struct {
	URL    string `json:"url"`   // of the MCP server
	Tools  string `json:"tools"` // of the gateway
	Health string `json:"health"`
	Ready  string `json:"ready"`
}

// Text prints nothing: where the server listens is a note.
func (listening) Text(*cli.Terminal) {}

// tokens opens this user's tokens.
func tokens(a *cli.App) (*serve.Tokens, error) {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, state.Err
	}
	return serve.OpenTokens(state.Value, a.Now), nil
}

func (c *serveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	options := serve.Options{Listen: c.Listen, Proxied: c.BehindProxy, Hosts: c.Host, Rate: c.Rate, Now: app.Now,
		Warn: func(err error) { app.Term.Warn("%v", err) }}
	var err error
	if c.Rate < 1 {
		return nil, fault.New(fault.Validation, "--rate must be at least 1")
	}
	if options.Certificate, err = c.certificate(app); err != nil {
		return nil, err
	}
	if options.Tokens, err = tokens(app); err != nil {
		return nil, err
	}
	all, err := options.Tokens.List()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Config, "no token exists, so no client could connect").
			Try("rye serve token add default")
	}
	served, err := c.options(app, false)
	if err != nil {
		return nil, err
	}
	agents := mcp.New(served)
	if err := agents.Open(ctx); err != nil {
		return nil, err
	}
	defer agents.Close()
	collectSeldom(app)
	options.Ready = agents.Ready
	s, err := serve.Listen(options)
	if err != nil {
		return nil, err
	}
	s.Handle("/mcp", serve.Call, agents.Handler())
	(&gateway.Gateway{Host: agents.Host(), Warn: served.Warn}).Register(s)
	at := listening{s.URL("/mcp"), s.URL("/v1/tools"), s.URL("/healthz"), s.URL("/readyz")}
	if err := announce(app, at); err != nil {
		s.Close()
		return nil, err
	}
	return nil, s.Run(ctx)
}

// announce prints the server's address before the first request is answered.
func announce(a *cli.App, at listening) error {
	if !a.Term.Json {
		a.Term.Note("serving agents at %s, and any client at %s; clients send a token of rye serve token list", at.URL,
			at.Tools)
		return nil
	}
	line, err := reply.Data("serve/1", at)
	if err != nil {
		return err
	}
	a.Term.Data.Write(line)
	return a.Term.Data.Flush()
}

// certificate reads the certificate that the flags name.
func (c *serveRun) certificate(a *cli.App) (*tls.Certificate, error) {
	switch {
	case c.TLSCert == "" && c.TLSKey == "":
		return nil, nil
	case c.TLSCert == "" || c.TLSKey == "":
		return nil, fault.New(fault.Validation, "--tls-cert and --tls-key must be given together")
	}
	paths := [2]cli.Setting{a.Absolute(cli.Setting{Value: c.TLSCert, Origin: "--tls-cert"}),
		a.Absolute(cli.Setting{Value: c.TLSKey, Origin: "--tls-key"})}
	for _, p := range paths {
		if p.Err != nil {
			return nil, p.Err
		}
	}
	pair, err := tls.LoadX509KeyPair(paths[0].Value, paths[1].Value)
	if err != nil {
		return nil, fault.New(fault.Config, "can't use the certificate %q with the key %q: %v", c.TLSCert, c.TLSKey,
			err).From(err)
	}
	return &pair, nil
}
