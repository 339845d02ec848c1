package main

import (
	"encoding/json"
	"net/http"
	"regexp"
)

// openai is the Responses API.
var openai = protocol{path: regexp.MustCompile(`/v1/responses$`), read: readOpenAI, write: writeOpenAI}

// openaiTool is a function, a tool that takes free text, or a namespace of them.
type openaiTool struct {
	Type, Name string
	Tools      []openaiTool
}

func (t openaiTool) in(space string) (out []tool) {
	if t.Type == "namespace" {
		for _, inner := range t.Tools {
			out = append(out, inner.in(t.Name)...)
		}
		return out
	}
	return []tool{{name: t.Name, space: space, free: t.Type == "custom"}}
}

func readOpenAI(body []byte) (q request, err error) {
	var in struct {
		Model  string
		Stream bool
		Tools  []openaiTool
		Input  []struct {
			Type, Role, Name string
			Content, Output  json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return q, err
	}
	q.model, q.stream = in.Model, in.Stream
	for _, t := range in.Tools {
		q.tools = append(q.tools, t.in("")...)
	}
	for _, item := range in.Input {
		switch {
		case item.Role == "user":
			q.prompts = append(q.prompts, texts(item.Content)...)
		case item.Role == "assistant", item.Type == "function_call", item.Type == "custom_tool_call", item.Type == "reasoning":
			q.results = nil
		case item.Type == "function_call_output", item.Type == "custom_tool_call_output":
			q.results = append(q.results, text(item.Output))
		}
	}
	return q, nil
}

func writeOpenAI(w http.ResponseWriter, _ *http.Request, q request, a answer) {
	id := "resp_" + callID()
	usage := object{"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}
	response := object{"id": id, "object": "response", "status": "in_progress", "model": q.model, "output": []object{}}
	var items []object
	for _, c := range a.calls {
		item := object{"type": "function_call", "id": "fc_" + callID(), "call_id": callID(), "name": c.name, "status": "completed"}
		if c.space != "" {
			item["namespace"] = c.space
		}
		if c.free {
			item["type"], item["input"] = "custom_tool_call", c.text
		} else {
			input, _ := json.Marshal(c.input)
			item["arguments"] = string(input)
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		items = []object{{"type": "message", "id": "msg_" + callID(), "role": "assistant", "status": "completed", "content": []object{{"type": "output_text", "text": lastWord, "annotations": []object{}}}}}
	}
	done := object{"id": id, "object": "response", "status": "completed", "model": q.model, "output": items, "usage": usage}
	if !q.stream {
		reply(w, done)
		return
	}
	e := startEvents(w)
	e.send("response.created", object{"type": "response.created", "response": response})
	for i, item := range items {
		e.send("response.output_item.added", object{"type": "response.output_item.added", "output_index": i, "item": item})
		e.send("response.output_item.done", object{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	e.send("response.completed", object{"type": "response.completed", "response": done})
}
