// What takes its time: these run beside the others.
import assert from "node:assert/strict";
import { test } from "node:test";
import { LeaseLostError, TaskLock, TaskLockedError } from "../src/index.js";
import { aborted, scratch, tasklock } from "./helper.js";

test("the keeper of a lock may be stopped or killed: the holder stops trusting it", async () => {
  const o = scratch();
  for (const signal of ["SIGSTOP", "SIGKILL"] as const) {
    const lock = await TaskLock.acquire("deploy", { ...o, ttl: signal === "SIGSTOP" ? "3s" : "10m" });
    process.kill((await tasklock(o, "show", "deploy")).lock.pid, signal);
    await aborted(lock.signal);
    assert.ok(lock.signal.reason instanceof LeaseLostError);
    await using _ = await TaskLock.acquire("deploy", { ...o, owner: "bob", wait: "30s" });
    await assert.rejects(lock.release(), LeaseLostError);
  }
});

test("a lock outlives its ttl for as long as it is held", async () => {
  const o = scratch();
  await using lock = await TaskLock.acquire("deploy", { ...o, ttl: 6000 });
  await assert.rejects(TaskLock.acquire("deploy", { ...o, owner: "bob", wait: 8000 }), TaskLockedError);
  assert.ok(lock.held);
});
