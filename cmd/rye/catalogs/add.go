package catalogs

import (
	"context"
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
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
)

type addRun struct {
	Name    string   `arg:"" help:"Name of the server, as in files."`
	Command []string `arg:"" optional:"" name:"command" help:"Program and arguments of a server on stdio, after --."`
	Stdio   bool     `help:"The server is a program (the default with a command)."`
	HTTP    string   `name:"http" placeholder:"URL" help:"Address of a server that is reached by HTTP."`
	NPM     string   `name:"npm" placeholder:"PKG@VERSION" help:"Run a program of an npm package, pinned with its dependencies."`

	PackageLock string `placeholder:"FILE" complete:"file" help:"Use this package-lock.json instead of running npm."`

	Read    []string `placeholder:"DIR" sep:"none" help:"Let it read a directory of the project (repeatable)."`
	Write   []string `placeholder:"DIR" sep:"none" help:"Let it write a directory of the project (repeatable)."`
	Network []string `placeholder:"HOST" sep:"none" help:"Let it reach a host; all for every host (repeatable)."`
	Secret  []string `placeholder:"NAME[=VAR]" sep:"none" help:"Pass it a secret as a variable (repeatable)."`
	Env     []string `placeholder:"NAME=VALUE" sep:"none" help:"Set a variable (repeatable)."`
	Header  []string `placeholder:"LINE" sep:"none" help:"Send a header with each request (repeatable)."`
	Timeout int      `placeholder:"SECONDS" help:"Time limit of a call."`
	Scope   string   `enum:"project,user" default:"project" help:"Where to write the items: project or user."`
	DryRun  bool     `help:"Show what it would run; start and write nothing."`

	AcceptCritical bool `help:"Add it despite critical warnings about the server itself."`
	trusts.KeyFlag

	pack *catalog.Package // of --npm
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
func (x *Added) Text(t *cli.Terminal) {
	if x.DryRun {
		t.Printf("%s\n", x.Server.Ref)
		t.Rows(x.Server.rows())
		return
	}
	for _, ref := range x.Written {
		t.Printf("wrote %s\n", ref)
	}
	for i := range x.Tools {
		if c := &x.Tools[i]; slices.Contains(x.Quarantined, c.Tool) {
			t.Note("quarantined %s: %s", cut(c.Tool, maxName), acceptCommand(x.name, c))
		}
	}
	t.Note("signed with %s; next: %s", paths.Short(x.Key), x.next)
}

// next returns the command, or the instruction, that adds a server's tools to the lock. If rye.yaml has roots that
// don't match them, they must be added there first.
func (o *opened) next(s *ai.Space, name string) string {
	if s.Level == ai.User {
		return "rye lock --user"
	}
	file, err := o.Root.File(paths.Running())
	tool := catalog.ToolRef(name, "x")
	if o.Root.Marker != workspace.MarkerFile || err != nil || len(file.Roots) == 0 ||
		slices.ContainsFunc(file.Roots, func(r project.Root) bool { return r.Match(tool, s.Label) }) {
		return "rye lock"
	}
	return fmt.Sprintf("add %q to roots in rye.yaml, then run rye lock", "tool:mcp/"+name+"/**")
}

func (c *addRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	spec, err := c.spec()
	if err == nil {
		err = c.checkSecrets(a, spec)
	}
	if err != nil {
		return nil, err
	}
	view, space, err := c.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if err := c.free(ctx, view, space); err != nil {
		return nil, err
	}
	userKey, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
		return nil, err
	}
	signer := catalog.Key{Private: userKey.Private, Now: a.Clock}
	if err := c.takePackage(ctx, a, spec, signer); err != nil {
		return nil, err
	}
	st, err := stage(ctx, a)
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
		Written: []string{}, Quarantined: []string{}, name: c.Name, next: view.next(space, c.Name)}
	if ans.Server, err = consent(ctx, st, server); err != nil {
		return nil, err
	}
	if c.DryRun {
		return ans, nil
	}
	ans.Server.say(a)
	if err := a.Confirm(ctx, "Ask it for its tools?"); err != nil {
		return nil, err
	}
	announced, call, err := ask(ctx, a, st, server)
	if err != nil {
		return nil, err
	}
	ans.Call = call
	others := catalog.OthersOf(view.servers, c.Name)
	if ans.Tools, err = catalog.Compare(c.Name, nil, announced, others); err != nil {
		return nil, err
	}
	st.CheckStubs(c.Name, spec, ans.Tools)
	accepted := c.choose(a, announced, ans, others)
	if flags.AnyCritical(announced.Flags(others)) && !c.AcceptCritical {
		return nil, fault.New(fault.Denied, "%s hides something in its own description",
			server.Item.Ref).On("reason",
			"critical").On("name", c.Name).
			Because("critical warnings about a tool keep that tool out; these are about the server").
			Try(a.With("--accept-critical"))
	}
	if err := a.Confirm(ctx, fmt.Sprintf("Sign %s as items of %s?", tools(len(accepted)),
		server.Item.Ref)); err != nil {
		return nil, err
	}
	all, err := st.Stubs(ctx, c.Name, spec, accepted, signer)
	if err != nil {
		return nil, err
	}
	return c.install(ctx, a, space, announced, ans, server, all)
}

