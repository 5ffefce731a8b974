package catalogs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
)

type addRun struct {
	Name    string   `arg:"" help:"Name of the server, as in files."`
	Command []string `arg:"" optional:"" name:"command" help:"Program and arguments of a server on stdio, after --."`
	Stdio   bool     `help:"The server is a program (the default with a command)."`
	HTTP    string   `name:"http" placeholder:"URL" help:"Address of a server that is reached by HTTP."`
	NPM     string   `name:"npm" placeholder:"PKG[@VERSION]" help:"Run a program of an npm package, pinned with its dependencies."`

	PackageLock string `placeholder:"FILE" complete:"file" help:"Use this package-lock.json instead of running npm."`

	Read    []string `placeholder:"DIR" sep:"none" help:"Let it read a directory of the project (repeatable)."`
	Write   []string `placeholder:"DIR" sep:"none" help:"Let it write a directory of the project (repeatable)."`
	Network []string `placeholder:"HOST" sep:"none" help:"Let it reach a host; all for every host (repeatable)."`
	Secret  []string `placeholder:"NAME[=VAR]" sep:"none" help:"Pass it a secret as a variable (repeatable)."`
	Env     []string `placeholder:"NAME=VALUE" sep:"none" help:"Set a variable (repeatable)."`
	Header  []string `placeholder:"LINE" sep:"none" help:"Send a header with each request (repeatable)."`
	Timeout *int     `placeholder:"SECONDS" help:"Time limit of a call."`
	Scope   string   `enum:"project,user" default:"project" help:"Where to write the items: project or user."`
	DryRun  bool     `help:"Show what it would run; start and write nothing."`

	AcceptCritical bool `help:"Add it despite critical warnings about the server itself."`
	trusts.KeyFlag

	pack   *launcher.Package // that npx, npm exec, uvx or --npm names
	beside []catalog.Beside  // the files to write next to the server's item
}

// Added describes the added server, its tools and the items that were written.
type Added struct {
	Server      *Consent         `json:"server"`
	File        string           `json:"file"`
	Key         string           `json:"key"`  // its fingerprint
	Call        string           `json:"call"` // in the audit log
	Tools       []catalog.Change `json:"tools"`
	Written     []string         `json:"written"`     // refs, the server's first
	Quarantined []string         `json:"quarantined"` // names of tools
	DryRun      bool             `json:"dry_run"`
	name, next  string
}

// Text implements cli.Answer.
func (x *Added) Text(term *cli.Terminal) {
	if x.DryRun {
		term.Printf("%s\n", x.Server.Ref)
		term.Rows(x.Server.rows())
		return
	}
	for _, ref := range x.Written {
		term.Printf("wrote %s\n", ref)
	}
	for i := range x.Tools {
		if c := &x.Tools[i]; slices.Contains(x.Quarantined, c.Tool) {
			term.Note("quarantined %s: %s", cut(c.Tool, maxName), acceptCommand(x.name, c))
		}
	}
	term.Note("signed with %s; next: %s", paths.Short(x.Key), x.next)
}

// next returns the command, or the instruction, that adds a server's tools to the lock. If rye.yaml has roots that
// don't match them, they must be added there first.
func (o *opened) next(s *ai.Space, at catalog.Place) string {
	if s.Level == ai.User {
		return "rye lock --user"
	}
	file, err := o.Root.File(paths.Running())
	tool := at.Tool("x")
	if o.Root.Marker != workspace.MarkerFile || err != nil || len(file.Roots) == 0 ||
		slices.ContainsFunc(file.Roots, func(r project.Root) bool { return r.Match(tool, s.Label) }) {
		return "rye lock"
	}
	return fmt.Sprintf("add %q to roots in rye.yaml, then run rye lock", at.Tools())
}

// AddHTTP adds a server that is reached by HTTP, as rye mcp add --http does.
func AddHTTP(ctx context.Context, a *cli.App, name, address string, key trusts.KeyFlag, dry bool) (*Added, error) {
	ans, err := (&addRun{Name: name, HTTP: address, Scope: "project", KeyFlag: key, DryRun: dry}).Run(ctx, a)
	if err != nil {
		return nil, err
	}
	return ans.(*Added), nil
}

