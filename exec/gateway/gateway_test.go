package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/gateway"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

func TestMain(m *testing.M) {
	if status, inside := session.Inside(os.Args[1:]); inside {
		syscall.Exit(status)
	}
	os.Exit(m.Run())
}

type object = map[string]any

// star is a tool in Starlark, with what its header says beside the usual, and its function.
func star(header, function string) string {
	text := "# ---\n# version: \"1.0.0\"\n# tool_type: starlark\n# executor_id: rye/core/runtimes/starlark_runtime\n"
	for line := range strings.Lines(strings.TrimSpace(header) + "\n") {
		text += "# " + line
	}
	return text + "# ---\n" + function + "\n"
}

// The tools of the conformance cases, and others.
var tools = map[string]string{
	"acme/test_echo": star(`description: Echoes
category: acme
risk: read
tags: [text]
examples: [{name: says it again, params: {message: hi}}, {name: needs a message, error: VALIDATION_FAILED}]
input_schema: {type: object, required: [message], properties: {message: {type: string}}}
output_schema: {type: object, required: [echo], properties: {echo: {type: string}}}`,
		`def main(params): return {"echo": params["message"]}`),
	"acme/delete_database": star(`description: Deletes a database
category: acme
risk: destructive
input_schema: {type: object, required: [database], properties: {database: {type: string}}}
output_schema: {type: object, properties: {deleted: {type: boolean}}}`,
		`def main(params): return {"deleted": True}`),
	"acme/count": star(`description: Counts
category: acme
risk: read
input_schema: {type: object, properties: {text: {type: string}}}
output_schema: {type: integer}`,
		`def main(params): return len(params.get("text", ""))`),
	"acme/lies": star(`description: Lies about its result
category: acme
risk: read
output_schema: {type: object, required: [n], properties: {n: {type: integer}}}`,
		`def main(params): return {"n": "many"}`),
	"acme/fails": star(`description: Fails
category: acme
risk: read`, `def main(params): fail("it was told to")`),
	"acme/spins": star(`description: Doesn't end
category: acme
risk: read
limits: {duration_seconds: 1}`, "def main(params):\n    for i in range(1000000000000):\n        pass"),
}

// A world is a project that a gateway serves.
type world struct {
	t      *testing.T
	p      *projecttest.Project
	url    string
	tokens *serve.Tokens
	warned []string
}

func serving(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, p: projecttest.Signed(t)}
	sandboxtest.Removable(t, w.p.Home)
	w.p.Write(".git/HEAD", "")
	for id, text := range tools {
		w.p.Put("tools/"+id+".star", text)
	}
	w.lock()
	state := filepath.Join(w.p.Home, "state")
	warn := func(err error) { w.warned = append(w.warned, err.Error()) }
	h := host.New(host.Options{Open: w.open, State: state, Now: time.Now, Warn: warn})
	if err := errors.Join(h.Open(t.Context()), h.Ready()); err != nil {
		t.Fatal(err)
	}
	w.tokens = serve.OpenTokens(state, time.Now)
	s, err := serve.Listen(serve.Options{Listen: "127.0.0.1:0", Tokens: w.tokens, Ready: h.Ready, Now: time.Now,
		Warn: warn, Rate: 1 << 20, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	(&gateway.Gateway{Host: h, Warn: warn}).Register(s)
	w.url = s.URL("")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		h.Close()
	})
	return w
}

