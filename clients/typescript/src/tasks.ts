import { call, duration, ownerOf, type CommandOptions } from "./command.js";
import { TaskLockError } from "./errors.js";
import { hold, Holder, type Grant, type Held, type HoldOptions } from "./holder.js";
import { waitFlag } from "./lock.js";

/** A task as the store has it. */
export interface Task {
  id: string;
  title: string;
  description: string;
  status: string;
  section: string;
  priority: number;
  dependsOn: string[];
  waitsFor: string[];
  labels: string[];
  attempts: number;
  result: { summary?: string; commits?: string[]; tests?: string[] } | null;
}

/** What came of a task. */
export interface Outcome {
  summary?: string;
  commits?: string[];
  tests?: string[];
}

/**
 * A task in our hands: its lock, the lock of its section and its status were
 * taken in one step. Unless it is completed or failed, releasing it makes it
 * pending again, and so does the end of this process.
 */
export class TaskClaim extends Holder {
  readonly task: Task;
  readonly #options: CommandOptions;

  private constructor(h: Held, task: Task) {
    super(h);
    this.task = task;
    this.#options = h.options;
  }

  /** @internal */
  static of(h: Held, task: Task): TaskClaim {
    return new TaskClaim(h, task);
  }

  /** Token of the claim: what an older one reports is refused. */
  override get token(): number {
    return this.tokens.get(this.task.id) ?? super.token;
  }

  /** Says that the task is done. Rejects with a LeaseLostError, and changes nothing, if someone else has taken over. */
  async complete(outcome: Outcome = {}): Promise<Task> {
    return this.#report("complete", outcomeFlags(outcome));
  }

  /** Says that the task could not be done. */
  async fail(reason: string): Promise<Task> {
    return this.#report("fail", [`--reason=${reason}`]);
  }

  async #report(verb: string, flags: string[]): Promise<Task> {
    return this.finish(() => report(this.#options, verb, this.task.id, this.token, flags));
  }
}

/** Claims a task, by its id or title; waits for it as TaskLock.acquire does. */
export async function claimTask(task: string, options: HoldOptions = {}): Promise<TaskClaim> {
  const h = await hold(options, ["tasks", "claim"], [waitFlag(options)], [task], (data: Grant) => data);
  return TaskClaim.of(h, (h.data as { tasks: Task[] }).tasks[0]!);
}

export interface NextOptions extends HoldOptions {
  section?: string;
  label?: string;
  /** How long to wait for a task to become ready; default: not at all. */
  wait?: HoldOptions["wait"];
}

/** Claims the task to work on next, or answers null if nothing is ready. Two workers never get the same one. */
export async function nextTask(options: NextOptions = {}): Promise<TaskClaim | null> {
  const flags = ["--claim", `--wait=${duration("wait", options.wait ?? 0)}`];
  if (options.section !== undefined) flags.push(`--section=${options.section}`);
  if (options.label !== undefined) flags.push(`--label=${options.label}`);
  try {
    const h = await hold(options, ["next"], flags, [], (data: { grant: Grant }) => data.grant);
    return TaskClaim.of(h, (h.data as { task: Task }).task);
  } catch (e) {
    if (e instanceof TaskLockError && e.code === "NOTHING_READY") return null;
    throw e;
  }
}

/** Says that a task is done that was claimed elsewhere: the token is that claim's. Repeated, it succeeds again. */
export function completeTask(task: string, token: number, outcome: Outcome = {}, options: CommandOptions = {}): Promise<Task> {
  return report(options, "complete", task, token, outcomeFlags(outcome));
}

export interface ResetOptions extends CommandOptions {
  /** With everything that depends on them, however far. */
  cascade?: boolean;
  /** Also what someone works on: their tokens die. */
  force?: boolean;
  reason?: string;
}

/** Makes tasks pending again, all of them in one step. What someone works on is refused with a TaskLockedError. */
export async function resetTask(tasks: string | string[], options: ResetOptions = {}): Promise<Task[]> {
  const flags: string[] = [];
  if (options.cascade) flags.push("--cascade");
  if (options.force) flags.push("--force");
  if (options.reason !== undefined) flags.push(`--reason=${options.reason}`);
  const data = await call<{ tasks: Task[] }>(await named(options), ["tasks", "reset"], flags, [tasks].flat());
  return data.tasks;
}

async function report(o: CommandOptions, verb: string, task: string, token: number, flags: string[]): Promise<Task> {
  const data = await call<{ tasks: Task[] }>(await named(o), ["tasks", verb], [`--token=${token}`, ...flags], [task]);
  return data.tasks[0]!;
}

async function named(o: CommandOptions): Promise<CommandOptions> {
  return { ...o, owner: await ownerOf(o) };
}

function outcomeFlags(o: Outcome): string[] {
  return [
    ...(o.summary === undefined ? [] : [`--summary=${o.summary}`]),
    ...(o.commits ?? []).map((c) => `--commit=${c}`),
    ...(o.tests ?? []).map((t) => `--test=${t}`),
  ];
}