// downloads refuses a program that downloads the server whenever it starts: the sandbox has no network for that, and
// what it would run is pinned by nothing.
func (c *addRun) downloads() error {
	program, args := strings.TrimSuffix(path.Base(c.Command[0]), ".cmd"), c.Command[1:]
	if len(args) > 0 && (program == "npm" && (args[0] == "exec" || args[0] == "x") ||
		(program == "pnpm" || program == "yarn") && args[0] == "dlx") {
		program, args = program+" "+args[0], args[1:]
	} else if !slices.Contains([]string{"npx", "pnpx", "bunx"}, program) {
		return nil
	}
	pack := "PKG@VERSION"
	i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if i >= 0 {
		if pack = args[i]; strings.LastIndexByte(pack, '@') <= 0 {
			pack += "@VERSION"
		}
	}
	return fault.New(fault.Validation,
		"%s downloads a server whenever it starts, and the sandbox has no network for it", program).
		Because("--npm pins the package with its dependencies; its version must be exact").
		Try(fault.Command("rye mcp add", c.Name, "--npm", pack))
}

// spec checks the flags and returns the server that they describe.
func (c *addRun) spec() (*catalog.Spec, error) {
	if err := catalog.CheckName(c.Name); err != nil {
		return nil, err
	}
	s := &catalog.Spec{Transport: catalog.Stdio, URL: c.HTTP, Timeout: c.Timeout}
	if c.HTTP != "" {
		s.Transport = catalog.HTTP
	}
	if c.NPM == "" && c.PackageLock != "" {
		return nil, fault.New(fault.Validation, "--package-lock belongs to --npm").Try("rye help mcp add")
	}
	switch {
	case c.NPM != "" && (c.Stdio || c.HTTP != ""):
		return nil, fault.New(fault.Validation, "--npm, --stdio and --http exclude each other").Try("rye help mcp add")
	case c.NPM != "":
		var err error
		if c.pack, err = catalog.ParsePackage(c.NPM); err != nil {
			return nil, err
		}
		s.Command = "node" // takePackage adds the arguments when the list is known
	case c.HTTP != "" && (c.Stdio || len(c.Command) > 0):
		return nil, fault.New(fault.Validation, "--http and a command exclude each other").Try("rye help mcp add")
	case c.HTTP == "" && len(c.Command) == 0:
		return nil, fault.New(fault.Validation, "no server given: add -- and a command, --npm or --http").
			Try("rye help mcp add")
	case len(c.Command) > 0:
		if err := c.downloads(); err != nil {
			return nil, err
		}
		s.Command, s.Args = c.Command[0], c.Command[1:]
	}
	if c.Timeout < 0 {
		return nil, fault.New(fault.Validation, "--timeout must be at least 1")
	}
	var err error
	if s.Env, err = pairs("--env", "=", c.Env); err != nil {
		return nil, err
	}
	if s.Headers, err = pairs("--header", ":", c.Header); err != nil {
		return nil, err
	}
	s.Read, s.Write, s.Network = c.Read, c.Write, c.Network
	if err := s.AddSecrets(c.Secret); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	s.AddHost()
	return s, nil
}

// takePackage completes the specification of an npm package with the list of its dependencies. Without --npm it does
// nothing.
func (c *addRun) takePackage(ctx context.Context, a *cli.App, s *catalog.Spec, k catalog.Key) error {
	if c.pack == nil {
		return nil
	}
	list, err := c.packageList(ctx, a, c.pack, k)
	if err == nil {
		err = c.pack.Take(list)
	}
	if err == nil {
		s.Use(c.Name, c.pack, c.Command)
	}
	return err
}

