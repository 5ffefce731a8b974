package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// A fakeClock is the real one, moved. Files made by a test are settled for a clock that is a minute ahead.
type fakeClock struct {
	mu         sync.Mutex
	wall, up   time.Duration
	otherBoots uint64
}

var startOfTests = time.Now()

func (c *fakeClock) now() statcache.Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return statcache.Moment{
		Wall: time.Now().Add(c.wall).UnixNano(), Up: int64(time.Since(startOfTests) + c.up), Boot: 1 + c.otherBoots,
	}
}

func (c *fakeClock) set(wall, up time.Duration, boots uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.up, c.otherBoots = wall, up, boots
}

// A library is a catalog in memory. Its files are stamped as a file system would: by a counter that every change
// moves on.
type library struct {
	mu     sync.Mutex
	schema string
	files  map[string]*libraryFile // by space and path
	tick   int64
	loads  atomic.Int64
	broken error
}

type libraryFile struct {
	File
	records []Record
	err     error
}

func newLibrary() *library { return &library{schema: "one", files: map[string]*libraryFile{}} }

// put adds a file with a record of fields, given as "name=text".
func (l *library) put(space, id string, fields ...string) *libraryFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	rank := map[string]int{"project": 3, "user": 2}[space]
	r := Record{Kind: "tool", ID: id, Space: space, Rank: rank, Path: "tools/" + id + ".py"}
	for _, f := range fields {
		name, text, _ := strings.Cut(f, "=")
		r.Fields = append(r.Fields, Field{Name: name, Text: text})
	}
	l.tick++
	f := &libraryFile{File: File{Space: space, Path: r.Path, Stat: Stat{
		Size: 1, Mtime: 7, Ctime: time.Now().Add(-time.Hour).Truncate(time.Second).UnixNano() + l.tick, Dev: 1,
		Inode: 1, Mode: 0o644, Sure: true,
	}}, records: []Record{r}}
	l.files[space+" "+r.Path] = f
	return f
}

func (l *library) remove(space, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.files, space+" tools/"+id+".py")
}

func (l *library) Schema() string { return l.schema }

func (l *library) Files(context.Context) (out []File, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		out = append(out, f.File)
	}
	return out, l.broken
}

func (l *library) Load(_ context.Context, f File) ([]Record, error) {
	l.loads.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.files[f.Space+" "+f.Path]
	if have == nil {
		return nil, fs.ErrNotExist
	}
	return have.records, have.err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t testing.TB, text string) *query.Query {
	t.Helper()
	q, err := query.Parse(text)
	must(t, err)
	return q
}

// openTest returns an index in a directory that is made when needed.
func openTest(t testing.TB) *Index {
	return Open(filepath.Join(t.TempDir(), "sub", "search.db"))
}

// openAt opens an index that goes by a clock.
func openAt(path string, clock *fakeClock) *Index {
	x := Open(path)
	x.now = clock.now
	return x
}

func ids(r *Response) string {
	var out []string
	for _, x := range r.Results {
		out = append(out, x.ID)
	}
	return strings.Join(out, " ")
}

func find(t testing.TB, x *Index, l Catalog, text string) *Response {
	t.Helper()
	r, err := x.Search(t.Context(), l, Request{Query: parse(t, text), Limit: 100})
	must(t, err)
	return r
}

// small is the library of the tests of queries.
func small() *library {
	l := newLibrary()
	l.put("project", "rye/bash/bash", "name=bash", "description=Run a shell command and return its output",
		"category=rye/bash")
	l.put("system:rye/std", "rye/file-system/read", "name=read", "description=Read a file of the file-system",
		"category=rye/file-system")
	l.put("system:rye/std", "rye/file-system/write", "name=write",
		"description=Write a file to the file system, safely", "category=rye/file-system")
	l.put("user", "acme/deploy", "name=deploy", "title=Deploy everything",
		"description=Deploys v1.2.3 of the shell, then waits", "content=kubernetes shell shell shell")
	l.put("project", "acme/Straße", "name=straße", "description=ΣΊΣΥΦΟΣ rolls 中文 a stone; naïve café")
	return l
}

