package resume

import (
	"context"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/roster"
)

type object = map[string]any

// Params are those of the tool.
type Params struct {
	Operation string   `json:"operation"`
	Threads   []string `json:"threads"`
	Thread    string   `json:"thread"`
	Timeout   float64  `json:"timeout"`
	Query     string   `json:"query"`
	Kind      string   `json:"search_type"`
	Most      int      `json:"max_results"`
	Tail      int      `json:"tail_lines"`
	Message   string   `json:"message"`
	Reason    string   `json:"reason"`
}

// operations have what each needs: a permission, and a list of threads, one thread, or none.
var operations = map[string]struct {
	verb  string
	takes string
	do    func(context.Context, *call) (any, error)
}{
	"wait_threads": {capability.Load, "threads", wait},
	"cancel_thread": {capability.Execute, "thread", func(ctx context.Context, c *call) (any, error) {
		return c.controller.Cancel(ctx, c.row.ID, c.Reason)
	}},
	"kill_thread": {capability.Execute, "thread", func(ctx context.Context, c *call) (any, error) {
		return c.controller.Kill(ctx, c.row.ID, c.Reason)
	}},
	"get_status":        {capability.Load, "thread", status},
	"list_active":       {capability.Load, "", active},
	"aggregate_results": {capability.Load, "threads", aggregate},
	"get_chain":         {capability.Load, "thread", chain},
	"chain_search":      {capability.Load, "thread", search},
	"read_transcript":   {capability.Load, "thread", readTranscript},
	"resume_thread":     {capability.Execute, "thread", goOn},
	"handoff_thread":    {capability.Execute, "thread", goOn},
}

// A call is one operation on its way.
type call struct {
	Params
	self       *control.Self // nil for the user
	engine     *thread.Engine
	controller *control.Controller
	row        *roster.Thread // of thread
	ids        []string       // of threads
}

// Open opens an engine, which is closed after the operation, and returns it with the controller of its threads.
type Open func() (*thread.Engine, *control.Controller, error)

// Functions returns the function of the tool.
func Functions(open Open) function.Functions {
	return function.Functions{"threads": function.Of(nil,
		func(ctx context.Context, f *function.Call, p Params) (any, error) {
			v, err := run(ctx, f, p, open)
			if err != nil {
				return function.No(ctx, err)
			}
			return function.Yes(v)
		})}
}

func run(ctx context.Context, f *function.Call, params Params, open Open) (any, error) {
	operation, known := operations[params.Operation]
	if !known {
		return nil, fault.New(fault.Validation, "unknown operation %q", params.Operation).Try("rye docs operations")
	}
	request := &call{Params: params, self: control.SelfOf(ctx)}
	if request.self == nil && f.Stranger {
		return nil, fault.New(fault.Denied, "only your own calls and those of threads may act on threads").
			Try("rye docs operations")
	}
	engine, controller, err := open()
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	request.engine, request.controller = engine, controller
	names := params.Threads
	if operation.takes == "thread" {
		names = []string{params.Thread}
	}
	if operation.takes != "" && (len(names) == 0 || names[0] == "") {
		return nil, fault.New(fault.Validation, "%s required", operation.takes).Try("rye docs operations")
	}
	rows, err := controller.FindAll(ctx, names)
	if err != nil && operation.takes != "" {
		return nil, err
	}
	for _, row := range rows {
		if request.self != nil {
			if err := controller.May(ctx, request.self, operation.verb, row.ID); err != nil {
				return nil, err
			}
		}
		request.row, request.ids = row, append(request.ids, row.ID)
	}
	return operation.do(ctx, request)
}

func wait(ctx context.Context, request *call) (any, error) {
	if request.self != nil {
		end, err := request.controller.Waits(ctx, request.self, request.ids)
		if err != nil {
			return nil, err
		}
		defer end() // a wait that stays ends with its process
	}
	how := control.Waiting{Timeout: control.DefaultWait}
	if request.Timeout > 0 {
		how.Timeout = time.Duration(min(request.Timeout, 1e6) * float64(time.Second))
	}
	all, err := request.controller.Wait(ctx, request.ids, how)
	if err != nil && fault.CodeOf(err) != fault.Timeout {
		return nil, err
	}
	done := true
	for _, o := range all {
		done = done && o.Success
		if !o.Done() {
			o.Status = "timeout"
		}
	}
	return object{"completed": done, "results": byID(request.ids, all)}, nil
}

func byID(ids []string, all []*control.Snapshot) object {
	results := object{}
	for i, o := range all {
		results[ids[i]] = o
	}
	return results
}

func aggregate(ctx context.Context, c *call) (any, error) {
	all, err := c.controller.Results(ctx, c.ids)
	return object{"results": byID(c.ids, all)}, err
}

func status(ctx context.Context, c *call) (any, error) {
	all, err := c.controller.Results(ctx, []string{c.row.ID})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func active(ctx context.Context, c *call) (any, error) {
	below := ""
	if c.self != nil {
		below = c.self.Thread
	}
	nodes, err := c.controller.Active(ctx, below)
	return object{"active_threads": nodes, "count": len(nodes)}, err
}

func chain(ctx context.Context, c *call) (any, error) {
	nodes, err := c.controller.Chain(ctx, c.row.ID)
	return object{"chain_length": len(nodes), "chain": nodes}, err
}

func search(ctx context.Context, c *call) (any, error) {
	return c.controller.Search(ctx, c.row.ID, control.Query{Text: c.Query, Regex: c.Kind == "regex", Most: c.Most})
}

func readTranscript(_ context.Context, c *call) (any, error) {
	text, err := c.controller.Text(c.row, c.Tail)
	return object{"thread": c.row.ID, "content": text}, err
}

// goOn begins a thread that goes on with the work of another, and returns what became of it.
func goOn(ctx context.Context, c *call) (any, error) {
	o := &Order{Thread: c.row.ID, Message: c.Message, Handoff: c.Operation == "handoff_thread"}
	if o.Message == "" && !o.Handoff {
		return nil, fault.New(fault.Validation, "message required").Try("rye docs operations")
	}
	// What the thread may do is its own affair: this tool passes the work on, and is granted nothing itself.
	if caller := exec.CallerOf(ctx); caller != nil {
		ctx, _ = caller.Pass(ctx, model.Ref{})
	}
	r, err := Go(ctx, c.engine, c.controller, o)
	if r.Result == nil {
		return nil, err
	}
	return object{"new_thread": r.Thread, "new_thread_result": r.Result, "continues": r.From}, err
}
