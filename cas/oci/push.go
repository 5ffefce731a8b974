package oci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
)

// Content is a bundle to be pushed.
type Content struct {
	Document    []byte     // without signature lines
	Objects     []cas.Info // that the document names, in any order
	Source      cas.Getter // has the objects
	Annotations map[string]string
	Attachments []format.Attachment
	Final       bool // the tag never names another document
}

// A Pushed is what a push has done.
type Pushed struct {
	Digest string // of the manifest
	ID     cas.Digest
	Tag    string
	Layers int
	Sent   int64 // bytes of blobs that were not there
	Reused int64 // bytes of blobs that were
}

// makers is how many layers are made and sent at once. Each needs memory for a whole one.
const makers = 2

// Push makes a tag name a bundle. It doesn't send what the place has, and sets the tag last.
func (p *Place) Push(ctx context.Context, c Content, tag string) (*Pushed, error) {
	if !ValidTag(tag) || ofReferrers(tag) {
		return nil, fault.New(fault.Validation, "invalid tag %q", fault.Clip(tag, 150)).On("tag", fault.Clip(tag, 150))
	}
	u := &push{Place: p, content: c, done: &Pushed{ID: cas.Sum(c.Document), Tag: tag}}
	if err := u.all(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, p.about(tag, err)
	}
	return u.done, nil
}

type push struct {
	*Place
	content Content
	known   map[cas.Digest][]format.Descriptor // layers that the tag's manifest has

	mu   sync.Mutex
	done *Pushed
}

func (u *push) all(ctx context.Context) error {
	if len(u.content.Document) > format.MaxDocument {
		return fault.New(fault.Limit, "the document has more than %d bytes", format.MaxDocument)
	}
	small, large, err := format.Row(u.content.Objects)
	if err != nil {
		return err
	}
	old, err := u.current(ctx)
	if err != nil {
		return err
	}
	manifest := &format.Manifest{Annotations: u.content.Annotations}
	if manifest.Layers, err = u.layers(ctx, format.Parts(small), large); err != nil {
		return err
	}
	d := format.Blob(format.DocumentType, u.content.Document)
	if err := u.send(ctx, d, u.content.Document); err != nil {
		return err
	}
	manifest.Document = format.Descriptor{SHA256: d.Digest.String(), Size: d.Size, Digest: u.done.ID, Length: d.Size}
	text, err := manifest.Append(nil)
	if err == nil {
		_, err = format.ParseManifest(text) // a manifest that can't be read is never written
	}
	if err != nil {
		return err
	}
	self := format.Blob(ocispec.MediaTypeImageManifest, text)
	u.done.Digest, u.done.Layers = self.Digest.String(), len(manifest.Layers)
	if old != u.done.Digest {
		if err := u.again(ctx, func() error { return u.at.putManifest(ctx, self, text, "") }); err != nil {
			return err
		}
	}
	if err := u.attach(ctx, self, u.content.Attachments); err != nil {
		return err
	}
	if old == u.done.Digest {
		return nil
	}
	return u.again(ctx, func() error { return u.at.putManifest(ctx, self, text, u.done.Tag) })
}

