//go:build peers && linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/workspace"
)

// TestBash completes lines in a real bash, with the script as it is shipped.
func TestBash(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"store dir", "store-file"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"rye vers":                 "version",
		"rye con":                  "config",
		"rye completion ":          "bash fish zsh",
		"rye completion z":         "zsh",
		"rye config --expl":        "--explain",
		"rye -C x completion f":    "fish",
		"rye --store ":             "store dir|store-file",
		"rye --store=sto":          "store dir|store-file",
		"rye --store=s version --": "--debug --help --json --no-color --offline --plain-http --project --quiet --store --trust --verbose --yes",
		"rye schema vers":          "version/1",
		"rye __comp":               "",
		"rye version nope":         "",
	} {
		got := bashCompletes(t, dir, line)
		if w := strings.ReplaceAll(want, " ", "|"); got != want && got != w {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestFish completes lines in a real fish.
func TestFish(t *testing.T) {
	for line, want := range map[string]string{
		"rye vers": "version", "rye completion ": "bash|fish|zsh", "rye -C x completion f": "fish",
		"rye config --expl": "--explain",
	} {
		got := shellCompletes(t, "fish", "--no-config", "-c",
			"rye completion fish | source; complete -C $argv[1] | string split -f1 \\t; true", line)
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestZsh runs the completion function in a real zsh. What zsh does with the candidates is its own affair, so
// _describe is replaced by one that prints them.
func TestZsh(t *testing.T) {
	const script = `compdef() { }; eval "$(rye completion zsh)"
_describe() { print -rl -- "${(P@)3}" }
words=(${(z)1}); [[ $1 == *' ' ]] && words+=(''); CURRENT=$#words
_rye | sed 's/:.*//'`
	for line, want := range map[string]string{
		"rye vers": "version", "rye completion ": "bash|fish|zsh", "rye -C x completion f": "fish",
		"rye config --expl": "--explain",
	} {
		if got := shellCompletes(t, "zsh", "-f", "-c", script, "zsh", line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// shellCompletes returns the sorted lines that a shell prints, joined by |.
func shellCompletes(t *testing.T, shell string, args ...string) string {
	t.Helper()
	cmd := exec.Command(shell, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "XDG_CONFIG_HOME="+cmd.Dir, "XDG_DATA_HOME="+cmd.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	return strings.Join(lines, "|")
}

// bashCompletes returns the sorted replies of the completion function, joined by |.
func bashCompletes(t *testing.T, dir, line string) string {
	t.Helper()
	// COMP_WORDS as readline splits them: at blanks, and at each = and :.
	script := `eval "$(rye completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=()
word='' rest=$1
while [[ -n $rest ]]; do
    c=${rest:0:1} rest=${rest:1}
    case "$c" in
    ' ') [[ -n $word ]] && COMP_WORDS+=("$word"); word='' ;;
    [=:]) [[ -n $word ]] && COMP_WORDS+=("$word"); COMP_WORDS+=("$c"); word='' ;;
    *) word+=$c ;;
    esac
done
[[ -n $word || $COMP_LINE == *' ' ]] && COMP_WORDS+=("$word")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_rye
[[ ${#COMPREPLY[@]} -gt 0 ]] && printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort`
	cmd := exec.Command("bash", "--norc", "-c", script, "bash", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("%q: %s", line, stderr.String())
	}
	return strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "|")
}

// TestTerminal: on a real terminal there is colour, the progress line and its width; TERM=dumb has neither.
func TestTerminal(t *testing.T) {
	for env, want := range map[string]string{
		"TERM=xterm": "\x1b[1;31merror: \x1b[0m",
		"TERM=dumb":  "error: ",
		"NO_COLOR=1": "error: ",
	} {
		master, slave := openPTY(t)
		cmd := exec.Command("rye", "nope")
		cmd.Env = []string{env, "LANG=C.UTF-8", "HOME=" + t.TempDir()}
		cmd.Stdout, cmd.Stderr = slave, slave
		if err := cmd.Run(); err == nil {
			t.Error("no error")
		}
		slave.Close()
		if got := readPTY(master); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", env, got)
		}
	}
}

func TestProgressOnPTY(t *testing.T) {
	master, slave := openPTY(t)
	h, _, _ := testHost("TERM=xterm")
	h.Stderr = cli.StreamOf(slave)
	if !h.Stderr.Tty {
		t.Fatal("a pseudo-terminal isn't taken for a terminal")
	}
	a := &cli.App{Host: h, Term: h.Terminal(false)}
	p := a.Progress("a label that is rather long for this terminal", 1<<20)
	p.Add(1 << 19)
	buf := make([]byte, 256)
	n, err := master.Read(buf) // blocks until the first line is drawn
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(buf[:n]), "a label that is rather long for this te"; got != want {
		t.Errorf("drawn %q, want %q", got, want)
	}
	if since := time.Since(p.Begun); since < cli.ProgressAfter {
		t.Errorf("drawn after %v", since)
	}
	p.Done()
	slave.Close()
	if got := readPTY(master); !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("left %q", got)
	}
}

// TestFullDevice: what couldn't be written is no success.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	cmd := exec.Command("rye", "version")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	cmd.Stdout = full
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != fault.ExitNo ||
		!strings.Contains(stderr.String(), "the disk is full") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// TestOtherOwner needs root: a project that another user owns, or could have planted in a shared directory,
// is refused, and -C takes it.
func TestOtherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"shared", "theirs"} {
		err := os.MkdirAll(filepath.Join(top, dir, ".git"), 0o755)
		if err := errors.Join(err, os.MkdirAll(filepath.Join(top, dir, "a"), 0o755),
			os.WriteFile(filepath.Join(top, dir, "rye.yaml"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"shared/rye.yaml", "theirs", "theirs/rye.yaml"} {
		if err := os.Chown(filepath.Join(top, path), 4242, 4242); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{"shared/a": "shared/rye.yaml", "theirs": "theirs"} {
		_, err := workspace.Search{}.Find(filepath.Join(top, dir))
		if f, ok := fault.Find(err); !ok || f.Code != fault.Denied ||
			f.Details["path"] != filepath.Join(top, filepath.FromSlash(want)) {
			t.Errorf("%s: %v, want a refusal of %q", dir, err, want)
		}
	}
	cmd := exec.Command("rye", "-C", filepath.Join(top, "theirs"), "config", "--explain")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), filepath.Join(top, "theirs")+"  ") {
		t.Errorf("-C: %v, %s", err, out)
	}
}

// otherUser returns an empty directory of an ordinary user's, and how that user starts rye there: the answer is what
// it prints, and its exit status.
func otherUser(t *testing.T) (dir string, start func(args ...string) (said string, exit int)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to become another user")
	}
	rye, err := exec.LookPath("rye")
	if err != nil {
		t.Fatal(err)
	}
	// The way to the binary must be open to others.
	binary, err := os.ReadFile(rye)
	if err != nil {
		t.Fatal(err)
	}
	top, err := os.MkdirTemp("", "rye-unprivileged")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	const user = 4242
	rye, dir = filepath.Join(top, "rye"), filepath.Join(top, "home")
	for _, err := range []error{os.WriteFile(rye, binary, 0o755), os.Chmod(top, 0o755), os.Mkdir(dir, 0o755),
		os.Chown(dir, user, user)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(rye, args...)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "USER_SPACE=" + filepath.Join(dir, "user")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
}

// TestUnprivileged: as a user without rights to its home, everything that can't be made or written is said.
func TestUnprivileged(t *testing.T) {
	home, rye := otherUser(t)
	if err := errors.Join(os.Chown(home, 0, 0), os.Chmod(home, 0o555)); err != nil {
		t.Fatal(err)
	}
	out, exit := rye("doctor")
	if exit != fault.ExitNo {
		t.Errorf("exit status %d", exit)
	}
	for _, want := range []string{
		`warn home can't write to the home directory "` + home + `": this user has no permission hint: ls -ld ` + home,
		`fail state can't create the state directory "` + home +
			`/.local/state/rye" (default): this user has no permission hint: ls -ld ` + home,
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestReadOnlyHome: rye init with a home that its user may not write to leaves nothing half-made, and the first hint
// leads on.
func TestReadOnlyHome(t *testing.T) {
	home, rye := otherUser(t)
	project := filepath.Join(home, "project")
	for _, err := range []error{os.Mkdir(project, 0o777), os.Chmod(project, 0o777), os.Chmod(home, 0o555)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	out, exit := rye("-C", project, "init")
	want := `error: the user space "` + home + `/user/.ai" can't be written to
  this user has no permission
  nothing was written
hint: chmod u+w ` + home + `
      USER_SPACE="$(mktemp -d)" rye -C ` + project + " init\n"
	if exit != fault.ExitNo || out != want {
		t.Errorf("exit status %d:\n%s\nwant\n%s", exit, out, want)
	}
	if list, err := os.ReadDir(project); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, exit := rye("-C", project, "init"); exit != 0 {
		t.Errorf("after the first hint: %s", out)
	}
}

// TestUnreadable: the hint about a file or directory that its owner can't read is the chmod that lets the next command
// read it, wherever it is met.
func TestUnreadable(t *testing.T) {
	dir, start := otherUser(t)
	rye := func(args string) (string, int) { return start(strings.Fields(args)...) }
	for _, args := range []string{"init p", "-C p new tool acme/hello --ext star"} {
		if out, exit := rye(args); exit != 0 {
			t.Fatal(out)
		}
	}
	for _, name := range []string{".ai/tools/acme/hello.star", ".ai/tools/acme", "rye.lock", "rye.yaml"} {
		path := filepath.Join(dir, "p", name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		hint := "\nhint: chmod u+r " + path + "\n"
		if info.IsDir() {
			hint = "\nhint: chmod u+rx " + path + "\n"
		}
		for _, args := range []string{"-C p exec tool:acme/hello -p name=ann", "-C p lock", "-C p lock --check"} {
			if err := os.Chmod(path, 0); err != nil {
				t.Fatal(err)
			}
			if out, exit := rye(args); exit == 0 || !strings.Contains(out, hint) {
				t.Errorf("%s: rye %s: exit status %d\n%s\nwant%s", name, args, exit, out, hint)
			}
			if err := os.Chmod(path, info.Mode()); err != nil {
				t.Fatal(err)
			}
			if out, exit := rye(args); exit != 0 {
				t.Errorf("after the hint: rye %s: %s", args, out)
			}
		}
	}
}
