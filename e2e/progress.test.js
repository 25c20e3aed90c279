// Rollouts in progress: a device that goes offline, one that fails, one that has stopped, two operators at once.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, byReason, byState, end, launch, onlyExpected, open, root, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;

const go = (path, on = page) => on.goto(server.origin + path);
const finished = (on = page) => byState(on, "completed", "[role=status]").waitFor({ timeout: 60_000 });

before(async () => {
  // Devices poll several times a second here, so they count as offline after a few seconds.
  [browser] = await Promise.all([launch(), server.start("127.0.0.1:0", 'offline_after = "4s"\n')]);
  for (const version of ["1.0.0", "1.1.0"]) server.cli("app", "import", join(root, "samples/line-monitor", version));
  page = await open(browser);
  await signIn(page, server);
});
after(async () => {
  await end(server, browser);
});

async function joined(name) {
  await until(`${name} has joined`, async () => (await server.api("devices")).items.some((device) => device.device === name));
}

/** Deploys through the pages to one device. */
async function deployTo(name, reason) {
  await go("/catalog/line-monitor?version=1.0.0");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByLabel("1.0.0").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("checkbox", { name, exact: true }).check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Line name").fill("Press 7");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 1).waitFor();
  await page.getByLabel("Comment (recorded in the audit log)").fill(reason);
  await page.getByRole("button", { name: "Deploy to 1 device" }).click();
  await page.getByRole("heading", { name: /^Deploy Line Monitor 1.0.0 to [a-z]/ }).waitFor();
}

/** The one deployment of a device. */
async function deployed(name) {
  const { items } = await server.api(`deployments?client=${name}`);
  assert.equal(items.length, 1, name);
  return items[0];
}

test("a device that goes offline during a deployment continues when it reconnects", async () => {
  const { process } = server.device("press-01", 'delay = "3s"\n');
  await joined("press-01");
  await deployTo("press-01", "line 7 goes live");
  const row = page.getByRole("table").getByRole("row").filter({ hasText: "press-01" });
  await byState(row, "updating").waitFor({ timeout: 30_000 });
  await byState(row, "installing").waitFor();
  // As if the network were unplugged: the installation has started, and the device is unreachable.
  process.kill("SIGSTOP");
  await byState(row, "device-offline").waitFor({ timeout: 30_000 });
  await byState(page, "device-offline", ".legend ").waitFor();
  await wellMade(page, "a rollout with an offline device");
  await row.getByRole("rowheader").getByRole("link").click();
  await byState(page, "device-offline", "[role=status] ").waitFor();
  await page.getByRole("heading", { name: "Waiting for" }).waitFor();
  await wellMade(page, "a deployment on an offline device");
  await go("/devices/press-01/press-01");
  await byState(page, "offline").first().waitFor();
  await go("/");
  await page.getByRole("main").getByRole("link", { name: /1 device/ }).filter({ hasText: /offline/i }).first().waitFor();
  const { rollout: change } = await deployed("press-01");
  await go(`/rollouts/${change}`);
  process.kill("SIGCONT");
  await finished();
  await byState(page.getByRole("row").filter({ hasText: "press-01" }), "up-to-date").waitFor();
});

test("a device retries a failed deployment", async () => {
  const device = server.device("press-02", '[[rule]]\ncomponent = "line-monitor-stack"\nfail = "always"\nmessage = "image not found"\n');
  await joined("press-02");
  await deployTo("press-02", "line 8 goes live");
  await byState(page, "completed-with-failures", "[role=status]").waitFor({ timeout: 30_000 });
  await wellMade(page, "a failed rollout");
  await page.getByRole("rowheader").getByRole("link").click();
  await page.getByText("image not found").first().waitFor();
  await page.getByText("The device retries with back-off").first().waitFor();
  device.behave("");
  await byState(page, "up-to-date", "[role=status] ").waitFor({ timeout: 60_000 });
});

test("a device that stopped after a failure retries only on request", async () => {
  const device = server.device("press-03", '[[rule]]\ncomponent = "line-monitor-stack"\nfail = "always"\nmessage = "no room left"\n');
  await joined("press-03");
  await server.api("deployments", "POST", {
    kind: "create", application: "line-monitor", version: "1.0.0", scope: { devices: [{ client: "press-03", device: "press-03" }] },
    values: { lineName: "Press 9" }, policy: { onFailure: "stop" },
  });
  const { id } = await until("the deployment exists", async () => (await server.api("deployments?client=press-03")).items[0]);
  await go(`/deployments/${id}`);
  await page.getByText("The device has stopped, according to its failure policy.").first().waitFor({ timeout: 30_000 });
  await wellMade(page, "a deployment that has stopped");
  device.behave("");
  const before = await server.api(`deployments/${id}`);
  await page.getByRole("link", { name: "Retry" }).first().click();
  await byReason(page.getByRole("dialog"), "affected", 1).waitFor();
  await page.getByRole("dialog").getByLabel("Comment (recorded in the audit log)").fill("made room");
  await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  await byReason(page, "retry-requested").waitFor();
  await byState(page, "up-to-date", "[role=status] ").waitFor({ timeout: 60_000 });
  const now = await server.api(`deployments/${id}`);
  assert.deepEqual([before.state, now.state, now.revision], ["failed", "up-to-date", before.revision + 1]);
  assert.deepEqual([now.values, now.policy], [before.values, before.policy], "the same configuration");
  const audit = await server.api("audit?limit=20");
  assert.ok(audit.items.some((record) => record.comment === "made room"));
});

