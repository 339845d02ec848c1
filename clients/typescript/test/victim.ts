// Holds a key and a task until it is killed, or has nothing left to do.
import { join } from "node:path";
import { nextTask, TaskLock } from "../src/index.js";

const [cwd = "", how = ""] = process.argv.slice(2);
const o = { cwd, store: join(cwd, "store.db") };
await TaskLock.acquire("held", o);
const claim = await nextTask(o);
console.log(`holding held and ${claim?.task.id}`);
if (how === "forever") setInterval(() => {}, 1000);
