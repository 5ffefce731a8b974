package vendor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// MaxObjects is how many objects a lock may name.
const MaxObjects = 1 << 18

// An Object is an object that a lock names. A document brings its signatures, already merged with sets from
// elsewhere.
type Object struct {
	cas.ID
	Size       int64
	Signatures manifest.Signatures
}

const (
	suffix     = ".pack"
	maxWeight  = 1 << 20 // of a pack
	lineWeight = 100     // of a line without its object
)

// An entry is an object or, of kind signed, the link from a document to a blob with its signatures.
type entry struct {
	cas.ID
	size  int64
	bytes []byte     // of a blob with signatures, which no store has; else nil
	blob  cas.Digest // of kind signed
}

func (e *entry) slot() slot { return slot{e.ID, e.blob} }

// kindName returns the kind's name in a line. Lines of one digest are sorted by it.
func (e *entry) kindName() string {
	if e.Kind == signed {
		return "signatures"
	}
	return e.Kind.String()
}

func compareEntries(a, b entry) int {
	return cmp.Or(a.Digest.Compare(b.Digest), strings.Compare(a.kindName(), b.kindName()))
}

// A plan lists the files that a directory should have.
type plan struct {
	packs   []pack
	large   []entry
	objects int
	bytes   int64 // of all objects
}

// A pack is a file of small objects.
type pack struct {
	name    string
	entries []entry // sorted
}

// newPlan decides which files hold some objects. The objects alone determine it, not their order.
func newPlan(objects []Object) (*plan, error) {
	if len(objects) > MaxObjects {
		return nil, fmt.Errorf("there are %d objects, and a lock has at most %d", len(objects), MaxObjects)
	}
	entries := make([]entry, 0, len(objects))
	for i := range objects {
		object := &objects[i]
		if _, ok := cas.ParseKind(object.Kind.String()); !ok || object.Digest.IsZero() || object.Size < 0 ||
			object.Size > manifest.MaxFileSize {
			return nil, badObject(object.ID, "not a valid object of %d bytes", object.Size)
		}
		entries = append(entries, entry{ID: object.ID, size: object.Size})
		if len(object.Signatures) == 0 {
			continue
		}
		b := object.Signatures.Append(nil)
		if _, err := manifest.ParseSignatures(b, object.Digest); err != nil || object.Kind != cas.Document {
			return nil, badObject(object.ID, "these are not its signatures: %w", err)
		}
		d := cas.Sum(b)
		entries = append(entries, entry{ID: cas.ID{Kind: cas.Blob, Digest: d}, size: int64(len(b)), bytes: b},
			entry{ID: cas.ID{Kind: signed, Digest: object.Digest}, blob: d})
	}
	slices.SortFunc(entries, compareEntries)
	entries, err := once(entries)
	if err != nil {
		return nil, err
	}
	plan := new(plan)
	small := make([]entry, 0, len(entries))
	for _, e := range entries {
		if e.Kind != signed {
			plan.objects++
			plan.bytes += e.size
		}
		if e.size > maxSmall {
			plan.large = append(plan.large, e)
		} else {
			small = append(small, e)
		}
	}
	if len(small) > 0 {
		plan.divide("", small)
	}
	return plan, nil
}

// once returns sorted entries without duplicates, which must be equal.
func once(entries []entry) ([]entry, error) {
	kept := entries[:0]
	for _, e := range entries {
		if len(kept) == 0 || compareEntries(e, kept[len(kept)-1]) != 0 {
			kept = append(kept, e)
			continue
		}
		last := &kept[len(kept)-1]
		if e.size != last.size || e.blob != last.blob {
			return nil, badObject(e.ID, "given twice, with different sizes or signatures")
		}
		if last.bytes == nil {
			last.bytes = e.bytes
		}
	}
	return kept, nil
}

// divide puts small objects whose digests begin with prefix into one or more packs.
func (p *plan) divide(prefix string, entries []entry) {
	var weight int64
	for i := range entries {
		weight += entries[i].size + lineWeight
	}
	if weight <= maxWeight || len(prefix) == digits-1 {
		p.packs = append(p.packs, pack{packName(prefix), entries})
		return
	}
	for len(entries) > 0 {
		digit := nibble(entries[0].Digest, len(prefix))
		n := slices.IndexFunc(entries, func(e entry) bool { return nibble(e.Digest, len(prefix)) != digit })
		if n < 0 {
			n = len(entries)
		}
		p.divide(prefix+string(digit), entries[:n:n])
		entries = entries[n:]
	}
}

// packName returns the name of the pack for objects whose digests begin with prefix.
func packName(prefix string) string {
	return cmp.Or(prefix, "all") + suffix
}

// packPrefix is the inverse of packName.
func packPrefix(name string) (prefix string, ok bool) {
	prefix, ok = strings.CutSuffix(name, suffix)
	if !ok || prefix == "all" {
		return "", ok
	}
	return prefix, prefix != "" && len(prefix) < digits && strings.Trim(prefix, "0123456789abcdef") == ""
}

// largeName returns the file name of a large object.
func largeName(id cas.ID) string { return hex(id.Digest) + "." + id.Kind.String() }

// parseLarge is the inverse of largeName.
func parseLarge(name string) (id cas.ID, ok bool) {
	name, kind, _ := strings.Cut(name, ".")
	d, rest, ok := cutDigest([]byte(name))
	if !ok || len(rest) > 0 {
		return id, false
	}
	k, ok := parseKind([]byte(kind))
	return cas.ID{Kind: k, Digest: d}, ok
}