func TestQueries(t *testing.T) {
	x, l := openTest(t), small()
	for _, c := range []struct{ query, want string }{
		{"", "acme/Straße rye/bash/bash acme/deploy rye/file-system/read rye/file-system/write"},
		{"shell", "acme/deploy rye/bash/bash"},
		{"SHELL", "acme/deploy rye/bash/bash"},
		{"shell command", "rye/bash/bash"},
		{"shell AND command", "rye/bash/bash"},
		{"read OR write", "rye/file-system/read rye/file-system/write"},
		{"file NOT write", "rye/file-system/read"},
		{"file -write", "rye/file-system/read"},
		{"-file", "acme/Straße rye/bash/bash acme/deploy"},
		{"NOT (file OR shell)", "acme/Straße"},
		{"(read OR bash) -command", "rye/file-system/read"},
		{"and", "rye/bash/bash"},
		{`"file system"`, "rye/file-system/read rye/file-system/write"},
		{"file-system", "rye/file-system/read rye/file-system/write"},
		{"description:file-system", "rye/file-system/read rye/file-system/write"},
		{`"system file"`, ""},
		{`"system file"~2`, "rye/file-system/read rye/file-system/write"},
		{`"file safely"`, ""},
		{`"safely file"~3`, "rye/file-system/write"},
		{`"write safely"~3`, ""},
		{`"shell shell"`, "acme/deploy"},
		{`"shell shell shell kubernetes"~3`, "acme/deploy"},
		{`"shell shell shell shell"~9`, ""},
		{"v1.2.3", "acme/deploy"},
		{"1.2", ""},
		{"deplo", ""},
		{"deplo*", "acme/deploy"},
		{"*ploy*", "acme/deploy"},
		{"d?ploy", "acme/deploy"},
		{"file-sys*", "rye/file-system/read rye/file-system/write"},
		{"wr?te", "rye/file-system/write"},
		{"kubernets~", "acme/deploy"},
		{"kubrentes~", ""},
		{"kubrentes~2", "acme/deploy"},
		{"kuebrnetes~1", "acme/deploy"},
		{"name:shell", ""},
		{"content:shell", "acme/deploy"},
		{"NAME:bash", "rye/bash/bash"},
		{`description:"shell command"`, "rye/bash/bash"},
		{"name:(read OR write)", "rye/file-system/read rye/file-system/write"},
		{"category:rye/bash", "rye/bash/bash"},
		{"strasse", ""},
		{"STRAßE", "acme/Straße"},
		{"σίσυφος", "acme/Straße"},
		{"中文", "acme/Straße"},
		{"文中", ""},
		{"文", "acme/Straße"},
		{"café", "acme/Straße"},
		{"--shell", "acme/deploy rye/bash/bash"},
	} {
		if got := ids(find(t, x, l, c.query)); got != c.want {
			t.Errorf("%s: %q, not %q", c.query, got, c.want)
		}
	}
	if n := l.loads.Load(); n != 5 {
		t.Errorf("%d files were loaded", n)
	}
}

