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

// A catalog is the AI catalogue of the registry, made again when the log has grown.
type catalog struct {
	sync.Mutex
	size int64 // of the log when it was made
	text []byte
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
	text, err := d.catalogText(r)
	if err != nil {
		d.fail(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/ai-catalog+json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

func (d *Door) catalogText(r *http.Request) ([]byte, error) {
	d.catalog.Lock()
	defer d.catalog.Unlock()
	size, err := d.Registry.Size(r.Context())
	if err != nil || d.catalog.text != nil && d.catalog.size == size {
		return d.catalog.text, err
	}
	all, size, err := d.Registry.Newest(r.Context())
	if err != nil {
		return nil, err
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
		return nil, err
	}
	d.catalog.text, d.catalog.size = text, size
	return text, nil
}
