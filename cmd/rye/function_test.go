package main

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cmd/rye/functions"
)

// What a call needs is what it asks for, and all of it where that can't be said.
func TestFunctionNeeds(t *testing.T) {
	needs := func(list []capability.Capability) string {
		var texts []string
		for _, c := range list {
			texts = append(texts, c.String())
		}
		return strings.Join(texts, " ")
	}
	for want, got := range map[string]string{
		"load:system:time": needs(functions.SystemNeeds(functions.SystemParams{Item: "time"}).Permissions),
		"load:system:paths load:system:time load:system:runtime": needs(
			functions.SystemNeeds(functions.SystemParams{Item: "all"}).Permissions),
		"":           needs(functions.SystemNeeds(functions.SystemParams{Item: "x"}).Permissions),
		"load:audit": needs(functions.TelemetryNeeds(functions.TelemetryParams{}).Permissions),
		"sign:bundle:acme/a": needs(functions.BundlerNeeds(functions.BundlerParams{Action: "create",
			ID: "acme/a"}).Permissions),
		"sign:bundle:*": needs(functions.BundlerNeeds(functions.BundlerParams{Action: "create-package"}).
			Permissions),
		"load:bundle:acme/a": needs(functions.BundlerNeeds(functions.BundlerParams{Action: "verify",
			ID: "acme/a"}).Permissions),
		"load:bundle:*": needs(functions.BundlerNeeds(functions.BundlerParams{Action: "inspect",
			ID: "../a"}).Permissions),
		"load:bundle:*, of all": needs(functions.BundlerNeeds(functions.BundlerParams{Action: "list"}).Permissions) +
			", of all",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	if !functions.BundlerNeeds(functions.BundlerParams{Action: "create"}).Own ||
		functions.BundlerNeeds(functions.BundlerParams{Action: "list"}).Own {
		t.Error("bundles are made for the user's own calls, and listed for others, too")
	}
}
