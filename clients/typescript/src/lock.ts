import { AsyncLocalStorage } from "node:async_hooks";
import { call, duration, invalid, type CommandOptions } from "./command.js";
import { TaskLockedError } from "./errors.js";
import { hold, Holder, type Grant, type Held, type HoldOptions } from "./holder.js";

/** The holder whose work this is: what it holds is used, not waited for. */
const holders = new AsyncLocalStorage<string>();

/** A lease on one key: a task, or section:NAME, job:NAME, path:PATTERN, pool:NAME. */
export class TaskLock extends Holder {
  readonly key: string;

  private constructor(h: Held, key: string) {
    super(h);
    this.key = key.normalize("NFC");
  }

  /** Token of the key: larger at every later grant. */
  override get token(): number {
    return this.tokens.get(this.key) ?? super.token;
  }

  /** Waits for the key, 30 minutes unless told otherwise, and holds it until it is released. */
  static async acquire(key: string, options: HoldOptions = {}): Promise<TaskLock> {
    return new TaskLock(await take([key], options, waitFlag(options)), key);
  }

  /** Takes the key, or answers null at once if someone else holds it. */
  static async tryAcquire(key: string, options: Omit<HoldOptions, "wait"> = {}): Promise<TaskLock | null> {
    return orNull(async () => new TaskLock(await take([key], options, "--no-wait"), key));
  }

  /** Whether someone holds the key; of a pool, whether no slot is free. That may be over as soon as it is told. */
  static async isLocked(key: string, options: CommandOptions = {}): Promise<boolean> {
    const data = await call<{ locked: boolean }>(options, ["check"], [], [key], [0, 1]);
    return data.locked;
  }
}

/** One lease on several keys: all of them or none. Their order makes no difference. */
export class TaskLockBatch extends Holder {
  private constructor(h: Held) {
    super(h);
  }

  /** Waits for all keys. Two batches never wait for each other. */
  static async acquire(keys: Iterable<string>, options: HoldOptions = {}): Promise<TaskLockBatch> {
    return new TaskLockBatch(await take(distinct(keys), options, waitFlag(options)));
  }

  /** Takes all keys, or answers null at once if one is held by someone else. */
  static async tryAcquire(keys: Iterable<string>, options: Omit<HoldOptions, "wait"> = {}): Promise<TaskLockBatch | null> {
    return orNull(async () => new TaskLockBatch(await take(distinct(keys), options, "--no-wait")));
  }
}

/**
 * Runs work while the key is held, and gives it back when it returns or throws.
 * Within work, the same key may be acquired again. If the lease was lost
 * meanwhile it rejects, also if work did not notice.
 */
export async function withTaskLock<T>(key: string | string[], work: (lock: Holder) => T | Promise<T>, options: HoldOptions = {}): Promise<T> {
  const lock = typeof key === "string" ? await TaskLock.acquire(key, options) : await TaskLockBatch.acquire(key, options);
  let result: T;
  try {
    result = await holders.run(lock.owner, () => work(lock));
  } catch (e) {
    await lock.release().catch(() => {}); // what work threw says more
    throw e;
  }
  await lock.release();
  return result;
}

function take(keys: string[], o: HoldOptions, wait: string): Promise<Held> {
  const owner = o.owner ?? holders.getStore();
  return hold(owner === undefined ? o : { ...o, owner }, ["acquire"], [wait], keys, (data: Grant) => data);
}

export function waitFlag(o: HoldOptions): string {
  return `--wait=${duration("wait", o.wait ?? "30m")}`;
}

function distinct(keys: Iterable<string>): string[] {
  const list = [...new Set(keys)].sort();
  if (list.length === 0) throw invalid("a batch needs at least one key");
  return list;
}

export async function orNull<T>(attempt: () => Promise<T>): Promise<T | null> {
  try {
    return await attempt();
  } catch (e) {
    if (e instanceof TaskLockedError) return null;
    throw e;
  }
}