func (c *addRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	spec, err := c.spec()
	if err == nil {
		err = c.checkSecrets(app, spec)
	}
	if err != nil {
		return nil, err
	}
	view, space, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if err := c.free(ctx, view, space); err != nil {
		return nil, err
	}
	if c.Scope != "user" && c.pack == nil {
		spec.AddScript(os.DirFS(view.Root.Root))
	}
	userKey, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	signer := catalog.Key{Private: userKey.Private, Now: app.Clock}
	spec, beside, err := catalog.FromLauncher(ctx, spec, c.Name, c.packageList(app, signer))
	if err != nil {
		return nil, err
	}
	for i := range beside {
		beside[i].Path = path.Join(c.at().Dir(), beside[i].Path)
	}
	c.beside = beside
	st, err := Stage(ctx, app)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	server, err := c.server(ctx, st, spec, signer)
	if err != nil {
		return nil, err
	}
	ans := &Added{File: view.Name(space, server.Item.Path), Key: userKey.Public().Fingerprint().String(),
		DryRun:  c.DryRun,
		Tools:   []catalog.Change{},
		Written: []string{}, Quarantined: []string{}, name: c.Name, next: view.next(space, c.at())}
	if ans.Server, err = consent(ctx, st, server); err != nil {
		return nil, c.unplanned(app, server, err)
	}
	if c.DryRun {
		return ans, nil
	}
	ans.Server.say(app)
	if err := app.Confirm(ctx, "Ask it for its tools?"); err != nil {
		return nil, err
	}
	announced, call, err := ask(ctx, app, st, server)
	if err != nil {
		return nil, err
	}
	ans.Call = call
	others := catalog.OthersOf(view.servers, c.Name)
	if ans.Tools, err = catalog.Compare(c.at(), nil, announced, others); err != nil {
		return nil, err
	}
	st.CheckStubs(c.at(), spec, ans.Tools)
	accepted := c.choose(app, announced, ans, others)
	if flags.AnyCritical(announced.Flags(others)) && !c.AcceptCritical {
		return nil, fault.New(fault.Denied, "%s hides something in its own description",
			server.Item.Ref).On("reason",
			"critical").On("name", c.Name).
			Because("critical warnings about a tool keep that tool out; these are about the server").
			Try(app.With("--accept-critical"))
	}
	if err := app.Confirm(ctx, fmt.Sprintf("Sign %s as items of %s?", tools(len(accepted)),
		server.Item.Ref)); err != nil {
		return nil, err
	}
	all, err := st.Stubs(ctx, c.at(), spec, accepted, signer)
	if err != nil {
		return nil, err
	}
	return c.install(ctx, app, space, announced, ans, server, all)
}

// unplanned returns the error of a server that can't be started, with hints about its command: its item isn't written.
func (c *addRun) unplanned(app *cli.App, s *catalog.Server, err error) error {
	failure := fault.Of(unasked(app, s, err))
	missing, ok := errors.AsType[*env.NotFoundError](err)
	if at := len(app.Args) - len(c.Command); ok && len(c.Command) > 0 && missing.What == c.Command[0] &&
		at >= 0 && app.Args[at] == c.Command[0] {
		args := slices.Clone(app.Args)
		args[at] = "PROGRAM"
		failure.Text = fmt.Sprintf("program %q not found", missing.What)
		failure.Because("install it, or name another program").Hint = []string{fault.Command("rye", args...)}
	}
	return failure
}

// at is the place of the server.
func (c *addRun) at() catalog.Place { return catalog.PlaceOf(c.Name) }

// read reads a command that may be npx, npm exec or uvx. One that downloads what it runs in another way is refused:
// the sandbox has no network for it, and what it would run is pinned by nothing.
func (c *addRun) read(command []string) error {
	pack, skip := launcher.Read(command[0], command[1:])
	if skip == nil {
		c.pack = pack
		return nil
	}
	f := fault.New(fault.Validation, "this server can't be pinned: %s", skip.Reason).
		Because("the sandbox has no network for a download, and rye reads npx and uvx instead of running them")
	if len(skip.Form) == 0 {
		return f.Try("rye docs mcp-servers")
	}
	return f.Try(fault.Command("rye mcp add", append([]string{c.Name, "--"}, skip.Form...)...))
}

