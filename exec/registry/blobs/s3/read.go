package s3

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
)

// Open implements blobs.Store.
func (s *Store) Open(ctx context.Context, name string) (*blobs.File, error) {
	if err := blobs.Check(name); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	body, info, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if absent(err) {
		return nil, blobs.Missing(name)
	}
	if err != nil {
		return nil, s.failure(ctx, name, err)
	}
	o := &object{ctx: ctx, store: s, name: name, info: info, body: body}
	return &blobs.File{ReadSeekCloser: o, Info: s.info(name, info)}, nil
}

func (s *Store) info(name string, o minio.ObjectInfo) blobs.Info {
	return blobs.Info{Name: name, Size: o.Size, ETag: strings.Trim(o.ETag, `"`), Modified: o.LastModified}
}

// An object is a file that is read. One request reads it from the beginning; another one begins where a Seek leads.
type object struct {
	ctx    context.Context
	store  *Store
	name   string
	info   minio.ObjectInfo
	at     int64         // where the next Read begins
	body   io.ReadCloser // nil: none is open
	bodyAt int64         // where body is
}

// Seek implements io.Seeker.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.info.Size
	}
	if offset < 0 {
		return 0, errors.New("seek to a negative offset")
	}
	o.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (o *object) Read(b []byte) (int, error) {
	if o.at >= o.info.Size {
		return 0, io.EOF
	}
	if o.body == nil || o.bodyAt != o.at {
		if err := o.open(); err != nil {
			return 0, err
		}
	}
	n, err := o.body.Read(b)
	o.at += int64(n)
	o.bodyAt = o.at
	if err == io.EOF && o.at < o.info.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		err = o.store.failure(o.ctx, o.name, err)
	}
	return n, err
}

// open asks for the rest of the file, from at on.
func (o *object) open() error {
	o.Close()
	var ask minio.GetObjectOptions
	err := ask.SetRange(o.at, o.info.Size-1)
	if err == nil {
		err = ask.SetMatchETag(o.info.ETag)
	}
	if err != nil {
		return err
	}
	body, info, _, err := o.store.core.GetObject(o.ctx, o.store.bucket, o.store.prefix+o.name, ask)
	if err == nil && info.ETag != o.info.ETag { // a server that ignores If-Match
		err = errors.Join(errReplaced, body.Close())
	}
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		err = errReplaced
	}
	if absent(err) {
		return blobs.Missing(o.name)
	}
	if err != nil {
		return o.store.failure(o.ctx, o.name, err)
	}
	o.body, o.bodyAt = body, o.at
	return nil
}

var errReplaced = fault.New(fault.Conflict, "the file was replaced while it was read")

// Close implements io.Closer.
func (o *object) Close() error {
	if o.body == nil {
		return nil
	}
	body := o.body
	o.body = nil
	return body.Close()
}

// List implements blobs.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blobs.Info, error] {
	return func(yield func(blobs.Info, error) bool) {
		err := blobs.CheckPrefix(prefix)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			yield(blobs.Info{}, err)
			return
		}
		ask := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		for o := range s.core.Client.ListObjectsIter(ctx, s.bucket, ask) {
			if o.Err != nil {
				yield(blobs.Info{}, s.failure(ctx, prefix, o.Err))
				return
			}
			name := strings.TrimPrefix(o.Key, s.prefix)
			if blobs.Check(name) != nil {
				continue // the format, or an object of another program
			}
			if !yield(s.info(name, o), nil) {
				return
			}
		}
	}
}

// exists reports whether a server has kept an existing object.
func exists(err error) bool {
	return minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed
}

// absent reports whether a server has no such object.
func absent(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchKey }

// codes are the codes of errors by those of S3.
var codes = map[string]fault.Code{
	"AccessDenied": fault.AuthFailed, "InvalidAccessKeyId": fault.AuthFailed, "SignatureDoesNotMatch": fault.AuthFailed,
	"RequestTimeTooSkewed": fault.AuthFailed, "ExpiredToken": fault.SessionExpired,
	"NoSuchBucket": fault.Config, "InvalidBucketName": fault.Config, "PermanentRedirect": fault.Config,
	"AuthorizationHeaderMalformed": fault.Config, "SlowDown": fault.RateLimited,
	"ConditionalRequestConflict": fault.Busy, "EntityTooLarge": fault.Limit,
}

// failure returns an error of the server as people and programs see it.
func (s *Store) failure(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, own := fault.Find(err); own {
		return err
	}
	if exists(err) {
		return &blobs.ExistsError{Name: name}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	answer := minio.ToErrorResponse(err)
	code, known := codes[answer.Code]
	if !known {
		code = fault.Unavailable
	}
	f := fault.New(code, "object store: %v", err).On("bucket", s.bucket).From(err)
	switch code {
	case fault.AuthFailed, fault.SessionExpired:
		f.Try("export AWS_ACCESS_KEY_ID", "export AWS_SECRET_ACCESS_KEY")
	case fault.Config:
		f.Try("aws s3 mb " + fault.Quote("s3://"+s.bucket))
	}
	return f
}
