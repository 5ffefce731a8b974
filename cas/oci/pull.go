package oci

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
	"github.com/rye-build/rye/cas/oci/spool"
	"github.com/rye-build/rye/cas/osfile"
)

// An Image is a bundle that a place has: its manifest and its document, whose digests were checked, and nothing else.
type Image struct {
	Digest   string // of the manifest
	ID       cas.Digest
	Document []byte
	Manifest *format.Manifest

	place *Place
	self  ocispec.Descriptor
}

// Reference names the image by its digest.
func (m *Image) Reference() Reference { return m.place.Reference.Pinned(m.Digest) }

// Place is where the image is.
func (m *Image) Place() *Place { return m.place }

// Look reads only the manifest that a tag or a digest names.
func (p *Place) Look(ctx context.Context, name string) (*Image, error) {
	b, err := p.manifest(ctx, name)
	if err != nil {
		return nil, p.about(name, err)
	}
	m := &Image{Digest: format.Sum(b), place: p}
	if m.Manifest, err = format.ParseManifest(b); err != nil {
		return nil, p.about(name, err)
	}
	m.ID, m.self = m.Manifest.Document.Digest, format.Blob(ocispec.MediaTypeImageManifest, b)
	return m, nil
}

// manifest reads a manifest by its tag or digest, and checks the digest.
func (p *Place) manifest(ctx context.Context, name string) (data []byte, err error) {
	byDigest := format.ValidDigest(name)
	ask := func(at place) (err error) {
		if data, err = at.manifest(ctx, name); err == nil && byDigest && format.Sum(data) != name {
			err = damaged(ocispec.Descriptor{Digest: digest.Digest(name)}, "found "+format.Sum(data))
		}
		return err
	}
	if byDigest {
		err = p.read(ctx, ask)
	} else {
		err = p.look(ctx, ask)
	}
	return data, err
}

// Get reads the manifest that a tag or a digest names, and the document. It resolves a tag once: later requests name
// digests.
func (p *Place) Get(ctx context.Context, name string) (*Image, error) {
	image, err := p.Look(ctx, name)
	if err != nil {
		return nil, err
	}
	at := image.Manifest.Document
	image.Document, err = p.get(ctx, at.Blob())
	if err == nil && cas.Sum(image.Document) != at.Digest {
		err = fault.New(fault.Integrity, "the document is %s, and the manifest says %s", cas.Sum(image.Document),
			at.Digest).On("reason", "document").
			On("expected", at.Digest.String()).On("found", cas.Sum(image.Document).String())
	}
	if err != nil {
		return nil, p.about(name, err)
	}
	return image, nil
}

// A Sink takes objects, as stores do.
type Sink interface {
	cas.Misser
	cas.Batcher
}

// A piece is the part of a large object, or some small ones, that a layer holds.
type piece struct {
	format.Descriptor
	small []cas.Info
	large cas.Info
	last  bool // of a large object
	had   bool // an earlier piece has fetched the same layer
	stays bool // a later piece uses it too
}

// Objects stores the objects that store lacks. spool holds downloaded layers that aren't unpacked yet, of this call
// and of earlier ones; it is created if missing and left empty. Objects returns the objects that it stored, whose
// bytes it hashed, and a function that releases their gc leases: call it once a ref names them.
func (m *Image) Objects(ctx context.Context, objects []cas.Info, store Sink,
	spool string) (fresh map[cas.Digest]bool, release func(), err error) {
	f := &fetching{Image: m, store: store, spool: spool, fresh: map[cas.Digest]bool{}}
	if err = f.all(ctx, objects); err != nil {
		f.release()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, m.place.about(m.Digest, err)
	}
	return f.fresh, f.release, nil
}

type fetching struct {
	*Image
	store   Sink
	spool   string // its directory
	layers  *spool.Spool
	batches []cas.Batch
	fresh   map[cas.Digest]bool
}

func (f *fetching) release() {
	for _, b := range f.batches {
		b.Close()
	}
}

// plan assigns objects to layers. The manifest says only how long each layer is: plan refuses lengths that don't fit.
func (m *Image) plan(objects []cas.Info) ([]piece, error) {
	small, large, err := format.Row(objects)
	if err != nil {
		return nil, err
	}
	layers := m.Manifest.Layers
	wrong := func(what string) error {
		return fault.New(fault.Integrity, "the layers do not hold what the document names: %s", what).
			On("reason", "layers")
	}
	var out []piece
	take := func(p piece) { p.Descriptor, layers = layers[0], layers[1:]; out = append(out, p) }
	for _, part := range format.Parts(small) {
		var size int64
		for _, o := range part {
			size += o.Size
		}
		if len(layers) == 0 || layers[0].Length != size {
			return nil, wrong("small objects")
		}
		take(piece{small: part})
	}
	for _, o := range large {
		for left := o.Size; left > 0; {
			if len(layers) == 0 || layers[0].Length > left || layers[0].Length < min(left, format.MinLayer) {
				return nil, wrong(o.ID.String())
			}
			left -= layers[0].Length
			take(piece{large: o, last: left == 0})
		}
	}
	if len(out) == 0 && len(layers) == 1 && layers[0].Length == 0 {
		return nil, nil // there are no objects
	}
	if len(layers) > 0 {
		return nil, wrong(fmt.Sprintf("%d layers too many", len(layers)))
	}
	return out, nil
}

