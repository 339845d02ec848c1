// Adds one to the number in a file, over and over, without any care but the lock.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TaskLock } from "../src/index.js";

const [cwd = "", rounds = "0"] = process.argv.slice(2);
let last = 0;
for (let i = 0; i < Number(rounds); i++) {
  await using lock = await TaskLock.acquire("counter", { cwd, store: join(cwd, "store.db"), wait: "60s" });
  const n = Number(readFileSync(join(cwd, "counter"), "utf8"));
  await new Promise((resolve) => setImmediate(resolve));
  writeFileSync(join(cwd, "counter"), String(n + 1));
  if (lock.token <= last) throw new Error(`token ${lock.token} after ${last}`);
  last = lock.token;
}