// spec checks the flags and returns the server that they describe.
func (c *addRun) spec() (*catalog.Spec, error) {
	if err := catalog.CheckName(c.Name); err != nil {
		return nil, err
	}
	spec := &catalog.Spec{Transport: catalog.Stdio, URL: c.HTTP, Timeout: cli.Value(c.Timeout)}
	if c.HTTP != "" {
		spec.Transport = catalog.HTTP
	}
	switch {
	case c.NPM != "" && (c.Stdio || c.HTTP != ""):
		return nil, fault.New(fault.Validation, "--npm, --stdio and --http exclude each other").Try("rye help mcp add")
	case c.NPM != "":
		pack, err := launcher.ParseNPM(c.NPM)
		if err != nil {
			return nil, fault.New(fault.Validation, "--npm: %v", err).Try("rye help mcp add")
		}
		pack.Args = c.Command
		if err := c.read(pack.Command()); err != nil {
			return nil, err
		}
		spec.Command, spec.Args = pack.Command()[0], pack.Command()[1:]
	case c.HTTP != "" && (c.Stdio || len(c.Command) > 0):
		return nil, fault.New(fault.Validation, "--http and a command exclude each other").Try("rye help mcp add")
	case c.HTTP == "" && len(c.Command) == 0:
		return nil, fault.New(fault.Validation, "no server given: add -- and a command, --npm or --http").
			Try("rye help mcp add")
	case len(c.Command) == 1 && strings.Contains(c.Command[0], "://"):
		return nil, fault.New(fault.Validation, "%q is an address, not the name of a program", c.Command[0]).
			Try(fault.Command("rye mcp add", c.Name, "--http", c.Command[0]))
	case len(c.Command) > 0:
		if err := c.read(c.Command); err != nil {
			return nil, err
		}
		spec.Command, spec.Args = c.Command[0], c.Command[1:]
	}
	if c.PackageLock != "" && (c.pack == nil || c.pack.Ecosystem != packages.NPM) {
		return nil, fault.New(fault.Validation, "--package-lock belongs to a package of npm").Try("rye help mcp add")
	}
	if c.Timeout != nil && *c.Timeout < 1 {
		return nil, fault.New(fault.Validation, "--timeout must be at least 1")
	}
	var err error
	if spec.Env, err = pairs("--env", "=", c.Env); err != nil {
		return nil, err
	}
	if spec.Headers, err = pairs("--header", ":", c.Header); err != nil {
		return nil, err
	}
	spec.Read, spec.Write, spec.Network = c.Read, c.Write, c.Network
	if err := spec.AddSecrets(c.Secret); err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	spec.AddHost()
	return spec, nil
}

// pairs parses repeated NAME=VALUE flags, or with the separator ":" headers. A name may occur once.
func pairs(flag, sep string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, sep)
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fault.New(fault.Validation, "invalid %s %q: expected NAME%sVALUE", flag, text,
				sep).Try("rye help mcp add")
		}
		if _, twice := out[name]; twice {
			return nil, fault.New(fault.Validation, "duplicate %s %q", flag, name)
		}
		if sep == ":" {
			value = strings.TrimSpace(value)
		}
		out[name] = value
	}
	return out, nil
}

// open opens the space of --scope, where the items will be written. A missing .ai is an empty space. The caller
// closes the view.
func (c *addRun) open(ctx context.Context, app *cli.App) (*opened, *ai.Space, error) {
	user := c.Scope == "user"
	if !user {
		if _, err := paths.Paths(app).OpenProject(); err != nil {
			return nil, nil, fault.Of(err).Try(app.With("--scope", "user"))
		}
	}
	view, err := openServers(ctx, app, user)
	if err != nil {
		return nil, nil, err
	}
	space := view.Project
	switch {
	case user && view.User != nil:
		space = view.User
	case user:
		dir := cli.UserSpace(app.UserBase())
		if dir.Err != nil {
			view.Close()
			return nil, nil, dir.Err
		}
		space = &ai.Space{Label: ai.User.String(), Level: ai.User, Dir: dir.Value, FS: os.DirFS(dir.Value)}
	case space == nil:
		dir := view.Root.DotAI()
		space = &ai.Space{Label: ai.Project.String(), Level: ai.Project, Dir: dir, FS: os.DirFS(dir)}
	}
	return view, space, nil
}

