package functions

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// SystemParams are the parameters of tool:rye/core/system/system.
type SystemParams struct {
	Item string `json:"item"`
}

// itemAll selects all items.
const itemAll = "all"

// systemItems lists the items of the function system.
var systemItems = []string{"paths", "time", "runtime"}

// asked returns the known items that the parameter item selects: all, one or none.
func asked(item string, known []string) []string {
	switch {
	case item == itemAll:
		return known
	case slices.Contains(known, item):
		return []string{item}
	}
	return nil
}

// unknownItem returns the error of an unknown item.
func unknownItem(item string, known []string) error {
	return fault.New(fault.Validation, "unknown item %q", item).
		Because("expected one of " + strings.Join(append([]string{itemAll}, known...), ", "))
}

// SystemNeeds returns the needed permissions: to load each selected item.
func SystemNeeds(p SystemParams) (need function.Need) {
	for _, item := range asked(p.Item, systemItems) {
		need.Permissions = append(need.Permissions, capabilityFor(capability.Load, "system", item))
	}
	return need
}

func systemFunction(ctx context.Context, a *cli.App, c *function.Call, systemParams SystemParams) (any, error) {
	app := paths.Unattended(a, c.Files.Project, c.Errs)
	data := map[string]any{}
	for _, item := range asked(systemParams.Item, systemItems) {
		switch item {
		case "paths":
			data[item] = systemPaths(app)
		case "time":
			now := app.Clock().UTC()
			data[item] = map[string]any{"utc": now.Format(time.RFC3339), "unix": now.Unix()}
		case "runtime":
			v := cli.ThisVersion()
			data[item] = map[string]any{"rye": v.Version, "commit": v.Commit, "go": v.Go, "os": v.OS, "arch": v.Arch,
				"sandbox": max(paths.Machine(app).Offers().Best, floor.None).String()}
		}
	}
	switch {
	case len(data) == 0:
		return function.No(ctx, unknownItem(systemParams.Item, systemItems))
	case systemParams.Item == itemAll:
		return function.Yes(data)
	}
	return function.Yes(data[systemParams.Item])
}

// systemPaths returns the directories that rye works with; nil for one that isn't known.
func systemPaths(a *cli.App) map[string]any {
	places := map[string]any{}
	for name, s := range map[string]cli.Setting{
		"project": paths.ProjectSetting(a), "user_space": cli.UserSpace(a.UserBase()), "store": a.Store(),
		"state": a.Dir(cli.StatePlace),
		"cache": a.Dir(cli.CachePlace),
	} {
		places[name] = nil
		if s.Err == nil && s.Value != "" {
			places[name] = s.Value
		}
	}
	return places
}