func TestScopesAndPages(t *testing.T) {
	x, l := openTest(t), small()
	l.put("user", "rye/bash/bash", "name=bash", "description=Run a shell command and return its output",
		"category=rye/bash")
	all := []string{}
	for from := range 7 {
		r, err := x.Search(t.Context(), l, Request{Limit: 1, Offset: from})
		must(t, err)
		if r.Total != 6 || len(r.Results) > 1 {
			t.Errorf("total %d", r.Total)
		}
		for _, x := range r.Results {
			all = append(all, x.Space+" "+x.ID)
		}
	}
	want :=
		"project acme/Straße, project rye/bash/bash, user acme/deploy, user rye/bash/bash, system:rye/std rye/file-system/read, system:rye/std rye/file-system/write"
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("%s", got)
	}
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{Scope: query.Scope{Kind: "tool", ID: "rye/file-system"}},
			"rye/file-system/read rye/file-system/write"},
		{Request{Scope: query.Scope{Kind: "tool", ID: "rye/file"}}, ""},
		{Request{Scope: query.Scope{Kind: "directive"}}, ""},
		{Request{Space: "user"}, "acme/deploy rye/bash/bash"},
		{Request{Space: "system"}, "rye/file-system/read rye/file-system/write"},
		{Request{Space: "system:rye/std", Offset: -1}, "rye/file-system/read rye/file-system/write"},
		{Request{Space: "sys"}, ""},
		{Request{Offset: 9}, ""},
		{Request{Limit: 1 << 62, Offset: 1<<63 - 1}, ""},
		{Request{Query: parse(t, "bash")}, "rye/bash/bash rye/bash/bash"}, // equal scores: the project's is first
	} {
		r, err := x.Search(t.Context(), l, c.r)
		must(t, err)
		if got := ids(r); got != c.want {
			t.Errorf("%+v: %q", c.r, got)
		}
		if c.r.Query != nil && (r.Results[0].Space != "project" || r.Results[0].Score != r.Results[1].Score ||
			r.Results[0].Score <= 0) {
			t.Errorf("%+v", r.Results)
		}
	}
	if r := find(t, x, l, "nmae:bash name:bash (nmae:x OR other:y)"); !slices.Equal(r.Unknown,
		[]string{"nmae", "other"}) {
		t.Errorf("unknown fields: %q", r.Unknown)
	}
}

// TestScore computes BM25 by hand.
func TestScore(t *testing.T) {
	x, l := openTest(t), newLibrary()
	l.put("project", "a", "name=red", "content=red green blue")
	l.put("project", "b", "name=green", "content=green")
	l.put("project", "c", "name=blue", "content=blue blue")
	// red is in one of three: ln(1 + 2.5/1.5) = 0.980829. The field name has one word everywhere, content two on
	// average: 3/1 + 1/(0.25+0.75*3/2) = 3.727273 occurrences; times 2.2/(3.727273+1.2) = 1.664207.
	r := find(t, x, l, "red")
	if len(r.Results) != 1 || r.Results[0].Score != 1.632303 {
		t.Errorf("%+v", r.Results)
	}
	f := l.put("project", "c", "name=blue", "content=blue blue")
	f.records[0].Fields[1].Weight = 100
	if a, b := find(t, x, l, "content:blue").Results, find(t, x, l, "blue").Results; a[0].ID != "c" ||
		a[0].Score >= b[0].Score {
		t.Errorf("%+v %+v", a, b)
	}
}

// TestSegmentsAreNoMatter: the order of changes must not show in any answer.
func TestSegmentsAreNoMatter(t *testing.T) {
	once, slowly := openTest(t), openTest(t)
	l, part := newLibrary(), newLibrary()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		id, text := fmt.Sprintf("x/%d", i), sentence(r, 30)
		l.put("project", id, "name="+id, "content="+text)
		part.put("project", id, "name="+id, "content="+text+" more")
		if i%3 == 0 {
			part.put("user", id, "name=gone")
			find(t, slowly, part, "")
			part.remove("user", id)
		}
		part.put("project", id, "name="+id, "content="+text)
		find(t, slowly, part, "")
	}
	for _, q := range []string{"", "w1", "w1 w2", "w1 OR w2 OR w3", "w*", "w1~", `"w1 w2"~9`, "-w1", "w1 -w2"} {
		a, b := find(t, once, l, q), find(t, slowly, part, q)
		if !reflect.DeepEqual(a.Results, b.Results) || a.Total != b.Total {
			t.Errorf("%s: %d and %d results", q, a.Total, b.Total)
		}
	}
}

// sentence returns n words, the first ones more often.
func sentence(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "w%d ", int(float64(n*3)*r.Float64()*r.Float64()))
	}
	return b.String()
}

