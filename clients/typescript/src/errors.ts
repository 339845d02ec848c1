/** What the command answers instead of data. */
export interface Refusal {
  code: string;
  message: string;
  details?: Record<string, unknown>;
  /** The command line that helps. */
  next?: string;
  exitCode?: number;
}

/**
 * An answer of tasklock that is no success. Tell them apart by class, or by
 * `code`, which is the command's own: the message is for people.
 */
export class TaskLockError extends Error {
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly next: string | undefined;
  readonly exitCode: number | undefined;

  constructor(r: Refusal) {
    super(r.message);
    this.name = new.target.name;
    this.code = r.code;
    this.details = r.details ?? {};
    this.next = r.next;
    this.exitCode = r.exitCode;
  }
}

/** Someone else holds a key, or waits for it longer. */
export class TaskLockedError extends TaskLockError {
  /** The key that is in the way. */
  get key(): string {
    return text(this.details["key"]) ?? "";
  }
  /** Who holds it; undefined: nobody does, but others wait for it. */
  get holder(): string | undefined {
    return text(this.details["lockedBy"]) || undefined;
  }
  /** When the lease ends unless it is renewed. */
  get expiresAt(): Date | undefined {
    const at = text(this.details["expiresAt"]);
    return at ? new Date(at) : undefined;
  }
  /** How many wait for it. */
  get ahead(): number {
    return Number(this.details["ahead"] ?? 0);
  }
}

/** Waiting would never end: everyone in a circle waits for the next. */
export class DeadlockError extends TaskLockError {}

/** The lease is not ours any more, or the token is old. Nothing was changed. */
export class LeaseLostError extends TaskLockError {}

/** A key, an option or a title that cannot be. */
export class InvalidArgumentsError extends TaskLockError {}

/** No such task, section or lock. */
export class NotFoundError extends TaskLockError {}

/** Only the holder may do that. */
export class PermissionDeniedError extends TaskLockError {}

/** The state does not allow it: a task waits for others or is completed, a pool has another size. */
export class InvalidStateError extends TaskLockError {}

/** The store cannot be reached, or did not say what became of the request. */
export class StoreUnavailableError extends TaskLockError {}

/** The tasklock command is not there, or is no tasklock. */
export class BinaryError extends TaskLockError {}

type Kind = new (r: Refusal) => TaskLockError;

const kinds: Record<string, Kind> = {
  DEADLOCK: DeadlockError,
  LEASE_LOST: LeaseLostError,
  NOT_HELD: LeaseLostError,
  INVALID_ARGUMENTS: InvalidArgumentsError,
  AMBIGUOUS: InvalidArgumentsError,
  PERMISSION_DENIED: PermissionDeniedError,
  INVALID_STATE: InvalidStateError,
  IN_USE: InvalidStateError,
  POOL_SIZE: InvalidStateError,
  POOL_UNKNOWN: InvalidStateError,
  POOL_IN_USE: InvalidStateError,
  DEPENDENCY_CYCLE: InvalidStateError,
  STORE_UNREACHABLE: StoreUnavailableError,
  OUTCOME_UNKNOWN: StoreUnavailableError,
};

/** The error of the class that belongs to the code. */
export function refused(r: Refusal): TaskLockError {
  let kind = kinds[r.code];
  if (!kind && r.code.endsWith("_LOCKED")) kind = TaskLockedError;
  if (!kind && r.code.endsWith("_NOT_FOUND")) kind = NotFoundError;
  return new (kind ?? TaskLockError)(r);
}

function text(v: unknown): string | undefined {
  return typeof v === "string" ? v : undefined;
}
