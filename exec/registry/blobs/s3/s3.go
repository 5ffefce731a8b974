// Package s3 keeps files (package blobs) in a bucket of Amazon S3, or of a server that speaks its protocol, for
// several processes.
//
// An address is s3://HOST[:PORT]/BUCKET[/PREFIX], with ?region=REGION if it isn't us-east-1. It has no keys: those
// come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from a file in the form of
// ~/.aws/credentials. The bucket is always in the path. A host of this machine (localhost, 127.0.0.1, ::1) is reached
// with HTTP, any other one with HTTPS.
//
// A file is one object, with its name behind the prefix as key. It is sent in one request with its digests, so that it
// appears whole or not at all; a new one with "If-None-Match: *", so that an existing one stays.
//
// Not all servers know that condition, and one that ignores it would replace published files. Therefore Open creates
// the object "rye:blobs" twice, with the condition, and refuses a server that accepts both. Its text is the version of
// this format, "rye blobs/1". No file has its name, because ":" is in no portable path.
package s3

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/registry/blobs"
)

// Options say where the files are.
type Options struct {
	Address         string // without keys
	CredentialsFile string // only its owner may read it; optional
	Spool           string // directory of files that are sent and can't be read twice; os.TempDir() when empty
}

// A Store keeps files in a bucket.
type Store struct {
	core           minio.Core
	bucket, prefix string
	spool          string
}

var _ blobs.Store = (*Store)(nil)

// format is the object that says which format the others have.
const (
	format     = "rye:blobs"
	formatName = "rye blobs/"
	version    = 1
)

// Open opens the files in a bucket, and checks that the server keeps what exists.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, endpoint, region, err := o.parse()
	if err != nil {
		return nil, err
	}
	keys, err := o.keys()
	if err != nil {
		return nil, err
	}
	if err := s.connect(endpoint, !local(endpoint), region, keys); err != nil {
		return nil, err
	}
	if err := s.checkFormat(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// connect sets the client.
func (s *Store) connect(endpoint string, secure bool, region string, keys *credentials.Credentials) error {
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return err
	}
	transport.ResponseHeaderTimeout = 30 * time.Second
	s.core.Client, err = minio.New(endpoint, &minio.Options{Creds: keys, Secure: secure, Region: region,
		Transport: transport, BucketLookup: minio.BucketLookupPath, MaxRetries: 4})
	if err != nil {
		return badAddress("%v", err)
	}
	return nil
}

// parse reads an address.
func (o Options) parse() (s *Store, endpoint, region string, err error) {
	u, err := url.Parse(o.Address)
	if err != nil {
		return nil, "", "", badAddress("not a URL") // the error of net/url repeats the address
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	switch {
	case u.Scheme != "s3" || u.Host == "" || bucket == "":
		return nil, "", "", badAddress("expected s3://HOST/BUCKET")
	case u.User != nil:
		return nil, "", "", badAddress("it contains a key").
			Because("command lines and logs show addresses; keys come from the environment or a file").
			Try("export AWS_ACCESS_KEY_ID", "export AWS_SECRET_ACCESS_KEY")
	case u.Fragment != "":
		return nil, "", "", badAddress("it has a fragment")
	}
	for name := range u.Query() {
		if name != "region" {
			return nil, "", "", badAddress("unknown option %.40q", name)
		}
	}
	if err := s3utils.CheckValidBucketNameStrict(bucket); err != nil {
		return nil, "", "", badAddress("bucket %.40q: %v", bucket, err)
	}
	if prefix != "" {
		if err := blobs.Check(prefix); err != nil {
			return nil, "", "", badAddress("%v", err)
		}
		prefix += "/"
	}
	return &Store{bucket: bucket, prefix: prefix, spool: cmp.Or(o.Spool, os.TempDir())}, u.Host,
		cmp.Or(u.Query().Get("region"), "us-east-1"), nil
}

func badAddress(format string, args ...any) *fault.Error {
	return fault.New(fault.Config, "invalid address of an object store: "+format, args...).
		Try("ryed registry serve --help")
}

// local reports whether an endpoint is on this machine.
func local(endpoint string) bool {
	host := (&url.URL{Host: endpoint}).Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// keys returns the keys of requests.
func (o Options) keys() (*credentials.Credentials, error) {
	if o.CredentialsFile != "" {
		return readKeys(o.CredentialsFile)
	}
	keys := credentials.NewEnvAWS()
	if value, err := keys.GetWithContext(nil); err != nil || value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return nil, fault.New(fault.AuthRequired, "no keys for the object store").From(err).
			Try("export AWS_ACCESS_KEY_ID", "export AWS_SECRET_ACCESS_KEY")
	}
	return keys, nil
}

// readKeys reads keys from a private file: the section [default], or what stands before any section.
func readKeys(path string) (*credentials.Credentials, error) {
	f, err := osfile.OpenPrivate(path, true)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values, inDefault := map[string]string{}, true
	lines := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			inDefault = line == "[default]"
		} else if name, value, ok := strings.Cut(line, "="); ok && inDefault {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	id, secret := values["aws_access_key_id"], values["aws_secret_access_key"]
	if id == "" || secret == "" {
		return nil, fault.New(fault.AuthRequired, "no keys in %q", path).On("path", path).
			Because("expected aws_access_key_id and aws_secret_access_key in the section [default]").
			Try(fault.Command("ls -l", path))
	}
	return credentials.NewStaticV4(id, secret, values["aws_session_token"]), nil
}

// checkFormat refuses a bucket with files of a newer format, and a server that doesn't keep what exists.
func (s *Store) checkFormat(ctx context.Context) error {
	text := formatName + strconv.Itoa(version) + "\n"
	d, err := digestsOf(strings.NewReader(text), io.Discard)
	if err != nil {
		return err
	}
	put := func() error { return s.put(ctx, format, strings.NewReader(text), d, true) }
	err = put()
	if err == nil {
		if err = put(); err == nil {
			return fault.New(fault.Config, "the object store can't be used: it replaces existing objects").
				Because("it ignores the condition If-None-Match, which keeps published files as they are").
				On("bucket", s.bucket).Try("ryed registry serve --help")
		}
	}
	if !exists(err) {
		return s.failure(ctx, "", err)
	}
	body, _, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+format, minio.GetObjectOptions{})
	if err != nil {
		return s.failure(ctx, "", err)
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, 100))
	if err != nil {
		return s.failure(ctx, "", err)
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(b)), formatName)
	if has, err := strconv.Atoi(number); ok && err == nil && has > version {
		return fault.New(fault.VersionMismatch, "the bucket has format %d, this program knows up to %d", has,
			version).On("bucket", s.bucket).Try("ryed version")
	}
	if string(b) != text {
		return fault.New(fault.Integrity, "the object %q in the bucket was changed", format).On("bucket", s.bucket).
			Try("aws s3 ls " + fault.Quote("s3://"+s.bucket+"/"+s.prefix))
	}
	return nil
}