func TestOnlyChangesAreRead(t *testing.T) {
	clock := &fakeClock{}
	path := filepath.Join(t.TempDir(), "search.db")
	l := small()
	now := func(want int64, q, found, why string) Stats {
		t.Helper()
		l.loads.Store(0)
		x := openAt(path, clock) // as another process would
		r := find(t, x, l, q)
		if got := l.loads.Load(); got != want || r.Stats.Read != int(want) || r.Stats.Kept != len(l.files)-int(want) {
			t.Errorf("%s: %d files were read, not %d; %+v", why, got, want, r.Stats)
		}
		if ids(r) != found {
			t.Errorf("%s: found %q", why, ids(r))
		}
		return r.Stats
	}
	now(5, "bash", "rye/bash/bash", "first")
	now(0, "bash", "rye/bash/bash", "again")
	l.put("project", "rye/bash/bash", "name=changed")
	now(1, "bash", "", "another ctime")
	now(0, "changed", "rye/bash/bash", "again")
	l.remove("project", "rye/bash/bash")
	if st := now(0, "changed", "", "deleted"); st.Gone != 1 || st.Records != 4 {
		t.Errorf("%+v", st)
	}
	l.schema = "two"
	now(4, "read", "rye/file-system/read", "another schema")
	now(0, "read", "rye/file-system/read", "again")

	f := l.put("project", "racy", "name=one")
	f.Stat.Ctime = clock.now().Wall + 1
	now(1, "one", "racy", "just written")
	f.records[0].Fields[0].Text = "two"
	now(1, "two", "racy", "written again in the same tick")
	now(1, "two", "racy", "still recent")
	clock.set(3*time.Second, 3*time.Second, 0)
	now(1, "two", "racy", "settled")
	now(0, "two", "racy", "and remembered")
	f.Stat.Sure = false
	now(1, "two", "racy", "stamped by another machine's clock")
	f.Stat.Sure = true
	f.Stat.Ctime -= f.Stat.Ctime % 1e9
	f.Stat.Ctime -= 9e9
	now(1, "two", "racy", "whole seconds")
	now(1, "two", "racy", "whole seconds are never remembered")
	l.remove("project", "racy")
	now(0, "two", "", "gone")

	e := l.put("builtin", "std", "name=std")
	e.Digest, e.Stat = cas.Sum([]byte("1")), Stat{}
	now(1, "std", "std", "embedded")
	now(0, "std", "std", "and remembered")
	e.Digest = cas.Sum([]byte("2"))
	now(1, "std", "std", "of another program")

	empty := l.put("project", "asset", "name=x")
	empty.records = nil
	now(1, "x", "", "a file without records")
	now(0, "x", "", "is remembered, too")

	for _, s := range []struct {
		name     string
		wall, up time.Duration
		boots    uint64
		read     int64
	}{
		{"time went by", 2 * time.Hour, 2 * time.Hour, 0, 0},
		{"set forward", 9 * time.Hour, 2 * time.Hour, 0, 0},
	} {
		clock.set(s.wall, s.up, s.boots)
		now(s.read, "read", "rye/file-system/read", s.name)
	}
	l.put("project", "written", "name=w") // at nine hours
	now(1, "w", "written", "written at nine hours")
	clock.set(2*time.Hour, 3*time.Hour, 0)
	now(6, "w", "written", "set back: all stats are void, digests aren't")
}

// TestClockSetBackMeanwhile: what was read while the clock was set is not remembered.
func TestClockSetBackMeanwhile(t *testing.T) {
	clock, l := &fakeClock{}, small()
	x := openAt(filepath.Join(t.TempDir(), "search.db"), clock)
	hook := &hooked{library: l, load: func() { clock.set(-time.Hour, 0, 0) }}
	if r := find(t, x, hook, "bash"); ids(r) != "rye/bash/bash" ||
		r.Stats.Note != "the clock was set back; nothing is remembered" {
		t.Errorf("%+v", r)
	}
	if r := find(t, x, l, "bash"); r.Stats.Read != 5 || r.Stats.Note != "" {
		t.Errorf("%+v", r.Stats)
	}
}

// hooked is a library that calls a function whenever a file is loaded.
type hooked struct {
	*library
	load func()
}

func (h *hooked) Load(ctx context.Context, f File) ([]Record, error) {
	h.load()
	return h.library.Load(ctx, f)
}

