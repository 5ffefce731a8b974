package sarif

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/reply"
)

// This file writes a report as SARIF. The types have the members of SARIF 2.1.0 that rye uses.

const (
	sarifSchema = "https://json.schemastore.org/sarif-2.1.0.json"
	address     = "https://github.com/rye-build/rye"
	sourceRoot  = "%SRCROOT%" // the usual name of the directory that places are relative to
)

type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Automation  sarifID           `json:"automationDetails"`
		Columns     string            `json:"columnKind"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Address string      `json:"informationUri"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
		Help  sarifText `json:"help"`
	}
	sarifID struct {
		ID string `json:"id"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Exit          int                 `json:"exitCode"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Of      sarifID   `json:"descriptor"`
		Level   Level     `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		Rule       string           `json:"ruleId"`
		Index      int              `json:"ruleIndex"`
		Level      Level            `json:"level"`
		Message    sarifText        `json:"message"`
		Locations  []sarifLocation  `json:"locations"`
		Properties *sarifProperties `json:"properties,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
	sarifProperties struct {
		Whole bool `json:"wholeFile"`
	}
)

// SARIF returns the report as a log of SARIF 2.1.0.
func (r *Report) SARIF() ([]byte, error) {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "rye", Version: r.Version, Address: address, Rules: []sarifRule{}}},
		Automation:  sarifID{"rye/" + strings.ReplaceAll(r.Command, " --", "-") + "/"},
		Columns:     "unicodeCodePoints",
		Invocations: []sarifInvocation{{Successful: true}},
		Results:     []sarifResult{},
	}
	if f := r.Fault; f != nil {
		v := &run.Invocations[0]
		v.Exit = f.Line().Exit
		v.Successful = v.Exit == fault.ExitNo
		if !v.Successful {
			text := strings.Join(append([]string{f.Text}, f.Why...), "\n")
			v.Notifications = []sarifNotification{{sarifID{string(f.Line().Code)}, Error,
				sarifText{withHints(text, f.Hint)}}}
		}
	}
	codes := map[fault.Code]int{}
	for _, f := range r.Findings {
		codes[f.Code] = 0
	}
	for _, line := range fault.Table() {
		if _, ok := codes[line.Code]; ok {
			codes[line.Code] = len(run.Tool.Driver.Rules)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules,
				sarifRule{string(line.Code), sarifText{line.Help}, sarifText{line.Help + "\nrye docs errors"}})
		}
	}
	for _, finding := range r.Findings {
		hints := finding.Hint
		if len(hints) == 0 && finding.Level == Error && r.Fault != nil {
			hints = r.Fault.Hint
		}
		result := sarifResult{Rule: string(finding.Code), Index: codes[finding.Code], Level: finding.Level,
			Message: sarifText{withHints(finding.Message, hints)}}
		at := sarifLocation{Physical: sarifPhysical{sarifArtifact{(&url.URL{Path: finding.File}).String(), sourceRoot},
			sarifRegion{finding.Line, finding.Column}}}
		if finding.Line == 0 {
			at.Physical.Region, result.Properties = sarifRegion{Line: 1}, &sarifProperties{true}
		}
		if finding.Name != "" {
			at.Logical = []sarifLogical{{finding.Name}}
		}
		result.Locations = []sarifLocation{at}
		run.Results = append(run.Results, result)
	}
	line, err := reply.Encode(sarifLog{sarifSchema, "2.1.0", []sarifRun{run}})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, line, "", "  "); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// withHints appends hints, which are commands to paste, to a text.
func withHints(text string, hints []string) string {
	for _, h := range slices.Compact(slices.Clone(hints)) {
		text += "\nhint: " + h
	}
	return text
}
