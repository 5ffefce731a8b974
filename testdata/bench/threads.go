package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// threadJobs compares what a thread costs beside its model, whose answers come from a record, with what does the like:
//
//	turns    1,000 turns, each of which loads an item tenths: ten threads of 100 turns; syncs: 3,000 lines appended
//	         and synced
//	calls    100 turns, each of which runs a tool in         exec: rye exec of that tool, 100 times
//	         Starlark in the sandbox for others
//	resume   rye thread resume of 1,000 turns, up to       tenths: ten threads of 100 turns
//	         the limit that stopped it
//	wait     ten threads, each in a process of its own,    run: ten threads in the foreground
//	         and rye thread wait for each
//	crowd    1,000 children and those that started them,   one: the same with one child
//	         in one process, all at once
//	graph    100 steps of a state graph, each of which     together: the same calls by one step, one after the other;
//	         runs a tool in Starlark                       exec: rye exec of that tool, 100 times
//	spawn    ten threads, started with --async               run: rye run of the same, ten times
//	ledger   20,000 changes of one ledger by 100 processes   syncs: as many lines appended and synced by one process
//	verify   rye thread verify of 1,000 turns                b3sum, which only hashes its files
func (b *bench) threadJobs(what string) ([]job, error) {
	n := 1000
	if b.quick {
		n = 30
	}
	at := filepath.Join(b.dir, "thread-"+what)
	home, project := at+"-home", at+"-project"
	rye := func(args ...string) command {
		c := cmd(append([]string{b.rye}, args...)...).in(project)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	}
	record := rye()
	record.argv = []string{b.self, "-part", "record", "-count", fmt.Sprint(n), "-rye", b.rye, "-data", project}
	play := func(turns int) command {
		return rye("run", "acme/turns", "-q", "--model", fmt.Sprintf("replay:%d.jsonl", turns))
	}
	once := []command{cmd("mkdir", home, project), record}
	// Each run begins with no thread, in a project that was written a while ago: as long as its times are those of
	// this moment nothing can tell by them that it hasn't changed.
	threads := filepath.Join(project, ".ai", "threads")
	fresh, before := []string{threads}, []command{cmd("mkdir", threads), cmd("sleep", "3")}
	j := job{tool: "rye", onceFresh: []string{home, project}, once: once}
	switch what {
	case "calls":
		j.fresh, j.before, j.run = fresh, before, []command{play(n/10 + 1)}
		each := rye("exec", "tool:acme/nothing", "-p", "n=1").through("sh", "-c",
			`n=$1; shift; for i in $(seq "$n"); do "$@"; done`, "sh", fmt.Sprint(n/10))
		return []job{j, {tool: "exec", run: []command{each}}}, nil
	case "graph":
		walk := func(of, id string) job {
			run := rye("run", "tool:acme/"+id, "-q", "--limit", fmt.Sprintf("turns=%d", n/10)).through("sh", "-c",
				`"$@" 2>error; [ $? = 4 ]`, "sh")
			return job{tool: of, fresh: fresh, before: before, run: []command{run}}
		}
		first, together := walk("rye", "steps"), walk("together", "together")
		first.onceFresh, first.once = j.onceFresh, j.once
		together.run[0] = rye("run", "tool:acme/together", "-q").through("sh", "-c",
			`list=$(seq -s, 1 "$1"); shift; "$@" -i "list=[$list]" >/dev/null`, "sh", fmt.Sprint(n/10))
		each := rye("exec", "tool:acme/nothing", "-p", "n=1").through("sh", "-c",
			`n=$1; shift; for i in $(seq "$n"); do "$@"; done`, "sh", fmt.Sprint(n/10))
		return []job{first, together, {tool: "exec", run: []command{each}}}, nil
	case "spawn":
		many := func(of string, more ...string) job {
			run := rye(append([]string{"run", "acme/turns", "-q", "--model", fmt.Sprintf("replay:%d.jsonl", n/10)},
				more...)...).through("sh", "-c",
				`n=$1; shift; for i in $(seq "$n"); do "$@" >>started 2>error; [ $? = 0 ] || exit 1; done`, "sh",
				fmt.Sprint(max(n/100, 1)))
			return job{tool: of, fresh: fresh, before: before, run: []command{run}}
		}
		first := many("rye", "--async")
		first.onceFresh, first.once = j.onceFresh, j.once
		return []job{first, many("run")}, nil
	case "wait":
		many := func(of, each string, more ...string) job {
			run := rye(append([]string{"run", "acme/turns", "-q", "--model", fmt.Sprintf("replay:%d.jsonl", n/10)},
				more...)...).through("sh", "-c",
				fmt.Sprintf(`rye=$1 n=$2; shift 2; for i in $(seq "$n"); do %s || exit 1; done`, each), "sh", b.rye,
				fmt.Sprint(max(n/100, 1)))
			return job{tool: of, fresh: fresh, before: before, run: []command{run}}
		}
		first := many("rye", `id=$("$@" 2>error) && "$rye" thread wait -q "$id" >waited`, "--async")
		first.onceFresh, first.once = j.onceFresh, j.once
		return []job{first, many("run", `"$@" >waited 2>error`)}, nil
	case "ledger":
		log := at + "-log"
		many := job{tool: "rye", fresh: []string{log},
			run: []command{cmd("mkdir", log), cmd(b.self, "-part", "ledger", "-count", fmt.Sprint(20*n), "-data",
				log)}}
		syncs := job{tool: "syncs", fresh: []string{log + "-rod"},
			run: []command{cmd(b.self, "-part", "syncs", "-count", fmt.Sprint(20*n), "-data", log+"-rod")}}
		return []job{many, syncs}, nil
	case "turns":
		j.fresh, j.before, j.run = fresh, before, []command{play(n)}
		part := job{tool: "tenths", fresh: fresh, before: before}
		for range 10 {
			part.run = append(part.run, play(n/10))
		}
		log := at + "-log"
		syncs := job{tool: "syncs", fresh: []string{log},
			run: []command{cmd(b.self, "-part", "syncs", "-count", fmt.Sprint(3*n), "-data", log)}}
		return []job{j, part, syncs}, nil
	case "resume":
		resume := func(turns int) command {
			return rye("thread", "resume", "-q").through("sh", "-c",
				`id=$(cat "$1"); shift; "$@" "$id" 2>error; [ $? = 4 ]`, "sh", fmt.Sprintf("%d.stopped", turns))
		}
		j.run = []command{resume(n)}
		part := job{tool: "tenths"}
		for range 10 {
			part.run = append(part.run, resume(n/10))
		}
		return []job{j, part}, nil
	case "crowd":
		crowd := func(of string, members int) job {
			at := project + of
			part := func(what string) command {
				c := rye().in(at)
				c.argv = []string{b.self, "-part", what, "-count", fmt.Sprint(members), "-rye", b.rye, "-data", at}
				return c
			}
			return job{tool: of, onceFresh: []string{at},
				once:  []command{cmd("mkdir", "-p", home, at), part("crowd-ready")},
				fresh: []string{filepath.Join(at, ".ai", "threads")}, run: []command{part("crowd")}}
		}
		return []job{crowd("rye", n), crowd("one", 1)}, nil
	case "verify":
		j.run = []command{rye("thread", "verify", fmt.Sprintf("%d.tar.zst", n))}
		return []job{j, {tool: "b3sum", run: []command{cmd("sh", "-c", "b3sum unpacked/*").in(project)}}}, nil
	}
	return nil, fmt.Errorf("nothing is measured as %q", what)
}