func TestFilesThatCannotBeLoaded(t *testing.T) {
	x, l := openTest(t), small()
	f := l.put("project", "bad", "name=bash")
	f.err = fs.ErrPermission
	twice := l.put("project", "twice", "name=bash", "name=again")
	r := find(t, x, l, "bash")
	if len(r.Stats.Unread) != 2 || !errors.Is(r.Stats.Unread[0], fs.ErrPermission) || r.Total != 1 ||
		r.Stats.Unread[0].Error() != `"tools/bad.py" in project: permission denied` ||
		r.Stats.Unread[1].Error() != `"tools/twice.py" in project: "tool:twice" has the field "name" twice` {
		t.Errorf("%+v %v", r.Stats, r.Stats.Unread)
	}
	f.err = nil
	twice.records[0].Fields = make([]Field, MaxFields+1)
	if r := find(t, x, l, "bash"); r.Total != 2 || len(r.Stats.Unread) != 1 ||
		!strings.HasSuffix(r.Stats.Unread[0].Error(), `has 65 fields; at most 64 are possible`) {
		t.Errorf("%+v %v", r.Stats, r.Stats.Unread)
	}
	twice.records[0].Fields = []Field{{Text: strings.Repeat("a", MaxText+1)}}
	if r := find(t, x, l, "bash"); len(r.Stats.Unread) != 1 ||
		!strings.HasSuffix(r.Stats.Unread[0].Error(), `its text has 16777217 bytes; at most 16777216 can be indexed`) {
		t.Errorf("%+v %v", r.Stats, r.Stats.Unread)
	}
	f.err = fs.ErrNotExist // gone between the look and the reading
	f.Stat.Ctime++
	twice.err = fs.ErrNotExist
	if r := find(t, x, l, "bash"); r.Total != 1 || r.Stats.Unread != nil || r.Stats.Gone != 2 || r.Stats.Files != 5 {
		t.Errorf("%+v", r.Stats)
	}
	l.broken = fs.ErrInvalid
	if _, err := x.Search(t.Context(), l, Request{}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	l.broken = nil
	if _, err := x.Search(t.Context(), doubled{l}, Request{}); err == nil ||
		!strings.HasPrefix(err.Error(), `the catalog has "tools/`) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Search(ctx, l, Request{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type doubled struct{ *library }

func (d doubled) Files(ctx context.Context) ([]File, error) {
	files, err := d.library.Files(ctx)
	return append(files, files...), err
}

// TestManySearchers changes files while many search, through one index and several. The answer must be one that was
// true after the search began.
func TestManySearchers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "search.db")
	l := small()
	counter := atomic.Int64{}
	shared := Open(path)
	var wg sync.WaitGroup
	for g := range 100 {
		wg.Go(func() {
			x := shared
			if g%4 == 0 {
				x = Open(path)
			}
			if g%10 == 0 {
				l.put("project", fmt.Sprintf("many/%d", g), "name=counted")
				counter.Add(1)
			}
			least := counter.Load()
			r, err := x.Search(t.Context(), l, Request{Query: parse(t, "counted OR bash")})
			if err != nil || int64(r.Total) < 1+least || r.Total > 11 {
				t.Errorf("%v: %d, not %d at least", err, r.Total, least+1)
			}
		})
	}
	wg.Wait()
	if r := find(t, Open(path), l, "counted OR bash"); r.Total != 11 {
		t.Errorf("%d", r.Total)
	}
}

func TestMergeOfSegments(t *testing.T) {
	x, l := openTest(t), newLibrary()
	for i := range 100 {
		l.put("project", fmt.Sprint("m/", i%30), fmt.Sprintf("name=n%d all", i))
		st := find(t, x, l, "").Stats
		if st.Records != min(i+1, 30) || st.Read != 1 {
			t.Fatalf("%d: %+v", i, st)
		}
	}
	r, err := openReader(t.Context(), x.path, time.Second)
	must(t, err)
	defer r.Close()
	s, err := r.state()
	must(t, err)
	docs := 0
	for _, g := range s.segs {
		must(t, g.open())
		docs += len(g.docs)
	}
	if len(s.segs) > maxSegments || docs > 60 {
		t.Errorf("%d segments of %d documents", len(s.segs), docs)
	}
	for i := range 100 {
		want := 0
		if i >= 70 {
			want = 1
		}
		if got := find(t, x, l, fmt.Sprint("n", i)).Total; got != want {
			t.Errorf("n%d is found %d times", i, got)
		}
	}
}
