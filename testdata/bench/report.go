package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// head says what the numbers were measured on.
func (b *bench) head(w io.Writer) {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	cpu := "unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(info), "model name\t: "); ok {
			cpu, _, _ = strings.Cut(rest, "\n")
		}
	}
	fmt.Fprintf(w, "%s; %s/%s %s; %d x %s; load %s; %s; %d runs\n", time.Now().UTC().Format(time.RFC3339),
		runtime.GOOS, runtime.GOARCH, strings.TrimSpace(string(kernel)), runtime.NumCPU(), cpu,
		strings.Join(firstFields(string(load), 3), " "), b.fs, b.n)
	if len(b.missing) > 0 {
		fmt.Fprintf(w, "not here, so left out: %s\n", strings.Join(b.missing, ", "))
	}
	if b.quick {
		fmt.Fprintln(w, "-quick: the corpora are too small for these numbers to mean anything")
	}
}

func firstFields(s string, n int) []string {
	f := strings.Fields(s)
	return f[:min(n, len(f))]
}

// number returns a tool's median in a row.
func (b *bench) number(r row, tool string) (float64, bool) {
	if res := b.result(r, tool); res != nil {
		_, median, _ := res.span(r.unit)
		return median, true
	}
	return 0, false
}

// result returns what was measured of a tool in a row, or nil.
func (b *bench) result(r row, tool string) *result {
	results := b.results[r.run()]
	i := slices.IndexFunc(results, func(x *result) bool { return x.Tool == tool && len(x.Samples) > 0 })
	if i < 0 || !r.takesPart(tool) {
		return nil
	}
	return results[i]
}

// best returns the peer with the least median.
func (b *bench) best(r row) (name string) {
	var least float64
	for _, res := range b.results[r.run()] {
		if res.Tool == "rye" || res.Tool == "floor" {
			continue
		}
		if x, ok := b.number(r, res.Tool); ok && (name == "" || x < least) {
			name, least = res.Tool, x
		}
	}
	return name
}

// cell writes a tool's median with its range.
func (b *bench) cell(r row, tool string) string {
	res := b.result(r, tool)
	if res == nil {
		return "–"
	}
	least, median, most := res.span(r.unit)
	by, name := r.unit.scale(median)
	if len(res.Samples) == 1 || least == most {
		return digits(median*by) + " " + name
	}
	return fmt.Sprintf("%s %s (%s..%s)", digits(median*by), name, digits(least*by), digits(most*by))
}

// ratio returns rye's number divided by a tool's: the median of what each round gives, since the two ran one
// after the other there.
func (b *bench) ratio(r row, u unit, tool string) (float64, bool) {
	return b.rounds(r, u, tool, "", func(mine, rod float64) float64 { return mine / rod })
}

// reached returns what a goal with a rod limits: a ratio, or how much more rye's number is.
func (b *bench) reached(r row, g goal) (float64, bool) {
	return b.rounds(r, r.unit, g.rod, g.over, func(mine, rod float64) float64 {
		if g.limit > 0 {
			return mine - rod
		}
		return mine / rod
	})
}

// rounds returns the median of what each round gives of rye's number and a tool's, both less than a third's; "" for
// none.
func (b *bench) rounds(r row, u unit, tool, over string, of func(mine, rod float64) float64) (float64, bool) {
	mine, rod, third := b.result(r, "rye"), b.result(r, tool), b.result(r, over)
	if mine == nil || rod == nil || over != "" && third == nil {
		return 0, false
	}
	var x []float64
	for i := range min(len(mine.Samples), len(rod.Samples)) {
		least := 0.0
		if third != nil && i < len(third.Samples) {
			least = u.of(third.Samples[i])
		}
		if d := u.of(rod.Samples[i]) - least; d > 0 {
			x = append(x, of(u.of(mine.Samples[i])-least, d))
		}
	}
	if len(x) == 0 {
		return 0, false
	}
	slices.Sort(x)
	return middle(x), true
}

// ratioText adds the ratio of CPU times, which others on the machine disturb least.
func (b *bench) ratioText(r row, tool string) string {
	x, ok := b.ratio(r, r.unit, tool)
	if !ok {
		return "–"
	}
	if cpu, ok := b.ratio(r, cpuSeconds, tool); ok && r.unit == seconds {
		return fmt.Sprintf("%.2f, cpu %.2f", x, cpu)
	}
	return fmt.Sprintf("%.2f", x)
}

// verdict judges a row, if rye was measured in it.
func (b *bench) verdict(r row) verdict {
	mine, ok := b.number(r, "rye")
	if !ok {
		return verdict{text: "–"}
	}
	return r.judge(mine, func(g goal) (float64, bool) { return b.reached(r, g) })
}