// beside returns the file to write next to the server's item: the list that pins an npm package.
func (c *addRun) beside(s *catalog.Spec) []catalog.Beside {
	if c.pack == nil {
		return nil
	}
	return []catalog.Beside{{Path: path.Join(path.Dir(catalog.PathOfServer(c.Name)), s.Packages), Bytes: c.pack.List}}
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
func (c *addRun) open(ctx context.Context, a *cli.App) (*opened, *ai.Space, error) {
	user := c.Scope == "user"
	if !user {
		if _, err := paths.Paths(a).OpenProject(); err != nil {
			return nil, nil, fault.Of(err).Try(a.With("--scope", "user"))
		}
	}
	view, err := openServers(ctx, a, user)
	if err != nil {
		return nil, nil, err
	}
	space := view.Project
	switch {
	case user && view.User != nil:
		space = view.User
	case user:
		dir := cli.UserSpace(a.UserBase())
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
	if err := view.CheckFree(ctx, catalog.ServerRef(c.Name), space); err != nil {
		return err
	}
	l, err := view.Files(ctx, "tool")
	if err != nil {
		return err
	}
	for _, f := range l.Files {
		if f.Space == space && strings.HasPrefix(strings.ToLower(f.ID), "mcp/"+strings.ToLower(c.Name)+"/") {
			return fault.New(fault.Validation, "%s exists already, without a server %q", f.Ref, c.Name).
				Try(fault.Command("rye rm", "tool:mcp/"+c.Name+"/**")).On("reason", "exists").On("ref", f.Ref.String())
		}
	}
	return nil
}

// server writes the item of the server, and the file beside it, to the stage.
func (c *addRun) server(ctx context.Context, st *catalog.Stage, spec *catalog.Spec,
	signer catalog.Key) (*catalog.Server,
	error) {
	for _, f := range c.beside(spec) {
		if err := st.Put(f.Path, f.Bytes); err != nil {
			return nil, err
		}
	}
	it, err := st.Draft(catalog.ServerRef(c.Name), spec.File())
	if err != nil {
		return nil, err
	}
	if it.Model.Invalid() {
		f := st.Items.Invalid(it, "the item of the server")
		f.Text, f.Hint = fmt.Sprintf("%s would be invalid", it.Ref), []string{"rye help mcp add"}
		return nil, f
	}
	return &catalog.Server{Name: c.Name, Item: it, Spec: spec}, st.Write(ctx, it, signer)
}

// consent plans the call that asks the server, without starting it, and returns what a person must agree to.
func consent(ctx context.Context, st *catalog.Stage, s *catalog.Server) (*Consent, error) {
	p, err := st.Prepare(ctx, s.Item.Ref, true)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return newConsent(s.Spec, p), nil
}

// choose prints the tools and returns those to write. It quarantines tools with a critical warning, and leaves out
// tools that can't be items.
func (c *addRun) choose(a *cli.App, announced *catalog.Announcement, ans *Added,
	others map[string][]string) (accepted []*catalog.Change) {
	a.Term.Say("", "%s announces %s, %s and %s:",
		[]any{ans.Server.Ref, tools(len(ans.Tools)), fault.Count(int64(len(announced.Prompts)), "prompt"),
			fault.Count(int64(len(announced.Resources)), "resource")})
	for i := range ans.Tools {
		t := &ans.Tools[i]
		sayLines(a, newLines(t))
		if a.Term.Verbose {
			sayLines(a, definitionLines(t.Announced()))
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
		sayLines(a, []string{strings.TrimSpace(line)})
	}
	if !a.Term.Verbose && len(ans.Tools) > 0 {
		a.Term.Note("use -v to show full descriptions and schemas")
	}
	return accepted
}

// install remembers the announcement and writes the signed items. It locks the space and checks the name again,
// because the person's answers take time.
func (c *addRun) install(ctx context.Context, a *cli.App, space *ai.Space, announced *catalog.Announcement, ans *Added,
	server *catalog.Server, all []*ai.Item) (cli.Answer, error) {
	unlock, err := paths.Alone(ctx, a, space.Level == ai.User)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, _, err := c.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer now.Close()
	if err := c.free(ctx, now, spaceOf(now, space)); err != nil {
		return nil, err
	}
	m, err := memory(a, space)
	if err != nil {
		return nil, err
	}
	if err := m.Put(c.Name, &catalog.Known{Space: space.Dir, Server: catalog.ID(server.Item), At: a.Now().UTC(),
		Announcement: announced}); err != nil {
		return nil, err
	}
	items := append([]*ai.Item{server.Item}, all...)
	if err := catalog.Install(ctx, space, c.beside(server.Spec), items, nil, a.Now()); err != nil {
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
