import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { InvalidStateError, LeaseLostError, TaskLock, TaskLockBatch, TaskLockedError, withTaskLock } from "../src/index.js";
import { aborted, Program, scratch, tasklock } from "./helper.js";

test("a lock is held until its scope ends", async () => {
  const o = scratch();
  let token: number;
  {
    await using lock = await TaskLock.acquire("deploy", { ...o, reason: "release 1.4" });
    token = lock.token;
    assert.equal(lock.key, "deploy");
    assert.match(lock.owner, /^alice\/\w+$/);
    assert.equal(lock.tokens.get("deploy"), token);
    assert.ok(lock.held && !lock.signal.aborted);
    assert.equal(await TaskLock.isLocked("deploy", o), true);
    assert.equal((await tasklock(o, "show", "deploy")).lock.reason, "release 1.4");
    await tasklock(o, "check", "deploy", "--token", String(token));
  }
  assert.equal(await TaskLock.isLocked("deploy", o), false);
  await using next = await TaskLock.acquire("deploy", o);
  assert.ok(next.token > token, "tokens only rise");
});

test("a lock is released when its scope throws", async () => {
  const o = scratch();
  await assert.rejects(async () => {
    await using _ = await TaskLock.acquire("deploy", o);
    throw new Error("something went wrong");
  }, /something went wrong/);
  assert.equal(await TaskLock.isLocked("deploy", o), false);
  await assert.rejects(withTaskLock("deploy", () => { throw new Error("again"); }, o), /again/);
  assert.equal(await TaskLock.isLocked("deploy", o), false);
});

test("withTaskLock returns what its work returns, and may be nested", async () => {
  const o = scratch();
  const sum = await withTaskLock("deploy", async (lock) => {
    assert.equal(await TaskLock.tryAcquire("deploy", o), null, "options that name an owner are somebody else");
    const { owner: _, ...same } = o;
    const inner = await withTaskLock(["deploy", "build"], async (batch) => batch.keys, { ...same, wait: 0 });
    assert.deepEqual(inner, ["build", "deploy"]);
    assert.equal(await TaskLock.isLocked("deploy", o), true, "the inner one does not open the door behind the outer");
    return lock.token + 1;
  }, o);
  assert.ok(sum > 1);
  assert.equal(await TaskLock.isLocked("deploy", o), false);
});

test("tryAcquire answers null when busy; acquire tells who holds it", async () => {
  const o = scratch();
  await using lock = await TaskLock.acquire("deploy", o);
  assert.equal(await TaskLock.tryAcquire("deploy", o), null);
  assert.equal(await TaskLockBatch.tryAcquire(["other", "deploy"], o), null);
  assert.equal(await TaskLock.isLocked("other", o), false, "a batch is all or nothing");
  const err = await TaskLock.acquire("deploy", { ...o, wait: 50 }).then(() => assert.fail(), (e) => e);
  assert.ok(err instanceof TaskLockedError);
  assert.equal(err.code, "TASK_LOCKED");
  assert.equal(err.key, "deploy");
  assert.equal(err.holder, lock.owner);
  assert.equal(err.exitCode, 6);
  assert.ok(err.expiresAt && err.expiresAt.getTime() > Date.now());
  assert.match(err.next ?? "", /^tasklock acquire deploy /);
  await lock.release();
  await using second = await TaskLock.tryAcquire("deploy", o);
  assert.ok(second);
});

test("releasing twice is releasing once", async () => {
  const o = scratch();
  const lock = await TaskLock.acquire("deploy", o);
  await Promise.all([lock.release(), lock.release()]);
  await using other = await TaskLock.acquire("deploy", { ...o, owner: "bob" });
  await lock.release();
  await lock[Symbol.asyncDispose]();
  assert.equal(lock.held, false);
  assert.equal(await TaskLock.isLocked("deploy", o), true, "the second release must not free what bob holds");
  assert.equal(other.signal.aborted, false);
});

test("a batch is sorted and has each key once; opposite orders do not wait for each other", async () => {
  const o = scratch();
  {
    await using batch = await TaskLockBatch.acquire(["b", "a", "b", "section:Core"], o);
    assert.deepEqual(batch.keys, ["a", "b", "section:Core"]);
    assert.equal(batch.token, Math.max(...batch.tokens.values()));
    assert.equal(await TaskLock.tryAcquire("a", o), null);
  }
  let most = 0;
  let now = 0;
  const one = (keys: string[]) => withTaskLock(keys, async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
  }, { ...o, wait: "60s" });
  await Promise.all(Array.from({ length: 6 }, (_, i) => one(i % 2 ? ["x", "y", "z"] : ["z", "y", "x"])));
  assert.equal(most, 1);
});

