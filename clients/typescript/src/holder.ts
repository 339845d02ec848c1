import "./dispose.js";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { duration, failure, listen, ownerOf, start, type CommandOptions, type Duration, type Ending, type Envelope } from "./command.js";
import { LeaseLostError, TaskLockError, type Refusal } from "./errors.js";

/** How a lease is taken and kept. */
export interface HoldOptions extends CommandOptions {
  /** The lease ends after so long without a sign of life; default: 5 minutes. It is renewed by itself. */
  ttl?: Duration;
  /** It cannot be renewed beyond this; default: no bound. */
  maxHold?: Duration;
  /** How long to wait for the keys; default: 30 minutes. */
  wait?: Duration;
  /** Why, for others to read. */
  reason?: string;
  /** Where the work is done, for others to read. */
  worktree?: string;
  /** Ends the wait; what was acquired stays. */
  signal?: AbortSignal;
}

/** What an acquisition gives. */
export interface Grant {
  leaseId: string;
  owner: string;
  keys: { key: string; token: number; reentrant: boolean }[];
  token: number;
  acquiredAt: string;
  expiresAt: string;
}

type State = "held" | "ending" | "released" | "lost";

/** Timers of Node end at once if they are longer. */
const longest = 2 ** 31 - 1;

/**
 * Someone who holds keys through a tasklock process of its own, which renews
 * the lease. The pipe between the two is the bond: when this process ends,
 * however it ends, the keys are free at once. Holding does not keep the program
 * running.
 *
 * A holder asks its process now and then how long the lease may be trusted, and
 * does not trust it any longer: also a process that was stopped is noticed.
 */
export class Holder implements AsyncDisposable {
  /** Under this name the keys are held. */
  readonly owner: string;
  readonly leaseId: string;
  /** Fencing token of each key: larger at every later grant. */
  readonly tokens: ReadonlyMap<string, number>;

  readonly #child: ChildProcessWithoutNullStreams;
  readonly #ended: Promise<Ending>;
  readonly #loss = new AbortController();
  readonly #options: CommandOptions;
  #state: State = "held";
  #last: Envelope | undefined;
  #release: Promise<void> | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #ask: NodeJS.Timeout | undefined;
  #asked = 0;