// graphHead is how the graphs begin.
const graphHead = "version: \"1.0.0\"\ntool_type: graph\nexecutor_id: rye/core/runtimes/state_graph_runtime\ncategory: acme\ndescription: Makes many calls\n" +
	"risk: read\ninput_schema: {properties: {list: {type: array}}}\nconfig:\n"

// turnsItems are a directive whose model calls a tool each turn, and the tool. %s is the provider's address.
var turnsItems = map[string]string{
	"tools/acme/nothing.star": "# ---\n# version: \"1.0.0\"\n# category: acme\n# description: Gives back its number\n# tool_type: starlark\n" +
		"# executor_id: rye/core/runtimes/starlark_runtime\n# risk: read\n# input_schema: {type: object, properties: {n: {type: integer}}}\n# ---\n" +
		"def main(params):\n    return {\"n\": params[\"n\"]}\n",
	"tools/acme/steps.yaml": graphHead +
		"  start: a\n  nodes:\n    a: {action: {item_id: acme/nothing, params: {n: 1}}, assign: {n: \"${result.n}\"}, next: [{to: a, when: {path: state.n, op: exists}}]}\n",
	"tools/acme/together.yaml": graphHead +
		"  start: a\n  nodes:\n    a: {type: foreach, over: \"${inputs.list}\", max_parallel: 1, action: {item_id: acme/nothing, params: {n: \"${item}\"}}}\n",
	"directives/acme/turns.md": "<directive name=\"turns\" version=\"1.0.0\"><metadata><description>Calls a tool each turn</description><category>acme</category>" +
		"<model provider=\"acme/providers/local\" id=\"m\"/><limits turns=\"2000\" tokens=\"2000000000\" spend=\"100\"/>" +
		"<permissions><execute><tool>acme/nothing</tool></execute><load><tool>acme/nothing</tool></load></permissions></metadata><process>Call it.</process></directive>\n",
	"tools/acme/providers/local.yaml": `version: "1.0.0"
tool_type: http
executor_id: rye/core/primitives/http_client
category: acme/providers
description: Answers from a script
risk: write
network: ["%[1]s"]
tier_mapping: {fast: m}
pricing: {"*": {input: "0", output: "0"}}
context_window: 100000000
tool_use: {mode: native, response_format: chat_completion}
config:
  method: POST
  url: http://%[1]s/v1/chat/completions
  body: {model: "{model}", max_tokens: "{max_tokens}", messages: "{messages}", tools: "{tools}"}
input_schema:
  type: object
  required: [model, max_tokens, messages]
  additionalProperties: false
  properties: {model: {type: string}, max_tokens: {type: integer}, messages: {type: array}, tools: {type: array}}
`,
}

