package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A goal says that rye's number is at most factor times the rod's, or at most limit where there is no rod. With over,
// what counts is how much more both are than that tool's. With a rod and a limit, rye's number is at most so much more
// than the rod's.
type goal struct {
	factor    float64
	rod, over string
	limit     float64
}

// A unit is what a row's number counts.
type unit int

const (
	seconds unit = iota
	storeBytes
	addedBytes
	peakBytes
	cpuSeconds
)

// A row is a line of the table.
type row struct {
	name  string
	op    string // what is run
	on    string // the corpus
	tools string // rye's peers
	unit  unit   // what of a run is the row's number
	goals []goal
}

// run is the name of the runs that a row takes its number from: rows of one run share them.
func (r row) run() string { return strings.Trim(r.op+"."+r.on, ".") }

// next is what is put into a store that holds a corpus.
var next = map[string]string{"A": "S", "B": "D"}

// rows is the table, with the goals that the project has set itself. A rod that stores raw bytes, or that does
// not sync, is a rod all the same.
var rows = []row{
	{name: "import.A", op: "import", on: "A", tools: "ostree git nix-store restic borg casync desync bup",
		goals: []goal{{factor: 1, rod: "floor"}, {factor: 0.4, rod: "ostree"}}},
	{name: "import.B", op: "import", on: "B", tools: "borg desync casync restic git nix-store bup",
		goals: []goal{{factor: 0.9, rod: "floor"}}},
	{name: "import.C", op: "import", on: "C", tools: "git restic nix-store", goals: []goal{{factor: 1, rod: "floor"}}},
	{name: "reimport.A", op: "reimport", on: "A", tools: "git restic borg bup",
		goals: []goal{{factor: 0.6, rod: "git"}}},
	{name: "reimport.B", op: "reimport", on: "B", tools: "git restic borg bup",
		goals: []goal{{factor: 0.7, rod: "git"}}},
	{name: "reimport.C", op: "reimport", on: "C", tools: "git restic", goals: []goal{{factor: 0.7, rod: "git"}}},
	{name: "dedup.A", op: "dedup", on: "A", tools: "git restic borg bup casync desync",
		goals: []goal{{factor: 0.2, rod: "git"}}},
	{name: "dedup.A bytes", op: "dedup", on: "A", unit: addedBytes, tools: "git restic borg bup casync desync",
		goals: []goal{{factor: 0.5, rod: "git"}}},
	{name: "dedup.B", op: "dedup", on: "B", tools: "desync casync bup borg restic",
		goals: []goal{{factor: 0.45, rod: "desync"}}},
	{name: "dedup.B bytes", op: "dedup", on: "B", unit: addedBytes, tools: "desync casync bup borg restic",
		goals: []goal{{factor: 0.8, rod: "bup"}}},
	{name: "size.A", op: "import", on: "A", unit: storeBytes, tools: "casync restic borg bup git desync",
		goals: []goal{{factor: 1, rod: "casync"}}},
	{name: "size.B", op: "import", on: "B", unit: storeBytes, tools: "restic borg casync bup git desync",
		goals: []goal{{factor: 1, rod: "restic"}}},
	{name: "verify.A", op: "verify", on: "A", tools: "b3sum nix-store ostree git",
		goals: []goal{{factor: 0.7, rod: "b3sum"}}},
	{name: "verify.B", op: "verify", on: "B", tools: "b3sum nix-store ostree restic",
		goals: []goal{{factor: 0.7, rod: "floor"}}},
	{name: "checkout.A", op: "checkout", on: "A", tools: "tar cp git casync ostree",
		goals: []goal{{factor: 1.1, rod: "tar"}}},
	{name: "checkout.B", op: "checkout", on: "B", tools: "tar cp git casync ostree",
		goals: []goal{{factor: 1.1, rod: "tar"}}},
	{name: "memory.G", op: "import", on: "G", unit: peakBytes, tools: "git restic", goals: []goal{{limit: 24 << 20}}},
	// with everything linked, oras-go's regexps among it; 2.2 for the store alone
	{name: "startup", op: "startup", on: "", tools: "git restic", goals: []goal{{factor: 4.5, rod: "hello"}}},
	{name: "puts, each", op: "puts", on: "A", tools: "git"},
	{name: "puts: cat", op: "many", on: "cat", tools: "one-batch"},
	{name: "puts: checkout", op: "many", on: "checkout", tools: "one-batch"},
	{name: "puts: reimport", op: "many", on: "reimport", tools: "one-batch"},
	{name: "items: check", op: "items", on: "check", tools: "b3sum", goals: []goal{{factor: 3, rod: "b3sum"}}},
	{name: "items: check cold", op: "items", on: "check-cold", tools: "b3sum",
		goals: []goal{{factor: 3, rod: "b3sum"}}},
	{name: "items: search", op: "items", on: "search", tools: "grep", goals: []goal{{factor: 1, rod: "grep"}}},
	{name: "items: search cold", op: "items", on: "search-cold", tools: "grep",
		goals: []goal{{factor: 6, rod: "grep"}}},
	{name: "items: sign", op: "items", on: "sign", tools: "ed25519", goals: []goal{{factor: 4, rod: "ed25519"}}},
	{name: "items: sign again", op: "items", on: "sign-again", tools: "ed25519 git-status",
		goals: []goal{{factor: 2, rod: "git-status"}}},
	{name: "items: verify", op: "items", on: "verify", tools: "ed25519 b3sum",
		goals: []goal{{factor: 3, rod: "b3sum"}}},
	{name: "items: verify cold", op: "items", on: "verify-cold", tools: "ed25519 b3sum",
		goals: []goal{{factor: 3, rod: "b3sum"}}},
	{name: "items: check, 100000", op: "items", on: "check.100000", goals: []goal{{factor: 11, rod: "tenth"}}},
	{name: "items: search, 100000", op: "items", on: "search.100000", goals: []goal{{factor: 11, rod: "tenth"}}},
	{name: "items: search cold, 100000", op: "items", on: "search-cold.100000",
		goals: []goal{{factor: 11, rod: "tenth"}}},
	{name: "items: sign, 100000", op: "items", on: "sign.100000", goals: []goal{{factor: 11, rod: "tenth"}}},
	{name: "items: sign again, 100000", op: "items", on: "sign-again.100000",
		goals: []goal{{factor: 11, rod: "tenth"}}},
	{name: "items: verify, 100000", op: "items", on: "verify.100000", goals: []goal{{factor: 11, rod: "tenth"}}},
	{name: "items: lock --check, 100000", op: "items", on: "lock-check.100000",
		goals: []goal{{factor: 11, rod: "tenth"}}},
	{name: "items: check, 100000, memory", op: "items", on: "check.100000", unit: peakBytes,
		goals: []goal{{limit: 160 << 20}}},
	{name: "items: search, 100000, memory", op: "items", on: "search.100000", unit: peakBytes,
		goals: []goal{{limit: 220 << 20}}},
	{name: "items: search cold, 100000, memory", op: "items", on: "search-cold.100000", unit: peakBytes,
		goals: []goal{{limit: 300 << 20}}},
	{name: "items: sign, 100000, memory", op: "items", on: "sign.100000", unit: peakBytes,
		goals: []goal{{limit: 600 << 20}}},
	{name: "items: verify, 100000, memory", op: "items", on: "verify.100000", unit: peakBytes,
		goals: []goal{{limit: 500 << 20}}},
	{name: "bundles: create.A cold", op: "bundles", on: "create.A", tools: "store-put tar-zstd restic borg",
		goals: []goal{{factor: 1.3, rod: "store-put"}}},
	{name: "bundles: create.B cold", op: "bundles", on: "create.B", tools: "store-put tar-zstd restic borg",
		goals: []goal{{factor: 1.3, rod: "store-put"}}},
	{name: "bundles: create.C cold", op: "bundles", on: "create.C", tools: "store-put tar-zstd restic borg",
		goals: []goal{{factor: 1.3, rod: "store-put"}}},
	{name: "bundles: create.A unchanged", op: "bundles", on: "again.A", tools: "store-put git-status find restic borg",
		goals: []goal{{factor: 1.5, rod: "store-put"}}},
	{name: "bundles: create.B unchanged", op: "bundles", on: "again.B", tools: "store-put git-status find restic borg",
		goals: []goal{{factor: 1.5, rod: "store-put"}}},
	{name: "bundles: create.C unchanged", op: "bundles", on: "again.C", tools: "store-put git-status find restic borg",
		goals: []goal{{factor: 1.5, rod: "store-put"}}},
	{name: "bundles: verify.A", op: "bundles", on: "verify.A", tools: "b3sum",
		goals: []goal{{factor: 1.2, rod: "b3sum"}}},
	{name: "bundles: verify.B", op: "bundles", on: "verify.B", tools: "b3sum",
		goals: []goal{{factor: 2, rod: "b3sum"}}},
	{name: "bundles: verify.C", op: "bundles", on: "verify.C", tools: "b3sum",
		goals: []goal{{factor: 1.2, rod: "b3sum"}}},
	{name: "plugins: verify", op: "plugins", on: "verify", tools: "cp"},
	{name: "plugins: export", op: "plugins", on: "export", tools: "cp"},
	{name: "plugins: add", op: "plugins", on: "add", tools: "git"},
	{name: "oci: push", op: "oci", on: "push", tools: "crane oras", goals: []goal{{factor: 1.2, rod: "crane"}}},
	{name: "oci: pull", op: "oci", on: "pull", tools: "crane oras cp", goals: []goal{{factor: 1.2, rod: "crane"}}},
	{name: "oci: push of S after A, bytes", op: "oci", on: "next.A", unit: addedBytes, tools: "changed"},
	{name: "oci: push of D after B, bytes", op: "oci", on: "next.B", unit: addedBytes, tools: "changed"},
	{name: "registry: unchanged index", op: "registry", on: "unchanged", tools: "curl"},
	{name: "registry: pull", op: "registry", on: "pull", tools: "curl cp"},
	{name: "registry: publish beside 100,000", op: "registry", on: "publish", tools: "few"},
	{name: "registry: resolve beside 100,000", op: "registry", on: "resolve", tools: "few"},
	{name: "registry: unchanged index, shared", op: "registry", on: "unchanged.shared", tools: "curl"},
	{name: "registry: pull, shared", op: "registry", on: "pull.shared", tools: "curl cp"},
	{name: "registry: publish beside 100,000, shared", op: "registry", on: "publish.shared", tools: "few"},
	{name: "registry: resolve beside 100,000, shared", op: "registry", on: "resolve.shared", tools: "few"},
	{name: "lock: cold, 100", op: "lock", on: "cold.100", tools: "b3sum"},
	{name: "lock: check, 100", op: "lock", on: "check.100", tools: "git-status",
		goals: []goal{{factor: 2, rod: "git-status"}}},
	{name: "lock: vendor, 100", op: "lock", on: "vendor.100", tools: "store-put",
		goals: []goal{{factor: 1.5, rod: "store-put"}}},
	{name: "lock: restore, 100", op: "lock", on: "restore.100", tools: "store-checkout pnpm",
		goals: []goal{{factor: 1.5, rod: "store-checkout"}, {factor: 0.2, rod: "pnpm"}}},
	{name: "lock: cold, 1000", op: "lock", on: "cold.1000", tools: "b3sum"},
	{name: "lock: check, 1000", op: "lock", on: "check.1000", tools: "git-status",
		goals: []goal{{factor: 2, rod: "git-status"}}},
	{name: "lock: vendor, 1000", op: "lock", on: "vendor.1000", tools: "store-put",
		goals: []goal{{factor: 1.5, rod: "store-put"}}},
	{name: "lock: restore, 1000", op: "lock", on: "restore.1000", tools: "store-checkout pnpm",
		goals: []goal{{factor: 1.5, rod: "store-checkout"}, {factor: 0.2, rod: "pnpm"}}},
	{name: "lock: cold, 10000", op: "lock", on: "cold.10000", tools: "b3sum"},
	{name: "lock: check, 10000", op: "lock", on: "check.10000", tools: "git-status",
		goals: []goal{{factor: 2, rod: "git-status"}}},
	{name: "lock: vendor, 10000", op: "lock", on: "vendor.10000", tools: "store-put",
		goals: []goal{{factor: 1.5, rod: "store-put"}}},
	{name: "lock: restore, 10000", op: "lock", on: "restore.10000", tools: "store-checkout pnpm",
		goals: []goal{{factor: 1.5, rod: "store-checkout"}, {factor: 0.2, rod: "pnpm"}}},
	{name: "exec: warm", op: "exec", on: "nothing", tools: "true bwrap",
		goals: []goal{{limit: 0.012, rod: "true"}, {factor: 1, rod: "allowed"}}},
	{name: "exec: warm, audit required", op: "exec", on: "nothing.required", tools: "true",
		goals: []goal{{limit: 0.012, rod: "true"}}},
	{name: "exec: shell", op: "exec", on: "shell", tools: "bash", goals: []goal{{limit: 0.012, rod: "bash"}}},
	{name: "exec: shell, audit required", op: "exec", on: "shell.required", tools: "bash",
		goals: []goal{{limit: 0.012, rod: "bash"}}},
	{name: "exec: python", op: "exec", on: "python", tools: "python3", goals: []goal{{limit: 0.012, rod: "python3"}}},
	{name: "session: shell, a call", op: "session", on: "shell", tools: "bash",
		goals: []goal{{limit: 0.006, rod: "bash"}}},
	{name: "session: shell, a call, audit required", op: "session", on: "shell.required", tools: "bash",
		goals: []goal{{limit: 0.006, rod: "bash"}}},
	{name: "session: python, a call", op: "session", on: "python", tools: "python3",
		goals: []goal{{limit: 0.006, rod: "python3"}}},
	{name: "session: starlark, a call", op: "session", on: "script", goals: []goal{{limit: 0.002}}},
	{name: "session: starlark, a call, audit required", op: "session", on: "script.required",
		goals: []goal{{limit: 0.002}}},
	{name: "session: wasm, a call", op: "session", on: "module", goals: []goal{{limit: 0.002}}},
	{name: "session: rye serve, idle", op: "session", on: "idle", unit: addedBytes, goals: []goal{{limit: 40 << 20}}},
	{name: "exec: starlark", op: "exec", on: "starlark", tools: "program python3"},
	{name: "exec: wasm, warm", op: "exec", on: "wasm", tools: "true"},
	{name: "exec: sandbox, 100", op: "exec", on: "sandbox", tools: "landlock",
		goals: []goal{{factor: 0.5, rod: "bwrap", over: "bare"}}},
	{name: "exec: 1000 at once", op: "exec", on: "at-once", tools: "bwrap"},
	{name: "exec: audit, append a million lines", op: "exec", on: "append", tools: "cp"},
	{name: "exec: audit, verify a million lines", op: "exec", on: "verify", tools: "b3sum"},
	{name: "build: nothing changed", op: "build", on: "unchanged", tools: "make"},
	{name: "build: hit", op: "build", on: "hit", tools: "cp"},
	{name: "mcp: execute, a call", op: "mcp", on: "execute", tools: "bare", goals: []goal{{factor: 1.5, rod: "bare"}}},
	{name: "mcp: starlark, a call", op: "mcp", on: "script", tools: "bare",
		goals: []goal{{limit: 0.002, rod: "bare"}}},
	{name: "mcp: shell, a call", op: "mcp", on: "shell", tools: "bare bash",
		goals: []goal{{limit: 0.006, rod: "bash"}}},
	{name: "mcp: door alone, a call", op: "mcp", on: "door", tools: "bare"},
	{name: "thread: 1000 turns", op: "thread", on: "turns", tools: "tenths syncs",
		goals: []goal{{limit: 2}, {factor: 1.3, rod: "tenths"}}},
	{name: "graph: 100 steps", op: "thread", on: "graph", tools: "together exec",
		goals: []goal{{factor: 3, rod: "together"}}},
	{name: "thread: 1000 turns, CPU", op: "thread", on: "turns", unit: cpuSeconds, tools: "tenths"},
	{name: "thread: 1000 turns, memory", op: "thread", on: "turns", unit: peakBytes, tools: "tenths"},
	{name: "thread: 100 calls", op: "thread", on: "calls", tools: "exec"},
	{name: "thread: resume", op: "thread", on: "resume", tools: "tenths"},
	{name: "thread: resume, memory", op: "thread", on: "resume", unit: peakBytes, tools: "tenths"},
	{name: "thread: 1000 at once", op: "thread", on: "crowd", tools: "one"},
	{name: "thread: 1000 at once, memory", op: "thread", on: "crowd", unit: peakBytes, tools: "one"},
	{name: "thread: start 10 in the background", op: "thread", on: "spawn", tools: "run"},
	{name: "thread: wait for 10 of another process", op: "thread", on: "wait", tools: "run"},
	{name: "thread: ledger, 20,000 changes by 100 processes", op: "thread", on: "ledger", tools: "syncs"},
	{name: "thread: verify", op: "thread", on: "verify", tools: "b3sum"},
}