// free refuses a name if the space has a server of this name, or tools in its directory.
func (c *addRun) free(ctx context.Context, view *opened, space *ai.Space) error {
	if slices.ContainsFunc(view.servers, func(s *catalog.Server) bool {
		return s.Name == c.Name && s.Item != nil && s.Item.Space == space
	}) {
		return fault.New(fault.Validation, "the server %q exists already", c.Name).
			Try(fault.Command("rye mcp refresh", c.Name), fault.Command("rye mcp remove", c.Name)).On("reason",
			"exists").On("name", c.Name)
	}
	if err := view.CheckFree(ctx, c.at().Ref(), space); err != nil {
		return err
	}
	l, err := view.Files(ctx, "tool")
	if err != nil {
		return err
	}
	for _, f := range l.Files {
		if f.Space == space && strings.HasPrefix(strings.ToLower(f.ID), "mcp/"+strings.ToLower(c.Name)+"/") {
			return fault.New(fault.Validation, "%s exists already, without a server %q", f.Ref, c.Name).
				Try(fault.Command("rye rm", c.at().Tools())).On("reason", "exists").On("ref", f.Ref.String())
		}
	}
	return nil
}

// server writes the item of the server, and the file beside it, to the stage.
func (c *addRun) server(ctx context.Context, st *catalog.Stage, spec *catalog.Spec,
	signer catalog.Key) (*catalog.Server,
	error) {
	for _, f := range c.beside {
		if err := st.Put(f.Path, f.Bytes, 0o600); err != nil {
			return nil, err
		}
	}
	it, err := st.Draft(c.at().Ref(), ".yaml", spec.File(c.at()))
	if err != nil {
		return nil, err
	}
	if it.Model.Invalid() {
		f := st.Items.Invalid(it, "the item of the server")
		f.Text, f.Hint = fmt.Sprintf("%s would be invalid", it.Ref), []string{"rye help mcp add"}
		return nil, f
	}
	return &catalog.Server{Name: c.Name, At: c.at(), Item: it, Spec: spec}, st.Write(ctx, it, signer)
}

// consent plans the call that asks the server, without starting it, and returns what a person must agree to.
func consent(ctx context.Context, by catalog.Preparer, s *catalog.Server) (*Consent, error) {
	p, err := by.Prepare(ctx, s.Item.Ref, true)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return newConsent(s.Spec, p), nil
}

// choose prints the tools and returns those to write. It quarantines tools with a critical warning, and leaves out
// tools that can't be items.
func (c *addRun) choose(app *cli.App, announced *catalog.Announcement, ans *Added,
	others map[string][]string) (accepted []*catalog.Change) {
	app.Term.Say("", "%s announces %s, %s and %s:",
		[]any{ans.Server.Ref, tools(len(ans.Tools)), fault.Count(int64(len(announced.Prompts)), "prompt"),
			fault.Count(int64(len(announced.Resources)), "resource")})
	for i := range ans.Tools {
		t := &ans.Tools[i]
		sayLines(app, newLines(t))
		if app.Term.Verbose {
			sayLines(app, definitionLines(t.Announced()))
		}
		switch {
		case t.Refused != "":
		case t.Critical():
			ans.Quarantined = append(ans.Quarantined, t.Tool)
		default:
			accepted = append(accepted, t)
		}
	}
	for _, line := range flagLines(announced.Flags(others)) {
		sayLines(app, []string{strings.TrimSpace(line)})
	}
	if !app.Term.Verbose && len(ans.Tools) > 0 {
		app.Term.Note("use -v to show full descriptions and schemas")
	}
	return accepted
}

// install remembers the announcement and writes the signed items. It locks the space and checks the name again,
// because the person's answers take time.
func (c *addRun) install(ctx context.Context, app *cli.App, space *ai.Space, announced *catalog.Announcement,
	ans *Added,
	server *catalog.Server, all []*ai.Item) (cli.Answer, error) {
	unlock, err := paths.Alone(ctx, app, space.Level == ai.User)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, _, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer now.Close()
	if err := c.free(ctx, now, spaceOf(now, space)); err != nil {
		return nil, err
	}
	m, dir, err := now.memory(space)
	if err != nil {
		return nil, err
	}
	if err := m.Put(c.Name, &catalog.Known{Space: dir, Server: catalog.ID(server.Item), At: app.Now().UTC(),
		Announcement: announced}); err != nil {
		return nil, err
	}
	items := append([]*ai.Item{server.Item}, all...)
	if err := catalog.Install(ctx, space, c.beside, items, nil, app.Now()); err != nil {
		return nil, err
	}
	for _, it := range items {
		ans.Written = append(ans.Written, it.Ref.String())
	}
	return ans, nil
}

// spaceOf returns the view's space in the same directory, or s if it has none.
func spaceOf(o *opened, s *ai.Space) *ai.Space {
	for _, now := range []*ai.Space{o.Project, o.User} {
		if now != nil && now.Dir == s.Dir {
			return now
		}
	}
	return s
}
