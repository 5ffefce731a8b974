package sandbox_test

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// speak answers every connection: with what it hears, or with "page: " and what it hears to the first empty line.
func speak(t *testing.T, page bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if !page {
					_, _ = io.Copy(c, c)
					return
				}
				var heard []byte
				one := make([]byte, 1)
				for !bytes.HasSuffix(heard, []byte("\r\n\r\n")) {
					if _, err := c.Read(one); err != nil {
						return
					}
					heard = append(heard, one...)
				}
				_, _ = c.Write(append([]byte("page: "), heard...))
			}()
		}
	}()
	return l.Addr().String()
}

// A program with a list of hosts reaches these, through the proxy, and nothing else in any way.
func TestHosts(t *testing.T) {
	m := machine(t)
	granted, page, other := speak(t, false), speak(t, true), speak(t, false)
	_, port, _ := net.SplitHostPort(granted)
	spec := sandbox.Spec{Level: floor.Landlock, Network: sandbox.Network{Hosts: []string{granted, page,
		"localhost:" + port, "*.example:443"}}}
	run := func(args ...string) (*sandbox.Ending, string) {
		t.Helper()
		var out bytes.Buffer
		o, err := m.Run(t.Context(), spec, proc.Command{
			Path: self(t), Args: append([]string{tryWord}, args...), Stdout: &out,
			Env: []string{"NO_PROXY=*", "https_proxy=http://192.0.2.1:1", "ALL_PROXY=x"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return o, out.String()
	}
	o, said := run("tunnel", granted)
	if o.Exit.Code != 0 || o.Level != floor.Namespace || !slices.Contains(o.Enforced, "proxy") || o.Denied != nil {
		t.Errorf("%+v, %s", o, said)
	}
	o, said = run("fetch", "http://"+page+"/a?b")
	if want := "page: GET /a?b HTTP/1.1\r\nHost: " + page +
		"\r\nConnection: close\r\nX-A: b\r\n\r\n"; o.Exit.Code != 0 || said != want {
		t.Errorf("%+v, %q", o, said)
	}
	for _, c := range []struct{ how, to, want string }{
		{"tunnel", other, "not among the hosts"},
		{"tunnel", "169.254.169.254:80", "not among the hosts"},
		{"tunnel", "evil.com:443", "not among the hosts"},
		{"tunnel", "a.example:80", "not among the hosts"},
		{"tunnel", "example:443", "not among the hosts"},
		{"tunnel", "[::1]:" + port, "not among the hosts"},
		{"tunnel", "localhost:" + port, "this machine"},
		{"tunnel", "unix:/x", "no host and port"},
		{"fetch", "http://" + other + "/", "not among the hosts"},
		{"fetch", "ftp://" + granted + "/", "expected a request for"},
		{"tcp", granted, ""},
		{"udp", granted, ""},
		{"family", "1 1", ""},
	} {
		o, said := run(append([]string{c.how}, strings.Fields(c.to)...)...)
		if c.how != "fetch" && o.Exit.Code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("%+v: %+v, %s", c, o, said)
		}
		if c.want == "this machine" {
			if len(o.Denied) != 1 || !strings.HasPrefix(o.Denied[0], c.to+", which resolves to ") ||
				!strings.HasSuffix(o.Denied[0], `: only "network:127.0.0.1:`+port+`" reaches that`) &&
					!strings.HasSuffix(o.Denied[0], `: only "network:[::1]:`+port+`" reaches that`) {
				t.Errorf("%+v: denied %q", c, o.Denied)
			}
			continue
		}
		if named := c.want == "not among the hosts"; named != (len(o.Denied) == 1) || named &&
			o.Denied[0] != strings.Trim(c.to, "htp:/") && c.how == "tunnel" {
			t.Errorf("%+v: denied %q", c, o.Denied)
		}
	}
}

// With all of it a program has the machine's network, and still no other sockets.
func TestAllNetwork(t *testing.T) {
	m := machine(t)
	granted := speak(t, false)
	for _, l := range []floor.Level{floor.Landlock, floor.Namespace} {
		s := sandbox.Spec{Level: l, Network: sandbox.Network{All: true}}
		for _, c := range []struct {
			try  string
			code int
		}{{"tcp " + granted, 0}, {"udp " + granted, 0}, {"bind", 0}, {"family 1 1", 1}, {"family 2 3", 1},
			{"family 16 3", 1}} {
			if o, said := attempt(t, m, s, strings.Fields(c.try)...); o.Exit.Code != c.code {
				t.Errorf("%s: %+v: %+v, %s", l, c, o, said)
			}
		}
	}
}
