// What takes its time: these run beside the others.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { LeaseLostError, TaskLock, TaskLockedError, type HoldOptions } from "../src/index.js";
import { aborted, binary, scratch, tasklock } from "./helper.js";

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

test("a lock outlives its ttl for as long as it is held, and a wait its own", async () => {
  const o = scratch();
  await using lock = await TaskLock.acquire("deploy", { ...o, ttl: 6000 });
  await assert.rejects(TaskLock.acquire("deploy", { ...o, owner: "bob", ttl: 6000, wait: 8000 }), TaskLockedError);
  assert.ok(lock.held);
});

test("a process that is stopped is noticed, whenever that was", async () => {
  const moments = ["start", "before waiting", "before acquired", "after acquired", "after held", "before released"];
  await Promise.all(moments.map(async (moment) => {
    const o = scratch();
    const other = moment === "before waiting" ? await TaskLock.acquire("deploy", { ...o, owner: "bob" }) : undefined;
    const reason = await loss(() => TaskLock.acquire("deploy", { ...o, ttl: "4s", binary: freezer(o, moment) }), moment === "before released");
    end(Number(readFileSync(join(o.cwd, "pid"), "utf8")));
    assert.ok(reason instanceof LeaseLostError, `${moment}: ${reason}`);
    await other?.release();
    await using _ = await TaskLock.acquire("deploy", { ...o, wait: "60s" });
  }));
});

/** Kill a process, unless it has ended: after "released" it may end before it is stopped. */
function end(pid: number) {
  try {
    process.kill(pid, "SIGKILL");
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code !== "ESRCH") throw e;
  }
}

/** Why a lock was lost, be it before or after we were told of it. */
async function loss(acquire: () => Promise<TaskLock>, unnoticed: boolean): Promise<unknown> {
  try {
    const lock = await acquire();
    if (!unnoticed) await aborted(lock.signal);
    await assert.rejects(lock.release(), LeaseLostError);
    assert.ok(lock.signal.aborted);
    return lock.signal.reason;
  } catch (e) {
    return e;
  }
}

/** A command that is stopped as soon as it has started, or when it prints that event, which is then passed on (after) or not (before). */
function freezer(o: HoldOptions & { cwd: string }, moment: string): string {
  const [when, event] = moment.split(" ");
  const file = join(o.cwd, "tasklock");
  writeFileSync(file, `#!/bin/sh
cd '${o.cwd}' && mkfifo lines && exec 3<&0
'${binary}' "$@" <&3 >lines 2>/dev/null &
echo $! >pid
[ ${when} = start ] && kill -STOP $!
while IFS= read -r line; do
	case $line in *'"event":"${event}"'*) [ ${when} = before ] || printf '%s\\n' "$line"; kill -STOP $!; exec sleep 600 ;; esac
	printf '%s\\n' "$line"
done <lines
`, { mode: 0o755 });
  return file;
}