  protected constructor(h: Held) {
    this.owner = h.grant.owner;
    this.leaseId = h.grant.leaseId;
    this.tokens = new Map(h.grant.keys.map((k) => [k.key, k.token]));
    this.#child = h.child;
    this.#ended = h.ended;
    this.#options = h.options;
    h.hear((e) => this.#hear(e));
    void this.#ended.then((end) => this.#over(end));
    this.#alive(false);
    this.#question();
  }

  /** Aborted when the lease is lost, with a {@link LeaseLostError} as its reason. */
  get signal(): AbortSignal {
    return this.#loss.signal;
  }

  /** The keys, in order. */
  get keys(): string[] {
    return [...this.tokens.keys()];
  }

  /** The largest of the tokens. */
  get token(): number {
    return Math.max(...this.tokens.values());
  }

  /** False once it was released or lost. */
  get held(): boolean {
    return this.#state === "held";
  }

  /**
   * Gives the keys back. Calling it again changes nothing and answers the same.
   * It rejects with a {@link LeaseLostError} if the lease was lost meanwhile.
   */
  release(): Promise<void> {
    this.#release ??= this.#giveBack();
    return this.#release;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** Ends the holder with a commit of its own that gives the keys back: that they are gone afterwards is no loss. */
  protected async finish<T>(commit: () => Promise<T>): Promise<T> {
    if (this.#state === "held") this.#state = "ending";
    let result: T;
    try {
      result = await commit();
    } catch (e) {
      if (this.#state === "ending" && !this.#release) this.#goOn();
      throw e;
    }
    this.#release ??= Promise.resolve();
    await this.#stop();
    this.#state = "released";
    return result;
  }

  #goOn(): void {
    this.#state = "held";
    if (this.#last?.event === "lost") this.#lose(this.#last.error);
    else this.#question();
  }

  async #giveBack(): Promise<void> {
    if (this.#state === "held") this.#state = "ending";
    const end = await this.#stop();
    const last = this.#last;
    if (this.signal.aborted) throw this.signal.reason;
    if (last?.event === "released") {
      this.#state = "released";
      return;
    }
    throw last?.event === "lost" ? this.#lose(last.error) : failure(this.#options, end, last);
  }

  #stop(): Promise<Ending> {
    clearTimeout(this.#ask);
    this.#alive(true); // whoever awaits the end must live to see it
    this.#child.stdin.end();
    return this.#ended;
  }

  #hear(e: Envelope): void {
    this.#last = e;
    if (e.event === "held") this.#trust(Number((e.data as { leftSeconds?: number }).leftSeconds ?? 0) * 1000);
    else if (e.event === "lost" && this.#state === "held") this.#lose(e.error);
  }

  /** Asks how long the lease may be trusted. */
  #question(): void {
    this.#asked = performance.now();
    this.#child.stdin.write("\n");
  }

  /** Counts from the question, not from the answer: that errs to the safe side. */
  #trust(left: number): void {
    if (this.#state !== "held") return;
    const rest = Math.max(0, this.#asked + left - performance.now());
    clearTimeout(this.#deadline);
    clearTimeout(this.#ask);
    this.#deadline = setTimeout(() => this.#late(), Math.min(rest, longest)).unref();
    this.#ask = setTimeout(() => this.#question(), Math.min(rest / 3, longest)).unref();
  }

  #late(): void {
    if (this.#state !== "held") return;
    this.#lose({ message: "the process that keeps the lease did not answer in time" });
    this.#child.kill("SIGKILL"); // a release that it might send once it wakes up is nobody's wish any more
  }

  #over(end: Ending): void {
    clearTimeout(this.#deadline);
    clearTimeout(this.#ask);
    if (this.#state === "held") this.#lose({ message: `the process that kept the lease has ended${end.code === null ? "" : ` with code ${end.code}`}` });
  }

  #lose(why: Partial<Refusal> | undefined): TaskLockError {
    if (!this.signal.aborted) {
      this.#state = "lost";
      clearTimeout(this.#deadline);
      clearTimeout(this.#ask);
      this.#loss.abort(new LeaseLostError({ exitCode: 7, ...why, code: "LEASE_LOST", message: why?.message ?? "the lease was lost" }));
    }
    return this.signal.reason;
  }

  #alive(on: boolean): void {
    for (const part of [this.#child, ...[this.#child.stdin, this.#child.stdout, this.#child.stderr].map((s) => s as unknown as Alive)]) {
      if (on) part.ref();
      else part.unref();
    }
  }
}

interface Alive {
  ref(): unknown;
  unref(): unknown;
}

/** A process that holds something. */
export interface Held {
  child: ChildProcessWithoutNullStreams;
  ended: Promise<Ending>;
  options: CommandOptions;
  grant: Grant;
  data: unknown;
  hear(on: (e: Envelope) => void): void;
}

/**
 * Starts a process that holds something, and resolves once it does. If it
 * rejects, nothing is held.
 */
export async function hold(o: HoldOptions, verb: string[], flags: string[], names: string[], grantOf: (data: any) => Grant): Promise<Held> {
  o.signal?.throwIfAborted();
  const options: CommandOptions = { ...o, owner: await ownerOf(o) };
  o.signal?.throwIfAborted();
  const child = start(options, verb, ["--attach", "--independent", ...flags, ...holdFlags(o)], names);
  let on: (e: Envelope) => void = () => {};
  let abort = (): void => {};
  const early: Envelope[] = [];
  const first = new Promise<Envelope | undefined>((resolve) => {
    on = (e) => {
      on = (next) => early.push(next);
      resolve(e);
    };
  });
  const ended = listen(child, options, (e) => on(e));
  if (o.signal) {
    abort = () => {
      child.kill("SIGTERM");
      child.stdin.end();
      setTimeout(() => child.kill("SIGKILL"), 5000).unref(); // leaving the queue takes two seconds at most
    };
    o.signal.addEventListener("abort", abort, { once: true });
  }
  try {
    const e = await Promise.race([first, ended.then(() => undefined)]);
    if (o.signal?.aborted) {
      await ended;
      throw o.signal.reason;
    }
    if (e?.event !== "acquired") throw failure(options, await ended, e);
    return {
      child, ended, options, data: e.data, grant: grantOf(e.data),
      hear(listener) {
        on = listener;
        early.splice(0).forEach(listener);
      },
    };
  } finally {
    o.signal?.removeEventListener("abort", abort);
  }
}

function holdFlags(o: HoldOptions): string[] {
  const flags: string[] = [];
  if (o.ttl !== undefined) flags.push(`--ttl=${duration("ttl", o.ttl)}`);
  if (o.maxHold !== undefined) flags.push(`--max-hold=${duration("maxHold", o.maxHold)}`);
  if (o.reason !== undefined) flags.push(`--reason=${o.reason}`);
  if (o.worktree !== undefined) flags.push(`--worktree=${o.worktree}`);
  return flags;
}
