package door

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/rye-build/rye/exec/registry"
)

// skillsPath is where clients of Agent Skills Discovery 0.2.0 look for skills.
const skillsPath = "/.well-known/agent-skills/"

// Documents of Agent Skills Discovery 0.2.0.
type (
	skillDocument struct {
		Schema string       `json:"$schema"`
		Skills []skillEntry `json:"skills"`
	}
	skillEntry struct {
		Name        string `json:"name"`
		Type        string `json:"type"` // skill-md or archive
		Description string `json:"description"`
		URL         string `json:"url"`
		Digest      string `json:"digest"` // of what is at the address
	}
)

// A listedSkill is a skill of a version that the index lists.
type listedSkill struct {
	version *registry.Version
	skill   *registry.Skill
}

// skillIndex makes the index of the skills in the newest versions.
func (d *Door) skillIndex(all []*registry.Version) ([]byte, map[string]listedSkill, error) {
	document := skillDocument{Schema: "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
		Skills: []skillEntry{}}
	skills := map[string]listedSkill{}
	for _, v := range all {
		for i := range v.Skills {
			s := &v.Skills[i]
			entry := skillEntry{Name: s.Name, Type: "archive", Description: s.About, Digest: s.Digest}
			if s.Files == 1 {
				entry.Type = "skill-md"
			}
			// Two folders of a bundle may have skills of one name, and the first is shown.
			at := v.Key() + "/" + s.File()
			if _, twice := skills[at]; twice {
				continue
			}
			entry.URL = d.Origin + skillsPath + at
			skills[at] = listedSkill{v, s}
			document.Skills = append(document.Skills, entry)
		}
	}
	text, err := json.Marshal(document)
	return text, skills, err
}

// agentSkills shows the index of skills to clients of other programs.
func (d *Door) agentSkills(w http.ResponseWriter, r *http.Request) {
	made, err := d.catalogNow(r)
	if err != nil {
		d.fail(w, err)
		return
	}
	shown(w, r, "application/json", made.index)
}

// agentSkill answers with a skill that the index lists.
func (d *Door) agentSkill(w http.ResponseWriter, r *http.Request) {
	made, err := d.catalogNow(r)
	if err != nil {
		d.fail(w, err)
		return
	}
	at := strings.TrimPrefix(r.URL.Path, skillsPath)
	listed, ok := made.skills[at]
	if !ok || r.URL.RawQuery != "" {
		http.NotFound(w, r)
		return
	}
	packed, err := d.Registry.Skill(r.Context(), listed.version, listed.skill)
	if err != nil {
		d.fail(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/zip")
	if listed.skill.Files == 1 {
		header.Set("Content-Type", "text/markdown; charset=utf-8")
	}
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(packed))
}
