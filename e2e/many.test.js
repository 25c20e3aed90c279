// A large fleet: pages of devices, selecting all compatible ones, a review with counts, a cancelled rollout.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, byReason, end, launch, onlyExpected, open, root, signIn, until, wellMade } from "./support/margrave.js";

const DEVICES = 600;
const server = new Server();
let browser;
let page;
const go = (path) => page.goto(server.origin + path);

before(async () => {
  [browser] = await Promise.all([launch(), server.start()]);
  for (const version of ["1.0.0", "1.1.0"]) server.cli("app", "import", join(root, "samples/line-monitor", version));
  const fleet = server.spawn("margrave", "--data", server.folder, "sim", "--devices", String(DEVICES), "--poll", "30s", "--profile", "plant");
  await until("every device has joined", async () => {
    assert.equal(fleet.exitCode, null, "the simulator has ended");
    return (await server.api("summary")).devices >= DEVICES;
  }, 300);
  fleet.kill("SIGKILL");
  page = await open(browser);
  await signIn(page, server);
});
after(async () => {
  await end(server, browser);
});

/** An application with so many deployment profiles that checking the fleet takes far longer than a page waits. */
function manyWays(ways = 400) {
  const folder = join(server.folder, "many-ways");
  const profile = (number) => ({
    type: "compose", id: `way-${number}`,
    components: [{ name: "part", properties: { repository: "oci://registry.margrave.example/compose/part", revision: "1.0.0" } }],
    deviceConstraints: { capacityRequirements: { cpu: { cores: 1, architectures: ["amd64"] }, memory: `${number + 1}Gi` } },
  });
  mkdirSync(folder);
  // JSON is YAML as well.
  writeFileSync(join(folder, "margo.yaml"), JSON.stringify({
    apiVersion: "v1", id: "many-ways",
    metadata: { name: "Many Ways", version: "1.0.0", catalog: { organization: [{ name: "Margrave Samples" }] } },
    deploymentProfiles: Array.from({ length: ways }, (_, number) => profile(number)),
  }));
  server.cli("app", "import", folder);
}

test("the compatibility check continues until every device is checked", async () => {
  manyWays();
  const alone = await open(browser);
  // This page gets no live updates: it has to poll.
  await alone.addInitScript(() => { window.EventSource = class extends EventTarget { close() {} }; });
  await signIn(alone, server);
  await alone.goto(`${server.origin}/catalog/many-ways`);
  await alone.getByRole("link", { name: "Compatibility" }).click();
  await byReason(alone, "in-progress").waitFor();
  await alone.evaluate(() => { window.same = true; });
  const far = async () => {
    const text = await alone.getByText(/^Of (the first \d+ of )?\d+ devices, \d+ can run the newest version/).innerText();
    return Number(text.match(/\d+/)[0]);
  };
  const first = await far();
  assert.ok(first < DEVICES, `${first} devices were checked at once: give the application more profiles`);
  await until("the check continues", async () => (await far()) > first);
  await until("every device is checked", async () => (await far()) === DEVICES, 120);
  await byReason(alone, "in-progress").waitFor({ state: "detached" });
  assert.equal(await alone.evaluate(() => window.same), true, "the page was not reloaded");
  assert.equal(await alone.locator("[data-every]").count(), 0, "polling has stopped");
  onlyExpected(alone);
  await alone.context().close();
});

async function chooseAll() {
  await go("/catalog/line-monitor?version=1.0.0");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByLabel("1.0.0").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText(`${DEVICES} devices match. Incompatible devices are skipped`).waitFor();
}

test("devices are paged, and the selection is kept across pages", async () => {
  await chooseAll();
  const first = page.getByRole("row").filter({ has: page.getByRole("rowheader") }).filter({ has: page.locator('[data-state="compatible"]') }).first();
  const name = await first.getByRole("rowheader").innerText();
  await first.getByRole("checkbox").check();
  await page.getByRole("button", { name: "Next page" }).click();
  await page.waitForURL(/after=/);
  await page.getByText("1 selected").waitFor();
  assert.equal(await page.getByRole("checkbox", { name, exact: true }).count(), 0, "another page");
  await page.getByLabel("Name contains").fill(name);
  await page.getByRole("button", { name: "Filter" }).click();
  assert.equal(await page.getByRole("checkbox", { name, exact: true }).isChecked(), true);
  await page.getByRole("button", { name: "Discard draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard draft" }).click();
  await byReason(page, "draft-discarded").waitFor();
});

