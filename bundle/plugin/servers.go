package plugin

import (
	"cmp"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// The transports.
const (
	Stdio = "stdio"
	HTTP  = "streamable-http"
	SSE   = "sse"
)

// A Server is an entry of mcp.json. Its texts are those of the file: Expand expands them.
type Server struct {
	Name, Type string
	Command    string // stdio
	Args       []string
	Env        map[string]string
	Cwd        string // empty for the plugin's directory
	URL        string // streamable-http
	Headers    map[string]string
}

// The placeholders.
const (
	RootPlace = "${PLUGIN_ROOT}"
	DataPlace = "${PLUGIN_DATA}"
)

// Expand replaces the placeholders in a text, once: what they stand for isn't read again.
func Expand(text, root, data string) string {
	return strings.NewReplacer(RootPlace, root, DataPlace, data).Replace(text)
}

// readServers reads mcp.json.
func (p *Plugin) readServers() error {
	wrong := Problem{Path: ServersFile, Section: "6.2", Effect: NoServers}
	switch {
	case p.leadsOut(ServersFile):
		wrong.Section = "4.1"
		p.problem(wrong, "leads outside of the plugin")
		return nil
	case p.dirs[ServersFile]:
		p.problem(wrong, "must be a file")
		return nil
	case p.File(ServersFile) == nil:
		return nil
	}
	wrong.Section = "7.2.2"
	v, err := p.text(wrong)
	if v == nil || err != nil {
		return err
	}
	before := len(p.Problems)
	for _, entry := range v.Map {
		at := wrong
		at.At, at.Section = entry.At, "7.2.1"
		switch {
		case entry.Key == "$schema" && entry.Value.Kind != value.Text:
			p.problem(at, "$schema must be a string, not %s", entry.Value.Kind)
		case entry.Key == "mcpServers" && entry.Value.Kind != value.Map:
			p.problem(at, "mcpServers must be an object, not %s", entry.Value.Kind)
		case entry.Key != "$schema" && entry.Key != "mcpServers":
			p.problem(at, "unknown field %q", fault.Clip(entry.Key, 100))
		}
	}
	if v.Get("mcpServers") == nil {
		at := wrong
		at.At, at.Section = v.At, "7.2.1"
		p.problem(at, "mcpServers is missing")
	}
	wrong.Section = "10.1"
	if !p.checkSchema(v, wrong, ServersSchema) || len(p.Problems) > before {
		return nil
	}
	for _, entry := range v.Get("mcpServers").Map {
		p.readServer(&entry)
	}
	slices.SortFunc(p.Servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// An entryReader reads one server. ok is false once it has a problem.
type entryReader struct {
	*Plugin
	server *Server
	wrong  Problem
	ok     bool
}

func (r *entryReader) bad(at value.Pos, section, format string, args ...any) {
	wrong := r.wrong
	wrong.At, wrong.Section, r.ok = at, section, false
	r.problem(wrong, format, args...)
}

func (p *Plugin) readServer(entry *value.Entry) {
	r := &entryReader{Plugin: p, server: &Server{Name: entry.Key}, ok: true,
		wrong: Problem{Path: ServersFile, Part: "servers/" + fault.Clip(entry.Key, 100), Effect: SkipsServer}}
	v := entry.Value
	if v.Kind != value.Map {
		r.bad(entry.At, "7.2.1", "the server %q must be an object, not %s", fault.Clip(entry.Key, 100), v.Kind)
		return
	}
	r.server.Type = v.Get("type").String()
	switch r.server.Type {
	case Stdio:
		r.fields(v, "type", "command", "args", "env", "cwd")
		r.stdio(v)
	case HTTP, SSE:
		r.fields(v, "type", "url", "headers")
		r.remote(v)
	default:
		r.bad(entry.At, "7.2.1", "the server %q has the type %q: expected %s, %s or %s", fault.Clip(entry.Key, 100),
			fault.Clip(r.server.Type, 100), Stdio, HTTP, SSE)
	}
	if r.ok && r.server.Type == SSE {
		wrong := r.wrong
		wrong.At, wrong.Section, wrong.Effect = entry.At, "7.2.2", Unsupported
		p.problem(wrong, "the server %q is skipped: rye doesn't use the transport %s", fault.Clip(entry.Key, 100), SSE)
		return
	}
	if r.ok {
		p.Servers = append(p.Servers, *r.server)
	}
}

// fields refuses others than these.
func (r *entryReader) fields(v *value.Value, names ...string) {
	for _, entry := range v.Map {
		if !slices.Contains(names, entry.Key) {
			r.bad(entry.At, "7.2.1", "a server of the type %s has no field %q", r.server.Type,
				fault.Clip(entry.Key, 100))
		}
	}
}

// required returns a text that a server must have; nil if it has none.
func (r *entryReader) required(v *value.Value, field string) *value.Value {
	text := v.Get(field)
	switch {
	case text == nil:
		r.bad(v.At, "7.2.1", "%s is missing", field)
	case text.Kind != value.Text || text.Text == "":
		r.bad(text.At, "7.2.1", "%s must be a string with at least one character", field)
	default:
		return text
	}
	return nil
}

func (r *entryReader) stdio(v *value.Value) {
	if command := r.required(v, "command"); command != nil {
		r.server.Command = command.Text
		r.command(command)
	}
	if args := v.Get("args"); args != nil {
		r.server.Args = r.list(args, "args")
	}
	if env := v.Get("env"); env != nil {
		r.server.Env = r.texts(env, "env")
		for name := range r.server.Env {
			switch {
			case name == "PLUGIN_ROOT" || name == "PLUGIN_DATA":
				r.bad(env.At, "9.2", "env can't set %s: the client sets it", name)
			case name == "" || strings.ContainsAny(name, "=\x00"):
				r.bad(env.At, "", "env has the name %q, which no variable can have", fault.Clip(name, 100))
			}
		}
	}
	if cwd := v.Get("cwd"); cwd != nil {
		if r.server.Cwd = cwd.String(); cwd.Kind != value.Text {
			r.bad(cwd.At, "7.2.1", "cwd must be a string, not %s", cwd.Kind)
			return
		}
		r.cwd(cwd)
	}
}

// command checks the form of a command, and that of the plugin's own files it is within the plugin.
func (r *entryReader) command(v *value.Value) {
	text := v.Text
	if !strings.HasPrefix(text, "./") {
		switch {
		case strings.ContainsAny(text, `/\`):
			r.bad(v.At, "7.2.1", "the command %q must be a bare name, or a path that begins with ./",
				fault.Clip(text, 200))
		case strings.ContainsAny(text, " \t\r\n\x00"):
			r.bad(v.At, "7.2.1", "the command %q must be one program: put its arguments into args",
				fault.Clip(text, 200))
		}
		return
	}
	if name, ok := r.within(v, text[len("./"):], "command"); ok && r.File(name) == nil {
		r.bad(v.At, "", "the command %q is not a file of the plugin", fault.Clip(text, 200))
	}
}

// within returns a path of the plugin, and false for one that leads out of it or isn't part of a bundle.
func (r *entryReader) within(v *value.Value, text, field string) (name string, ok bool) {
	name = path.Clean(text)
	switch left := r.leaves(name); {
	case name == ".." || strings.HasPrefix(name, "../") || path.IsAbs(name) || r.leadsOut(name):
		r.bad(v.At, "4.1", "%s %q leads outside of the plugin", field, fault.Clip(v.Text, 200))
	case left != "":
		r.bad(v.At, "", "%s %q is in %q, which is not part of a bundle", field, fault.Clip(v.Text, 200), left)
	default:
		return name, true
	}
	return name, false
}

func (r *entryReader) cwd(v *value.Value) {
	text := v.Text
	for _, form := range []string{RootPlace, DataPlace} {
		if text != form && !strings.HasPrefix(text, form+"/") {
			continue
		}
		rest := strings.TrimPrefix(text, form)
		if strings.Contains(rest, RootPlace) || strings.Contains(rest, DataPlace) {
			r.bad(v.At, "7.2.1", "cwd %q has a second placeholder, which leads outside", fault.Clip(text, 200))
			return
		}
		rest = path.Clean("." + rest)
		if form == DataPlace {
			if rest == ".." || strings.HasPrefix(rest, "../") {
				r.bad(v.At, "7.2.1", "cwd %q leads outside of the data directory", fault.Clip(text, 200))
			}
			return
		}
		r.directory(v, rest)
		return
	}
	if !strings.HasPrefix(text, "./") {
		r.bad(v.At, "7.2.1", "cwd %q must begin with ./, %s or %s", fault.Clip(text, 200), RootPlace, DataPlace)
		return
	}
	if strings.Contains(text, RootPlace) || strings.Contains(text, DataPlace) {
		r.bad(v.At, "7.2.1", "cwd %q has a placeholder behind ./", fault.Clip(text, 200))
		return
	}
	r.directory(v, text[len("./"):])
}

// directory checks a cwd in the plugin.
func (r *entryReader) directory(v *value.Value, text string) {
	if name, ok := r.within(v, text, "cwd"); ok && !r.dirs[name] {
		r.bad(v.At, "", "cwd %q is not a directory of the plugin", fault.Clip(v.Text, 200))
	}
}

func (r *entryReader) list(v *value.Value, field string) (all []string) {
	if v.Kind != value.List {
		r.bad(v.At, "7.2.1", "%s must be an array of strings, not %s", field, v.Kind)
		return nil
	}
	for i, item := range v.Items {
		if item.Kind != value.Text {
			r.bad(item.At, "7.2.1", "%s[%d] must be a string, not %s", field, i, item.Kind)
			continue
		}
		all = append(all, item.Text)
	}
	return all
}

func (r *entryReader) texts(v *value.Value, field string) map[string]string {
	if v.Kind != value.Map {
		r.bad(v.At, "7.2.1", "%s must be an object of strings, not %s", field, v.Kind)
		return nil
	}
	all := map[string]string{}
	for _, entry := range v.Map {
		if entry.Value.Kind != value.Text {
			r.bad(entry.At, "7.2.1", "%s.%s must be a string, not %s", field, fault.Clip(entry.Key, 100),
				entry.Value.Kind)
			continue
		}
		all[entry.Key] = entry.Value.Text
	}
	return all
}

func (r *entryReader) remote(v *value.Value) {
	if address := r.required(v, "url"); address != nil {
		r.server.URL = address.Text
		r.address(address)
	}
	headers := v.Get("headers")
	if headers == nil {
		return
	}
	r.server.Headers = r.texts(headers, "headers")
	seen := map[string]string{}
	for _, entry := range headers.Map {
		key := strings.ToLower(entry.Key)
		switch other, twice := seen[key]; {
		case !isHeaderName(entry.Key):
			r.bad(entry.At, "7.2.1", "%q is not the name of an HTTP header", fault.Clip(entry.Key, 100))
		case twice:
			r.bad(entry.At, "7.2.1", "the headers %q and %q are one", other, entry.Key)
		case !isHeaderValue(entry.Value.String()):
			r.bad(entry.At, "7.2.1", "the value of the header %q has characters that HTTP doesn't allow", entry.Key)
		}
		seen[key] = entry.Key
	}
}

// address checks the address of a server.
func (r *entryReader) address(v *value.Value) {
	u, err := url.Parse(v.Text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		r.bad(v.At, "7.2.1", "url must be absolute, with http or https")
	case u.User != nil:
		r.bad(v.At, "7.2.1", "url contains a user") // and a password, perhaps
	case strings.Contains(v.Text, "#"):
		r.bad(v.At, "7.2.1", "url %q has a fragment", fault.Clip(v.Text, 200))
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		r.bad(v.At, "7.2.1", "url %q must be https: its host isn't this machine", fault.Clip(v.Text, 200))
	}
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isHeaderName reports whether a text is a token of RFC 9110.
func isHeaderName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func isHeaderValue(text string) bool {
	return strings.Trim(text, " \t") == text && !strings.ContainsFunc(text, func(c rune) bool {
		return c < 0x20 && c != '\t' || c == 0x7f
	})
}
