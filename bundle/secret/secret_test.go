package secret

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
)

func scan(t testing.TB, file, text string) []Finding {
	t.Helper()
	found, err := NewScanner().Scan(file, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// standardLibrary returns where Go's own source is: what is built with -trimpath doesn't know it.
func standardLibrary(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src")
}

// drawn returns letters as drawn by lot, so that no token stands in this file.
func drawn(n int, letters string) string {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

const (
	letters   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum     = letters + "0123456789"
	upperNum  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	urlSafe   = alnum + "-_"
	hexDigits = "0123456789abcdef"
)

// hidden are texts with a secret, and the rule that finds it.
func hidden() map[string]string {
	base64, encoding := drawn(64, alnum+"+/"), base64.StdEncoding
	return map[string]string{
		"key = AK" + "IA" + drawn(16, upperNum):                                            "aws",
		"gh" + "p_" + drawn(36, alnum):                                                     "github",
		"url: gh" + "s_" + drawn(36, alnum) + "\n":                                         "github",
		"github" + "_pat_" + drawn(22, alnum) + "_" + drawn(59, alnum):                     "github",
		"glp" + "at-" + drawn(20, urlSafe):                                                 "gitlab",
		"xo" + "xb-" + drawn(12, "0123456789") + "-" + drawn(24, alnum):                    "slack",
		"sk-" + "ant-api03-" + drawn(93, urlSafe):                                          "anthropic",
		"sk-" + "proj-" + drawn(48, alnum):                                                 "openai",
		"sk_" + "live_" + drawn(24, alnum):                                                 "stripe",
		"AI" + "za" + drawn(35, alnum):                                                     "google",
		"np" + "m_" + drawn(36, alnum):                                                     "npm",
		"//registry.example/:_authToken=np" + "m_" + drawn(36, alnum):                      "npm",
		"py" + "pi-AgEIcHlwaS5vcmc" + drawn(60, urlSafe):                                   "pypi",
		"h" + "f_" + drawn(34, letters):                                                    "huggingface",
		"SG" + "." + drawn(22, alnum) + "." + drawn(43, alnum):                             "sendgrid",
		"dop" + "_v1_" + drawn(64, hexDigits):                                              "digitalocean",
		"dckr" + "_pat_" + drawn(27, alnum):                                                "docker",
		"AGE-SECRET" + "-KEY-1" + drawn(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"):            "age",
		"ey" + "JhbGciOiJIUzI1NiJ9.ey" + "J" + drawn(60, alnum) + "." + drawn(43, urlSafe): "jwt",
		"-----BEGIN RSA PRIV" + "ATE KEY-----\n" + base64 + "\n":                           "private-key",
		"-----BEGIN PRIV" + "ATE KEY-----\r\n" + base64 + "\r\n":                           "private-key",
		`"private_key": "-----BEGIN PRIV` + `ATE KEY-----\n` + base64 + `\n"`:              "private-key",
		"-----BEGIN PGP PRIV" + "ATE KEY BLOCK-----\n\n" + base64:                          "private-key",
		"-----BEGIN EC PRIV" + "ATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC," + drawn(32,
			"0123456789ABCDEF") + "\n\n" + base64: "private-key",
		"postgres://admin:" + "h7Kq9!vLm2Xz" + "@db.internal/x": "url-password",
		`password = "` + "h7Kq9!vLm2" + `"`:                     "assignment",
		`DB_PASSWORD: '` + "Tr0ub4dor&3" + `'`:                  "assignment",
		`"api_key": "` + drawn(32, hexDigits) + `"`:             "assignment",
		`client.secret := "` + drawn(24, alnum) + `"`:           "assignment",
		`'auth-token' => '` + drawn(40, alnum+"+/") + `'`:       "assignment",
		"data: {key: " + encoding.EncodeToString([]byte("-----BEGIN PRIV"+"ATE KEY-----\n"+base64+"\n-----END")) +
			"}": "private-key",
		encoding.EncodeToString([]byte("-----BEGIN RSA PRIV" + "ATE KEY-----\n" + base64))[:76] + "\n" +
			encoding.EncodeToString([]byte("-----BEGIN RSA PRIV" + "ATE KEY-----\n" + base64))[76:]: "private-key",
		"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n" + base64:                      "private-key",
		`{"kty": "OKP", "crv": "Ed25519", "d" : "` + drawn(43, urlSafe) + `"}`:                 "assignment",
		`{"d":"` + drawn(342, urlSafe) + `", "n": "` + drawn(342, urlSafe) + `", "kty":"RSA"}`: "assignment",
		"aws_secret_access_key = \"" + drawn(40, alnum+"+/") + "\"":                            "assignment",
	}
}

func TestHidden(t *testing.T) {
	for text, rule := range hidden() {
		for _, before := range []string{"", "\n\n  ä ", strings.Repeat("x = 1\n", window/6)} {
			found := scan(t, "a.py", before+text+" \n")
			if len(found) != 1 || found[0].Rule != rule {
				t.Errorf("%q after %d bytes: %v, want %s", text, len(before), found, rule)
				continue
			}
			lines := strings.Count(before, "\n") + 1
			if f := found[0]; f.Line < lines || f.Line > lines+1 || f.Path != "a.py" || f.Column < 1 {
				t.Errorf("%q after %d bytes is found at %d:%d", text, len(before), f.Line, f.Column)
			}
		}
	}
}

// No finding tells more than what anybody knows: of any text at most a few letters of the secret itself.
func TestExcerpt(t *testing.T) {
	for text := range hidden() {
		for _, f := range scan(t, "a.py", text) {
			for i := 0; i+20 <= len(f.Excerpt); i++ {
				if part := f.Excerpt[i : i+20]; strings.Contains(text, part) &&
					!strings.HasPrefix("aws_secret_access_key", part) &&
					!strings.HasPrefix("s_secret_access_key", part) && f.Rule != "assignment" {
					t.Errorf("%q tells %q", f.Rule, f.Excerpt)
				}
			}
			if f.Rule == "assignment" && !strings.HasSuffix(f.Excerpt, " …") {
				t.Errorf("%q", f.Excerpt)
			}
		}
	}
}

// Each ending of a name counts, in any case, and with signs anywhere in it.
func TestEndings(t *testing.T) {
	for e, ending := range endings {
		value := drawn(24, alnum)
		if e < passwords {
			value = "h7Kq9!vLm2"
		}
		names := []string{ending, strings.ToUpper(ending)}
		for i := range ending {
			names = append(names, "my_"+ending[:i]+"-"+ending[i:])
		}
		for _, name := range names {
			if found := scan(t, "a.go", name+`: "`+value+`"`); len(found) != 1 || found[0].Rule != "assignment" {
				t.Errorf("%s: %v", name, found)
			}
		}
	}
}

// Several bytes are passed over at once: a secret at any of them is found.
func TestOffsets(t *testing.T) {
	for n := range 40 {
		for text, rule := range map[string]string{"gh" + "p_" + drawn(36, alnum): "github",
			`token="` + drawn(24, alnum) + `"`: "assignment"} {
			for _, behind := range []string{"", "\n", " and so on, and more"} {
				if found := scan(t, "a.go", strings.Repeat(" ", n)+text+behind); len(found) != 1 ||
					found[0].Rule != rule || found[0].Column != n+1 {
					t.Errorf("%s after %d bytes and before %q: %v", rule, n, behind, found)
				}
			}
		}
	}
}

func TestPlace(t *testing.T) {
	token := "gh" + "p_" + drawn(36, alnum)
	key := "  äö token: \"" + drawn(24, alnum) + "\""
	found := scan(t, "x.js", "one\ntwo "+token+"\n\n"+key+"\n")
	want := []Finding{{"x.js", 2, 5, "github", "ghp_…"}, {"x.js", 4, 6, "assignment", "token: …"}}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", found, want)
	}
}

func TestSettings(t *testing.T) {
	line := "db_password: h7Kq9!vLm2\napi_key=" + drawn(32, hexDigits) + "\n"
	for name, want := range map[string]int{"a.yaml": 2, "a.env": 2, ".env.local": 2, "a.toml": 2, "a.sh": 2, "a.go": 0,
		"a.md": 0} {
		if found := scan(t, name, line); len(found) != want {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// What looks like a secret and is none.
func TestHarmless(t *testing.T) {
	for _, text := range []string{
		"AKIAIOSFODNN7EXAMPLE",
		"ghp_" + strings.Repeat("x", 36),
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789",
		"ghp_short",
		"sk-learn-pipeline-with-many-words-in-it-indeed",
		"task-ant-farm-is-a-long-name-for-something-else-but-no-key",
		"npm_config_user_agent_and_other_variables_too",
		`password = os.environ["PASSWORD"]`,
		`password = ""`,
		`password = "changeme"`,
		`password = "correct horse battery staple"`,
		`password = "lowercase"`,
		`password = "${DB_PASSWORD}"`,
		`if password == "h7Kq9!vLm2" {`,
		`if password != "h7Kq9!vLm2" {`,
		`token: "Identifier"`,
		`token = "access_token_of_the_user"`,
		`secret: "{{ secret }}"`,
		`api_key = "<your api key>"`,
		`api_key: "YOUR_API_KEY_0123456"`,
		`token_type: "a8f5f167f44f4964e6c998dee827110c"`,
		`token_url = "https://login.example.com/oauth2/v2.0/tok"`,
		`digest: "a8f5f167f44f4964e6c998dee827110c"`,
		"https://user@example.com/a:b",
		"https://user:password@example.com/",
		"https://example.com:8443/@scope/pkg",
		"-----BEGIN RSA PRIVATE KEY-----",
		`if bytes.HasPrefix(b, []byte("-----BEGIN PRIVATE KEY-----")) { return }`,
		"-----BEGIN CERTIFICATE-----\n" + drawn(64, alnum) + "\n",
		"-----BEGIN PUBLIC KEY-----\n" + drawn(64, alnum) + "\n",
		"-----BEGIN " + strings.Repeat("A", 60) + "PRIVATE KEY-----\n" + drawn(64, alnum),
		"eyJ.eyJ.x",
		"# rye:signed:v2:2026-11-20T12:00:00Z:2373fe12:sk-" + drawn(83, alnum) + ":1eed29",
		"# rye:signed:2026-11-20T12:00:00Z:2373fe12:ab-sk-" + drawn(83, alnum) + "=:1eed29",
		"x" + drawn(20, urlSafe) + "-sk-" + drawn(60, alnum),
		"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" + drawn(80, alnum),
		`{"kty": "OKP", "crv": "Ed25519", "x": "` + drawn(43, urlSafe) + `"}`,
		`{"a": 1, "d": "` + drawn(43, urlSafe) + `"}`,
		"PuTTY-User-Key-File-3 is how such a file begins",
		`{digest: "blake3:` + drawn(64, hexDigits) + `", size: 6}`,
	} {
		for _, name := range []string{"a.go", "a.md"} {
			if found := scan(t, name, text+"\n"); len(found) > 0 {
				t.Errorf("%s %q: %v", name, text, found)
			}
		}
	}
}

// TestNoise scans what compressed files look like: none of it is a secret, wherever a URL seems to begin in it.
func TestNoise(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	noise := make([]byte, 300)
	scanner := NewScanner()
	for i := range 200_000 {
		if _, err := random.Read(noise); err != nil {
			t.Fatal(err)
		}
		copy(noise, "s://")
		found, err := scanner.Scan("release.tar.gz", bytes.NewReader(noise))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			t.Fatalf("noise %d: found %v in %q", i, found, noise)
		}
	}
}

func TestNamed(t *testing.T) {
	for _, name := range []string{".env", "a/.env", ".env.production", "prod.env", ".ENV", "id_rsa", "x/id_ed25519",
		".netrc", "_netrc", ".pgpass", ".htpasswd",
		".git-credentials", ".dockercfg", ".vault-token", ".my.cnf", "kubeconfig", "a.kubeconfig", "credentials.json",
		"client_secret_1.json",
		"application_default_credentials.json", ".aws/credentials", "home/.docker/config.json", ".kube/config",
		".gnupg/secring.gpg", ".ssh/work",
		"a.p12", "a.pfx", "a.jks", "a.keystore", "a.kdbx", "a.ppk", "terraform.tfstate", ".ai/keys/me.pem",
		"sub/.ai/keys/x"} {
		f, ok := Named(name)
		if !ok || f.Line != 0 || f.Rule != "file-name" || f.Excerpt == "" || f.Path != name {
			t.Errorf("%s: %v, %v", name, f, ok)
		}
	}
	for _, name := range []string{".env.example", ".env.sample", ".env.template", "environment.go", "env.py",
		"id_rsa.pub", "rsa.go", "a.pem", "credentials.go",
		".aws/config", "docker/config.json", ".ssh/config", ".ssh/id_rsa.pub", ".ssh/known_hosts", "keys/me.pem",
		".npmrc", "client_secret.md", ".ai/tools/keys/x.py"} {
		if f, ok := Named(name); ok {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// The standard library is code like any other. Its tests hold passwords; the rest doesn't.
func TestStandardLibrary(t *testing.T) {
	src := standardLibrary(t)
	files, bytes := 0, int64(0)
	s := NewScanner()
	for _, dir := range []string{"crypto", "net", "encoding", "go", "text", "html", "database", "os", "testing"} {
		err := filepath.WalkDir(filepath.Join(src, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if d != nil && d.Name() == "testdata" {
					return fs.SkipDir
				}
				return err
			}
			if strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			rel, _ := filepath.Rel(src, path)
			found, err := s.Scan(filepath.ToSlash(rel), f)
			if err != nil {
				return err
			}
			if _, ok := Named(filepath.ToSlash(rel)); ok {
				t.Errorf("%s has the name of a secret", rel)
			}
			for _, f := range found {
				t.Errorf("%s:%d:%d: %s %s", f.Path, f.Line, f.Column, f.Rule, f.Excerpt)
			}
			fi, _ := f.Stat()
			files++
			bytes += fi.Size()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 500 {
		t.Errorf("only %d files were there, %d bytes", files, bytes)
	}
}

// However the bytes come, what is found is the same.
func TestPieces(t *testing.T) {
	var all strings.Builder
	for i := range 40 {
		fmt.Fprintf(&all, "line %d\n%s", i, strings.Repeat("word ", i*157))
		all.WriteString("\nx gh" + "p_" + drawn(36+i%3, alnum) + "\n")
	}
	whole := scan(t, "a.md", all.String())
	if len(whole) != MaxFindings {
		t.Fatalf("%d findings", len(whole))
	}
	for _, r := range []io.Reader{iotest.HalfReader(strings.NewReader(all.String())),
		iotest.OneByteReader(strings.NewReader(all.String()))} {
		found, err := NewScanner().Scan("a.md", r)
		if err != nil || fmt.Sprint(found) != fmt.Sprint(whole) {
			t.Errorf("%v\n%v\nwant %v", err, found, whole)
		}
	}
}

// A secret is found wherever the pieces that are looked at begin and end, once.
func TestBoundaries(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	token := "gh" + "p_" + drawn(36, alnum)
	key := "-----BEGIN PRIV" + "ATE KEY-----\n" + drawn(64, alnum) + "\n"
	line := "# rye:signed:v2:2026-11-20T12:00:00Z:" + drawn(64, hexDigits) + ":sk-" + drawn(83, alnum)
	for at := behind + window - 300; at < behind+window+reach+100; at += 7 {
		if found := scan(t, "a.md", strings.Repeat(" ", at)+line+" \n"+strings.Repeat(" ",
			reach+at)); len(found) != 0 {
			t.Fatalf("at %d: %v", at, found)
		}
	}
	for _, text := range []string{token, key} {
		for at := behind + window - 100; at < behind+window+reach+100; at += 7 {
			found := scan(t, "a.md", strings.Repeat(" ", at-1)+"\n"+text+"\n"+strings.Repeat(" ", reach+100))
			if len(found) != 1 || found[0].Line != 2 || found[0].Column != 1 {
				t.Fatalf("at %d: %v", at, found)
			}
		}
	}
}

// A key in DER is a file of its own.
func TestDER(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(crand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	must := func(b []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, text := range map[string]string{
		"ed": must(x509.MarshalPKCS8PrivateKey(ed)), "ec": must(x509.MarshalPKCS8PrivateKey(small)),
		"rsa":  must(x509.MarshalPKCS8PrivateKey(large)),
		"sec1": must(x509.MarshalECPrivateKey(small)), "pkcs1": string(x509.MarshalPKCS1PrivateKey(large)),
		"passphrase": "\x30\x82\x05\x2d\x30\x57\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d\x30\x4a\x30",
	} {
		if found := scan(t, "a.bin", text); len(found) != 1 || found[0].Rule != "private-key" ||
			found[0].Excerpt != "DER" {
			t.Errorf("%s: %v", name, found)
		}
	}
	for name, text := range map[string]string{
		"public":     must(x509.MarshalPKIXPublicKey(small.Public())),
		"public rsa": string(x509.MarshalPKCS1PublicKey(&large.PublicKey)),
		"request":    must(x509.CreateCertificateRequest(crand.Reader, &x509.CertificateRequest{}, small)),
		"short":      "0\x03\x02\x01\x00", "text": "0\x0cis no sequence",
		"long form": "0\x84" + strings.Repeat("\x02\x01\x00", 9),
	} {
		if found := scan(t, "a.bin", text); len(found) != 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestWide(t *testing.T) {
	text := "\ufeffone line of text\npassword = \"h7Kq9!vLm2\"\n"
	for name, order := range map[string][2]int{"little": {0, 8}, "big": {8, 0}} {
		var b []byte
		for _, u := range utf16.Encode([]rune(text)) {
			b = append(b, byte(u>>order[0]), byte(u>>order[1]))
		}
		for _, from := range []int{0, 2} { // without the mark too
			found, err := NewScanner().Scan("a.txt", bytes.NewReader(b[from:]))
			if err != nil || len(found) != 1 || found[0].Line != 2 {
				t.Errorf("%s from %d: %v, %v", name, from, found, err)
			}
		}
	}
}

// An object is verified only when it is read to its end, so the scanner reads all of it and returns its errors.
func TestReadsToTheEnd(t *testing.T) {
	many := strings.Repeat("gh"+"p_"+drawn(36, alnum)+strings.Repeat("\n", 200), 3000)
	r := strings.NewReader(many)
	found, err := NewScanner().Scan("a", r)
	if err != nil || len(found) != MaxFindings || r.Len() != 0 {
		t.Errorf("%d findings, %d bytes left, %v", len(found), r.Len(), err)
	}
	bad := errors.New("damaged")
	for _, text := range []string{"", many} {
		if _, err := NewScanner().Scan("a", io.MultiReader(strings.NewReader(text),
			iotest.ErrReader(bad))); err != bad {
			t.Errorf("%v, want %v", err, bad)
		}
	}
}

func FuzzScan(f *testing.F) {
	for text := range hidden() {
		f.Add("a.yaml", []byte(text))
	}
	s := NewScanner()
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		found, err := s.Scan(name, bytes.NewReader(b))
		if err != nil || len(found) > MaxFindings {
			t.Fatalf("%d, %v", len(found), err)
		}
		lines := bytes.Count(b, []byte("\n")) + 1
		for _, f := range found {
			if f.Line < 1 || f.Line > lines || f.Column < 1 || f.Column > len(b)+1 || len(f.Excerpt) > 200 {
				t.Fatalf("%+v of %d lines", f, lines)
			}
		}
		Named(name)
	})
}

func BenchmarkScan(b *testing.B) {
	text, err := os.ReadFile(filepath.Join(standardLibrary(b), "net", "http", "server.go"))
	if err != nil {
		b.Fatal(err)
	}
	s := NewScanner()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Scan("server.go", bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