test("a lock that is broken aborts the signal, and its release says so", async () => {
  const o = scratch();
  const lock = await TaskLock.acquire("deploy", o);
  await tasklock(o, "break", "deploy", "--reason", "test");
  await aborted(lock.signal);
  assert.ok(lock.signal.reason instanceof LeaseLostError);
  assert.equal(lock.held, false);
  await using other = await TaskLock.acquire("deploy", { ...o, owner: "bob" });
  await assert.rejects(lock.release(), LeaseLostError);
  await assert.rejects(lock.release(), LeaseLostError);
  assert.equal(await TaskLock.isLocked("deploy", o), true);
  assert.ok(other.held);
  await assert.rejects(withTaskLock("build", () => tasklock(o, "break", "build", "--reason", "test"), o), LeaseLostError);
});

test("a pool lets as many in as it has slots", async () => {
  const o = scratch();
  const first = await TaskLock.acquire("pool:tests", { ...o, slots: 2 });
  await using second = await TaskLock.acquire("pool:tests", o);
  assert.deepEqual([...first.slots, ...second.slots].sort(), [1, 2]);
  assert.ok(first.token > 0 && first.token !== second.token);
  assert.equal(await TaskLock.isLocked("pool:tests", o), true);
  assert.equal(await TaskLock.tryAcquire("pool:tests", o), null);
  const full: TaskLockedError = await TaskLock.acquire("pool:tests", { ...o, wait: 0 }).then(() => assert.fail("granted"), (e) => e);
  assert.equal(full.code, "POOL_LOCKED");
  await assert.rejects(TaskLock.acquire("pool:tests", { ...o, slots: 3 }), InvalidStateError);
  await first.release();
  await second.release();
  {
    await using all = await TaskLock.acquire("pool:tests", { ...o, take: "all" });
    assert.deepEqual(all.slots, [1, 2]);
    assert.equal(await TaskLock.tryAcquire("pool:tests", o), null);
  }
  await using batch = await TaskLockBatch.acquire(["pool:tests", "deploy"], { ...o, take: 2 });
  assert.deepEqual(batch.slots, [1, 2]);
  await using other = await TaskLock.acquire("build", o);
  assert.deepEqual(other.slots, []);
});

test("waiting can be given up", async () => {
  const o = scratch();
  await using _ = await TaskLock.acquire("deploy", o);
  const cancel = new AbortController();
  const wait = TaskLock.acquire("deploy", { ...o, owner: "bob", signal: cancel.signal });
  while ((await tasklock(o, "show", "deploy")).waiters.length === 0);
  cancel.abort(new Error("never mind"));
  await assert.rejects(wait, /never mind/);
  assert.deepEqual((await tasklock(o, "show", "deploy")).waiters, []);
  await assert.rejects(TaskLock.acquire("deploy", { ...o, signal: cancel.signal }), /never mind/);
  const late = new AbortController();
  await using lock = await TaskLock.acquire("build", { ...o, signal: late.signal });
  late.abort();
  assert.ok(lock.held, "what was acquired stays");
});

test("eight processes count without losing one", async () => {
  const o = scratch();
  const rounds = 10;
  writeFileSync(join(o.cwd, "counter"), "0");
  const workers = Array.from({ length: 8 }, () => new Program("worker.js", o.cwd, String(rounds)));
  assert.deepEqual(await Promise.all(workers.map((w) => w.ended)), workers.map(() => 0));
  assert.equal(readFileSync(join(o.cwd, "counter"), "utf8"), String(8 * rounds));
});

test("a killed client frees what it held at once, and one that has nothing to do may end", async () => {
  const o = scratch();
  await tasklock(o, "tasks", "add", "Fix bug");
  const victim = new Program("victim.js", o.cwd, "forever");
  assert.equal(await victim.line(), "holding held and t1");
  assert.equal(await TaskLock.tryAcquire("held", o), null);
  victim.child.kill("SIGKILL");
  await using lock = await TaskLock.acquire("held", { ...o, wait: "30s" }); // its ttl would be five minutes
  assert.equal((await tasklock(o, "tasks", "show", "t1")).task.status, "pending");
  await lock.release();

  const forgetful = new Program("victim.js", o.cwd);
  assert.equal(await forgetful.line(), "holding held and t1");
  assert.equal(await forgetful.ended, 0, "holding keeps nobody from ending");
  await using _ = await TaskLock.acquire("held", { ...o, wait: "30s" });
});
