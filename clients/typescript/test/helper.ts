import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { HoldOptions } from "../src/index.js";

/** The tests are about the real command, never about one that happens to lie on the PATH. */
export const binary = process.env["TASKLOCK_BINARY"] ?? "";
if (!binary) throw new Error("TASKLOCK_BINARY must name the command to test; run: make typescript");

// Who calls is said by each test, not by where it runs.
for (const name of Object.keys(process.env)) {
  if (/^(CLAUDE|CODEX|AI_AGENT|GITHUB_|CI_JOB|BUILDKITE|TASKLOCK_(?!BINARY))/.test(name)) delete process.env[name];
}

// Nothing here may touch the store of the user who runs the tests.
process.env.HOME = mkdtempSync(join(tmpdir(), "tasklock-ts-home-"));
delete process.env.XDG_STATE_HOME;
process.once("exit", () => rmSync(process.env.HOME!, { recursive: true, force: true }));

/** A folder of its own with a store in it. */
export function scratch(): HoldOptions & { cwd: string } {
  const cwd = mkdtempSync(join(tmpdir(), "tasklock-ts-"));
  process.once("exit", () => rmSync(cwd, { recursive: true, force: true }));
  return { cwd, store: join(cwd, "store.db"), owner: "alice" };
}

/** Runs the command and returns its data. Codes other than 0 and 1 reject. */
export function tasklock(o: HoldOptions, ...args: string[]): Promise<any> {
  return new Promise((resolve, reject) => {
    execFile(binary, [...args, "--json", `--store=${o.store}`], { cwd: o.cwd, env: { ...process.env, TASKLOCK_OWNER: "cli" } }, (err, stdout) => {
      if (err && err.code !== 1) return reject(new Error(`${args.join(" ")}: ${stdout}`));
      resolve(JSON.parse(stdout).data);
    });
  });
}

/** A program of this folder in a Node process of its own, which talks in lines. */
export class Program {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly ended: Promise<number | null>;

  constructor(name: string, ...args: string[]) {
    this.child = spawn(process.execPath, [fileURLToPath(new URL(name, import.meta.url)), ...args], { stdio: ["ignore", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.child.stdout! })[Symbol.asyncIterator]();
    this.ended = new Promise((resolve) => this.child.on("close", (code) => resolve(code)));
  }

  async line(): Promise<string> {
    const { value, done } = await this.#lines.next();
    return done ? "" : value;
  }
}

/** Resolves when the signal is aborted; fails the test long before its runner would. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error("not aborted in 30 seconds")), 30_000);
    const done = (): void => {
      clearTimeout(late);
      resolve();
    };
    if (signal.aborted) done();
    else signal.addEventListener("abort", done, { once: true });
  });
}
