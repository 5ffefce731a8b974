package archive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
)

var (
	errHeader  = errors.New("unexpected header")
	errFirst   = errors.New("expected the manifest's header")
	errPadding = errors.New("nonzero padding")
	errSigned  = errors.New("the manifest contains signature lines")
	errMore    = errors.New("content after the last file")
	errLarge   = fmt.Errorf("the manifest is larger than %d bytes", MaxManifest)
	errNoSigs  = errors.New("the signature file is missing or too large")
)

// Read reads an archive to its end and passes everything to the sink. It returns an *Error for an invalid archive.
// After any error, the sink must discard what it received.
func Read(ctx context.Context, r io.Reader, sink Sink) (*Head, error) {
	reader := &reader{ctx: ctx, buf: make([]byte, 64<<10)}
	f := &frame{r: bufio.NewReaderSize(r, 64<<10), out: &reader.off}
	if err := f.begin(); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(MaxWindow), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	reader.frame, reader.z = f, z
	h, err := reader.all(sink)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// ReadHead reads the beginning of an archive, and none of its files.
func ReadHead(ctx context.Context, r io.Reader) (*Head, error) {
	var h headOnly
	if _, err := Read(ctx, r, &h); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return h.Head, nil
}

// ReadFileHead reads the beginning of an archive file.
func ReadFileHead(ctx context.Context, path string) (*Head, error) {
	f, err := osfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := ReadHead(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return h, nil
}

type headOnly struct{ *Head }

var errEnough = errors.New("only the head is read")

func (h *headOnly) Begin(head *Head) error {
	h.Head = head
	return errEnough
}

func (*headOnly) File(Entry, io.Reader) error { return errEnough }

type reader struct {
	ctx   context.Context
	frame *frame
	z     *zstd.Decoder
	off   int64
	ahead []byte // read already and to be read again
	entry string
	want  []byte
	buf   []byte
}

// Read reads the tar stream. No caller expects its end, so the end is an error.
func (p *reader) Read(b []byte) (int, error) {
	if err := context.Cause(p.ctx); err != nil {
		return 0, err
	}
	if len(p.ahead) > 0 {
		n := copy(b, p.ahead)
		p.ahead, p.off = p.ahead[n:], p.off+int64(n)
		return n, nil
	}
	n, err := p.z.Read(b)
	p.off += int64(n)
	if n > 0 {
		return n, nil
	}
	if err == io.EOF {
		err = p.fail(io.ErrUnexpectedEOF)
	}
	return 0, p.decoding(err)
}

// decoding returns the error of the frame if it has one, because the decoder only repeats it.
func (p *reader) decoding(err error) error {
	switch known, ok := errors.AsType[*Error](err); {
	case p.frame.err != nil:
		return p.frame.err
	case ok:
		return known
	case err == nil:
		return nil
	}
	return p.fail(err)
}

func (p *reader) fail(err error) error { return &Error{Offset: p.off, Entry: p.entry, Err: err} }

func (p *reader) all(sink Sink) (*Head, error) {
	head, err := p.head()
	if err != nil {
		return nil, err
	}
	if err := sink.Begin(head); err != nil {
		return nil, err
	}
	for i := range head.entries() {
		if err := p.file(head.entry(i), sink); err != nil {
			return nil, err
		}
	}
	p.entry = ""
	if err := p.zeros(2 * blockSize); err != nil {
		return nil, err
	}
	switch n, err := p.z.Read(p.buf[:1]); {
	case n > 0:
		return nil, p.fail(errMore)
	case err != io.EOF:
		return nil, p.decoding(err)
	}
	return head, p.frame.end()
}

// head reads the manifest and its signatures.
func (p *reader) head() (*Head, error) {
	size, err := p.first(manifestName, errFirst)
	if err != nil {
		return nil, err
	}
	if size > MaxManifest {
		return nil, p.fail(errLarge)
	}
	from := p.off
	var body bytes.Buffer
	body.Grow(int(min(size, 16<<20))) // the archive may lack the rest of the declared size
	head := &Head{}
	head.List, err = manifest.ReadFileList(io.TeeReader(io.LimitReader(p, size), &body), func(f *manifest.File) error {
		head.Files = append(head.Files, *f)
		return nil
	})
	if err != nil {
		return nil, p.reading(from, err)
	}
	if head.Body = body.Bytes(); int64(len(head.Body)) != size {
		return nil, p.fail(io.ErrUnexpectedEOF)
	}
	if err := head.fits(); err != nil {
		return nil, p.fail(err)
	}
	if err := p.zeros(padding(size)); err != nil {
		return nil, err
	}
	if size, err = p.first(signaturesName, errNoSigs); err != nil {
		return nil, err
	}
	if size > maxSignatures {
		return nil, p.fail(errNoSigs)
	}
	lines := make([]byte, size)
	if _, err := io.ReadFull(p, lines); err != nil {
		return nil, err
	}
	if err := head.sign(lines); err != nil {
		return nil, p.fail(err)
	}
	if err := p.zeros(padding(size)); err != nil {
		return nil, err
	}
	return head, p.keys(head)
}

// keys reads the keys of the signers if they come next.
func (p *reader) keys(head *Head) (err error) {
	block := make([]byte, blockSize)
	n, _ := io.ReadFull(p, block) // reading the first file reports a short block
	size := sizeOf(block)
	if size <= 0 || size > maxKeys || !bytes.Equal(block, appendHeader(nil, keysName, cas.File, size)) {
		p.ahead, p.off = block[:n], p.off-int64(n)
		return nil
	}
	p.entry = keysName
	lines := make([]byte, size)
	if _, err := io.ReadFull(p, lines); err != nil {
		return err
	}
	if head.Keys, err = manifest.ParseSignerKeys(lines, head.List.Signatures); err != nil {
		return p.fail(err)
	}
	return p.zeros(padding(size))
}

// reading returns an error of the content that begins at from, unless the archive, its frame or the context failed
// first.
func (p *reader) reading(from int64, err error) error {
	switch known, ok := errors.AsType[*Error](err); {
	case p.frame.err != nil:
		return p.frame.err
	case ok:
		return known
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	return &Error{Offset: from, Entry: p.entry, Err: err}
}

// first reads the header of an entry whose size is unknown, and returns the size. Any other header is the error
// otherwise.
func (p *reader) first(name string, otherwise error) (int64, error) {
	p.entry = name
	at := p.off
	b := p.buf[:blockSize]
	if _, err := io.ReadFull(p, b); err != nil {
		return 0, err
	}
	size := sizeOf(b)
	if size >= 0 {
		p.want = appendHeader(p.want[:0], name, cas.File, size)
	}
	if size < 0 || !bytes.Equal(b, p.want) {
		return 0, &Error{Offset: at, Entry: name, Err: otherwise}
	}
	return size, nil
}

// file reads one entry and passes it to the sink.
func (p *reader) file(entry Entry, sink Sink) error {
	p.entry = entry.name()
	at := p.off
	p.want = appendHeader(p.want[:0], p.entry, entry.Mode, entry.Size)
	got := p.buf[:len(p.want)]
	if _, err := io.ReadFull(p, got); err != nil {
		return err
	}
	if !bytes.Equal(got, p.want) {
		return &Error{Offset: at, Entry: p.entry, Err: errHeader}
	}
	content := content{r: cas.Verify(cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: entry.Digest}, Size: entry.Size},
		io.NopCloser(io.LimitReader(p, entry.Size)))}
	if err := sink.File(entry, &content); err != nil {
		return err
	}
	seen := content.err != nil
	for content.err == nil {
		content.Read(p.buf)
	}
	if _, damaged := errors.AsType[*cas.DamagedError](content.err); content.err != io.EOF &&
		(!damaged || !seen || p.off != at+int64(len(p.want))+entry.Size) {
		return p.reading(p.off, content.err)
	}
	return p.zeros(padding(entry.Size))
}

// A content is the reader of one file. It keeps the error that ended it.
type content struct {
	r   io.Reader
	err error
}

func (c *content) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(b)
	c.err = err
	return n, err
}

// zeros reads n zeros.
func (p *reader) zeros(n int64) error {
	b := p.buf[:n]
	if _, err := io.ReadFull(p, b); err != nil {
		return err
	}
	if !bytes.Equal(b, zeros[:n]) {
		return p.fail(errPadding)
	}
	return nil
}
