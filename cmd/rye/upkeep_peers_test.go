//go:build peers && linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// blocks returns the blocks of a section of a page of the documentation, without the prompts.
func blocks(t *testing.T, topic, section string) (all []string) {
	t.Helper()
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(topics, func(it *ai.Item) bool { return it.ID == "rye/"+topic })
	if i < 0 {
		t.Fatalf("there is no page %q", topic)
	}
	_, text, found := strings.Cut(topics[i].Model.Body, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, part := range strings.Split("\n"+text, "\n```") {
		mark, block, _ := strings.Cut(part, "\n")
		if mark == "text" || mark == "console" {
			all = append(all, strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n$ ", "\n"), "\n")+"\n")
		}
	}
	if !found || len(all) == 0 {
		t.Fatalf("%s: nothing in %q", topic, section)
	}
	return all
}

// A site is a home with the project ~/site, whose directive acme/report a model on this machine runs.
type site struct {
	t     *testing.T
	home  string
	env   []string
	rye   string // the program
	model string // where the model listens
}

func newSite(t *testing.T) *site {
	t.Helper()
	rye, err := exec.LookPath("rye")
	if err != nil {
		t.Fatal(err)
	}
	server := modeltest.New(t)
	s := &site{t: t, home: filepath.Join(t.TempDir(), "home"), rye: rye, model: server.Host}
	s.env = []string{"HOME=" + s.home, "PATH=" + filepath.Dir(rye) + ":/usr/bin:/bin"}
	sandboxtest.Removable(t, filepath.Dir(s.home))
	server.Handle(func(*modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Text: "All is well.", Usage: wire.Usage{Input: 50, Output: 10}}
	})
	for name, text := range map[string]string{
		"tools/acme/providers/local.yaml": strings.ReplaceAll(server.Item("local"), "category: rye/agent/providers",
			"category: acme/providers"),
		"directives/acme/report.md": `<directive name="report" version="1.0.0"><metadata><description>Reports</description><category>acme</category>` +
			`<model provider="acme/providers/local" id="m"/></metadata><inputs><input name="topic" type="string" required="true">d</input></inputs>` +
			"<process>Report {input:topic}.</process></directive>\n",
	} {
		path := filepath.Join(s.home, "site", ".ai", filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s.bash(
		"mkdir site/.git; cd site; rye init acme/site --yes; rye sign '**' --yes; rye lock; cp ~/.ai/policy.yaml .ai/policy.yaml")
	return s
}

// bash runs commands in the home, to the first that fails, and returns what they print.
func (s *site) bash(commands string, env ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.home, append(slices.Clone(s.env), env...), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
		s.t.Fatalf("%v: %s\n%s%s", err, commands, &stdout, &stderr)
	}
	return stdout.String()
}

// TestCron: the table of rye docs automation is one, and a real cron runs its lines, at its start instead of at their
// times.
func TestCron(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: cron runs the tables of all users")
	}
	s := newSite(t)
	table := blocks(t, "automation", "Cron")[0]
	write(t, filepath.Join(s.home, "table"), table)
	write(t, filepath.Join(s.home, "wrong"), strings.Replace(table, "15 3", "15 33", 1))
	s.bash("crontab -n table; ! crontab -n wrong")
	jobs := regexp.MustCompile(`(?m)^[0-9*]+ [0-9*]+ \S+ \S+ \S+ +`)
	if n := len(jobs.FindAllString(table, -1)); n != 2 {
		t.Fatalf("%d jobs", n)
	}
	now := "HOME=" + s.home + "\n" + jobs.ReplaceAllString(strings.Replace(table, "PATH=/usr/local/bin",
		"PATH="+filepath.Dir(s.rye)+":/usr/local/bin", 1), "@reboot  ")
	write(t, filepath.Join(s.home, "now"), now)
	write(t, filepath.Join(s.home, "daemon.sh"), `set -eu
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
mount -t tmpfs none /run
mount -t tmpfs none /var/spool/cron
install -d -m 1730 -g crontab /var/spool/cron/crontabs
crontab now
mkfifo report.log prune.log
cat report.log >report &
report=$!
cat prune.log >prune &
prune=$!
/usr/sbin/cron -f -L 0 &
cron=$!
wait $report $prune
kill $cron
`)
	s.bash("unshare -m bash daemon.sh")
	if got := s.bash("cat report"); !strings.Contains(got, "All is well.") {
		t.Errorf("report: %q", got)
	}
	if got := s.bash("cat prune"); !strings.HasPrefix(got, "pruned 0 threads ") {
		t.Errorf("prune: %q", got)
	}
	if got := s.bash("rye thread list --all"); !strings.Contains(got, "completed") {
		t.Error(got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTimer: systemd takes the timer and the service of rye docs automation, and what it would run runs.
func TestTimer(t *testing.T) {
	s := newSite(t)
	units := blocks(t, "automation", "A systemd timer")
	service := strings.ReplaceAll(units[0], "/usr/local/bin/rye", s.rye)
	verify := func(service, timer string) string {
		t.Helper()
		dir := t.TempDir()
		write(t, filepath.Join(dir, "rye-report.service"), service)
		write(t, filepath.Join(dir, "rye-report.timer"), timer)
		cmd := exec.Command("systemd-analyze", "verify", "--user", "--man=no", "rye-report.service",
			"rye-report.timer")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	if said := verify(service, units[1]); said != "" {
		t.Error(said)
	}
	if verify(service, strings.Replace(units[1], "*-*-* 03:15", "at night", 1)) == "" ||
		verify(strings.Replace(service, "Type=", "Typo=", 1), units[1]) == "" {
		t.Error("systemd takes anything")
	}
	_, start, _ := strings.Cut(service, "ExecStart=")
	start, _, _ = strings.Cut(start, "\n")
	if got := s.bash("cd site\n" + start); !strings.Contains(got, "All is well.") {
		t.Errorf("%s: %s", start, got)
	}
}

// TestScheduledJob runs the job of rye docs automation as a CI service does: in a clone, on a machine that knows
// nothing but the digest of the policy.
func TestScheduledJob(t *testing.T) {
	s := newSite(t)
	page := blocks(t, "automation", "A job of a CI service")
	_, job, found := strings.Cut(page[0], "run: |\n")
	if !found {
		t.Fatal("no job")
	}
	policy := filepath.Join(s.home, "site", ".ai", "policy.yaml")
	text, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	write(t, policy, string(text)+strings.Replace(page[1], "api.example.com", s.model, 1))
	trust := regexp.MustCompile(`blake3:[0-9a-f]{64}`).
		FindString(s.bash("cd site; rye --trust .ai/policy.yaml trust list --json"))
	s.bash("mkdir runner; cp -r site runner/clone; rm -rf runner/clone/.ai/threads")
	got := s.bash("cd runner/clone\n"+job, "HOME="+s.home+"/runner", "CI=true", "RYE_TRUST="+trust)
	if !strings.Contains(got, "verified  the audit log") {
		t.Error(got)
	}
	var report struct{ Data struct{ Result string } }
	if err := json.Unmarshal([]byte(s.bash("cat runner/clone/report.json")), &report); err != nil ||
		report.Data.Result != "All is well." {
		t.Errorf("%v, %+v", err, report)
	}
}

// TestBackup runs the commands of rye docs backup: what was backed up on one machine is on another what it was.
func TestBackup(t *testing.T) {
	s := newSite(t)
	s.bash(
		"cd site; for day in monday tuesday; do rye run acme/report -i topic=$day; done; rye run acme/report -i topic=friday --limit turns=0 || true")
	pruned := strings.TrimSpace(s.bash(`cd site; rye thread list --state completed | tail -1 | cut -d' ' -f1`))
	s.bash("cd site; rye thread prune --keep 0s --yes")
	id := strings.TrimSpace(
		s.bash(
			`cd site; rye run acme/report -i topic=sunday >/dev/null; rye thread list --state completed | head -1 | cut -d' ' -f1`))
	look :=
		"cd ~/site; rye thread list --json; rye thread cost --by model,day,directive --json; rye key list --json; rye trust list --json; rye store refs --json"
	before := s.bash(look)
	s.bash(blocks(t, "backup", "Back up")[0])

	// Another machine: all that is there is the archive.
	s.bash("cd ..; mv home first; mkdir home; cp first/rye-backup.tar.gz home")
	restore := blocks(t, "backup", "Restore")
	// What the sentences below the block say, too.
	got := s.bash(restore[0] + "cd site\n" + restore[1] + "rye thread verify " + id +
		"\nrye audit verify --seen ~/seen.json\n")
	for _, want := range []string{"verified  " + id, "verified  the audit log", "  seen       1 position, still there",
		"interrupted", "completed, pruned"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if after := s.bash(look); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if got := s.bash("cd site; rye thread verify " + pruned + " || echo no"); !strings.HasPrefix(got, "pruned") {
		t.Error(got)
	}
	// It goes on: a thread that was interrupted, a new one, the log.
	interrupted := strings.TrimSpace(s.bash(`cd site; rye thread list --state interrupted | cut -d' ' -f1`))
	got = s.bash("cd site; rye thread resume " + interrupted +
		" --limit turns=5; rye run acme/report -i topic=monday; rye audit verify --seen ~/seen.json; rye store fsck")
	if strings.Count(got, "All is well.") != 2 {
		t.Error(got)
	}
}
