package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

var shownCode = regexp.MustCompile(`open (\S+) in a browser, and type the code ([A-Z]{4}-[A-Z]{4})`)

// login invites a person, who makes a passkey in a browser and allows what rye login asks for on a terminal.
func (t *team) login(ctx context.Context) error {
	if _, err := t.output("account", "add", "ada"); err != nil {
		return err
	}
	link, err := t.output("account", "invite", "ada")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	browser, closeBrowser, err := openBrowser(ctx, filepath.Join(t.dir, "browser"))
	if err != nil {
		return err
	}
	defer closeBrowser()
	if err := chromedp.Do(browser, chromedp.Navigate(link), submit(`form[data-link]`), submit(`form[data-create]`),
		chromedp.WaitVisible(`form[action="/account/passkey"]`)); err != nil {
		return fmt.Errorf("enrol: %w; %s", err, shown(browser))
	}
	if account, err := chromedp.Run(browser, chromedp.Text(`p a[href="/account"]`)); err != nil || account != "ada" {
		return fmt.Errorf("signed in as %q, %w", account, err)
	}

	// On a terminal, which script makes.
	url := t.hosts[0].URL
	home := filepath.Join(t.dir, "home")
	rye := exec.CommandContext(ctx, "script", "-qec", t.rye+" login --file "+url, "/dev/null")
	rye.Env = append(os.Environ(), "HOME="+home, "TERM=dumb", "CI=")
	in, err := rye.StdinPipe() // it stays open: at its end, script would end the program
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := rye.StdoutPipe()
	if err == nil {
		err = rye.Start()
	}
	if err != nil {
		return err
	}
	said := new(strings.Builder)
	code := make(chan []string, 1)
	done := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(io.TeeReader(out, said))
		for lines.Scan() {
			if found := shownCode.FindStringSubmatch(lines.Text()); found != nil {
				code <- found
			}
		}
		close(code)
		done <- errors.Join(lines.Err(), rye.Wait())
	}()
	found, ok := <-code
	if !ok {
		return fmt.Errorf("rye login showed no code: %s, %w", said, <-done)
	}
	if err := chromedp.Do(browser, chromedp.Navigate(found[1]), chromedp.SendKeys(`input.code`, found[2]),
		submit(`form[action="/device"]`), submit(`form[action="/device/allow"]`),
		chromedp.WaitNotPresent(`form[action="/device/allow"]`)); err != nil {
		return fmt.Errorf("allow: %w; %s", err, shown(browser))
	}
	if err := <-done; err != nil {
		return fmt.Errorf("rye login: %w: %s; %s", err, said, shown(browser))
	}
	whoami := exec.CommandContext(ctx, t.rye, "whoami", "--registry", url)
	whoami.Env = append(os.Environ(), "HOME="+home)
	who, err := whoami.Output()
	if err != nil || strings.TrimSpace(string(who)) != "ada" {
		return fmt.Errorf("rye whoami: %q, %w", who, err)
	}
	return nil
}

// submit presses the button of a form.
func submit(form string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(form+` button`, chromedp.NodeVisible)
}

// shown describes the page for an error.
func shown(browser context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(browser), 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(`body`))
	return fmt.Sprintf("the page shows %q, %v", text, err)
}

// openBrowser starts Debian's browser with a passkey device of its own, and returns the context of a tab.
func openBrowser(ctx context.Context, profile string) (context.Context, func(), error) {
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: apt-get install chromium-headless-shell", err)
	}
	allocator, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))...)
	tab, closeTab := chromedp.NewContext(allocator)
	leave := func() { closeTab(); stop() }
	_, err = chromedp.Call(tab, webauthn.Enable, webauthn.EnableParams{})
	if err == nil {
		_, err = chromedp.Call(tab, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
			Options: &webauthn.VirtualAuthenticatorOptions{
				Protocol:  webauthn.AuthenticatorProtocolCtap2,
				Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true, HasUserVerification: true,
				IsUserVerified: true, AutomaticPresenceSimulation: true}})
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return tab, leave, nil
}