// takesPart reports whether a tool is measured in a row.
func (r row) takesPart(name string) bool {
	switch name {
	case "rye":
		return true
	case "floor":
		return slices.Contains([]string{"import", "reimport", "verify", "checkout"}, r.op)
	}
	return slices.Contains(strings.Fields(r.tools), name) || slices.ContainsFunc(r.goals, func(g goal) bool {
		return g.rod == name || g.over == name
	})
}

// A verdict is what became of a row's goals.
type verdict struct {
	text string
	met  string // yes, no, or ? when a rod is missing and nothing else failed
}

// judge compares rye's number with a row's goals; reached returns what a goal with a rod limits.
func (r row) judge(mine float64, reached func(goal) (float64, bool)) verdict {
	if len(r.goals) == 0 {
		return verdict{text: "–"}
	}
	v := verdict{met: "yes"}
	var parts []string
	for _, g := range r.goals {
		if g.rod == "" {
			parts = append(parts, "≤ "+r.unit.format(g.limit))
			if mine > g.limit {
				v.met = "no"
			}
			continue
		}
		most, text := g.factor, fmt.Sprintf("≤ %.3g × %s", g.factor, g.rod)
		if g.over != "" {
			text += ", over " + g.over
		}
		if g.limit > 0 {
			most, text = g.limit, fmt.Sprintf("≤ %s + %s", g.rod, r.unit.format(g.limit))
		}
		x, ok := reached(g)
		switch {
		case !ok:
			parts = append(parts, text+": not here")
			if v.met == "yes" {
				v.met = "?"
			}
			continue
		case g.limit > 0:
			text += ": " + r.unit.format(x)
		case math.Abs(x-most) < 0.005:
			text += fmt.Sprintf(": %.4f", x) // else a goal would seem to be met that isn't
		default:
			text += fmt.Sprintf(": %.2f", x)
		}
		parts = append(parts, text)
		if x > most {
			v.met = "no"
		}
	}
	v.text = strings.Join(parts, ", ")
	return v
}