func (w *world) lock() {
	w.t.Helper()
	if _, err := update.Make(w.t.Context(), w.p.Lock(), update.Options{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open(ctx context.Context) (*session.Session, func() error, error) {
	space, err := workspace.Open(ctx, projecttest.Paths(w.p.Dir, w.p.Home), workspace.Options{Offline: true})
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	opened, err := session.Open(ctx, space, session.Options{Self: self})
	if err != nil {
		space.Close()
		return nil, nil, err
	}
	return opened, func() error {
		defer space.Close()
		return opened.Close()
	}, nil
}

// token adds a token.
func (w *world) token(name, tenant string, scopes ...serve.Scope) string {
	w.t.Helper()
	secret, err := w.tokens.Add(w.t.Context(), serve.Token{Name: name, Tenant: tenant, Scopes: scopes})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// A client sends requests with a token and headers.
type client struct {
	*world
	token   string
	headers []string
}

func (c *client) send(method, path, body string) (int, http.Header, []byte) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(c.headers); i += 2 {
		r.Header.Set(c.headers[i], c.headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, text
}

// get reads an answer, which must have the status 200.
func (c *client) get(path string, into any) {
	c.t.Helper()
	status, _, text := c.send("GET", path, "")
	if err := json.Unmarshal(text, into); err != nil || status != http.StatusOK {
		c.t.Fatalf("%s: %d, %s, %v", path, status, text, err)
	}
}

// post sends a request whose answer is a result, which has all members.
func (c *client) post(path, body string) *gateway.Result {
	c.t.Helper()
	status, header, text := c.send("POST", path, body)
	var members object
	var result gateway.Result
	if err := errors.Join(json.Unmarshal(text, &members), json.Unmarshal(text, &result)); err != nil ||
		status != http.StatusOK {
		c.t.Fatalf("%s: %d, %s, %v", path, status, text, err)
	}
	for _, name := range []string{"ok", "output", "error", "correlation_id", "pack", "pack_version",
		"pack_set_version", "interface_hash"} {
		if _, ok := members[name]; !ok {
			c.t.Errorf("%s: %s has no %s", path, text, name)
		}
	}
	if result.Correlation == "" || result.OK == (result.Error != nil) || result.OK == (result.Output == nil) ||
		!strings.HasPrefix(path, "/v1/approvals") && header.Get("X-Rig-Correlation-Id") != result.Correlation {
		c.t.Errorf("%s: %s, %v", path, text, header)
	}
	return &result
}

// fails makes a call that must fail, and returns the type of its error.
func (c *client) fails(path, body string) gateway.ErrorType {
	c.t.Helper()
	r := c.post(path, body)
	if r.OK {
		c.t.Fatalf("%s %s: %v", path, body, r.Output)
	}
	return r.Error.Type
}

// approvalOf returns the token of a call that needs an approval.
func (c *client) approvalOf(r *gateway.Result) string {
	c.t.Helper()
	if r.OK || r.Error.Type != gateway.NeedsApproval || r.Error.Retryable || len(r.Error.Hints) == 0 {
		c.t.Fatalf("%+v", r.Error)
	}
	_, token, ok := strings.Cut(r.Error.Hints[0], "approve token: ")
	if !ok || len(token) != 36 {
		c.t.Fatalf("%q", r.Error.Hints)
	}
	return token
}

const deletes = `{"args":{"database":"prod"}}`

// TestConformance has the conformance cases of RGP.
func TestConformance(t *testing.T) {
	w := serving(t)
	c := &client{world: w, token: w.token("all", "", serve.Call, serve.Approve)}
	var health, tool object
	(&client{world: w}).get("/v1/health", &health)
	if len(health) != 1 || health["status"] != "ok" {
		t.Error(health)
	}
	var list []object
	c.get("/v1/tools", &list)
	var names []string
	for _, x := range list {
		names = append(names, fmt.Sprint(x["name"]))
		for _, member := range []string{"name", "description", "input_schema", "output_schema", "error_schema",
			"risk_class", "auth_slots", "tags"} {
			if x[member] == nil {
				t.Errorf("%v has no %s", x, member)
			}
		}
	}
	if !slices.IsSorted(names) || !slices.Equal(names, []string{"acme_count", "acme_delete_database",
		"acme_fails", "acme_lies",
		"acme_shop_cart", "acme_spins", "acme_test_echo"}) {
		t.Error(names)
	}
	for _, name := range []string{"acme_test_echo", "tool:acme%2Ftest_echo"} {
		c.get("/v1/tools/"+name, &tool)
		if tool["name"] != "acme_test_echo" || tool["description"] != "Echoes" || tool["risk_class"] != "read" {
			t.Error(tool)
		}
		if examples, err := json.Marshal(tool["examples"]); err != nil || string(examples) !=
			`[{"input":{"message":"hi"},"name":"says it again"},{"input":{},"name":"needs a message"}]` {
			t.Errorf("%s, %v", examples, err)
		}
	}
	if status, _, text := c.send("GET", "/v1/tools/nonexistent", ""); status != http.StatusNotFound ||
		!strings.Contains(string(text), `"error":"tool not found"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"/v1/tools/acme_test_echo:call", "/v1/tools/acme_test_echo/call"} {
		r := c.post(path, `{"args":{"message":"hello"}}`)
		if !r.OK || r.Output["echo"] != "hello" || r.Pack != nil || r.PackSetVersion == nil ||
			r.InterfaceHash == nil || len(*r.InterfaceHash) != 64 {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if r := c.post("/v1/tools/acme_test_echo:call", `{"args":{"message":"hello"},"context":{`+
		`"request_id":"test-correlation-123","actor":"all"}}`); !r.OK || r.Correlation != "test-correlation-123" {
		t.Errorf("%+v", r)
	}
	with := &client{world: w, token: c.token, headers: []string{"X-RIG-Correlation-ID", "from-header"}}
	if r := with.post("/v1/tools/acme_test_echo:call", `{"args":{"message":"x"}}`); r.Correlation != "from-header" {
		t.Errorf("%+v", r)
	}
	if r := with.post("/v1/tools/acme_test_echo:call",
		`{"args":{"message":"x"},"context":{"request_id":"from-body"}}`); r.Correlation != "from-body" {
		t.Errorf("%+v", r)
	}
	for body, want := range map[string]gateway.ErrorType{`{"args":{}}`: gateway.Invalid,
		`{"args":{"message":7}}`: gateway.Invalid} {
		if got := c.fails("/v1/tools/acme_test_echo:call", body); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	if got := c.fails("/v1/tools/nonexistent:call", `{"args":{}}`); got != gateway.NotFound {
		t.Error(got)
	}
	for _, body := range []string{"", "{", `[]`, `{}`, `{"args":[]}`, `{"args":{},"more":1}`, `{"args":{},"args":{}}`,
		`{"args":{},"context":{"request_id":""}}`, `{"args":{},"context":{"other":"x"}}`, `{"args":{},"context":[]}`} {
		if status, _, text := c.send("POST", "/v1/tools/acme_test_echo:call", body); status != http.StatusBadRequest ||
			!strings.Contains(string(text), `"error":`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _, _ := c.send("POST", "/v1/tools/acme_test_echo:call",
		`{"args":{"message":"`+strings.Repeat("x", 2<<20)+`"}}`); status != http.StatusRequestEntityTooLarge {
		t.Error(status)
	}

	// Approvals.
	if got := c.fails("/v1/tools/acme_delete_database:call", `{"args":{}}`); got != gateway.Invalid {
		t.Error("an invalid call asks for an approval: ", got)
	}
	id := c.approvalOf(c.post("/v1/tools/acme_delete_database:call", deletes))
	if r := c.post("/v1/approvals/"+id+":approve", ""); !r.OK || r.Output["deleted"] != true {
		t.Errorf("%+v", r.Error)
	}
	for _, token := range []string{id, "invalid-token", "3f2a9c1e-5b7d-4e0f-8a61-2c9d4b7e1f05"} {
		if got := c.fails("/v1/approvals/"+token+"/approve", ""); got != gateway.NotFound {
			t.Errorf("%s: %s", token, got)
		}
	}
	id = c.approvalOf(c.post("/v1/tools/acme_delete_database:call", `{"args":{"database":"test"}}`))
	status, _, text := c.send("POST", "/v1/approvals/"+id+":deny", "")
	if status != http.StatusOK || strings.TrimSpace(string(text)) != `{"denied":true,"token":"`+id+`"}` {
		t.Errorf("%d %s", status, text)
	}
	if got := c.fails("/v1/approvals/"+id+":approve", ""); got != gateway.NotFound {
		t.Error(got)
	}
	if got := c.fails("/v1/tools/acme_delete_database:call", `{"args":{"database":"test"}}`); got != gateway.Blocked {
		t.Error("the same call again: ", got)
	}
	if status, _, _ := c.send("POST", "/v1/approvals/"+id+":deny", ""); status != http.StatusNotFound {
		t.Error(status)
	}
	for _, path := range []string{"/v1/approvals/" + id, "/v1/approvals/" + id + ":other",
		"/v1/tools/acme_test_echo:run"} {
		if status, _, _ := c.send("POST", path, `{"args":{}}`); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestFailures: whatever a tool does, its call has a result with an error, and the gateway goes on.
func TestFailures(t *testing.T) {
	w := serving(t)
	c := &client{world: w, token: w.token("agent", "acme", serve.Call)}
	for name, want := range map[string]gateway.ErrorType{"acme_fails": gateway.Upstream, "acme_lies": gateway.Internal,
		"acme_spins": gateway.TimedOut} {
		if got := c.fails("/v1/tools/"+name+":call", `{"args":{}}`); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if r := c.post("/v1/tools/acme%2Fcount:call", `{"args":{"text":"four"}}`); !r.OK || r.Output["value"] != 4.0 {
		t.Errorf("%+v", r)
	}
}

// TestIdentity: who calls is what the token says, and an approval belongs to its tenant.
func TestIdentity(t *testing.T) {
	w := serving(t)
	acme := &client{world: w, token: w.token("agent", "acme", serve.Call)}
	const says = `{"args":{"message":"x"},"context":{"tenant_id":%q,"actor":%q}}`
	if r := acme.post("/v1/tools/acme_test_echo:call", fmt.Sprintf(says, "acme", "agent")); !r.OK {
		t.Errorf("%+v", r.Error)
	}
	for _, body := range []string{fmt.Sprintf(says, "other", "agent"), fmt.Sprintf(says, "acme", "root")} {
		if got := acme.fails("/v1/tools/acme_test_echo:call", body); got != gateway.Blocked {
			t.Errorf("%s: %s", body, got)
		}
	}
	for _, header := range [][]string{{"X-RIG-Tenant-ID", "other"}, {"X-RIG-Actor-ID", "root"}} {
		other := &client{world: w, token: acme.token, headers: header}
		if got := other.fails("/v1/tools/acme_test_echo:call", `{"args":{"message":"x"}}`); got != gateway.Blocked {
			t.Errorf("%s: %s", header, got)
		}
	}
	two := &client{world: w, token: acme.token, headers: []string{"X-RIG-Tenant-ID", "acme"}}
	if status, _, text := two.send("POST", "/v1/tools/acme_test_echo:call", fmt.Sprintf(says, "other",
		"agent")); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
	id := acme.approvalOf(acme.post("/v1/tools/acme_delete_database:call", deletes))
	for _, stranger := range []*client{
		{world: w, token: w.token("other", "other", serve.Approve)},
		{world: w, token: w.token("none", "", serve.Approve)},
	} {
		if got := stranger.fails("/v1/approvals/"+id+":approve", ""); got != gateway.NotFound {
			t.Error(got)
		}
		if status, _, _ := stranger.send("POST", "/v1/approvals/"+id+":deny", ""); status != http.StatusNotFound {
			t.Error(status)
		}
	}
	for _, refused := range []*client{acme, {world: w}} { // without the scope, without a token
		status, _, text := refused.send("POST", "/v1/approvals/"+id+":approve", "")
		if status != http.StatusForbidden && status != http.StatusUnauthorized {
			t.Errorf("%d %s", status, text)
		}
	}
	boss := &client{world: w, token: w.token("boss", "acme", serve.Approve)}
	if r := boss.post("/v1/approvals/"+id+":approve", ""); !r.OK || r.Output["deleted"] != true {
		t.Errorf("%+v", r.Error)
	}
	// The client that asked gets the outcome with the same call again.
	if r := acme.post("/v1/tools/acme_delete_database:call", deletes); !r.OK || r.Output["deleted"] != true {
		t.Errorf("%+v", r.Error)
	}
}

// TestPersons: where the policy wants another person, the one who holds the asking token can't approve with any of
// their tokens, and not as the user of the machine either.
func TestPersons(t *testing.T) {
	w := serving(t)
	policy := filepath.Join(w.p.Home, ".ai", "policy.yaml")
	text := fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q}\n\nnames:\n  \"**\": {keys: [alice]}\n%s",
		keytest.Alice().Public(), "ask:\n  two: {names: [\"tool:acme/test_*\"], separate: true}\n")
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	user := session.User()
	of := func(name, person string, scopes ...serve.Scope) *client {
		secret, err := w.tokens.Add(t.Context(), serve.Token{Name: name, Person: person, Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		return &client{world: w, token: secret}
	}
	agent, own := of("agent", "ann", serve.Call), of("own", user, serve.Call)
	ann, ben := of("phone", "ann", serve.Approve), of("ben", "", serve.Approve)
	ask := func(c *client, message string) string {
		return c.approvalOf(c.post("/v1/tools/acme_test_echo:call", `{"args":{"message":"`+message+`"}}`))
	}
	id := ask(agent, "one")
	if got := ann.fails("/v1/approvals/"+id+":approve", ""); got != gateway.Forbidden {
		t.Error(got)
	}
	if r := ben.post("/v1/approvals/"+id+":approve", ""); !r.OK || r.Output["echo"] != "one" {
		t.Errorf("%+v", r.Error)
	}
	opened, done, err := w.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	_, requests, err := approval.At(opened, time.Now, approval.Server)
	if err != nil {
		t.Fatal(err)
	}
	defer requests.Close()
	approve := approval.Step{To: approval.Approved, By: user, Through: "rye approve"}
	if _, err := requests.Do(t.Context(), ask(own, "two"), approve); fault.CodeOf(err) != fault.Denied {
		t.Errorf("the user approves what their token asks: %v", err)
	}
	if q, err := requests.Do(t.Context(), ask(agent, "three"), approve); err != nil || q.Asker() != "ann" {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestReload: a new lock is served after a reload, and one that can't be opened leaves the old set.
func TestReload(t *testing.T) {
	w := serving(t)
	c := &client{world: w, token: w.token("admin", "", serve.Call, serve.Admin)}
	var before []object
	c.get("/v1/tools", &before)
	asked := &client{world: w, token: w.token("asks", "", serve.Call, serve.Approve)}
	id := asked.approvalOf(asked.post("/v1/tools/acme_delete_database:call", deletes))
	w.p.Put("tools/acme/more.star", star("description: More\ncategory: acme\nrisk: read",
		"def main(params): return {}"))
	w.lock()
	status, _, text := c.send("POST", "/v1/reload", "")
	if status != http.StatusOK || !strings.Contains(string(text), `"packs":[]`) {
		t.Errorf("%d %s", status, text)
	}
	var after []object
	if c.get("/v1/tools", &after); len(after) != len(before)+1 {
		t.Errorf("%d tools, then %d", len(before), len(after))
	}
	// An approval is for the set that the call was to run from.
	if r := asked.post("/v1/approvals/"+id+":approve", ""); r.OK || r.Error.Type != gateway.Conflicting ||
		!strings.Contains(r.Error.Message, "superseded") {
		t.Errorf("%+v", r.Error)
	}
	if err := os.WriteFile(filepath.Join(w.p.Dir, "rye.lock"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, text := c.send("POST", "/v1/reload", ""); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, text)
	}
	if c.get("/v1/tools", &after); len(after) != len(before)+1 {
		t.Errorf("%d tools", len(after))
	}
}
