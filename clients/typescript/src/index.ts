/**
 * tasklock for Node: leases on keys and tasks, held through the tasklock command.
 *
 *     await using lock = await TaskLock.acquire("deploy");
 *     await deploy({ signal: lock.signal, fence: lock.token });
 *
 * @packageDocumentation
 */
import "./dispose.js";

export type { CommandOptions, Duration } from "./command.js";
export * from "./errors.js";
export { Holder, type Grant, type HoldOptions } from "./holder.js";
export { TaskLock, TaskLockBatch, withTaskLock } from "./lock.js";
export {
  claimTask, completeTask, nextTask, resetTask, TaskClaim,
  type NextOptions, type Outcome, type ResetOptions, type Task,
} from "./tasks.js";