func (f *fetching) all(ctx context.Context, objects []cas.Info) error {
	plan, err := f.plan(objects)
	if err != nil {
		return err
	}
	need, err := f.needed(ctx, plan, objects)
	if err != nil {
		return err
	}
	if len(need) > 0 {
		if f.layers, err = spool.Take(ctx, f.spool); err != nil {
			return err
		}
		defer f.layers.Release()
		// Another process may have pulled the same meanwhile.
		if need, err = f.needed(ctx, plan, objects); err != nil {
			return err
		}
	}
	f.place.progress(length(plan) - length(need))
	return f.use(ctx, need)
}

func length(pieces []piece) (n int64) {
	for _, p := range pieces {
		n += p.Length
	}
	return n
}

// needed returns the pieces that hold an object which the store lacks.
func (f *fetching) needed(ctx context.Context, plan []piece, objects []cas.Info) (need []piece, err error) {
	ids := make([]cas.ID, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	missing, err := f.store.Missing(ctx, ids)
	if err != nil {
		return nil, err
	}
	lacks := make(map[cas.ID]bool, len(missing))
	for _, id := range missing {
		lacks[id] = true
	}
	for _, p := range plan {
		if lacks[p.large.ID] || slices.ContainsFunc(p.small, func(o cas.Info) bool { return lacks[o.ID] }) {
			need = append(need, p)
		}
	}
	return need, nil
}

// ahead is how many layers are fetched at once, or wait in the spool.
const ahead = 4

// use fetches layers ahead of the one that it unpacks.
func (f *fetching) use(ctx context.Context, need []piece) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fetched := make([]chan error, len(need))
	for i := range fetched {
		fetched[i] = make(chan error, 1)
	}
	user := map[string]int{} // the last so far, of a layer
	for i := range need {
		if j, ok := user[need[i].SHA256]; ok {
			need[i].had, need[j].stays = true, true
		}
		user[need[i].SHA256] = i
	}
	turns := make(chan struct{}, ahead)
	go func() {
		for i := range need {
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				fetched[i] <- context.Cause(ctx)
				continue
			}
			if need[i].had { // two would write the same file
				fetched[i] <- nil
				continue
			}
			go func() { fetched[i] <- f.fetch(ctx, need[i].Descriptor) }()
		}
	}()
	unpacking := &unpacking{fetching: f, ctx: ctx}
	defer unpacking.abort()
	var first error
	for i := range need {
		err := <-fetched[i]
		if first == nil {
			if first = err; first == nil {
				first = unpacking.piece(need[i])
			}
			if first != nil {
				cancel(first) // and wait for those that are at work
			}
		}
		select {
		case <-turns:
		default: // it never had its turn
		}
	}
	if first != nil {
		return first
	}
	return unpacking.commit()
}

func (f *fetching) file(d format.Descriptor) string { return f.layers.Path(d.SHA256) }

