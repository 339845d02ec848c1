import "./dispose.js";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { duration, failure, listen, milliseconds, ownerOf, start, type CommandOptions, type Duration, type Ending, type Envelope } from "./command.js";
import { LeaseLostError, TaskLockError, type Refusal } from "./errors.js";

/** How a lease is taken and kept. */
export interface HoldOptions extends CommandOptions {
  /** The lease ends after so long without a sign of life; default: 5 minutes. It is renewed by itself. */
  ttl?: Duration;
  /** It cannot be renewed beyond this; default: no bound. */
  maxHold?: Duration;
  /** How long to wait for the keys; default: 30 minutes. */
  wait?: Duration;
  /** Size of the pools among the keys (`pool:NAME`): it makes a pool, or must be the size that it has. */
  slots?: number;
  /** How many slots of a pool to take, or all of them; default: 1. */
  take?: number | "all";
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
  keys: { key: string; token: number; reentrant: boolean; slot?: number }[];
  token: number;
  acquiredAt: string;
  expiresAt: string;
}

/** The default ttl of the command. */
const defaultTTL = 5 * 60_000;

const unanswered = "the process that keeps the lease did not answer in time";

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
 * does not trust it any longer: also a process that was stopped is noticed. The
 * first of these deadlines counts from the call.
 */
export class Holder implements AsyncDisposable {
  /** Under this name the keys are held. */
  readonly owner: string;
  readonly leaseId: string;
  /** Fencing token of each key: larger at every later grant. */
  readonly tokens: ReadonlyMap<string, number>;
  /** Numbers of the slots that it holds, if a key is a pool: for a port, or the name of a database. */
  readonly slots: readonly number[];

  readonly #child: ChildProcessWithoutNullStreams;
  readonly #ended: Promise<Ending>;
  readonly #loss = new AbortController();
  readonly #options: CommandOptions;
  readonly #ttl: number;
  #state: State = "held";
  #last: Envelope | undefined;
  #release: Promise<void> | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #ask: NodeJS.Timeout | undefined;
  #asked: number | undefined; // when, until it is answered: at most one question is open

  protected constructor(h: Held) {
    this.owner = h.grant.owner;
    this.leaseId = h.grant.leaseId;
    this.tokens = new Map(h.grant.keys.map((k) => [k.key, k.token]));
    this.slots = h.grant.keys.flatMap((k) => k.slot ?? []);
    this.#child = h.child;
    this.#ended = h.ended;
    this.#options = h.options;
    this.#ttl = Date.parse(h.grant.expiresAt) - Date.parse(h.grant.acquiredAt);
    h.hear((e) => this.#hear(e));
    void this.#ended.then((end) => this.#over(end));
    this.#alive(false);
    this.#asked = h.asked;
    this.#trust(h.called, h.left);
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
    this.#state = "released";
    await this.#stop();
    return result;
  }

  #goOn(): void {
    this.#state = "held";
    if (this.#last?.event === "lost") this.#lose(this.#last.error);
    else this.#question();
  }

  async #giveBack(): Promise<void> {
    if (this.signal.aborted) {
      this.#child.stdin.end(); // there is nothing to wait for
      throw this.signal.reason;
    }
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
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#late(), Math.min(this.#ttl + 5000, longest)); // the command gives up after the ttl
    return this.#ended;
  }

  #hear(e: Envelope): void {
    this.#last = e;
    if (e.event === "held" && this.#asked !== undefined) {
      const asked = this.#asked;
      this.#asked = undefined;
      this.#trust(asked, leftOf(e));
    } else if (e.event === "lost" && this.#state === "held") this.#lose(e.error);
  }

  /** Asks how long the lease may be trusted. */
  #question(): void {
    if (this.#asked !== undefined) return;
    this.#asked = performance.now();
    this.#child.stdin.write("\n");
  }