// rank says when a tool's turn comes. What a goal compares is run close together: a busy machine may be another
// one a minute later.
func (r row) rank(name string) int {
	switch i := slices.IndexFunc(r.goals, func(g goal) bool { return g.rod == name || g.over == name }); {
	case name == "rye":
		return 0
	case name == "floor":
		return 1
	case i >= 0:
		return 2 + i
	}
	return 10
}

// of takes a row's number from a sample.
func (u unit) of(s sample) float64 {
	switch u {
	case storeBytes:
		return float64(s.Bytes)
	case addedBytes:
		return float64(s.Added)
	case peakBytes:
		return float64(s.RSS)
	case cpuSeconds:
		return s.CPU
	}
	return s.Wall
}

// scale returns what to multiply a number of about x with, and the unit it is then in.
func (u unit) scale(x float64) (float64, string) {
	switch {
	case u != seconds && u != cpuSeconds:
		return 1.0 / (1 << 20), "MiB"
	case x < 0.0995:
		return 1000, "ms"
	}
	return 1, "s"
}

func (u unit) format(x float64) string {
	by, name := u.scale(x)
	return digits(x*by) + " " + name
}

// digits writes a number with three digits, or more before the point.
func digits(x float64) string {
	switch {
	case x >= 99.95:
		return fmt.Sprintf("%.0f", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