// fetch makes sure that a layer is in the spool, whole.
func (f *fetching) fetch(ctx context.Context, d format.Descriptor) error {
	file, err := os.OpenFile(f.file(d), os.O_RDWR|os.O_CREATE|osfile.NoFollow, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	at := d.Blob()
	fresh := false // what an earlier process or a mirror left may be anything: then once more from the start
	return f.while(ctx, file, func(from place) error {
		for {
			err := f.rest(ctx, file, from, at)
			if err == nil || fault.CodeOf(err) != fault.Integrity {
				return err
			}
			if bad := file.Truncate(0); bad != nil || fresh {
				return cmp.Or(bad, err)
			}
			fresh = true
		}
	})
}

// minStep is the least progress, in bytes, that earns another attempt.
const minStep = 256 << 10

// while repeats try, with the retries of Place.again, for as long as each round makes the file longer.
func (f *fetching) while(ctx context.Context, file *os.File, try func(from place) error) error {
	for had := int64(-minStep); ; {
		err := f.place.read(ctx, try)
		if err == nil || ctx.Err() != nil || !guard.Passing(err) {
			return err
		}
		fi, bad := file.Stat()
		if bad != nil || fi.Size() < had+minStep {
			return err
		}
		had = fi.Size()
	}
}

// rest fetches the bytes that the file lacks, and hashes the whole file.
func (f *fetching) rest(ctx context.Context, file *os.File, from place, desc ocispec.Descriptor) error {
	hash := sha256.New()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	have, err := io.Copy(hash, io.LimitReader(file, desc.Size+1))
	if err != nil {
		return err
	}
	if have > desc.Size {
		return damaged(desc, "too long")
	}
	if have < desc.Size || desc.Size == 0 {
		body, begin, err := from.open(ctx, desc, have)
		if err != nil {
			return err
		}
		defer body.Close()
		if begin != have {
			hash.Reset()
			if err := file.Truncate(0); err != nil {
				return err
			}
			if _, err = file.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		n, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(cas.Until(ctx, body), desc.Size-begin+1))
		switch {
		case err != nil:
			return err
		case begin+n < desc.Size:
			return io.ErrUnexpectedEOF
		case begin+n > desc.Size:
			return damaged(desc, fmt.Sprintf("more than %d bytes", desc.Size))
		}
	}
	if found := "sha256:" + hex.EncodeToString(hash.Sum(nil)); found != desc.Digest.String() {
		return damaged(desc, "found "+found)
	}
	return nil
}

// batchBytes is how many bytes of objects a batch has before it is made durable.
const batchBytes = 64 << 20

// An unpacking puts what is in layers, in their order.
type unpacking struct {
	*fetching
	ctx   context.Context
	batch cas.Batch
	bytes int64
	used  []string // files of the spool whose objects are in the batch

	pipe *io.PipeWriter // of the large object that is being put
	done chan error
}

func (u *unpacking) piece(piece piece) error {
	if u.batch == nil {
		var err error
		if u.batch, err = u.store.Batch(u.ctx); err != nil {
			return err
		}
		u.batches = append(u.batches, u.batch)
	}
	file, err := os.Open(u.file(piece.Descriptor))
	if err != nil {
		return err
	}
	defer file.Close()
	w := u.small(piece)
	if piece.small == nil {
		w = u.large(piece)
	}
	err = format.Unpack(file, piece.Descriptor, w)
	if err == nil && piece.small != nil {
		err = w(nil)
	}
	if err == nil && piece.last {
		err = u.end()
	}
	if err != nil {
		return err
	}
	u.place.progress(piece.Length)
	if !piece.stays {
		u.used = append(u.used, u.file(piece.Descriptor))
	}
	if u.bytes += piece.Length; u.bytes >= batchBytes && u.pipe == nil {
		return u.commit()
	}
	return nil
}

// small returns what takes the bytes of small objects, and is called with nil at the end.
func (u *unpacking) small(p piece) func([]byte) error {
	next, buf := p.small, []byte(nil)
	return func(b []byte) error {
		for {
			if len(next) == 0 {
				return nil
			}
			n := min(int64(len(b)), next[0].Size-int64(len(buf)))
			buf, b = append(buf, b[:n]...), b[n:]
			if int64(len(buf)) < next[0].Size {
				return nil
			}
			found, err := u.batch.PutBytes(u.ctx, cas.Blob, buf)
			if err := u.arrived(next[0].ID, found, err); err != nil {
				return err
			}
			next, buf = next[1:], buf[:0]
		}
	}
}

// arrived checks the digest under which the store put an object. A wrong one ends the pull before the batch is
// committed.
func (u *unpacking) arrived(want cas.ID, found cas.Digest, err error) error {
	if err == nil && found != want.Digest {
		err = fault.New(fault.Integrity, "the layers do not hold what the document names: %s %s is damaged",
			want.Kind, want.Digest.Short()).On("reason", "layers").
			// the registry is wrong, and not the store
			Because("expected  "+want.Digest.String(), "found     "+found.String())
	}
	if err == nil {
		u.fresh[found] = true
	}
	return err
}

// large returns what takes the bytes of a large object.
func (u *unpacking) large(p piece) func([]byte) error {
	if u.pipe == nil {
		r, w := io.Pipe()
		u.pipe, u.done = w, make(chan error, 1)
		go func() {
			found, err := u.batch.Put(u.ctx, cas.Blob, r)
			err = u.arrived(p.large.ID, found.Digest, err)
			r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
			u.done <- err
		}()
	}
	return func(b []byte) error {
		if _, err := u.pipe.Write(b); err != nil {
			return <-u.ended()
		}
		return nil
	}
}

// ended detaches the object that is being put, and returns the channel with its error.
func (u *unpacking) ended() chan error {
	u.pipe = nil
	return u.done
}

func (u *unpacking) end() error {
	u.pipe.Close()
	return <-u.ended()
}

// abort ends the object that is being put.
func (u *unpacking) abort() {
	if u.pipe != nil {
		u.pipe.CloseWithError(context.Canceled)
		<-u.ended()
	}
}

// commit makes the batch durable, and then removes its layers from the spool.
func (u *unpacking) commit() error {
	if u.batch == nil {
		return nil
	}
	if err := u.batch.Commit(u.ctx); err != nil {
		return err
	}
	for _, name := range u.used {
		os.Remove(name)
	}
	u.batch, u.bytes, u.used = nil, 0, nil
	return nil
}