// current returns the digest of the manifest that the tag names now. Push doesn't replace a manifest that isn't a
// bundle's.
func (u *push) current(ctx context.Context) (string, error) {
	var data []byte
	err := u.again(ctx, func() (err error) {
		data, err = u.at.manifest(ctx, u.done.Tag)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	manifest, err := format.ParseManifest(data)
	if err != nil {
		return "", fault.New(fault.Conflict, "the tag names something else already: %s", fault.Of(err).Text).
			Permanent().On("digest", format.Sum(data)).
			On("reason", "foreign")
	}
	if u.content.Final && manifest.Document.Digest != u.done.ID {
		return "", fault.New(fault.Conflict, "the tag names something else already").Permanent().
			On("digest", format.Sum(data))
	}
	u.known = map[cas.Digest][]format.Descriptor{}
	for _, l := range manifest.Layers {
		u.known[l.Digest] = append(u.known[l.Digest], l)
	}
	return format.Sum(data), nil
}

// A maker makes layers one after the other.
type maker struct {
	*format.Layer
	texts []byte // of the small objects that are read at once, at least one
}

// layers makes and sends the layers of small objects, and of large ones.
func (u *push) layers(ctx context.Context, small [][]cas.Info, large []cas.Info) ([]format.Descriptor, error) {
	if len(small)+len(large) == 0 {
		small = [][]cas.Info{nil}
	}
	units := make([][]format.Descriptor, len(small)+len(large))
	// Makers are kept for their memory. The garbage collector would empty a pool.
	free := make(chan *maker, makers)
	for range makers {
		l, err := format.NewLayer()
		if err != nil {
			return nil, err
		}
		free <- &maker{Layer: l}
	}
	err := cas.Parallel(ctx, makers, len(units), func(ctx context.Context, i int) error {
		maker := <-free
		defer func() { free <- maker }()
		end := func() error {
			d, err := u.finish(ctx, maker.Layer)
			units[i] = append(units[i], d)
			return err
		}
		if i >= len(small) {
			maker.texts = nil // small ones came before
			return u.large(ctx, maker.Layer, large[i-len(small)], end)
		}
		return u.small(ctx, maker, small[i], end)
	})
	var all []format.Descriptor
	for _, unit := range units {
		all = append(all, unit...)
	}
	return all, err
}

// small makes a layer of small objects.
func (u *push) small(ctx context.Context, m *maker, part []cas.Info, end func() error) error {
	m.Begin()
	for len(part) > 0 {
		texts, err := u.read(ctx, m, part)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if err := m.Write(text); err != nil {
				return err
			}
		}
		part = part[len(texts):]
	}
	return end()
}

// read reads as many of the first objects as fit into the maker's memory, at once: the store may have to decompress
// many to read one.
func (u *push) read(ctx context.Context, m *maker, objects []cas.Info) ([][]byte, error) {
	var ids []cas.ID
	var texts [][]byte
	if m.texts == nil {
		m.texts = make([]byte, format.MinLayer)
	}
	left := m.texts
	for _, o := range objects {
		if o.Size > int64(len(left)) {
			break
		}
		ids, texts, left = append(ids, o.ID), append(texts, left[:o.Size]), left[o.Size:]
	}
	return texts, cas.Fetch(ctx, u.content.Source, ids, func(i int, o cas.Object) error {
		err := sameSize(objects[i], o)
		if err == nil {
			_, err = io.ReadFull(o, texts[i])
		}
		if err == nil {
			_, err = io.Copy(io.Discard, o) // only the end says that these were its bytes
		}
		return err
	})
}

// sameSize refuses an object that isn't as large as the document says.
func sameSize(want cas.Info, o cas.Object) error {
	if o.Size != want.Size {
		return fault.New(fault.Integrity, "%s has %d bytes, and the document says %d", want.ID, o.Size, want.Size)
	}
	return nil
}

// large makes the layers of a large object.
func (u *push) large(ctx context.Context, layer *format.Layer, want cas.Info, end func() error) error {
	o, err := u.content.Source.Get(ctx, want.ID)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := sameSize(want, o); err != nil {
		return err
	}
	c, open := format.NewCutter(), false
	r, buf := cas.Until(ctx, o), make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		for data := buf[:n]; len(data) > 0; {
			if !open {
				layer.Begin()
			}
			n, ends := c.Next(data)
			if err := layer.Write(data[:n]); err != nil {
				return err
			}
			if ends {
				if err := end(); err != nil {
					return err
				}
			}
			data, open = data[n:], !ends
		}
		switch {
		case err == io.EOF && open:
			return end()
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// finish ends a layer and sends it, unless the place has an equal one.
func (u *push) finish(ctx context.Context, layer *format.Layer) (format.Descriptor, error) {
	descriptor, err := layer.End()
	if err != nil {
		return descriptor, err
	}
	defer u.progress(descriptor.Length)
	at := descriptor.Blob()
	if has, err := u.has(ctx, at); has || err != nil {
		return descriptor, err
	}
	// Another release may have compressed the same bytes differently. The annotation is only its author's claim, so
	// the layer is fetched and compared.
	for _, other := range u.known[descriptor.Digest] {
		if other.SHA256 != descriptor.SHA256 && other.Length == descriptor.Length && u.equal(ctx, other) {
			u.count(other.Size, false)
			return other, nil
		}
	}
	return descriptor, u.upload(ctx, at, layer.Bytes())
}

// equal reports whether a blob of the place holds what its annotation says.
func (u *push) equal(ctx context.Context, d format.Descriptor) bool {
	b, err := u.get(ctx, d.Blob())
	if err != nil {
		return false
	}
	h := cas.NewHasher()
	err = format.Unpack(bytes.NewReader(b), d, func(b []byte) error { h.Write(b); return nil })
	return err == nil && h.Digest() == d.Digest
}

func (u *push) count(n int64, sent bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if sent {
		u.done.Sent += n
	} else {
		u.done.Reused += n
	}
}

func (u *push) has(ctx context.Context, d ocispec.Descriptor) (has bool, err error) {
	err = u.again(ctx, func() error {
		has, err = u.at.has(ctx, d)
		return err
	})
	if has {
		u.count(d.Size, false)
	}
	return has, err
}

func (u *push) upload(ctx context.Context, d ocispec.Descriptor, b []byte) error {
	u.count(d.Size, true)
	return u.again(ctx, func() error { return u.at.put(ctx, d, b) })
}

// send sends a blob, unless the place has it.
func (u *push) send(ctx context.Context, d ocispec.Descriptor, b []byte) error {
	if has, err := u.has(ctx, d); has || err != nil {
		return err
	}
	return u.upload(ctx, d, b)
}
