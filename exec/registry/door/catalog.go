package door

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/oci/format"
	client "github.com/rye-build/rye/lock/registry"
)

// A catalog is what the registry shows to other programs, made again when the log has grown: its AI catalogue, and its
// index of skills.
type catalog struct {
	sync.Mutex
	size   int64 // of the log when it was made
	text   []byte
	index  []byte
	skills map[string]listedSkill // by their paths below skillsPath
}

// Documents of Agent-Card/ai-catalog 1.0, at its level Discoverable. There is no trust manifest: what a registry says
// of itself is no reason to trust it, and what its log proves isn't in that format.
type (
	catalogDocument struct {
		Version string         `json:"specVersion"`
		Host    catalogHost    `json:"host"`
		Entries []catalogEntry `json:"entries"`
	}
	catalogHost struct {
		Name       string `json:"displayName"`
		Identifier string `json:"identifier"`
	}
	catalogEntry struct {
		Identifier  string      `json:"identifier"`
		Type        string      `json:"type"`
		URL         string      `json:"url"`
		Name        string      `json:"displayName"`
		Description string      `json:"description,omitempty"`
		Version     string      `json:"version"`
		Updated     string      `json:"updatedAt"`
		Publisher   catalogHost `json:"publisher"`
	}
)

// aiCatalog shows the newest version of each bundle to clients of other programs.
func (d *Door) aiCatalog(w http.ResponseWriter, r *http.Request) {
	made, err := d.catalogNow(r)
	if err != nil {
		d.fail(w, err)
		return
	}
	shown(w, r, "application/ai-catalog+json", made.text)
}

// shown answers with a document that may have changed the next time.
func shown(w http.ResponseWriter, r *http.Request, media string, text []byte) {
	header := w.Header()
	header.Set("Content-Type", media)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// catalogNow returns the catalogue of the log as it is now. Its fields don't change any more.
func (d *Door) catalogNow(r *http.Request) (*catalog, error) {
	d.catalog.Lock()
	defer d.catalog.Unlock()
	now := &d.catalog
	size, err := d.Registry.Size(r.Context())
	if err == nil && (now.text == nil || now.size != size) {
		err = d.makeCatalog(r, now)
	}
	if err != nil {
		return nil, err
	}
	return &catalog{text: now.text, index: now.index, skills: now.skills}, nil
}

// makeCatalog makes the documents of the newest versions.
func (d *Door) makeCatalog(r *http.Request, made *catalog) error {
	all, size, err := d.Registry.Newest(r.Context())
	if err != nil {
		return err
	}
	name := d.Registry.Name()
	document := catalogDocument{Version: "1.0", Host: catalogHost{name, name}, Entries: []catalogEntry{}}
	for _, v := range all {
		document.Entries = append(document.Entries, catalogEntry{
			Identifier: "urn:air:" + name + ":bundle:" + strings.ReplaceAll(v.Bundle, "/", ":"),
			Type:       format.BundleType, URL: d.Origin + "/" + client.ArchiveFile(v.Archive), Name: v.Bundle,
			Description: v.About, Version: v.Version, Updated: v.Time.Format(time.RFC3339),
			Publisher: catalogHost{v.By, name + "/" + v.By}})
	}
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	index, skills, err := d.skillIndex(all)
	if err == nil {
		made.size, made.text, made.index, made.skills = size, text, index, skills
	}
	return err
}
