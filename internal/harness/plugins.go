package harness

// wholeMark shows that a file is ours.
const wholeMark = "// tasklock: written by"

// piExtension connects Pi, which has no hooks but modules, with "tasklock hook".
const piExtension = `import { spawnSync } from "node:child_process";

const strict = STRICT; // what cannot be judged is denied
const missing = "` + notInstalled + `";

export default function (pi: any) {
  const hook = (event: string, ctx: any, more: object = {}) => {
    // In a session that another one started, the variable is that of the other.
    const session = ctx?.sessionManager?.getSessionId?.() ?? process.env.PI_SESSION_ID ?? "";
    const input = JSON.stringify({ session_id: session, cwd: ctx?.cwd ?? process.cwd(), hook_event_name: event, ...more });
    return spawnSync("tasklock", ["hook", "pi", event], { input, encoding: "utf8", timeout: 5000 });
  };
  pi.on("session_start", async (_event: any, ctx: any) => {
    const out: any = hook("SessionStart", ctx);
    if (out.error?.code === "ENOENT") ctx?.ui?.notify?.(missing, "warning");
    if (out.status === 0 && out.stdout) pi.sendMessage?.({ customType: "tasklock", content: out.stdout, display: false });
  });
  pi.on("tool_call", async (event: any, ctx: any) => {
    const out: any = hook("PreToolUse", ctx, { tool_name: event.toolName, tool_input: event.input });
    if (out.status === 2 || (strict && out.status !== 0)) return { block: true, reason: out.stderr || missing };
  });
  pi.on("tool_result", async (_event: any, ctx: any) => { hook("PostToolUse", ctx); });
  pi.on("session_shutdown", async (_event: any, ctx: any) => { hook("SessionEnd", ctx); });
}
`

// openCodePlugin connects OpenCode. One process of it serves several sessions,
// so the plugin gives each shell command the id of its session. A subagent is a
// session with a parent; its owner is a child of the parent's.
const openCodePlugin = `import { spawn } from "node:child_process"

const strict = STRICT // what cannot be judged is denied
const missing = "` + notInstalled + `"

export const Tasklock = async ({ client, directory }) => {
  const parents = new Map() // of each session; "": it has none
  const facts = new Map() // of each session that has begun
  let told = false

  const parentOf = async (id) => {
    if (!parents.has(id)) {
      try {
        const answer = await client.session.get({ path: { id } })
        if (answer?.data) parents.set(id, answer.data.parentID ?? "")
      } catch {} // not known now
    }
    return parents.get(id) ?? ""
  }
  // who is the session that a person began, and the part of it that acts.
  const who = async (id) => {
    const seen = new Set([id])
    let root = id
    for (let up = await parentOf(root); up && !seen.has(up); up = await parentOf(root)) {
      seen.add(up)
      root = up
    }
    return root === id ? { session: root } : { session: root, agent: id }
  }
  const envOf = ({ session, agent }) => ({
    OPENCODE_SESSION_ID: session,
    OPENCODE_PID: process.env.OPENCODE_PID || String(process.pid),
    ...(agent ? { TASKLOCK_OWNER: "opencode:" + session + "/" + agent } : {}),
  })
  const hook = async (event, id, more = {}) => {
    const { session, agent } = await who(id)
    const input = JSON.stringify({ session_id: session, ...(agent ? { agent_id: agent } : {}), cwd: directory, hook_event_name: event, ...more })
    return new Promise((done) => {
      const out = { status: null, stdout: "", stderr: "" }
      const child = spawn("tasklock", ["hook", "opencode", event], { env: { ...process.env, ...envOf({ session }) }, windowsHide: true })
      const late = setTimeout(() => child.kill("SIGKILL"), 5000)
      const finish = (result) => { clearTimeout(late); done(result) }
      child.stdout.on("data", (text) => { out.stdout += text })
      child.stderr.on("data", (text) => { out.stderr += text })
      child.stdin.on("error", () => {})
      child.on("error", (error) => finish({ ...out, missing: error.code === "ENOENT" }))
      child.on("close", (status) => finish({ ...out, status }))
      child.stdin.end(input)
    })
  }
  const begin = async (id) => {
    if (facts.has(id)) return
    facts.set(id, "")
    const { agent } = await who(id)
    const out = await hook(agent ? "SubagentStart" : "SessionStart", id)
    if (out.missing && !told) {
      told = true
      try { await client.tui.showToast({ body: { message: missing, variant: "warning" } }) } catch { console.error(missing) }
    }
    if (out.status === 0 && out.stdout && !agent) facts.set(id, out.stdout.trim())
  }
  const end = async (id, event) => {
    if (!facts.delete(id)) return
    await hook(event, id)
  }
  const tools = { patch: "apply_patch", multiedit: "MultiEdit" }
  const argsOf = (args) => {
    const { filePath, patchText, ...rest } = args ?? {}
    return { ...rest, ...(filePath ? { file_path: filePath } : {}), ...(patchText ? { patch: patchText } : {}) }
  }

  return {
    "shell.env": async (input, output) => {
      if (input.sessionID) Object.assign(output.env, envOf(await who(input.sessionID)))
    },
    "chat.message": async (input) => {
      if (facts.has(input.sessionID)) await hook("UserPromptSubmit", input.sessionID)
      else await begin(input.sessionID)
    },
    "experimental.chat.system.transform": async (input, output) => {
      const text = facts.get(input.sessionID)
      if (text) output.system.push(text)
    },
    "tool.execute.before": async (input, output) => {
      await begin(input.sessionID)
      const out = await hook("PreToolUse", input.sessionID, { tool_name: tools[input.tool] ?? input.tool, tool_input: argsOf(output.args) })
      if (out.status === 2 || (strict && out.status !== 0)) throw new Error(out.stderr.trim() || missing)
    },
    "tool.execute.after": async (input) => {
      await hook("PostToolUse", input.sessionID)
    },
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info?.id) parents.set(info.id, info.parentID ?? "")
      if (event.type === "session.deleted" && info?.id) await end(info.id, info.parentID ? "SubagentStop" : "SessionEnd")
      if (event.type === "session.idle" && (await who(event.properties.sessionID)).agent) await end(event.properties.sessionID, "SubagentStop")
    },
    dispose: async () => {
      for (const id of [...facts.keys()]) if (!(await who(id)).agent) await end(id, "SessionEnd")
    },
  }
}
`
