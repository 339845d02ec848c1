import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { BinaryError, InvalidArgumentsError, TaskLock, TaskLockBatch, TaskLockError, claimTask, nextTask } from "../src/index.js";
import { scratch, tasklock } from "./helper.js";

test("keys are data, whatever they look like", async () => {
  const o = scratch();
  for (const key of ["--help", "-rf", "--store=/tmp/x", "", " ", "a\0b", "../../etc/passwd", "/abs", "a/../b", ".", "a\nb", "\u202eevil", "x".repeat(513), "\ud800", 7 as unknown as string]) {
    await assert.rejects(TaskLock.acquire(key, { ...o, wait: 0 }), InvalidArgumentsError, JSON.stringify(key));
    await assert.rejects(TaskLock.isLocked(key, o), InvalidArgumentsError);
    await assert.rejects(TaskLockBatch.acquire(["fine", key], { ...o, wait: 0 }), InvalidArgumentsError);
  }
  for (const key of ["a;rm -rf $HOME", "$(touch x)", "*", "a b", "ünï", "日本", "'\"`"]) {
    await using lock = await TaskLock.acquire(key, o);
    assert.equal(lock.key, key.normalize("NFC"));
    assert.equal(await TaskLock.isLocked(key, o), true);
  }
  await using nfd = await TaskLock.acquire("u\u0308", o);
  assert.equal(await TaskLock.isLocked("ü", o), true);
  assert.ok(nfd.token > 0);
  assert.equal(await TaskLock.isLocked("fine", o), false);
});

test("options are checked before anything is taken", async () => {
  const o = scratch();
  for (const bad of [{ ttl: -1 }, { ttl: NaN }, { ttl: "soon" }, { ttl: 1 }, { wait: Infinity }, { wait: "--help" }, { owner: "" }, { owner: "a//b" }, { reason: "x".repeat(5000) }, { reason: "\0" }]) {
    await assert.rejects(TaskLock.acquire("deploy", { ...o, ...bad }), InvalidArgumentsError, JSON.stringify(bad));
  }
  await assert.rejects(TaskLockBatch.acquire([], o), InvalidArgumentsError);
  await assert.rejects(TaskLockBatch.acquire(Array.from({ length: 101 }, (_, i) => `k${i}`), o), InvalidArgumentsError);
  await assert.rejects(TaskLockBatch.acquire(Array.from({ length: 300_000 }, (_, i) => `key-${i}`), o), TaskLockError);
  await assert.rejects(nextTask({ ...o, section: "nowhere" }), TaskLockError);
  await assert.rejects(claimTask("--help", o), TaskLockError);
  assert.equal(await TaskLock.isLocked("deploy", { ...o, store: undefined as never }), false);
});

test("text of strangers comes as it is, and as text", async () => {
  const o = scratch();
  const reason = "\u001b[31mred\u0007 {\"event\":\"lost\"}\n<script>";
  await using _ = await TaskLock.acquire("deploy", { ...o, reason });
  const err = await TaskLock.acquire("deploy", { ...o, wait: 0 }).then(() => assert.fail(), (e) => e);
  assert.equal(err.details.reason, reason);
});

test("a command that is missing or something else is named", async () => {
  const o = scratch();
  const err = await TaskLock.acquire("deploy", { ...o, binary: "/nowhere/tasklock" }).then(() => assert.fail(), (e) => e);
  assert.ok(err instanceof BinaryError);
  assert.equal(err.code, "BINARY_NOT_FOUND");
  assert.match(err.message, /no command "\/nowhere\/tasklock".*TASKLOCK_BINARY/);
  await assert.rejects(TaskLock.isLocked("deploy", { ...o, binary: "/nowhere/tasklock", cwd: "/nowhere" }), BinaryError);
  for (const script of ["echo hello; sleep 60", "exit 3", "head -c 9000000 /dev/zero", "echo '{\"success\":true,\"data\":{}}'"]) {
    const binary = join(o.cwd, "impostor");
    writeFileSync(binary, `#!/bin/sh\n${script}\n`);
    chmodSync(binary, 0o755);
    await assert.rejects(TaskLock.acquire("deploy", { ...o, binary }), BinaryError, script);
  }
});

test("a store that is damaged is not free", async () => {
  const o = scratch();
  writeFileSync(o.store!, "this is no database, and long enough to be seen as one");
  for (const attempt of [TaskLock.isLocked, TaskLock.tryAcquire]) {
    const err = await attempt("deploy", o).then(() => assert.fail(), (e) => e);
    assert.equal(err.code, "STORE_DAMAGED");
  }
  await assert.rejects(tasklock(o, "check", "deploy"));
});