// recordTurns runs a thread of so many turns in a project, one of a tenth, and one of a tenth that runs a tool, whose
// model this process is, and leaves their recordings and exports, and the files of the first one's directory.
func recordTurns(ctx context.Context, rye, project string, most int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var asked, turns atomic.Int64
	var executes atomic.Bool
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		n := asked.Add(1)
		message := map[string]any{"role": "assistant", "content": "done"}
		stop := "stop"
		if n < turns.Load() {
			arguments := fmt.Sprintf(`{"item_type":"tool","item_id":"acme/nothing","parameters":{"n":%d}}`, n)
			name := "rye_execute"
			if !executes.Load() {
				name, arguments = "rye_load", `{"item_type":"tool","item_id":"acme/nothing"}`
			}
			call := map[string]any{"id": fmt.Sprintf("call_%d", n), "type": "function",
				"function": map[string]any{"name": name, "arguments": arguments}}
			message, stop = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}},
				"tool_calls"
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"object": "chat.completion", "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": stop}},
			"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 5}})
	})}
	go server.Serve(l)
	defer server.Close()
	if err := writeItems(project, turnsItems, l.Addr().String()); err != nil {
		return err
	}
	run := func(name string, args ...string) ([]byte, error) { return runIn(ctx, project, name, args...) }
	for _, args := range [][]string{{"init", "--yes"}, {"sign", "--all", "-q", "--yes"}, {"lock", "-q"}} {
		if _, err := run(rye, args...); err != nil {
			return err
		}
	}
	var id string
	for _, n := range []int{most/10 + 1, most / 10, most} {
		asked.Store(0)
		executes.Store(n == most/10+1)
		turns.Store(int64(n))
		out, err := run(rye, "run", "acme/turns", "--json")
		if err != nil {
			return err
		}
		var answer struct {
			Data struct {
				Thread string `json:"thread"`
			} `json:"data"`
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			return err
		}
		id = answer.Data.Thread
		if _, err := run(rye, "thread", "export", id, "--recording", "turns", "-o",
			fmt.Sprintf("%d.jsonl", n)); err != nil {
			return err
		}
		if _, err := run(rye, "thread", "export", id, "-o", fmt.Sprintf("%d.tar.zst", n)); err != nil {
			return err
		}
	}
	if _, err = run("cp", "-rT", filepath.Join(".ai", "threads", filepath.FromSlash(id)), "unpacked"); err != nil {
		return err
	}
	for _, n := range []int{most / 10, most} { // threads that stop at their limit, where resuming stops again
		executes.Store(false)
		asked.Store(0)
		turns.Store(int64(10 * most))
		out, err := run(rye, "run", "acme/turns", "--json", "--limit", fmt.Sprintf("turns=%d", n))
		var stopped struct {
			Error struct {
				Details struct {
					Thread string `json:"thread"`
				} `json:"details"`
			} `json:"error"`
		}
		if json.Unmarshal(out, &stopped); stopped.Error.Details.Thread == "" {
			return fmt.Errorf("a thread of %d turns wasn't stopped: %w: %s", n, err, out)
		}
		if err := os.WriteFile(filepath.Join(project, fmt.Sprintf("%d.stopped", n)),
			[]byte(stopped.Error.Details.Thread), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// appendSynced appends so many lines to a file, and syncs each.
func appendSynced(path string, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	line := []byte(strings.Repeat("x", 700) + "\n")
	for range n {
		if _, err := f.Write(line); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}