// put sends an object in one request, with its digests: not all servers notice by themselves that a body is not whole.
func (s *Store) put(ctx context.Context, name string, r io.Reader, d *digests, exclusive bool) error {
	// Without this option the client would sign each part of a body instead.
	o := minio.PutObjectOptions{DisableContentSha256: true, ContentType: "application/octet-stream"}
	if exclusive {
		o.SetMatchETagExcept("*")
		// The client repeats a request whose body it can read again. A second one would find what the first one,
		// whose answer was lost, has stored.
		r = struct{ io.Reader }{r}
	}
	_, err := s.core.PutObject(ctx, s.bucket, s.prefix+name, r, d.size,
		base64.StdEncoding.EncodeToString(d.md5.Sum(nil)), hex.EncodeToString(d.sha256.Sum(nil)), o)
	return err
}

// digests are what a server compares a body with: all of them know MD5.
type digests struct {
	md5, sha256 hash.Hash
	size        int64
}

// digestsOf reads r to its end, and writes to w what it has read.
func digestsOf(r io.Reader, w io.Writer) (*digests, error) {
	d := &digests{md5: md5.New(), sha256: sha256.New()}
	var err error
	d.size, err = io.Copy(io.MultiWriter(d.md5, d.sha256, w), r)
	return d, err
}

// early is the size from which on Create looks whether a file exists before it sends it.
const early = 1 << 20

// Create implements blobs.Store.
func (s *Store) Create(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := blobs.Check(name); err != nil {
		return err
	}
	if err := blobs.CheckSize(name, size, blobs.MaxSize); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if size >= early {
		if _, err := s.core.Client.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{}); err == nil {
			return &blobs.ExistsError{Name: name}
		}
	}
	body, d, done, err := s.whole(blobs.Exactly(ctx, name, r, size), r)
	if err != nil {
		return err
	}
	defer done()
	return s.failure(ctx, name, s.put(ctx, name, body, d, true))
}

// whole returns the bytes of exact, which reads r, with their digests. If r can't be read twice, they are in a file
// meanwhile.
func (s *Store) whole(exact, r io.Reader) (body io.Reader, d *digests, done func(), err error) {
	if again, ok := r.(io.ReadSeeker); ok {
		start, err := again.Seek(0, io.SeekCurrent)
		if err == nil {
			d, err = digestsOf(exact, io.Discard)
		}
		if err == nil {
			_, err = again.Seek(start, io.SeekStart)
		}
		if err != nil {
			return nil, nil, nil, err
		}
		return io.LimitReader(again, d.size), d, func() {}, nil
	}
	spool := &osfile.Scratch{Dir: s.spool}
	d, err = digestsOf(exact, appender{spool})
	if err != nil {
		spool.Close()
		return nil, nil, nil, err
	}
	return io.NewSectionReader(spool, 0, d.size), d, spool.Close, nil
}

// An appender writes to a Scratch.
type appender struct{ *osfile.Scratch }

// Write implements io.Writer.
func (a appender) Write(b []byte) (int, error) { return len(b), a.Append(b) }

// Replace implements blobs.Store.
func (s *Store) Replace(ctx context.Context, name string, b []byte) error {
	if err := blobs.Check(name); err != nil {
		return err
	}
	if err := blobs.CheckSize(name, int64(len(b)), blobs.MaxReplace); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	d, err := digestsOf(bytes.NewReader(b), io.Discard)
	if err != nil {
		return err
	}
	return s.failure(ctx, name, s.put(ctx, name, bytes.NewReader(b), d, false))
}

// Remove implements blobs.Store.
func (s *Store) Remove(ctx context.Context, name string) error {
	if err := blobs.Check(name); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	err := s.core.Client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
	if absent(err) {
		return nil
	}
	return s.failure(ctx, name, err)
}
