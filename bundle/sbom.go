package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
)

// The media types of SBOMs.
const (
	TypeCycloneDX = "application/vnd.cyclonedx+json"
	TypeSPDX      = "application/spdx+json"
)

var errOtherParts = errors.New(
	"the SBOM describes another bundle: its digest is not that of this manifest without evidence")

// isSBOM reports whether a media type is that of an SBOM.
func isSBOM(mediaType string) bool { return mediaType == TypeCycloneDX || mediaType == TypeSPDX }

// A hashOf is a digest in CycloneDX and SPDX.
type hashOf struct {
	CycloneDX string `json:"alg"`
	Content   string `json:"content"`
	SPDX      string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

func (h hashOf) is(d cas.Digest) bool {
	hex := strings.TrimPrefix(d.String(), "blake3:")
	return h.CycloneDX == "BLAKE3" && h.Content == hex || h.SPDX == "BLAKE3" && h.Value == hex
}

// aboutSubject returns an error unless an SBOM describes the bundle whose manifest without evidence has the digest
// subject. The rest of the SBOM may come from other programs.
func aboutSubject(mediaType string, text []byte, subject cas.Digest) error {
	var list struct {
		Metadata struct {
			Component struct {
				Hashes []hashOf `json:"hashes"`
			} `json:"component"`
		} `json:"metadata"`
		Packages []struct {
			ID        string   `json:"SPDXID"`
			Checksums []hashOf `json:"checksums"`
		} `json:"packages"`
		Relations []struct {
			From string `json:"spdxElementId"`
			Type string `json:"relationshipType"`
			To   string `json:"relatedSpdxElement"`
		} `json:"relationships"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("unreadable SBOM: %w", err)
	}
	same := func(h hashOf) bool { return h.is(subject) }
	if mediaType == TypeCycloneDX {
		if !slices.ContainsFunc(list.Metadata.Component.Hashes, same) {
			return errOtherParts
		}
		return nil
	}
	described := map[string]bool{}
	for _, r := range list.Relations {
		if r.From == "SPDXRef-DOCUMENT" && r.Type == "DESCRIBES" {
			described[r.To] = true
		}
	}
	for _, p := range list.Packages {
		if described[p.ID] && slices.ContainsFunc(p.Checksums, same) {
			return nil
		}
	}
	return errOtherParts
}
