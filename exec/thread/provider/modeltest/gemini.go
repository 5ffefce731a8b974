package modeltest

import (
	"fmt"
	"net/http"

	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// gemini is the dialect of Google's Gemini API.
type gemini struct{}

func (gemini) key(h http.Header) string { return h.Get("X-Goog-Api-Key") }

func (g gemini) check(r *Request) string {
	body := r.Body
	if why := fields("", body, "contents",
		"systemInstruction tools toolConfig generationConfig safetySettings cachedContent"); why != "" {
		return why
	}
	why := fields("generationConfig.", object(body["generationConfig"]), "",
		"maxOutputTokens temperature topP topK stopSequences thinkingConfig candidateCount responseMimeType")
	var names []string
	for _, one := range list(body["tools"]) {
		for _, f := range list(object(one)["functionDeclarations"]) {
			f := object(f)
			why = first(why, fields("functionDeclarations.", f, "name",
				"description parameters parametersJsonSchema response behavior"))
			names = append(names, text(f["name"]))
		}
	}
	if s := body["systemInstruction"]; s != nil && len(list(object(s)["parts"])) == 0 {
		return "systemInstruction: must have parts"
	}
	return first(why, declared(names), g.contents(list(body["contents"])))
}

func (g gemini) contents(all []any) string {
	role, calls := "model", []string(nil)
	for i, one := range all {
		c := object(one)
		at := fmt.Sprintf("contents[%d]: ", i)
		if c["role"] == role || c["role"] != "user" && c["role"] != "model" {
			return at +
				"Please ensure that function call turns come immediately after a user turn or after a function response turn."
		}
		role = text(c["role"])
		parts := list(c["parts"])
		if len(parts) == 0 {
			return at + "must include at least one parts field"
		}
		answered := 0
		if role == "model" {
			calls = nil
		}
		for _, one := range parts {
			part := object(one)
			why := fields(at+"parts.", part, "", "text functionCall functionResponse thought thoughtSignature")
			if call := object(part["functionCall"]); call != nil {
				calls = append(calls, text(call["name"]))
				why = first(why, fields(at+"functionCall.", call, "name", "args id"))
				if s := text(part["thoughtSignature"]); s != "" && s != sign(text(call["name"])) {
					why = at + "Thought signature is not valid."
				}
			}
			if result := object(part["functionResponse"]); result != nil {
				why = first(why, fields(at+"functionResponse.", result, "name response", "id"))
				if why == "" && (answered >= len(calls) || calls[answered] != result["name"]) {
					why = at + "Please ensure that the function response has the name of the function call."
				}
				answered++
			}
			if s, is := part["text"].(string); is && s == "" && part["thoughtSignature"] == nil {
				why = at + "Unable to submit request because it has an empty text parameter."
			}
			if why != "" {
				return why
			}
		}
		if role == "user" && answered != len(calls) {
			return at +
				"Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
		}
		if role == "user" {
			calls = nil
		}
	}
	if role != "user" {
		return "contents: the last must be the user's"
	}
	return ""
}

// parts returns the parts of an answer, without the ids of calls, like the service.
func (gemini) parts(turn *Turn, cut bool) (all []any) {
	add := func(s string, more map[string]any) {
		texts := []string{s}
		if cut {
			texts = pieces(s)
		}
		for _, s := range texts {
			p := map[string]any{"text": s}
			for name, v := range more {
				p[name] = v
			}
			all = append(all, p)
		}
	}
	if turn.Thinking != "" {
		add(turn.Thinking, map[string]any{"thought": true})
	}
	if turn.Text != "" {
		add(turn.Text, nil)
	}
	for i := range turn.Calls {
		c := &turn.Calls[i]
		call := map[string]any{"name": c.Name, "args": c.Input}
		if c.Raw != "" {
			call["args"] = c.Raw
		}
		p := map[string]any{"functionCall": call}
		// The first of parallel calls has the signature.
		if turn.Thinking != "" && i == 0 {
			p["thoughtSignature"] = sign(c.Name)
		}
		all = append(all, p)
	}
	return all
}

func (gemini) stop(t *Turn) string {
	switch t.Stop {
	case wire.StopLength, wire.StopContext:
		return "MAX_TOKENS"
	case wire.StopRefusal:
		return "SAFETY"
	}
	return "STOP"
}

func (g gemini) body(t *Turn, r *Request, parts []any, stop bool) map[string]any {
	candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
	if stop {
		candidate["finishReason"] = g.stop(t)
	}
	body := map[string]any{"candidates": []any{candidate}, "modelVersion": r.Model, "responseId": "r-1"}
	usage := t.usage(map[string]any{
		"promptTokenCount": t.Usage.Prompt(), "cachedContentTokenCount": t.Usage.CacheRead,
		"candidatesTokenCount": t.Usage.Output,
		"thoughtsTokenCount":   t.Usage.Reasoning, "totalTokenCount": t.Usage.Prompt() + t.Usage.Answered(),
	})
	if usage != nil {
		body["usageMetadata"] = usage
	}
	return body
}

func (g gemini) whole(t *Turn, r *Request) map[string]any {
	if t.Stop == wire.StopRefusal && t.Text == "" {
		return map[string]any{"promptFeedback": map[string]any{"blockReason": "PROHIBITED_CONTENT"},
			"usageMetadata": g.body(t, r, nil, true)["usageMetadata"]}
	}
	return g.body(t, r, g.parts(t, false), true)
}

func (g gemini) events(t *Turn, r *Request) (all []event) {
	if t.Stop == wire.StopRefusal && t.Text == "" {
		return []event{{"", g.whole(t, r)}}
	}
	parts := g.parts(t, true)
	for i, p := range parts {
		all = append(all, event{"", g.body(t, r, []any{p}, i == len(parts)-1)})
	}
	if len(parts) == 0 {
		all = append(all, event{"", g.body(t, r, []any{}, true)})
	}
	return all
}

func (gemini) failure(status int, kind, _, message string) map[string]any {
	if kind == "" {
		kind = map[int]string{
			400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
			429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
		}[status]
	}
	return map[string]any{"error": map[string]any{"code": status, "message": message, "status": kind}}
}
