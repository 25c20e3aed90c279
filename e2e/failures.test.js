// A deployment that fails again and again, and what the pages make of it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, begin, end, onlyExpected, root, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
let deployment;
const go = (path) => page.goto(server.origin + path);
const ATTEMPTS = 4;

before(async () => {
  ({ browser, page } = await begin(server, server.start()));
  server.cli("app", "import", join(root, "samples/line-monitor/1.0.0"));
  server.device("press-01", '[[rule]]\ncomponent = "line-monitor-stack"\nfail = "always"\nmessage = "image not found"\n');
  await until("the device has joined", async () => (await server.api("devices")).items.length === 1);
  const scope = { devices: [{ client: "press-01", device: "press-01" }] };
  await server.api("deployments", "POST", { kind: "create", application: "line-monitor", version: "1.0.0", scope, values: { lineName: "Press 7" } });
  await until("it has failed several times", async () => {
    [deployment] = (await server.api("deployments")).items;
    return (deployment?.failing?.attempts ?? 0) >= ATTEMPTS;
  });
});
after(async () => {
  await end(server, browser);
});

test("retries are counted with since-when, and are no further failures", async () => {
  const { items } = await server.api("events?kind=deployment.failed");
  assert.equal(items.length, 1, "one event for all attempts");
  const since = Date.parse(deployment.failing.since);
  assert.ok(Math.abs(since - Date.parse(items[0].at)) < 1000 && since < Date.parse(deployment.failing.lastAt));
  await go("/");
  await page.getByRole("img", { name: /installed, 1 failed/ }).waitFor();
  for (const path of ["/", "/deployments", "/devices/press-01/press-01", `/deployments/${deployment.id}`, "/events"]) {
    await go(path);
    const times = page.getByRole("main").locator(":has(> time)").filter({ hasText: /since .*, [0-9]+ attempts, last / });
    await times.first().waitFor();
    const shown = await times.first().locator("time").first().getAttribute("datetime");
    assert.equal(Date.parse(shown), since, path);
  }
  await wellMade(page, "events with a deployment that fails");
});

test("an event names its subject once and says which label was set", async () => {
  server.cli("device", "label", "press-01", "line=7");
  await go("/events?kind=device");
  const entry = page.getByRole("main").getByRole("listitem").filter({ hasText: "line=7" });
  await entry.waitFor();
  assert.equal((await entry.innerText()).match(/press-01/g).length, 1);
});

test("a package with a version that has no order is imported with a warning", async () => {
  const folder = mkdtempSync(join(server.folder, "package-"));
  cpSync(join(root, "samples/line-monitor/1.0.0"), folder, { recursive: true });
  const file = join(folder, "margo.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace(/version: "?1\.0\.0"?/, 'version: "not-a-version"'));
  const archive = join(server.folder, "odd.tar.gz");
  execFileSync("tar", ["-czf", archive, "-C", folder, "."]);
  await go("/catalog/add");
  await page.getByLabel("Package archive").setInputFiles(archive);
  await page.getByRole("button", { name: "Upload" }).click();
  await page.getByText("metadata.version").first().waitFor();
  const { version } = await server.api("applications/line-monitor/versions/not-a-version");
  assert.equal(version, "not-a-version", "it is in the catalog");
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page);
});