test("the second of two operators who change one deployment is warned and loses nothing", async () => {
  const { id } = await deployed("press-01");
  const other = await open(browser);
  await signIn(other, server);
  for (const [one, seconds] of [[page, "20"], [other, "30"]]) {
    await go(`/deployments/${id}`, one);
    await one.getByRole("button", { name: "Reconfigure" }).click();
    await one.getByLabel("Sampling interval").fill(seconds);
    await one.getByRole("button", { name: "Review" }).click();
    await byReason(one, "update", 1).waitFor();
  }
  await page.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await finished();
  await other.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await byReason(other, "cannot-start").waitFor();
  await wellMade(other, "changed by another operator");
  assert.equal((await server.api(`deployments/${id}`)).values.sampleSeconds, 20, "nothing was overwritten");
  await other.getByRole("link", { name: "Review again" }).click();
  await byReason(other, "update", 1).waitFor();
  await other.getByRole("button", { name: "Back", exact: true }).click();
  assert.equal(await other.getByLabel("Sampling interval").inputValue(), "30", "the input is kept");
  await other.getByRole("button", { name: "Review" }).click();
  await other.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await finished(other);
  assert.equal((await server.api(`deployments/${id}`)).values.sampleSeconds, 30);
  await other.context().close();
});

test("a rollback shows the diff first and creates a new revision", async () => {
  const before = await deployed("press-01");
  await go(`/deployments/${before.id}`);
  const revisions = page.getByRole("table", { name: "Revisions, newest first" });
  await revisions.getByRole("link", { name: "Roll back to revision 1" }).click();
  await page.getByRole("dialog").locator(".diff").waitFor();
  await page.getByRole("dialog").getByLabel("Comment (recorded in the audit log)").fill("too slow");
  await page.getByRole("dialog").getByRole("button", { name: "Roll back to revision 1" }).click();
  await finished();
  const now = await deployed("press-01");
  assert.equal(now.revision, before.revision + 1);
  assert.notEqual(now.values.sampleSeconds, before.values.sampleSeconds);
  await go(`/deployments/${before.id}`);
  await revisions.getByText("too slow").waitFor();
  // Recorded as what it is, on the deployment, in the audit log and in the events.
  await revisions.getByText("rolled back to revision 1").waitFor();
  for (const path of ["/audit?action=deployment.roll-back", "/events?kind=deployment.rolled-back"]) {
    await go(path);
    await page.locator("[data-audit='deployment.roll-back'], [data-event='deployment.rolled-back']").first().waitFor();
  }
});

test("one rollout upgrades every device with an older version", async () => {
  await go("/catalog/line-monitor?version=1.1.0");
  await page.getByRole("button", { name: "Upgrade 3 devices to 1.1.0" }).click();
  await byReason(page, "all-selected", 3).waitFor();
  await wellMade(page, "bulk upgrade, devices");
  await page.getByRole("button", { name: "Continue" }).click();
  await byReason(page, "applies-to").filter({ hasText: "3 devices" }).waitFor();
  assert.equal(await page.getByLabel("Line name").getAttribute("readonly"), "", "immutable values are locked");
  assert.equal(await page.getByLabel("Sampling interval").inputValue(), "", "each device keeps its value");
  await page.getByText("Empty: each device keeps its current value").first().waitFor();
  await wellMade(page, "bulk upgrade, configuration");
  const before = new Map((await server.api("deployments?application=line-monitor")).items.map((one) => [one.id, one.values]));
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 3).waitFor();
  await wellMade(page, "bulk upgrade, review");
  await page.getByRole("button", { name: "Upgrade 3 devices to 1.1.0" }).click();
  await page.getByRole("heading", { name: /3 devices/ }).waitFor();
  await finished();
  const { items } = await server.api("deployments?application=line-monitor");
  assert.deepEqual(items.map((one) => one.version), ["1.1.0", "1.1.0", "1.1.0"]);
  for (const { id, values } of items) {
    for (const name of ["lineName", "sampleSeconds"]) assert.equal(values[name], before.get(id)[name], `${name} was kept`);
  }
  await go("/catalog/line-monitor?version=1.1.0");
  assert.equal(await page.getByRole("button", { name: /^(Up|Down)grade/ }).count(), 0, "no device is left");
});

test("the wizard continues after a server restart", async () => {
  const { id } = await deployed("press-02");
  await go(`/deployments/${id}`);
  await page.getByRole("button", { name: "Reconfigure" }).click();
  await page.getByLabel("Sampling interval").fill("41");
  const listen = new URL(server.origin).host;
  server.kill();
  await server.start(listen);
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 1).waitFor();
  await page.getByRole("button", { name: "Discard draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard draft" }).click();
  await byReason(page, "draft-discarded").waitFor();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /ERR_/, /Failed to (load|fetch)/);
});