// report prints the table, and below it sizes, syncs and what else was noticed.
func (b *bench) report(w io.Writer) {
	table := [][]string{{"row", "rye", "best peer", "ratio", "floor", "ratio", "goal, and what was reached", "met?"}}
	for _, r := range rows {
		if !b.only.MatchString(r.name) {
			continue
		}
		v := b.verdict(r)
		best := b.best(r)
		peer := "–"
		if best != "" {
			peer = best + " " + b.cell(r, best)
		}
		table = append(table, []string{r.name, b.cell(r, "rye"), peer, b.ratioText(r, best), b.cell(r, "floor"),
			b.ratioText(r, "floor"), v.text, v.met})
	}
	printTable(w, table)
	b.reportSizes(w)
	b.reportSyncs(w)
	fmt.Fprintln(w)
	for _, n := range b.notes {
		fmt.Fprintln(w, n)
	}
}

// reportSizes prints what stores weigh, and what the second tree added.
func (b *bench) reportSizes(w io.Writer) {
	columns := []row{
		{op: "import", on: "A", unit: storeBytes}, {op: "dedup", on: "A", unit: addedBytes},
		{op: "import", on: "B", unit: storeBytes}, {op: "dedup", on: "B", unit: addedBytes},
		{op: "import", on: "C", unit: storeBytes}, {op: "import", on: "G", unit: storeBytes},
	}
	table := [][]string{{"store", "A", "+ S", "B", "+ D", "C", "G"}}
	for _, t := range b.tools {
		line, any := []string{t.name}, false
		for _, c := range columns {
			text := "–"
			for _, res := range b.results[c.run()] {
				if res.Tool == t.name && len(res.Samples) > 0 {
					_, median, _ := res.span(c.unit)
					text, any = c.unit.format(median), true
				}
			}
			line = append(line, text)
		}
		if any {
			table = append(table, line)
		}
	}
	if len(table) > 1 {
		printTable(w, table)
	}
}

// reportSyncs prints how often each tool waited for the disk.
func (b *bench) reportSyncs(w io.Writer) {
	if len(b.syncs) == 0 {
		return
	}
	var ops []string
	table := [][]string{{"syncs"}}
	for _, c := range b.syncs {
		if !slices.Contains(ops, c.Op) {
			ops = append(ops, c.Op)
			table[0] = append(table[0], c.Op)
		}
	}
	for _, t := range b.tools {
		line, any := []string{t.name}, false
		for _, op := range ops {
			text := "–"
			for _, c := range b.syncs {
				if c.Op == op && c.Tool == t.name {
					text, any = c.String(), true
				}
			}
			line = append(line, text)
		}
		if any {
			table = append(table, line)
		}
	}
	printTable(w, table)
}

// printTable writes an empty line and a table that reads well as text and as Markdown.
func printTable(w io.Writer, table [][]string) {
	fmt.Fprintln(w)
	width := make([]int, len(table[0]))
	for _, line := range table {
		for i, text := range line {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	for n, line := range table {
		for i, text := range line {
			fmt.Fprint(w, "| ", text, strings.Repeat(" ", width[i]-utf8.RuneCountInString(text)+1))
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for i := range line {
				fmt.Fprint(w, "|", strings.Repeat("-", width[i]+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}

// A record is every number, for other programs.
type record struct {
	Time    string               `json:"time"`
	System  string               `json:"system"`
	CPUs    int                  `json:"cpus"`
	FS      string               `json:"fs"`
	Quick   bool                 `json:"quick,omitempty"`
	Missing []string             `json:"missing,omitempty"`
	Rows    []recordRow          `json:"rows"`
	Runs    map[string][]*result `json:"runs"` // samples by operation and corpus
	Syncs   []syncCount          `json:"syncs,omitempty"`
	Notes   []string             `json:"notes,omitempty"`
}

// A recordRow is a line of the table.
type recordRow struct {
	Name  string             `json:"name"`
	Unit  string             `json:"unit"`
	Tools map[string]float64 `json:"tools"` // medians
	Goal  string             `json:"goal,omitempty"`
	Met   string             `json:"met,omitempty"`
}

func (b *bench) record() record {
	rec := record{
		Time: time.Now().UTC().Format(time.RFC3339), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), FS: b.fs,
		Quick: b.quick, Missing: b.missing, Runs: b.results, Syncs: b.syncs, Notes: b.notes,
	}
	for _, r := range rows {
		line := recordRow{Name: r.name, Unit: "bytes", Tools: map[string]float64{}}
		if r.unit == seconds {
			line.Unit = "seconds"
		}
		for _, res := range b.results[r.run()] {
			if x, ok := b.number(r, res.Tool); ok {
				line.Tools[res.Tool] = x
			}
		}
		if len(line.Tools) == 0 || !b.only.MatchString(r.name) {
			continue
		}
		v := b.verdict(r)
		line.Goal, line.Met = v.text, v.met
		rec.Rows = append(rec.Rows, line)
	}
	return rec
}
