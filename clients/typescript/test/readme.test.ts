// Every example of the README is run, each in a folder of its own.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import ts from "typescript";
import { scratch, tasklock } from "./helper.js";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const library = new URL("../src/index.js", import.meta.url).href;
const examples = [...readme.matchAll(/```ts\n(.*?)```/gs)].map((m) => m[1]!);

test("the README has examples", () => assert.ok(examples.length >= 3));

for (const [i, example] of examples.entries()) {
  test(`example ${i + 1} of the README`, async () => {
    const o = scratch();
    await tasklock(o, "tasks", "add", "Parse tokens", "Print the tree", "--section", "Core");
    const program = join(o.cwd, "example.mjs");
    const { outputText } = ts.transpileModule(example, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } });
    writeFileSync(program, outputText.replace(`"tasklock"`, JSON.stringify(library)));
    const env = { ...process.env, TASKLOCK_STORE: o.store, TASKLOCK_OWNER: "reader" };
    await new Promise<void>((resolve, reject) => {
      execFile(process.execPath, [program], { cwd: o.cwd, env }, (err, _, stderr) => (err ? reject(new Error(stderr)) : resolve()));
    });
    assert.deepEqual((await tasklock(o, "list")).locks, [], "nothing is left behind");
  });
}
