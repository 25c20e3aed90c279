// While something is under way: a device that goes away in the middle, one that fails, one that has stopped, two operators at once.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, end, launch, onlyExpected, open, root, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;

const go = (path, on = page) => on.goto(server.origin + path);
const finished = (on = page) => on.getByRole("status").filter({ hasText: "Finished: done everywhere." }).waitFor({ timeout: 60_000 });

before(async () => {
  // Devices here ask several times a second; after a few seconds nobody hears of them.
  [browser] = await Promise.all([launch(), server.start("127.0.0.1:0", 'silent_after = "4s"\n')]);
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
  await page.getByText("1 device would change.").waitFor();
  await page.getByLabel("Reason, for the audit").fill(reason);
  await page.getByRole("button", { name: "Deploy to 1 device" }).click();
  await page.getByRole("heading", { name: /^Deploy Line Monitor 1.0.0 to [a-z]/ }).waitFor();
}

/** The one deployment of a device. */
async function deployed(name) {
  const { items } = await server.api(`deployments?client=${name}`);
  assert.equal(items.length, 1, name);
  return items[0];
}

test("a device that goes offline in the middle of a deployment is waited for, and goes on when it is back", async () => {
  const { process } = server.device("press-01", 'delay = "3s"\n');
  await joined("press-01");
  await deployTo("press-01", "line 7 goes live");
  const row = page.getByRole("table").getByRole("row").filter({ hasText: "press-01" });
  await row.getByText("Applying", { exact: true }).waitFor({ timeout: 30_000 });
  await row.getByText("Installing", { exact: true }).waitFor();
  // As if somebody had pulled the plug of its network: it has begun, and nobody hears of it.
  process.kill("SIGSTOP");
  await row.getByText("Device not heard of", { exact: true }).waitFor({ timeout: 30_000 });
  await page.getByRole("status").filter({ hasText: "does not call; it waits until it does" }).waitFor();
  await wellMade(page, "a change that waits for a device");
  await row.getByRole("rowheader").getByRole("link").click();
  await page.getByRole("status").filter({ hasText: "Device not heard of" }).waitFor();
  await page.getByRole("heading", { name: "Waiting for" }).waitFor();
  await wellMade(page, "a deployment that waits for its device");
  await go("/devices/press-01/press-01");
  await page.getByText("Silent", { exact: true }).first().waitFor();
  await go("/");
  await page.getByRole("main").getByRole("link", { name: /1 device/ }).filter({ hasText: /silent|heard/i }).first().waitFor();
  const { change } = await deployed("press-01");
  await go(`/changes/${change}`);
  process.kill("SIGCONT");
  await finished();
  await page.getByRole("row").filter({ hasText: "press-01" }).getByText("Up to date", { exact: true }).waitFor();
});

test("what fails is tried again on the spot when somebody asks for it", async () => {
  const device = server.device("press-02", '[[rule]]\ncomponent = "line-monitor-stack"\nfail = "always"\nmessage = "image not found"\n');
  await joined("press-02");
  await deployTo("press-02", "line 8 goes live");
  await page.getByRole("status").filter({ hasText: "Finished: 0 done, 1 failed." }).waitFor({ timeout: 30_000 });
  await wellMade(page, "a change that failed");
  await page.getByRole("rowheader").getByRole("link").click();
  await page.getByText("image not found").first().waitFor();
  await page.getByText("The device tries again by itself, after pauses that grow; it does not report when").first().waitFor();
  device.behave("");
  await page.getByRole("status").filter({ hasText: "Up to date" }).waitFor({ timeout: 60_000 });
});

test("a device that has stopped after a failure tries again when somebody asks for it, and only then", async () => {
  const device = server.device("press-03", '[[rule]]\ncomponent = "line-monitor-stack"\nfail = "always"\nmessage = "no room left"\n');
  await joined("press-03");
  await server.api("deployments", "POST", {
    kind: "create", application: "line-monitor", version: "1.0.0", scope: { devices: [{ client: "press-03", device: "press-03" }] },
    answers: { lineName: "Press 9" }, policy: { onFailure: "hold" },
  });
  const { id } = await until("it is there", async () => (await server.api("deployments?client=press-03")).items[0]);
  await go(`/deployments/${id}`);
  await page.getByText("The device has stopped, as its failure policy says.").first().waitFor({ timeout: 30_000 });
  await wellMade(page, "a deployment that has stopped");
  device.behave("");
  const before = await server.api(`deployments/${id}`);
  await page.getByRole("link", { name: "Try again now" }).first().click();
  await page.getByRole("dialog").getByText("does nothing until something changes here").waitFor();
  await page.getByRole("dialog").getByText("This touches 1 device.").waitFor();
  await page.getByRole("dialog").getByLabel("Reason, for the audit").fill("made room");
  await page.getByRole("dialog").getByRole("button", { name: "Try again now" }).click();
  await page.getByText("The device is told to try again.").waitFor();
  await page.getByRole("status").filter({ hasText: "Up to date" }).waitFor({ timeout: 60_000 });
  const now = await server.api(`deployments/${id}`);
  assert.deepEqual([before.convergence, now.convergence, now.revision], ["failed", "converged", before.revision + 1]);
  assert.deepEqual([now.values, now.policy], [before.values, before.policy], "the same once more");
  const audit = await server.api("audit?limit=20");
  assert.ok(audit.items.some((record) => record.reason === "made room"));
});

test("of two operators who change one deployment the second is told, and loses nothing", async () => {
  const { id } = await deployed("press-01");
  const other = await open(browser);
  await signIn(other, server);
  for (const [one, seconds] of [[page, "20"], [other, "30"]]) {
    await go(`/deployments/${id}`, one);
    await one.getByRole("button", { name: "Reconfigure" }).click();
    await one.getByLabel("Sampling interval").fill(seconds);
    await one.getByRole("button", { name: "Review" }).click();
    await one.getByText("1 device would change.").waitFor();
  }
  await page.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await finished();
  await other.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await other.getByRole("alert").filter({ hasText: "Somebody else changed it in the meantime" }).waitFor();
  await wellMade(other, "changed by somebody else");
  assert.equal((await server.api(`deployments/${id}`)).values.sampleSeconds, 20, "nothing was overwritten");
  await other.getByRole("link", { name: "Look again" }).click();
  await other.getByText("1 device would change.").waitFor();
  await other.getByRole("button", { name: "Back", exact: true }).click();
  assert.equal(await other.getByLabel("Sampling interval").inputValue(), "30", "what was typed is not lost");
  await other.getByRole("button", { name: "Review" }).click();
  await other.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await finished(other);
  assert.equal((await server.api(`deployments/${id}`)).values.sampleSeconds, 30);
  await other.context().close();
});

test("back to an earlier revision: what it changes is said before, and it comes as a new one", async () => {
  const before = await deployed("press-01");
  await go(`/deployments/${before.id}`);
  const revisions = page.getByRole("table", { name: "Revisions, newest first" });
  await revisions.getByRole("link", { name: "Go back to revision 1" }).click();
  await page.getByRole("dialog").getByText(/of its document/).waitFor();
  await page.getByRole("dialog").getByLabel("Reason, for the audit").fill("too slow");
  await page.getByRole("dialog").getByRole("button", { name: "Go back to revision 1" }).click();
  await finished();
  const now = await deployed("press-01");
  assert.equal(now.revision, before.revision + 1);
  assert.notEqual(now.values.sampleSeconds, before.values.sampleSeconds);
  await go(`/deployments/${before.id}`);
  await revisions.getByText("too slow").waitFor();
});

test("every device that runs an older version is brought to the new one by one change", async () => {
  await go("/catalog/line-monitor?version=1.1.0");
  await page.getByRole("button", { name: "Bring 3 devices to 1.1.0" }).click();
  await page.getByText("3 devices run another version than 1.1.0").waitFor();
  await wellMade(page, "bulk upgrade, version");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("every device that runs it in another version than 1.1.0, 3 devices").waitFor();
  await wellMade(page, "bulk upgrade, devices");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("These answers are for 3 devices").waitFor();
  assert.equal(await page.getByLabel("Line name").getAttribute("readonly"), "", "what cannot change is locked");
  assert.equal(await page.getByLabel("Sampling interval").inputValue(), "", "each device keeps what it has");
  await page.getByText("Empty: each device keeps what it has").first().waitFor();
  await wellMade(page, "bulk upgrade, questions");
  const before = new Map((await server.api("deployments?application=line-monitor")).items.map((one) => [one.id, one.values]));
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("3 devices would change.").waitFor();
  await wellMade(page, "bulk upgrade, review");
  await page.getByRole("button", { name: "Change 3 devices to 1.1.0" }).click();
  await page.getByRole("heading", { name: /3 devices/ }).waitFor();
  await finished();
  const { items } = await server.api("deployments?application=line-monitor");
  assert.deepEqual(items.map((one) => one.version), ["1.1.0", "1.1.0", "1.1.0"]);
  for (const { id, values } of items) {
    for (const name of ["lineName", "sampleSeconds"]) assert.equal(values[name], before.get(id)[name], `${name} was kept`);
  }
  await go("/catalog/line-monitor?version=1.1.0");
  assert.equal(await page.getByRole("button", { name: /^Bring/ }).count(), 0, "nobody is left behind");
});

test("a wizard goes on where it was when the server is restarted under it", async () => {
  const { id } = await deployed("press-02");
  await go(`/deployments/${id}`);
  await page.getByRole("button", { name: "Reconfigure" }).click();
  await page.getByLabel("Sampling interval").fill("41");
  const listen = new URL(server.origin).host;
  server.kill();
  await server.start(listen);
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("1 device would change.").waitFor();
  await page.getByRole("button", { name: "Drop this draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop this draft" }).click();
  await page.getByText("The draft was dropped. Nothing was deployed.").waitFor();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /ERR_/, /Failed to (load|fetch)/);
});
