package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/exec/oauth"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/primitive/mcp"
	"github.com/rye-build/rye/exec/sandbox"
)

// authClient is a client for the scenarios of the official suite that are about signing in: rye auth login, by a user
// who agrees at once, and then the primitive with the token. The last argument is where the server is.
func authClient() {
	if err := signedIn(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func signedIn(at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	var given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 25*time.Second)
	defer stop()
	c := &mcp.Client{HTTP: &httpclient.Client{}, Version: "test"}
	defer c.Close()
	token := ""
	once := func(config map[string]any) (*primitive.Result, error) {
		config["transport"], config["url"], config["timeout"] = "http", at, int64(20)
		if token != "" {
			config["headers"] = map[string]any{"Authorization": "Bearer " + token}
		}
		return c.Run(ctx, &primitive.Action{
			Config: config, Tool: "tool:mcp/servers/suite",
			Sandbox: sandbox.Spec{Network: sandbox.Network{Hosts: []string{u.Host}}},
		}, nil)
	}
	// Signed in as rye auth login does it, as often as the server wants.
	do := func(config map[string]any) (r *primitive.Result, err error) {
		for range 3 {
			if r, err = once(maps.Clone(config)); err != nil || !r.Failed || r.Trouble == nil ||
				r.Trouble.Status/100 != 4 {
				return r, err
			}
			login := &oauth.Login{Server: at, ClientID: given.ClientID, ClientSecret: given.ClientSecret,
				Now: time.Now, Wait: 10 * time.Second, Show: func(address string) {
					go func() {
						if resp, err := http.Get(address); err == nil {
							io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
					}()
				}}
			if _, scope, ok := strings.Cut(r.Failure, "rye auth login --scope "); ok {
				if scope, err = strconv.Unquote(scope); err != nil {
					return nil, err
				}
				login.Scopes = strings.Fields(scope)
			}
			grant, err := login.Run(ctx)
			if err != nil {
				return nil, err
			}
			token = grant.Access
		}
		return r, err
	}
	r, err := do(map[string]any{})
	if err != nil {
		return err
	}
	if r.Failed {
		return fmt.Errorf("%s", r.Failure)
	}
	all, _ := r.Value.(map[string]any)["tools"].([]any)
	for _, v := range all {
		tool := v.(map[string]any)
		r, err := do(map[string]any{"tool_name": tool["name"], "definition": tool["definition"], "arguments": "{}"})
		if err != nil {
			return err
		}
		if r.Failed {
			fmt.Fprintln(os.Stderr, strings.TrimSpace(r.Failure))
		}
	}
	return nil
}
