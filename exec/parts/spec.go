package parts

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/exec/template"
)

// The template names of the plugin's files and of its data.
const (
	rootName = "{" + chain.PluginRoot + "}"
	dataName = "{" + chain.PluginData + "}"
)

// SpecOf returns the specification of a server of the plugin whose bundle is id. Its texts are templates (package
// template), which are filled in as plugin.Expand expands those of the plugin: what else looks like a template stays
// as it is. An error is why the server is skipped.
func SpecOf(id string, s *plugin.Server, wish plugin.Wish) (*catalog.Spec, error) {
	spec := &catalog.Spec{Transport: catalog.Stdio, Plugin: id, Risk: wish.Risk, Timeout: wish.Timeout,
		Grants: catalog.Grants{Read: wish.Read, Write: wish.Write, Network: wish.Network, Secrets: wish.Secrets}}
	if spec.Risk == "write" {
		spec.Risk = "" // it is what servers have that declare none
	}
	var variables []string
	for _, name := range wish.Secrets {
		variable, err := secret.Variable(name)
		if err != nil {
			return nil, err
		}
		variables = append(variables, variable)
	}
	var err error
	if s.Type == plugin.Stdio {
		err = stdio(spec, s, variables)
	} else {
		err = remote(spec, s, variables)
	}
	if err == nil {
		err = spec.Check()
	}
	return spec, err
}

// stdio makes the specification of a program.
func stdio(spec *catalog.Spec, s *plugin.Server, secrets []string) error {
	t := texts{spec}
	if file, own := strings.CutPrefix(s.Command, "./"); own {
		spec.Command = rootName + "/" + template.Literal(path.Clean(file))
	} else {
		spec.Command = template.Literal(s.Command)
	}
	for _, arg := range s.Args {
		spec.Args = append(spec.Args, t.expand(arg))
	}
	spec.Cwd = t.expand(cmp.Or(s.Cwd, plugin.RootPlace))
	if dir, own := strings.CutPrefix(s.Cwd, "./"); own {
		spec.Cwd = rootName + "/" + template.Literal(path.Clean(dir))
	}
	spec.Env = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if err := env.Check(name, s.Env[name]); err != nil {
			return err
		}
		spec.Env[name] = t.expand(s.Env[name])
	}
	for _, variable := range secrets {
		spec.Env[variable] = "${" + variable + "}"
	}
	spec.Env["PLUGIN_ROOT"], spec.Env["PLUGIN_DATA"] = rootName, dataName
	return nil
}

// remote makes the specification of a server that is reached by HTTP. Its secret is the token that authorizes.
func remote(spec *catalog.Spec, s *plugin.Server, secrets []string) error {
	if len(secrets) > 1 {
		return fault.New(fault.Validation, "a server by HTTP has one secret at most, the token of its Authorization")
	}
	spec.Transport, spec.URL = catalog.HTTP, template.Literal(s.URL)
	for name, text := range s.Headers {
		if len(secrets) > 0 && strings.EqualFold(name, "Authorization") {
			continue // what authorizes comes from the user
		}
		if spec.Headers == nil {
			spec.Headers = map[string]string{}
		}
		spec.Headers[name] = template.Literal(text)
	}
	if len(secrets) > 0 {
		if spec.Headers == nil {
			spec.Headers = map[string]string{}
		}
		spec.Headers["Authorization"] = "Bearer ${" + secrets[0] + "}"
	}
	spec.AddHost()
	return nil
}

// texts makes the templates of a specification.
type texts struct{ *catalog.Spec }

// expand returns the template of a text with placeholders.
func (t texts) expand(text string) string {
	var out strings.Builder
	roots := strings.Split(text, plugin.RootPlace)
	for i, part := range roots {
		if i > 0 {
			out.WriteString(rootName)
		}
		data := strings.Split(part, plugin.DataPlace)
		for j, part := range data {
			if j > 0 {
				out.WriteString(dataName)
			}
			if i < len(roots)-1 || j < len(data)-1 {
				out.WriteString(t.before(part))
			} else {
				out.WriteString(template.Literal(part))
			}
		}
	}
	return out.String()
}

// before returns the template of a text that a name follows. Braces and dollar signs right before it would be part of
// its template, so they are names too.
func (t texts) before(text string) string {
	head := strings.TrimRight(text, "{$")
	out := template.Literal(head)
	for _, char := range text[len(head):] {
		name := catalog.Brace
		if char == '$' {
			name = catalog.Dollar
		}
		if t.Texts == nil {
			t.Texts = map[string]string{}
		}
		t.Texts[name] = string(char)
		out += "{" + name + "}"
	}
	return out
}
