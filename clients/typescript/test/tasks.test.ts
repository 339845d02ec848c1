import assert from "node:assert/strict";
import { test } from "node:test";
import {
  claimTask, completeTask, InvalidStateError, LeaseLostError, nextTask, NotFoundError, resetTask, TaskLock, TaskLockedError,
} from "../src/index.js";
import { aborted, scratch, tasklock } from "./helper.js";

test("a claim is lock, section and status in one; completing it is final", async () => {
  const o = scratch();
  await tasklock(o, "tasks", "add", "Parse tokens", "Print the tree", "--section", "Core");
  await using claim = await claimTask("Parse tokens", o);
  assert.equal(claim.task.id, "t1");
  assert.equal(claim.task.status, "in_progress");
  assert.deepEqual(claim.keys, ["section:Core", "t1"]);
  await assert.rejects(claimTask("t1", { ...o, wait: 0 }), TaskLockedError);
  const closed = await claimTask("t2", { ...o, owner: "bob", wait: 0 }).then(() => assert.fail(), (e) => e);
  assert.equal(closed.code, "SECTION_LOCKED");
  const done = await claim.complete({ summary: "with tests", commits: ["4f2a1c0"], tests: ["TestParse"] });
  assert.equal(done.status, "completed");
  assert.deepEqual(done.result, { summary: "with tests", commits: ["4f2a1c0"], tests: ["TestParse"] });
  assert.equal(claim.signal.aborted, false, "what one gives up oneself is no loss");
  assert.equal(claim.held, false);
  assert.equal(await TaskLock.isLocked("t1", o), false);
  const again = await completeTask("t1", claim.token, {}, o);
  assert.equal(again.status, "completed");
  await assert.rejects(claimTask("t1", o), InvalidStateError);
  await assert.rejects(claimTask("no such task", o), NotFoundError);
});

test("a claim that ends without a word makes the task pending again", async () => {
  const o = scratch();
  await tasklock(o, "tasks", "add", "Fix bug");
  {
    await using claim = await claimTask("Fix bug", o);
    assert.ok(claim.held);
  }
  assert.equal((await tasklock(o, "tasks", "show", "t1")).task.status, "pending");
  await using claim = await claimTask("Fix bug", o);
  await claim.fail("the API is gone");
  assert.equal((await tasklock(o, "tasks", "show", "t1")).task.status, "failed");
});

test("next gives each worker another task, and null when nothing is left", async () => {
  const o = scratch();
  await tasklock(o, "tasks", "add", "a", "b", "c");
  const claims = await Promise.all([1, 2, 3, 4].map((n) => nextTask({ ...o, owner: `w${n}` })));
  assert.deepEqual(claims.map((c) => c?.task.id ?? "none").sort(), ["none", "t1", "t2", "t3"]);
  for (const c of claims) await c?.complete();
  assert.equal(await nextTask(o), null);
  const waiting = nextTask({ ...o, wait: "30s" });
  await tasklock(o, "tasks", "add", "d");
  await using claim = await waiting;
  assert.equal(claim?.task.title, "d");
});

test("reset refuses what someone works on; forced, their reports are refused", async () => {
  const o = scratch();
  await tasklock(o, "tasks", "add", "base");
  await tasklock(o, "tasks", "add", "on top", "--depends-on", "base");
  await completeTask("t1", (await claimTask("t1", o)).token, {}, o);
  const claim = await claimTask("t2", o);
  const busy = await resetTask("t1", { ...o, owner: "bob", cascade: true }).then(() => assert.fail(), (e) => e);
  assert.ok(busy instanceof TaskLockedError);
  const reset = await resetTask("t1", { ...o, owner: "bob", cascade: true, force: true, reason: "the schema changed" });
  assert.deepEqual(reset.map((t) => [t.id, t.status]), [["t1", "pending"], ["t2", "pending"]]);
  await aborted(claim.signal);
  await assert.rejects(claim.complete(), LeaseLostError);
  await assert.rejects(claim.release(), LeaseLostError);
  assert.equal((await tasklock(o, "tasks", "show", "t2")).task.status, "pending");
});
