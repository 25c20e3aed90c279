// More devices than anybody ticks one by one: pages of them, all that fit at once, a review that counts, a change that is cancelled.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, end, launch, onlyExpected, open, root, signIn, until, wellMade } from "./support/margrave.js";

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

/** An application with so many ways to install it that judging the fleet takes far longer than a page waits for it. */
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

test("where an application could run goes on by itself until every device was looked at", async () => {
  manyWays();
  const alone = await open(browser);
  // Nobody tells this page that something has changed: it has to ask by itself.
  await alone.addInitScript(() => { window.EventSource = class extends EventTarget { close() {} }; });
  await signIn(alone, server);
  await alone.goto(`${server.origin}/catalog/many-ways`);
  await alone.getByRole("link", { name: "Where it could run, and why not elsewhere" }).click();
  await alone.getByRole("status").filter({ hasText: "Devices are still being looked at" }).waitFor();
  await alone.evaluate(() => { window.same = true; });
  const far = async () => {
    const text = await alone.getByText(/^Of (the first \d+ of )?\d+ devices, \d+ can run the newest version/).innerText();
    return Number(text.match(/\d+/)[0]);
  };
  const first = await far();
  assert.ok(first < DEVICES, `${first} devices were judged at once: give the application more ways`);
  await until("it has gone on", async () => (await far()) > first);
  await until("every device was looked at", async () => (await far()) === DEVICES, 120);
  await alone.getByRole("status").filter({ hasText: "Devices are still being looked at" }).waitFor({ state: "detached" });
  assert.equal(await alone.evaluate(() => window.same), true, "it is the page that was opened, not another one");
  assert.equal(await alone.locator("[data-every]").count(), 0, "it asks no more than it has to");
  onlyExpected(alone);
  await alone.context().close();
});

async function chooseAll() {
  await go("/catalog/line-monitor?version=1.0.0");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByLabel("1.0.0").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText(`${DEVICES} devices match. Those that do not fit are left out`).waitFor();
}

test("devices come a page at a time, and what was ticked on one page is kept on the next", async () => {
  await chooseAll();
  const first = page.getByRole("row").filter({ has: page.getByRole("rowheader") }).filter({ hasText: "Fits" }).first();
  const name = await first.getByRole("rowheader").innerText();
  await first.getByRole("checkbox").check();
  await page.getByRole("button", { name: "Next page" }).click();
  await page.getByText("1 device chosen so far").waitFor();
  assert.equal(await page.getByRole("checkbox", { name, exact: true }).count(), 0, "another page");
  await page.getByLabel("Name contains").fill(name);
  await page.getByRole("button", { name: "Filter" }).click();
  assert.equal(await page.getByRole("checkbox", { name, exact: true }).isChecked(), true);
  await page.getByRole("button", { name: "Drop this draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop this draft" }).click();
  await page.getByText("The draft was dropped. Nothing was deployed.").waitFor();
});

test("a filter that few devices match says how many of them fit", async () => {
  await chooseAll();
  await page.getByLabel("Labels").fill("simulation=sim,nothing=here");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByRole("heading", { name: "No device matches" }).waitFor();
  await page.getByLabel("Labels").fill("");
  await page.getByLabel("Name contains").fill("sim-0001");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByText("10 devices match").waitFor();
  await page.getByRole("button", { name: "Drop this draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop this draft" }).click();
});

test("the review counts a fleet beside the page, and says how many change and why others do not", async () => {
  await chooseAll();
  await page.getByRole("button", { name: "Choose all that match and fit" }).click();
  await page.getByText("Chosen: every device").waitFor();
  await wellMade(page, "all devices chosen");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText(`These answers are for those that fit of ${DEVICES} devices that match`).waitFor();
  await page.getByLabel("Line name").fill("All of them");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText(/^\d+ devices would change\.$/).waitFor({ timeout: 60_000 });
  const changing = Number((await page.getByText(/^\d+ devices would change\.$/).innerText()).split(" ")[0]);
  assert.ok(changing > 300 && changing < DEVICES, `${changing} fit`);
  await page.getByRole("heading", { name: "Left out" }).waitFor();
  const counted = await page.getByRole("region", { name: /The same change on/ }).getByRole("heading", { level: 2 }).allInnerTexts();
  const alike = counted.map((text) => Number(text.split(" ")[0])).reduce((one, other) => one + other, 0);
  assert.equal(alike, changing, "every device is in one of the groups");
  await wellMade(page, "a large review");
  // However fast the server and slow the browser: it is told to a few devices, and never to all of them.
  const goOn = server.holdBack(50);
  await page.getByRole("button", { name: `Deploy to ${changing} devices` }).click();
  await until("the first devices are told", async () => (await server.api("changes")).items[0]?.published > 0);
  await page.getByRole("link", { name: "Cancel the rest" }).click({ timeout: 20_000 });
  await page.getByRole("dialog").getByLabel("Reason, for the audit").fill("the wrong line");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the rest" }).click();
  const said = await page.getByText(/^Cancelled: .* stay as they are\.$/).innerText();
  const left = Number(said.match(/\d+/)[0]);
  await page.getByRole("status").filter({ hasText: `Cancelled with ${left} devices not told; the others go on.` }).waitFor();
  goOn();
  await wellMade(page, "a cancelled change");
  const { items } = await server.api("changes");
  assert.deepEqual([items[0].total - items[0].published, items[0].finished], [left, true]);
  assert.ok(left > 0 && left < changing, `${left} of ${changing} were left`);
  const audit = await server.api("audit?limit=20");
  assert.ok(audit.items.some((record) => record.action === "change.cancel" && record.reason === "the wrong line"));
});

test("a change of version goes to all that run another, in one change", async () => {
  const { items: [{ published }] } = await server.api("changes");
  await go("/catalog/line-monitor?version=1.1.0");
  await page.getByRole("button", { name: `Bring ${published} device` }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("every device that runs it in another version than 1.1.0").waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: new RegExp(`Change ${published} devices? to 1.1.0`) }).click({ timeout: 60_000 });
  await page.getByRole("heading", { level: 1, name: new RegExp(`${published} device`) }).waitFor();
  await until("every device is told", async () => (await server.api("changes")).items[0].finished, 60);
  const { items } = await server.api("changes");
  assert.deepEqual([items[0].kind, items[0].total, items[0].published, items[0].skipped.length], ["upgrade", published, published, 0]);
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page);
});
