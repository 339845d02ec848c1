package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
)

// object is a JSON object that is written.
type object = map[string]any

// anthropic is the Messages API.
var anthropic = protocol{path: regexp.MustCompile(`/v1/messages$`), read: readAnthropic, write: writeAnthropic}

func readAnthropic(body []byte) (q request, err error) {
	var in struct {
		Model    string
		Stream   bool
		Tools    []struct{ Name string }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return q, err
	}
	q.model, q.stream = in.Model, in.Stream
	for _, t := range in.Tools {
		q.tools = append(q.tools, tool{name: t.Name})
	}
	for _, m := range in.Messages {
		switch m.Role {
		case "assistant":
			q.results = nil
			continue
		case "system": // reminders, also after the results
			continue
		}
		var parts []struct {
			Type    string
			Text    string
			Content json.RawMessage
		}
		if json.Unmarshal(m.Content, &parts) != nil {
			q.prompts = append(q.prompts, text(m.Content))
			continue
		}
		for _, p := range parts {
			if p.Type == "tool_result" {
				q.results = append(q.results, text(p.Content))
			} else {
				q.prompts = append(q.prompts, p.Text)
			}
		}
	}
	return q, nil
}

func writeAnthropic(w http.ResponseWriter, _ *http.Request, q request, a answer) {
	usage := object{"input_tokens": 10, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
	var blocks []object
	stop := "tool_use"
	for _, c := range a.calls {
		blocks = append(blocks, object{"type": "tool_use", "id": callID(), "name": c.name, "input": c.input})
	}
	if len(blocks) == 0 {
		stop, blocks = "end_turn", []object{{"type": "text", "text": lastWord}}
	}
	message := object{"id": "msg_" + callID(), "type": "message", "role": "assistant", "model": q.model, "content": []object{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	if !q.stream {
		message["content"], message["stop_reason"] = blocks, stop
		reply(w, message)
		return
	}
	e := startEvents(w)
	e.send("message_start", object{"type": "message_start", "message": message})
	for i, b := range blocks {
		start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": b["text"]}
		if b["type"] == "tool_use" {
			input, _ := json.Marshal(b["input"])
			start = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			delta = object{"type": "input_json_delta", "partial_json": string(input)}
		}
		e.send("content_block_start", object{"type": "content_block_start", "index": i, "content_block": start})
		e.send("content_block_delta", object{"type": "content_block_delta", "index": i, "delta": delta})
		e.send("content_block_stop", object{"type": "content_block_stop", "index": i})
	}
	e.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	e.send("message_stop", object{"type": "message_stop"})
}

// lastWord is what the model says when it calls no tool.
const lastWord = "Done."

// callID is an id that no other call has.
func callID() string { return "toolu_" + strconv.FormatInt(calls.Add(1), 36) }