  /** Counts from the question, not from the answer: that errs to the safe side. */
  #trust(asked: number, left: number): void {
    if (this.#state !== "held") return;
    const rest = Math.max(0, asked + left - performance.now());
    clearTimeout(this.#deadline);
    clearTimeout(this.#ask);
    this.#deadline = setTimeout(() => this.#late(), Math.min(rest, longest)).unref();
    this.#ask = setTimeout(() => this.#question(), Math.min(rest / 3, longest)).unref();
  }

  #late(): void {
    if (this.#state === "ending" && !this.#release) return; // its commit tells
    this.#lose({ message: unanswered });
    this.#child.kill("SIGKILL"); // a release that it might send once it wakes up is nobody's wish any more
  }

  #over(end: Ending): void {
    clearTimeout(this.#deadline);
    clearTimeout(this.#ask);
    if (this.#state === "held") this.#lose({ message: `the process that kept the lease has ended${end.code === null ? "" : ` with code ${end.code}`}` });
  }

  #lose(why: Partial<Refusal> | undefined): TaskLockError {
    if (!this.signal.aborted && this.#state !== "released") {
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

function leftOf(e: Envelope): number {
  return Number((e.data as { leftSeconds?: number } | undefined)?.leftSeconds ?? 0) * 1000;
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
  /** By the steady clock: before the process was started, and how long from then on the lease may be trusted. */
  called: number;
  left: number;
  /** A question that is still open was asked then. */
  asked: number | undefined;
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
  const called = performance.now();
  const child = start(options, verb, ["--attach", "--independent", ...flags, ...holdFlags(o)], names);
  const watch = new Watch(child, patience(o.ttl));
  let on: (e: Envelope) => void = () => {};
  let abort = (): void => {};
  const early: Envelope[] = [];
  const first = new Promise<Envelope | undefined>((resolve) => {
    on = (e) => {
      if (e.event === "waiting") return watch.answered();
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
    const e = await Promise.race([first, watch.stopped, ended.then(() => undefined)]);
    if (o.signal?.aborted) {
      await ended;
      throw o.signal.reason;
    }
    if (e?.event !== "acquired") throw failure(options, await ended, e);
    return {
      child, ended, options, data: e.data, grant: grantOf(e.data), called, left: leftOf(e), asked: watch.asked,
      hear(listener) {
        on = listener;
        early.splice(0).forEach(listener);
      },
    };
  } finally {
    watch.end();
    o.signal?.removeEventListener("abort", abort);
  }
}

/** Ends a process that does not answer for its ttl while it is waited for: it was stopped. */
class Watch {
  asked: number | undefined;
  /** Rejects then, and never resolves. */
  readonly stopped: Promise<never>;
  #stop!: (why: Error) => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(readonly child: ChildProcessWithoutNullStreams, readonly ttl: number) {
    this.stopped = new Promise((_, reject) => (this.#stop = reject));
    this.#question();
  }

  /** The next question comes after a third of the ttl. */
  answered(): void {
    this.asked = undefined;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#question(), Math.min(this.ttl / 3, longest));
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #question(): void {
    this.asked = performance.now();
    this.child.stdin.write("\n");
    this.#timer = setTimeout(() => {
      this.child.kill("SIGKILL"); // with it goes what it may have acquired
      this.#stop(new LeaseLostError({ code: "LEASE_LOST", exitCode: 7, message: unanswered }));
    }, Math.min(this.ttl, longest));
  }
}

/** How long a process may be silent before it has acquired: the ttl, a second at least to start, and time to refuse one that is too short. */
function patience(ttl: Duration | undefined): number {
  const ms = milliseconds(ttl ?? defaultTTL);
  return ms >= 100 ? Math.max(ms, 1000) : defaultTTL;
}

function holdFlags(o: HoldOptions): string[] {
  const flags: string[] = [];
  if (o.ttl !== undefined) flags.push(`--ttl=${duration("ttl", o.ttl)}`);
  if (o.maxHold !== undefined) flags.push(`--max-hold=${duration("maxHold", o.maxHold)}`);
  if (o.slots !== undefined) flags.push(`--slots=${o.slots}`);
  if (o.take !== undefined) flags.push(`--take=${o.take}`);
  if (o.reason !== undefined) flags.push(`--reason=${o.reason}`);
  if (o.worktree !== undefined) flags.push(`--worktree=${o.worktree}`);
  return flags;
}
