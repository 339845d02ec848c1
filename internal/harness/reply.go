package harness

import (
	"bytes"
	"encoding/json"
)

// A Reply is the answer of a hook: its output, in the form that the harness reads,
// and whether the exit code denies the action.
type Reply struct {
	Out  []byte
	Exit int
}

// denied is the exit code that blocks an action; no other reply has it.
const denied = 2

// Pass lets the action go on and says nothing.
func (e Event) Pass() Reply { return Reply{Out: e.object(map[string]any{})} }

// Tell lets the action go on and gives the model facts; owner becomes the owner of
// its shell commands if the harness can set that.
func (e Event) Tell(text, owner string) Reply {
	switch {
	case e.Harness == "cursor":
		out := map[string]any{"additional_context": text}
		if e.What == SessionStart && owner != "" {
			out["env"] = map[string]string{"TASKLOCK_OWNER": owner}
		}
		return Reply{Out: e.object(out)}
	case e.Harness == "gemini" || e.What != SessionStart:
		return Reply{Out: encode(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": e.Name, "additionalContext": text}})}
	}
	return Reply{Out: []byte(text + "\n")}
}

// Deny stops the action. The text also goes to standard error, which most harnesses
// show to the model. Cursor and Gemini read it from their JSON, with exit code 0:
// Gemini treats any other code as a failed hook. In Cursor a hook of Claude also
// denies by its exit code.
func (e Event) Deny(text string) Reply {
	switch {
	case e.Borrowed:
	case e.Harness == "cursor":
		return Reply{Out: e.object(map[string]any{"permission": "deny", "user_message": text, "agent_message": text})}
	case e.Harness == "gemini":
		return Reply{Out: e.object(map[string]any{"decision": "deny", "reason": text})}
	}
	return Reply{Exit: denied}
}

// object is JSON for the harnesses that read nothing else from a hook.
func (e Event) object(v map[string]any) []byte {
	if e.Harness != "gemini" && e.Harness != "cursor" {
		return nil
	}
	return encode(v)
}

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // maps of texts
	return b.Bytes()
}
