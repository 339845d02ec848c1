// How the command is called: arguments, one JSON envelope a line, errors.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { BinaryError, InvalidArgumentsError, refused, type TaskLockError } from "./errors.js";

/** Where and as whom the command runs. */
export interface CommandOptions {
  /** Folder whose store is used; default: the current one. */
  cwd?: string;
  /** Store, as for --store; default: by cwd and the configuration. */
  store?: string;
  /** Who asks, as for --owner; default: what `tasklock whoami` says. */
  owner?: string;
  /** The command; default: TASKLOCK_BINARY, else tasklock on the PATH. */
  binary?: string;
}

/** Milliseconds, or a duration as the command reads it: "90s", "2h". */
export type Duration = number | string;

/** One line of the command's output. */
export interface Envelope {
  event?: string;
  success: boolean;
  data?: unknown;
  error?: { code: string; message: string; details?: Record<string, unknown> };
  next?: string;
}

/** Lines longer than this are not from tasklock. */
const maxLine = 4 << 20;

/** Starts the command. Names go after "--", so that no key is taken for a flag. */
export function start(o: CommandOptions, verb: string[], flags: string[], names: string[]): ChildProcessWithoutNullStreams {
  let args = [...verb, "--json", ...flags];
  if (o.owner !== undefined) args.push(`--owner=${o.owner}`);
  if (o.store !== undefined) args.push(`--store=${o.store}`);
  if (names.length > 0) args = args.concat("--", names);
  for (const a of args) {
    if (typeof a !== "string" || a.includes("\0") || !wellFormed(a)) {
      throw invalid(`${JSON.stringify(String(a).slice(0, 60))} cannot be an argument`);
    }
  }
  // A group of its own: Ctrl+C is for the program to handle, which may still need its locks to clean up.
  const detached = verb[0] !== "whoami" && process.platform !== "win32";
  try {
    return spawn(binaryOf(o), args, { cwd: o.cwd, stdio: ["pipe", "pipe", "pipe"], detached, windowsHide: true });
  } catch (e) {
    throw foreign(o, (e as Error).message); // more arguments than the system takes
  }
}

export function binaryOf(o: CommandOptions): string {
  return o.binary ?? (process.env["TASKLOCK_BINARY"] || "tasklock");
}

/** Node would replace half of a surrogate pair by another character: another key. */
function wellFormed(s: string): boolean {
  return Buffer.from(s, "utf8").toString("utf8") === s;
}

export function invalid(message: string): InvalidArgumentsError {
  return new InvalidArgumentsError({ code: "INVALID_ARGUMENTS", message, exitCode: 2 });
}

/** How a command ended. */
export interface Ending {
  code: number | null;
  /** If it did not even start, or printed what is no JSON. */
  error?: TaskLockError;
  stderr: string;
}

/** Calls on for every line, and resolves when the command has ended. It never rejects. */
export function listen(child: ChildProcessWithoutNullStreams, o: CommandOptions, on: (e: Envelope) => void): Promise<Ending> {
  let rest = "";
  let stderr = "";
  let error: TaskLockError | undefined;
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (chunk: string) => {
    rest += chunk;
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > maxLine) lines.push(rest.slice(0, 60));
    for (const line of lines) {
      const e = parse(line);
      if (e) {
        on(e);
      } else if (!error) {
        error = foreign(o, `printed ${JSON.stringify(line.slice(0, 60))}`);
        child.kill("SIGKILL");
      }
    }
  });
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (chunk: string) => {
    if (stderr.length < 16384) stderr += chunk;
  });
  child.stdin.on("error", () => {}); // it ended before it had read everything: its output says why
  return new Promise((resolve) => {
    child.on("error", (e: NodeJS.ErrnoException) => {
      error ??= e.code === "ENOENT" ? missing(o) : foreign(o, e.message);
      if (child.pid === undefined) resolve({ code: null, error, stderr });
    });
    child.on("exit", (code) => {
      if (!error) return;
      child.stdout.destroy(); // who knows who else has its pipes
      child.stderr.destroy();
      resolve({ code, error, stderr });
    });
    child.on("close", (code) => resolve({ code, error, stderr }));
  });
}

function parse(line: string): Envelope | undefined {
  try {
    const e: unknown = JSON.parse(line);
    if (typeof e === "object" && e !== null && typeof (e as Envelope).success === "boolean") return e as Envelope;
  } catch {
    // falls through: no JSON is no envelope
  }
  return undefined;
}

function missing(o: CommandOptions): BinaryError {
  const where = o.cwd === undefined ? "" : `, or there is no folder ${JSON.stringify(o.cwd)}`;
  return new BinaryError({
    code: "BINARY_NOT_FOUND",
    message: `there is no command ${JSON.stringify(binaryOf(o))}${where}; install tasklock, or name it with the option binary or TASKLOCK_BINARY`,
  });
}

function foreign(o: CommandOptions, what: string): BinaryError {
  return new BinaryError({ code: "BINARY_FAILED", message: `${binaryOf(o)} ${what}` });
}

/** The error that an unsuccessful end means. */
export function failure(o: CommandOptions, end: Ending, e?: Envelope): TaskLockError {
  if (end.error) return end.error;
  if (e?.error) {
    return refused({ ...e.error, ...(e.next === undefined ? {} : { next: e.next }), ...(end.code === null ? {} : { exitCode: end.code }) });
  }
  return foreign(o, `ended with code ${end.code}: ${end.stderr.trim().slice(0, 500)}`);
}

/** Runs the command to its end and returns its data. ok lists the exit codes that are answers. */
export async function call<T>(o: CommandOptions, verb: string[], flags: string[], names: string[], ok: number[] = [0]): Promise<T> {
  const child = start(o, verb, flags, names);
  let answer: Envelope | undefined;
  const ended = listen(child, o, (e) => (answer ??= e));
  child.stdin.end();
  const end = await ended;
  if (!end.error && end.code !== null && ok.includes(end.code) && answer?.success) return answer.data as T;
  throw failure(o, end, answer);
}

/** A duration as the command reads it. */
export function duration(name: string, d: Duration): string {
  if (typeof d === "string") return d;
  if (!Number.isFinite(d) || d < 0) throw invalid(`${name}: must be a number of milliseconds that is not negative, or a text like "90s"`);
  return `${Math.ceil(d)}ms`;
}

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** How many milliseconds a duration has; NaN if the command will refuse it. */
export function milliseconds(d: Duration): number {
  if (typeof d === "number") return d;
  const parts = [...d.matchAll(/([0-9.]+)([a-zµ]+)/g)];
  if (parts.length === 0 || parts.map((p) => p[0]).join("") !== d) return NaN;
  return parts.reduce((sum, [, n, unit]) => sum + Number(n) * (units[unit!] ?? NaN), 0);
}

const owners = new Map<string, Promise<string>>();

/**
 * The owner of everything this process asks for: the one that was named, else
 * what the command makes of this session, asked once. Where nothing names the
 * session each command would be somebody else.
 */
export function ownerOf(o: CommandOptions): Promise<string> {
  if (o.owner !== undefined) return Promise.resolve(o.owner);
  const key = JSON.stringify([binaryOf(o), o.cwd ?? "", o.store ?? "", process.env["TASKLOCK_OWNER"] ?? ""]);
  let owner = owners.get(key);
  if (!owner) {
    owner = call<{ owner: string }>(o, ["whoami"], [], []).then((d) => d.owner);
    owner.catch(() => owners.delete(key));
    owners.set(key, owner);
  }
  return owner;
}
