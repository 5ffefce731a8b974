package s3

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/registry/blobs"
)

var must, refused = journaltest.Must, journaltest.Refused

// TestAddress: what an address says, and that one with keys is refused without showing them.
func TestAddress(t *testing.T) {
	for address, want := range map[string]string{
		"s3://s3.example.com/team":                            "s3.example.com team  us-east-1",
		"s3://s3.example.com:9000/team/":                      "s3.example.com:9000 team  us-east-1",
		"s3://s3.example.com/team/rye/blobs?region=eu-west-1": "s3.example.com team rye/blobs/ eu-west-1",
	} {
		s, endpoint, region, err := Options{Address: address}.parse()
		must(t, err)
		if got := strings.Join([]string{endpoint, s.bucket, s.prefix, region}, " "); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	for _, address := range []string{
		"", "s3://", "s3://s3.example.com", "s3://s3.example.com/", "https://s3.example.com/team", "s3:team/x",
		"s3://KEY:s3cret@s3.example.com/team", "s3://s3cret@s3.example.com/team", "s3://s3.example.com/team#s3cret",
		"s3://s3.example.com/team?secret=s3cret", "s3://s3.example.com/team/../x", "s3://s3cret:x@s3.example.com:%/team",
		"s3://s3.example.com/team/a//b", "s3://s3.example.com/x", "s3://s3.example.com/Team",
	} {
		_, err := Open(t.Context(), Options{Address: address})
		refused(t, fault.Config, err)
		if text := strings.Join(append(fault.Of(err).Why, err.Error()), " "); strings.Contains(text, "s3cret") {
			t.Errorf("shown: %s", text)
		}
	}
}

// TestLocal: only a server of this machine is spoken to without TLS.
func TestLocal(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"localhost": true, "localhost:9000": true, "127.0.0.1:9000": true, "[::1]:9000": true, "10.0.0.1": false,
		"localhost.example.com": false, "s3.example.com": false, "127.0.0.1.example.com": false,
	} {
		if local(endpoint) != want {
			t.Errorf("%s: %v", endpoint, !want)
		}
	}
}

// TestKeys: keys come from the environment, or from a file that no other user may read.
func TestKeys(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY",
		"AWS_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	_, err := Options{}.keys()
	refused(t, fault.AuthRequired, err)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_SESSION_TOKEN", "token")
	path := filepath.Join(t.TempDir(), "credentials")
	for text, want := range map[string]string{
		"": "id secret token",
		"[default]\naws_access_key_id = a\naws_secret_access_key=b=c\n":                               "a b=c ",
		"aws_access_key_id=a\naws_secret_access_key=b\naws_session_token=c\n[x]\naws_access_key_id=d": "a b c",
		"[other]\naws_access_key_id=a\naws_secret_access_key=b\n":                                     "",
		"[default]\naws_access_key_id=a\n":                                                            "",
		"[default]\ncredential_process=/bin/false\n":                                                  "",
		strings.Repeat("x", 70_000):                                                                   "",
	} {
		o := Options{CredentialsFile: path}
		if text == "" {
			o = Options{}
		}
		must(t, os.WriteFile(path, []byte(text), 0o600))
		keys, err := o.keys()
		if want == "" {
			if err == nil {
				t.Errorf("%.40q is taken", text)
			}
			continue
		}
		must(t, err)
		v, err := keys.GetWithContext(nil)
		must(t, err)
		if got := v.AccessKeyID + " " + v.SecretAccessKey + " " + v.SessionToken; got != want {
			t.Errorf("%.40q: %s", text, got)
		}
	}
	must(t, os.Chmod(path, 0o644))
	_, err = Open(t.Context(), Options{Address: "s3://localhost/team", CredentialsFile: path})
	refused(t, fault.Denied, err)
	_, err = Options{CredentialsFile: path + ".none"}.keys()
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestFailure: errors of servers have codes.
func TestFailure(t *testing.T) {
	s := &Store{bucket: "team"}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code fault.Code
	}{
		{t.Context(), minio.ErrorResponse{Code: "AccessDenied"}, fault.AuthFailed},
		{t.Context(), minio.ErrorResponse{Code: "NoSuchBucket"}, fault.Config},
		{t.Context(), minio.ErrorResponse{Code: "SlowDown"}, fault.RateLimited},
		{t.Context(), minio.ErrorResponse{Code: "ConditionalRequestConflict"}, fault.Busy},
		{t.Context(), minio.ErrorResponse{Code: "ExpiredToken"}, fault.SessionExpired},
		{over, minio.ErrorResponse{StatusCode: http.StatusPreconditionFailed}, fault.Conflict},
		{t.Context(), errors.New("connection reset"), fault.Unavailable},
		{over, errors.New("connection reset"), fault.Cancelled},
		{over, fault.New(fault.Limit, "own"), fault.Limit},
	} {
		if err := s.failure(c.ctx, "a", c.err); err == nil || fault.CodeOf(err) != c.code {
			t.Errorf("%v: %v, want %s", c.err, err, c.code)
		}
	}
	if s.failure(over, "a", nil) != nil {
		t.Error("an error of nothing")
	}
	var exists *blobs.ExistsError
	kept := minio.ErrorResponse{StatusCode: http.StatusPreconditionFailed}
	if !errors.As(s.failure(over, "a", kept), &exists) || exists.Name != "a" {
		t.Error("an existing file")
	}
}