test("a filter with few matches counts the compatible devices", async () => {
  await chooseAll();
  await page.getByLabel("Labels").fill("simulation=sim,nothing=here");
  await page.getByRole("button", { name: "Filter" }).click();
  await byReason(page, "no-match").waitFor();
  await page.getByLabel("Labels").fill("");
  await page.getByLabel("Name contains").fill("sim-0001");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByText("10 devices match").waitFor();
  await page.getByRole("button", { name: "Discard draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard draft" }).click();
});

test("the review of a fleet runs in the background and says how many devices change and why others do not", async () => {
  await chooseAll();
  await page.getByRole("button", { name: "Select all compatible" }).click();
  await byReason(page, "all-selected").waitFor();
  await wellMade(page, "all devices selected");
  await page.getByRole("button", { name: "Continue" }).click();
  await byReason(page, "applies-to").filter({ hasText: String(DEVICES) }).waitFor();
  await page.getByLabel("Line name").fill("All of them");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update").waitFor({ timeout: 60_000 });
  const changing = Number(await byReason(page, "update").getAttribute("data-count"));
  assert.ok(changing > 300 && changing < DEVICES, `${changing} fit`);
  await page.getByRole("heading", { name: "Skipped" }).waitFor();
  const counted = await page.getByRole("region", { name: /The same change on/ }).getByRole("heading", { level: 2 }).allInnerTexts();
  const alike = counted.map((text) => Number(text.split(" ")[0])).reduce((one, other) => one + other, 0);
  assert.equal(alike, changing, "every device is in one of the groups");
  await wellMade(page, "a large review");
  // Publish to a few devices only, however fast the server and slow the browser.
  const goOn = server.holdBack(50);
  await page.getByRole("button", { name: `Deploy to ${changing} devices` }).click();
  await until("the first devices are published", async () => (await server.api("rollouts")).items[0]?.published > 0);
  await page.getByRole("link", { name: "Cancel rollout" }).click({ timeout: 20_000 });
  await page.getByRole("dialog").getByLabel("Comment (recorded in the audit log)").fill("the wrong line");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel rollout" }).click();
  const said = await byReason(page, "cancelled").innerText();
  const left = Number(said.match(/\d+/)[0]);
  await page.getByRole("status").filter({ hasText: `Cancelled; ${left} devices not updated. The others continue.` }).waitFor();
  goOn();
  await wellMade(page, "a cancelled rollout");
  const { items } = await server.api("rollouts");
  assert.deepEqual([items[0].total - items[0].published, items[0].finished], [left, true]);
  assert.ok(left > 0 && left < changing, `${left} of ${changing} were left`);
  const audit = await server.api("audit?limit=20");
  assert.ok(audit.items.some((record) => record.action === "rollout.cancel" && record.comment === "the wrong line"));
});

test("one rollout upgrades all devices with another version", async () => {
  const { items: [{ published }] } = await server.api("rollouts");
  await go("/catalog/line-monitor?version=1.1.0");
  await page.getByRole("button", { name: `Upgrade ${published} device` }).click();
  await byReason(page, "all-selected").waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: new RegExp(`Upgrade ${published} devices? to 1.1.0`) }).click({ timeout: 60_000 });
  await page.getByRole("heading", { level: 1, name: new RegExp(`${published} device`) }).waitFor();
  await until("the rollout is published", async () => (await server.api("rollouts")).items[0].finished, 60);
  const { items } = await server.api("rollouts");
  assert.deepEqual([items[0].kind, items[0].total, items[0].published, items[0].skipped.length], ["upgrade", published, published, 0]);
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page);
});
