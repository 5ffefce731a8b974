package catalogs

import (
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/session"
)

// A Consent describes what a server runs and may do. A person agrees to it before rye starts the server.
type Consent struct {
	Ref         string                   `json:"ref"`
	Transport   string                   `json:"transport"`
	Executables []catalog.Executable     `json:"executables"` // the fields that decide what runs or where data is sent
	Programs    []session.MachineProgram `json:"programs"`
	Packages    []packages.Artifact      `json:"packages"`
	Grants      session.Grants           `json:"grants"`
	Sandbox     string                   `json:"sandbox"`
	stranger    bool                     // it has only those of its rights that the policy grants
}

func newConsent(s *catalog.Spec, p *exec.Plan) *Consent {
	r := session.NewReport(p)
	c := &Consent{Ref: r.Ref, Transport: s.Transport, Executables: s.Executables(),
		Programs: append(r.Pinned, r.Unpinned...), Grants: r.Grants,
		Sandbox: r.Sandbox.Need, stranger: r.Stranger}
	if c.Packages = r.Packages; p.Undecided {
		c.Packages = p.Possible
	}
	if c.Packages == nil {
		c.Packages = []packages.Artifact{}
	}
	if c.Programs == nil {
		c.Programs = []session.MachineProgram{}
	}
	return c
}

// rows returns the consent as names and values for people.
func (c *Consent) rows() (rows [][]string) {
	for _, e := range c.Executables {
		rows = append(rows, []string{e.Field, e.Value})
	}
	for _, p := range c.Programs {
		rows = append(rows, []string{"program", p.Path + "  blake3:" + p.Digest.Short()})
	}
	for _, p := range c.Packages {
		rows = append(rows, []string{"package", p.Name + "  blake3:" + p.Digest.Short()})
	}
	return append(rows, grantRows(c.Grants.Read, c.Grants.Write, c.Grants.Network, c.Grants.Secrets,
		c.Grants.Withheld)...)
}

func grantRows(read, write, network, secrets, withheld []string) [][]string {
	list := func(all []string) string {
		if len(all) == 0 {
			return "nothing"
		}
		return strings.Join(all, ", ")
	}
	rows := [][]string{{"reads", list(read)}, {"writes", list(write)}, {"network", list(network)},
		{"secrets", list(secrets)}}
	if len(withheld) > 0 {
		rows = append(rows, []string{"withheld",
			strings.Join(withheld, ", ") + " (not granted by the policy)"})
	}
	return rows
}

// say prints the consent before the question.
func (c *Consent) say(a *cli.App) {
	what := "start this program"
	if c.Transport == catalog.HTTP {
		what = "contact this server"
	}
	a.Term.Say("", "%s would %s now, and whenever one of its tools is called:", []any{c.Ref, what})
	sayRows(a, c.rows())
}

func sayRows(a *cli.App, rows [][]string) {
	width := 0
	for _, r := range rows {
		width = max(width, len(cli.Escape(r[0], a.Term.Ascii)))
	}
	for _, r := range rows {
		a.Term.Say("  ", "%s  %s", []any{a.Term.Pad(r[0], width), r[1]})
	}
}
