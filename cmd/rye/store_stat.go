package main

import (
	"context"
	"strconv"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

func storeStatCommand() command {
	return command{
		path: "store stat", group: "store", help: "Say what an object is, or how large the store is.",
		more:   "Examples:\n\n    rye store stat\n    rye store stat app",
		aka:    []string{"store info", "store show"},
		new:    func() runner { return new(storeStatRun) },
		schema: "store-stat/1", output: storeStatAnswer{},
	}
}

type storeStatRun struct {
	Object string `arg:"" optional:"" help:"A digest, the beginning of one, or a ref; :PATH goes into a tree."`
}

type storeStatAnswer struct {
	Object *entryLine `json:"object,omitempty"`
	Store  *storeSize `json:"store,omitempty"`
}

type storeSize struct {
	Dir     string `json:"dir"`
	Packs   int    `json:"packs"`
	Damaged int    `json:"damaged"` // packs without a readable index
	Records int64  `json:"records"` // objects, and the parts of long ones
	Bytes   int64  `json:"bytes"`   // on disk
	Raw     int64  `json:"raw"`     // of the records, uncompressed
	Refs    int    `json:"refs"`
}

func (s storeStatAnswer) text(t *terminal) {
	if o := s.Object; o != nil {
		t.rows([][]string{{"kind", o.Kind}, {"digest", o.Digest.String()}, {"size", strconv.FormatInt(*o.Size, 10)}})
		return
	}
	t.rows([][]string{
		{"store", s.Store.Dir}, {"packs", strconv.Itoa(s.Store.Packs)}, {"records", strconv.FormatInt(s.Store.Records, 10)},
		{"size", byteSize(float64(s.Store.Bytes)) + ", uncompressed " + byteSize(float64(s.Store.Raw))}, {"refs", strconv.Itoa(s.Store.Refs)},
	})
	if s.Store.Damaged > 0 {
		t.warn("%s without a readable index: rye store reindex", fault.Count(int64(s.Store.Damaged), "pack"))
	}
}

func (c *storeStatRun) complete(_ context.Context, a *app, _, _ string) []candidate {
	return completeObjects(a)
}

func (c *storeStatRun) run(ctx context.Context, a *app) (answer, error) {
	s, err := a.readStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if c.Object == "" {
		n, err := s.Stat()
		if err != nil {
			return nil, err
		}
		refs, err := s.Refs()
		return storeStatAnswer{Store: &storeSize{s.Dir(), n.Packs, n.Damaged, n.Records, n.Bytes, n.Raw, len(refs)}}, err
	}
	what, err := resolve(ctx, s, c.Object, cas.TreeKind, cas.Blob, cas.Document)
	if err != nil {
		return nil, err
	}
	o, err := openObject(ctx, s, what.id)
	if err != nil {
		return nil, err
	}
	return storeStatAnswer{Object: &entryLine{Kind: o.Kind.String(), Digest: o.Digest, Size: &o.Size}}, o.Close()
}
