// The plugin that "tasklock agents install opencode" writes, with events of the shape that @opencode-ai/plugin 1.18 gives, against
// the real command. TASKLOCK_BINARY names it.
import assert from "node:assert/strict"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { after, test } from "node:test"
import { pathToFileURL } from "node:url"

const home = realpathSync(mkdtempSync(join(tmpdir(), "tasklock-opencode-")))
after(() => rmSync(home, { recursive: true, force: true }))
const repo = join(home, "repo")
const bin = join(home, "bin")
mkdirSync(repo)
mkdirSync(bin)
symlinkSync(process.env.TASKLOCK_BINARY, join(bin, "tasklock"))
const path = process.env.PATH
for (const name of Object.keys(process.env)) if (/^(TASKLOCK|CLAUDE|CODEX|GEMINI|CURSOR|OPENCODE|PI_|AI_AGENT)/.test(name)) delete process.env[name]
Object.assign(process.env, { PATH: bin + delimiter + path, HOME: home, XDG_STATE_HOME: join(home, "state") })

const tasklock = (args, env = {}) => spawnSync("tasklock", args, { cwd: repo, encoding: "utf8", env: { ...process.env, ...env } })
const must = (args, env) => {
  const out = tasklock(args, env)
  assert.equal(out.status, 0, args.join(" ") + ": " + out.stderr)
  return out.stdout
}
execFileSync("git", ["init", "-q", repo])
must(["init"])
must(["agents", "install", "opencode"])
assert.equal(JSON.parse(readFileSync(join(repo, "opencode.json"))).mcp.tasklock.command.join(" "), "tasklock mcp")

const sessions = { ses_one: {}, ses_two: {}, ses_sub: { parentID: "ses_one" }, ses_sub2: { parentID: "ses_one" } }
const toasts = []
const client = {
  session: { get: async ({ path: { id } }) => ({ data: sessions[id] && { id, ...sessions[id] } }) },
  tui: { showToast: async ({ body }) => toasts.push(body.message) },
}
const load = async () => {
  const module = await import(pathToFileURL(join(repo, ".opencode/plugins/tasklock.js")) + "?" + Math.random())
  const plugins = Object.values(module)
  assert.equal(plugins.length, 1)
  return plugins[0]({ client, directory: repo, worktree: repo, project: {} })
}
const hooks = await load()
const env = async (sessionID) => {
  const output = { env: {} }
  await hooks["shell.env"]({ cwd: repo, sessionID, callID: "c" }, output)
  return output.env
}
const tool = (sessionID, tool, args) => hooks["tool.execute.before"]({ tool, sessionID, callID: "c" }, { args })
const ownerOf = async (sessionID) => JSON.parse(must(["whoami", "--json"], await env(sessionID))).data.owner

test("each session has a name of its own, a subagent one below", async () => {
  assert.equal(await ownerOf("ses_one"), "opencode:ses_one")
  assert.equal(await ownerOf("ses_two"), "opencode:ses_two")
  assert.equal(await ownerOf("ses_sub"), "opencode:ses_one/ses_sub")
  const output = { env: {} }
  await hooks["shell.env"]({ cwd: repo }, output) // outside of a session
  assert.deepEqual(output.env, {})
})

test("what another session has locked is denied, to edits and to the shell", async () => {
  must(["acquire", "path:src"], await env("ses_one"))
  await assert.rejects(tool("ses_two", "edit", { filePath: join(repo, "src/a.go"), oldString: "a", newString: "b" }), /locked by opencode:ses_one/)
  await assert.rejects(tool("ses_two", "write", { filePath: "src/a.go", content: "x" }), /locked by opencode:ses_one/)
  await assert.rejects(tool("ses_two", "bash", { command: "echo x >src/a.go" }), /locked by opencode:ses_one/)
  await assert.rejects(tool("ses_two", "apply_patch", { patchText: "*** Begin Patch\n*** Add File: src/new.go\n+x\n*** End Patch" }), /locked by opencode:ses_one/)
  await tool("ses_one", "edit", { filePath: join(repo, "src/a.go") })
  await tool("ses_sub", "edit", { filePath: join(repo, "src/a.go") }) // a part of it
  await tool("ses_two", "edit", { filePath: join(repo, "docs/a.md") })
  await tool("ses_two", "read", { filePath: join(repo, "src/a.go") })
  await hooks["tool.execute.after"]({ tool: "read", sessionID: "ses_two", callID: "c", args: {} }, { title: "", output: "", metadata: {} })
})

test("subagents exclude each other; the end of one frees what it held", async () => {
  must(["acquire", "path:lib"], await env("ses_sub"))
  assert.equal(tasklock(["acquire", "path:lib", "--no-wait"], await env("ses_sub2")).status, 6)
  await assert.rejects(tool("ses_sub2", "write", { filePath: "lib/a.go" }), /locked by opencode:ses_one\/ses_sub/)
  await hooks.event({ event: { type: "session.idle", properties: { sessionID: "ses_one" } } }) // a turn ends: nothing
  await tool("ses_sub", "write", { filePath: "lib/a.go" })
  await hooks.event({ event: { type: "session.idle", properties: { sessionID: "ses_sub" } } })
  must(["acquire", "path:lib", "--no-wait"], await env("ses_sub2"))
})

test("the model is told what is locked; the end of the session frees it", async () => {
  await hooks["chat.message"]({ sessionID: "ses_two" }, { message: {}, parts: [] })
  const output = { system: ["base"] }
  await hooks["experimental.chat.system.transform"]({ sessionID: "ses_two", model: {} }, output)
  assert.match(output.system[1], /tasklock owner opencode:ses_two\./)
  await hooks.event({ event: { type: "session.deleted", properties: { info: { id: "ses_one" } } } })
  must(["acquire", "path:src", "--no-wait"], await env("ses_two"))
  await hooks.dispose()
  assert.equal(JSON.parse(must(["list", "--json"])).data.locks.filter((l) => l.owner === "opencode:ses_two").length, 0)
})

test("without tasklock: one line, and nothing is denied unless it is strict", async () => {
  must(["agents", "install", "opencode"], { TASKLOCK_HOOKS_STRICT: "true" })
  const strict = await load()
  const lax = (writeFileSync(join(repo, ".opencode/plugins/tasklock.js"), readFileSync(join(repo, ".opencode/plugins/tasklock.js"), "utf8").replace("strict = true", "strict = false")), await load())
  process.env.PATH = join(home, "nothing")
  await lax["chat.message"]({ sessionID: "ses_two" }, {})
  await lax["tool.execute.before"]({ tool: "edit", sessionID: "ses_two", callID: "c" }, { args: { filePath: "src/a.go" } })
  await lax["chat.message"]({ sessionID: "ses_one" }, {})
  assert.equal(toasts.length, 1)
  assert.match(toasts[0], /tasklock is not installed/)
  await assert.rejects(strict["tool.execute.before"]({ tool: "edit", sessionID: "ses_two", callID: "c" }, { args: { filePath: "src/a.go" } }), /tasklock is not installed/)
})
