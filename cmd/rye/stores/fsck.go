package stores

import (
	"context"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type storeFsckRun struct {
	Repair     bool   `help:"Remove damaged objects."`
	RepairFrom string `placeholder:"DIR" complete:"dir" help:"Restore lost objects from the store in DIR."`
}

type problemLine struct {
	disk.Problem
	Kind   string      `json:"kind,omitempty"`
	Digest *cas.Digest `json:"digest,omitempty"`
}

type storeFsckAnswer struct {
	disk.Report
	Problems []problemLine `json:"problems"`
	Healed   []cas.Digest  `json:"healed,omitempty"`
	Lost     []cas.Digest  `json:"lost,omitempty"` // not in the other store either
}

func (s storeFsckAnswer) Text(term *cli.Terminal) {
	for _, problemLine := range s.Problems {
		what := problemLine.File
		if problemLine.Ref != "" {
			what = "ref " + problemLine.Ref
		}
		if problemLine.Digest != nil {
			what = problemLine.Kind + " " + problemLine.Digest.String()
			if problemLine.File != "" {
				what += " in " + problemLine.File
			}
		}
		term.Printf("%s: %s\n", what, problemLine.Text)
		for _, f := range problemLine.From {
			term.Printf("  needed by %s\n", f)
		}
		if problemLine.Digest != nil && !problemLine.Lost {
			term.Printf("  another copy is intact\n")
		}
	}
	for _, d := range s.Healed {
		term.Printf("healed %s\n", d)
	}
	for _, d := range s.Lost {
		term.Printf("lost %s\n", d)
	}
	if len(s.Problems) == 0 {
		term.Printf("verified %s, %s, in %s, and %s\n", fault.Count(s.Objects, "object"),
			cli.ByteSize(float64(s.Bytes)),
			fault.Count(int64(s.Packs), "pack"), fault.Count(int64(s.Refs), "ref"))
	}
}

func (c *storeFsckRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	open := paths.ReadStore
	if c.Repair || c.RepairFrom != "" {
		open = paths.HaveStore
	}
	store, err := open(app)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var other cas.Getter
	if c.RepairFrom != "" {
		at := app.Absolute(cli.Setting{Value: c.RepairFrom})
		if at.Err != nil {
			return nil, at.Err
		}
		o, err := disk.Open(at.Value, disk.Options{ReadOnly: true})
		if err != nil {
			return nil, err
		}
		defer o.Close()
		other = o
	}
	report, err := c.check(ctx, app, store)
	if err != nil {
		return nil, err
	}
	ans := answerOf(report)
	if len(report.Problems) == 0 {
		return ans, nil
	}
	if !c.Repair && c.RepairFrom == "" {
		f := fault.New(fault.Integrity, "%s in the store %q", fault.Count(int64(len(report.Problems)), "problem"),
			store.Dir()).
			Because("--repair-from also copies lost objects from another store").Try("rye store fsck --repair")
		if onlyRefs(report) {
			f.Why, f.Hint = nil, []string{"rye store refs"}
		}
		return ans, f.Asked()
	}
	done, err := store.Repair(ctx, report, other)
	if err != nil {
		return ans, err
	}
	again, err := c.check(ctx, app, store)
	if err != nil {
		return ans, err
	}
	left := answerOf(again)
	for _, id := range done.Healed {
		left.Healed = append(left.Healed, id.Digest)
	}
	for _, id := range done.Lost {
		left.Lost = append(left.Lost, id.Digest)
	}
	if len(again.Problems) > 0 {
		f := fault.New(fault.Integrity, "%s left in the store %q", fault.Count(int64(len(again.Problems)), "problem"),
			store.Dir()).Because("put the lost objects again to restore them").Try("rye fetch")
		if onlyRefs(again) {
			f.Why, f.Hint = []string{"set a lost ref again by hand"}, []string{"rye store refs"}
		}
		return left, f.Asked()
	}
	return left, nil
}

// onlyRefs reports whether only refs are damaged, which repair can't restore.
func onlyRefs(r disk.Report) bool {
	return !slices.ContainsFunc(r.Problems, func(p disk.Problem) bool { return p.Ref == "" })
}

func (c *storeFsckRun) check(ctx context.Context, a *cli.App, s *disk.Store) (disk.Report, error) {
	p := a.Progress("verifying", 0)
	defer p.Done()
	p.Expect(ctx, func(context.Context) (int64, error) {
		size, err := s.Stat()
		return size.Raw, err
	})
	return s.Fsck(ctx, p.Add)
}

// answerOf returns the report as an answer.
func answerOf(r disk.Report) storeFsckAnswer {
	ans := storeFsckAnswer{Report: r, Problems: []problemLine{}}
	for _, p := range r.Problems {
		l := problemLine{Problem: p}
		if p.ID != (cas.ID{}) {
			l.Kind, l.Digest = p.ID.Kind.String(), &p.ID.Digest
		}
		ans.Problems = append(ans.Problems, l)
	}
	return ans
}
