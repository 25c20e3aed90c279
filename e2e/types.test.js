// The scripts of the pages mean what their types say. No build needs this; they are sent to browsers as they are.
import { spawnSync } from "node:child_process";
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "./support/margrave.js";

test("the scripts of the pages are typed without contradiction", () => {
  const { status, stdout, stderr } = spawnSync(join(root, "e2e/node_modules/.bin/tsc"), ["--project", join(root, "e2e")], { encoding: "utf8" });
  assert.equal(status, 0, stdout + stderr);
});
