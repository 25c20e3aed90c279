// One device, closely: labels, its gateway, its past, leaving and coming back, what is on it; and groups with more than one person at them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, end, fitsPhone, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
const main = (on = page) => on.getByRole("main");
const go = (path, on = page) => on.goto(server.origin + path);
const device = (name) => `/devices/${name.split("/")[0]}/${name}`;
const asked = (name) => new URL(page.url()).searchParams.get(name) ?? "";
const finished = () => page.getByRole("status").filter({ hasText: "Finished: done everywhere." }).waitFor({ timeout: 60_000 });
const labelsOf = async (name) => (await server.api(`devices/${name.split("/")[0]}/${name}`)).operatorLabels;

before(async () => {
  ({ browser, page } = await begin(server));
});
after(async () => {
  await end(server, browser);
});

test("a label gets another value, another is removed, and a third is as it was", async () => {
  await go(device("robot-01"));
  const before = await labelsOf("robot-01");
  assert.deepEqual(Object.keys(before).sort(), ["line", "site"]);
  await page.getByLabel("New label").fill("shift");
  await page.getByLabel("Its value").fill("night");
  await page.getByRole("button", { name: "Save labels" }).click();
  await page.getByText("The labels were changed.").waitFor();
  await page.getByLabel("shift", { exact: true }).fill("day");
  await page.getByLabel("Remove line").check();
  await page.getByRole("region", { name: "Labels" }).getByLabel("Reason, for the audit").fill("moved to another line");
  await page.getByRole("button", { name: "Save labels" }).click();
  await page.getByText("The labels were changed.").waitFor();
  await until("the page shows it", async () => (await page.getByLabel("line", { exact: true }).count()) === 0);
  assert.deepEqual(await labelsOf("robot-01"), { shift: "day", site: before.site });
  await wellMade(page, "labels");
  await go("/devices?labels=shift%3Dday");
  assert.deepEqual(await page.getByRole("table", { name: /Devices/ }).getByRole("rowheader").getByRole("link").allInnerTexts(), ["robot-01"]);
  await go("/devices?labels=line");
  assert.equal(await page.getByRole("link", { name: "robot-01", exact: true }).count(), 0);
  const { items } = await server.api("audit?limit=20");
  assert.ok(items.some((record) => record.subject === "device/robot-01/robot-01" && record.reason === "moved to another line"));
});

test("a label nobody can use is refused, and what was typed stays", async () => {
  const [long, before] = ["long".repeat(200), await labelsOf("robot-01")];
  await go(device("robot-01"));
  await page.getByLabel("New label").fill(long);
  await page.getByLabel("Its value").fill("7");
  await page.getByRole("button", { name: "Save labels" }).click();
  await page.getByRole("alert").first().waitFor();
  assert.equal(await page.getByLabel("New label").inputValue(), long);
  assert.deepEqual(await labelsOf("robot-01"), before);
});

test("words without an end are broken into lines, in a label and in what is said about one", async () => {
  const long = "long".repeat(30);
  await server.api("devices/robot-02/robot-02", "PATCH", { labels: { [long]: long } });
  try {
    for (const path of [device("robot-02"), "/devices?q=robot-02"]) {
      await go(path);
      await wellMade(page, `${path} with a long label`);
      await fitsPhone(page, `${path} with a long label`);
    }
    await go(device("robot-01"));
    await page.getByLabel("New label").fill(long.repeat(10));
    await page.getByLabel("Its value").fill("7");
    await page.getByRole("button", { name: "Save labels" }).click();
    await page.getByRole("alert").first().waitFor();
    await wellMade(page, "a label that is too long");
  } finally {
    await server.api("devices/robot-02/robot-02", "PATCH", { labels: { [long]: null } });
  }
});

test("a gateway leads to the devices behind it, and each of them back", async () => {
  await go(device("gateway-01"));
  const behind = page.getByRole("region", { name: "Behind this gateway" });
  assert.equal(await behind.getByRole("link").count(), 3);
  await wellMade(page, "gateway");
  await fitsPhone(page, "gateway");
  await behind.getByRole("link", { name: /cell-1/ }).click();
  await page.getByRole("heading", { name: /cell-1/, level: 1 }).waitFor();
  for (const title of ["What runs here", "What it offers", "Identity", "What happened", "Labels"]) {
    await main().getByRole("heading", { name: title }).waitFor();
  }
  await page.getByRole("definition").filter({ hasText: /^gateway-01$/ }).first().waitFor();
  await wellMade(page, "a device behind a gateway");
  await page.getByRole("navigation", { name: "You are here" }).getByRole("link", { name: "gateway-01", exact: true }).click();
  await page.getByRole("heading", { name: "gateway-01", level: 1 }).waitFor();
  assert.equal(await main().getByRole("link", { name: "Deploy to this device" }).count(), 0, "it hosts nothing itself");
});

test("an application is deployed to a device behind a gateway from its own page", async () => {
  await go(device("gateway-01/cell-2"));
  await main().getByRole("link", { name: "Deploy to this device" }).click();
  await page.getByText("Choosing for").waitFor();
  assert.equal(asked("device"), "gateway-01/gateway-01/cell-2");
  await wellMade(page, "catalog for one device");
  await page.getByRole("link", { name: "Vibration Analytics" }).click();
  await page.getByText("For the device you came from:").waitFor();
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  assert.equal(await page.getByRole("checkbox", { name: "gateway-01/cell-2", exact: true }).isChecked(), true);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Machine class").selectOption("class-1");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Deploy to 1 device" }).click();
  await finished();
  await go(device("gateway-01/cell-2"));
  await page.getByRole("region", { name: "What runs here" }).getByRole("link", { name: /Vibration Analytics/ }).waitFor();
});

test("the past of a device is there: what it said, drawn and in words, when it was last heard of, and events", async () => {
  await until("it has said something", async () => (await server.api("deployments?client=press-02&convergence=converged")).items.length > 0);
  await go(device("press-02"));
  const runs = page.getByRole("region", { name: "What runs here" });
  await runs.getByText("reported running", { exact: true }).first().waitFor();
  assert.ok((await runs.getByRole("definition").filter({ hasText: /Installed/ }).count()) > 0, "what is reported stands beside what should be");
  const chart = runs.getByRole("img", { name: /installed from/ }).first();
  await chart.waitFor();
  assert.match(await chart.getAttribute("aria-label"), /installing from .*, installed from /);
  const heard = main().getByText(/^Last heard of/);
  await heard.waitFor();
  const at = await heard.locator("time").getAttribute("datetime");
  assert.ok(Math.abs(Date.now() - Date.parse(at)) < 60_000, `last heard of at ${at}`);
  const events = page.getByRole("region", { name: "What happened" });
  await events.getByText(/Line Monitor.* on .*press-02.* installed|installed/).first().waitFor();
  await events.getByRole("link").first().click();
  await page.getByRole("heading", { name: "Activity", level: 1 }).waitFor();
  assert.equal(asked("client"), "press-02");
  assert.ok((await page.getByRole("listitem").filter({ hasText: "press-02" }).count()) > 0);
});

test("the version of one deployment is changed, and only of that one", async () => {
  const all = (await server.api("deployments?application=line-monitor")).items;
  const one = all.find((deployment) => deployment.client === "press-02");
  await until("it is there", async () => (await server.api(`deployments/${one.id}`)).convergence === "converged");
  await go(`/deployments/${one.id}`);
  await page.getByRole("button", { name: "Change version" }).click();
  await page.getByRole("heading", { name: /Change the version of Line Monitor/ }).waitFor();
  assert.equal(await page.getByLabel("1.1.0").isChecked(), true, "the other one is chosen already");
  await page.getByRole("button", { name: "Continue" }).click();
  assert.equal(await page.getByLabel("Line name").getAttribute("readonly"), "", "what cannot change is locked");
  await page.getByLabel("Shift model").selectOption("one-shift");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("1 device would change.").waitFor();
  await wellMade(page, "review of another version");
  await page.getByRole("button", { name: /1\.1\.0/ }).click();
  await finished();
  const now = await server.api(`deployments/${one.id}`);
  assert.deepEqual([now.version, now.revision, now.values.shiftModel, now.values.lineName], ["1.1.0", one.revision + 1, "one-shift", one.values.lineName]);
  for (const other of all.filter((deployment) => deployment.id !== one.id)) {
    assert.equal((await server.api(`deployments/${other.id}`)).version, other.version, `${other.client} is as it was`);
  }
  await go(`/deployments/${one.id}`);
  await page.getByRole("link", { name: `Go back to revision ${one.revision}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: `Go back to revision ${one.revision}` }).click();
  await finished();
  assert.equal((await server.api(`deployments/${one.id}`)).version, "1.0.0");
});

test("what is removed from a device that is offline is waited for, and every page says so", async () => {
  await until("it is silent", async () => (await server.api("devices/offline-01/offline-01")).silent);
  const { items: [{ id }] } = await server.api("deployments?client=offline-01&application=line-monitor");
  await go(`/deployments/${id}`);
  await page.getByRole("link", { name: "Remove", exact: true }).click();
  await page.getByRole("dialog").getByText("as soon as it hears of it").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Remove from 1 device" }).click();
  await page.getByRole("heading", { name: "Remove Line Monitor from offline-01" }).waitFor();
  await page.getByRole("status").filter({ hasText: "does not call; it waits until it does" }).waitFor();
  assert.equal(await page.getByRole("status").filter({ hasText: "done everywhere" }).count(), 0);
  await wellMade(page, "a removal that waits");
  await go(`/deployments/${id}`);
  await page.getByRole("status").filter({ hasText: /not heard of/i }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Remove", exact: true }).count(), 0, "it is being removed already");
  await wellMade(page, "a deployment that is being removed");
  await go(device("offline-01"));
  await page.getByRole("region", { name: "What runs here" }).getByRole("link", { name: /Line Monitor/ }).waitFor();
  await page.getByText("Silent", { exact: true }).first().waitFor();
});

test("a client that is retired is shut out everywhere, and let in again it is as before", async () => {
  await go(device("pump-02"));
  await page.getByRole("link", { name: "Retire" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Retire this client" }).click();
  await page.getByText("Client pump-02 is retired.").waitFor();
  assert.equal(await main().getByRole("link", { name: "Deploy to this device" }).count(), 0);
  await go("/devices?state=shut-out");
  await page.getByRole("table", { name: /Devices/ }).getByRole("link", { name: "pump-02" }).waitFor();
  await go("/settings/clients?state=retired");
  await page.getByRole("row").filter({ hasText: "pump-02" }).getByRole("link", { name: "Accept pump-02" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Accept this client" }).click();
  await page.getByText("Client pump-02 is accepted.").waitFor();
  assert.equal((await server.api("clients/pump-02")).state, "accepted");
  await main().getByRole("link", { name: "Deploy to this device" }).waitFor();
  await go("/devices?state=shut-out");
  await page.getByRole("heading", { name: "No device matches" }).waitFor();
});

test("a device is forgotten, and is back once it says again what it is", async () => {
  // The page hears that the device is gone before the answer to the form comes; without events it waits for the answer.
  const alone = await open(browser);
  await alone.addInitScript(() => { window.EventSource = class extends EventTarget { close() {} }; });
  await signIn(alone, server);
  await go(device("tiny-01"), alone);
  await alone.getByRole("link", { name: "Forget" }).click();
  const dialog = alone.getByRole("dialog");
  await dialog.getByRole("heading", { name: /tiny-01/ }).waitFor();
  await wellMade(alone, "forgetting a device");
  await dialog.getByLabel("Reason, for the audit").fill("scrapped");
  await dialog.getByRole("button", { name: "Forget this device" }).click();
  await alone.getByText("Device tiny-01 was forgotten.").waitFor();
  await alone.getByRole("heading", { name: "Devices", level: 1 }).waitFor();
  onlyExpected(alone);
  await alone.context().close();
  assert.ok((await server.api("audit?limit=20")).items.some((record) => record.subject === "device/tiny-01/tiny-01" && record.reason === "scrapped"));
  const answer = await go(device("tiny-01"));
  if (answer.status() === 404) await page.getByRole("heading", { level: 1, name: "There is no such thing" }).waitFor();
  else assert.deepEqual(await labelsOf("tiny-01"), {}, "it has said again what it is, and begins anew");
});

test("a group is edited, and of two people at it the second is told and loses nothing", async () => {
  const other = await open(browser);
  await signIn(other, server);
  for (const one of [page, other]) await go("/groups/packaging", one);
  await wellMade(page, "group");
  await page.getByLabel("Labels its devices have").fill("plant.example/zone=packaging,site=graz");
  await page.getByLabel("Description").fill("Packaging in Graz");
  await page.getByRole("status").filter({ hasText: /would be in it: none come and \d+ go/ }).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("The group was changed.").waitFor();
  await other.getByLabel("Labels its devices have").fill("plant.example/zone=packaging,site=linz");
  await other.getByRole("button", { name: "Save" }).click();
  const told = other.getByRole("alert").filter({ hasText: "Somebody else changed this group" });
  await told.waitFor();
  await told.getByText("plant.example/zone=packaging,site=graz").waitFor();
  assert.equal(await other.getByLabel("Labels its devices have").inputValue(), "plant.example/zone=packaging,site=linz", "what was typed is not lost");
  await wellMade(other, "group changed by somebody else");
  assert.equal((await server.api("groups/packaging")).selector, "plant.example/zone=packaging,site=graz", "nothing was overwritten");
  await other.getByRole("button", { name: "Save" }).click();
  await other.getByText("The group was changed.").waitFor();
  assert.equal((await server.api("groups/packaging")).selector, "plant.example/zone=packaging,site=linz");
  onlyExpected(other, /409 \(Conflict/, /412 \(Precondition/);
  await other.context().close();
});

test("a group lists its devices, and without script says who comes and goes before it is saved", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await server.api("groups/counted", "PUT", { selector: "site=graz" });
  const inside = (await server.api("devices?selector=site%3Dgraz")).items.map((one) => one.device).sort();
  await go("/groups/counted", plain);
  const members = plain.getByRole("region", { name: "Its devices" }).getByRole("listitem").getByRole("link");
  assert.deepEqual((await members.allInnerTexts()).sort(), inside);
  await plain.getByLabel("Labels its devices have").fill("site=linz");
  await plain.getByRole("button", { name: "Save" }).click();
  await plain.getByRole("alert").filter({ hasText: new RegExp(`Nothing is saved yet\\. .* and ${inside.length} go`) }).waitFor();
  assert.equal((await server.api("groups/counted")).selector, "site=graz");
  await plain.getByRole("button", { name: "Save" }).click();
  await plain.getByText("The group was changed.").waitFor();
  assert.equal((await server.api("groups/counted")).selector, "site=linz");
  await plain.context().close();
  await go("/groups/counted");
  await wellMade(page, "a group with its devices");
  await fitsPhone(page, "a group with its devices");
  await page.getByLabel("Application").selectOption("Line Monitor");
  await page.getByRole("button", { name: "Deploy to this group" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("Chosen: every device with site=linz that fits").waitFor();
  await page.getByRole("button", { name: "Drop this draft" }).click();
  await page.getByRole("dialog").getByRole("link", { name: "Cancel" }).click();
  assert.equal(await page.getByText("Chosen: every device with site=linz that fits").count(), 1, "the draft is there still");
  await page.getByRole("button", { name: "Drop this draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop this draft" }).click();
  await page.getByText("The draft was dropped. Nothing was deployed.").waitFor();
});

test("several devices are labelled and shut out at once, with and without script, and what is ticked outlasts a refresh", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  for (const [on, value] of [[page, "early"], [plain, "late"]]) {
    await go("/devices?q=press", on);
    for (const name of ["press-01", "press-02"]) await on.getByRole("checkbox", { name: `Choose ${name}`, exact: true }).check();
    if (on === page) {
      await server.api("devices/robot-02/robot-02", "PATCH", { labels: { touched: "yes" } });
      await page.getByRole("checkbox", { name: "Choose all on this page" }).waitFor();
      const fresh = page.waitForResponse((response) => response.request().headers()["x-fragment"] === "live");
      await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
      await fresh;
      assert.equal(await page.getByRole("checkbox", { name: "Choose press-01", exact: true }).isChecked(), true);
    }
    await on.getByRole("button", { name: "Label", exact: true }).click();
    await on.getByText("This touches 2 devices.").waitFor();
    if (on === page) {
      await wellMade(page, "labelling several");
      await fitsPhone(page, "labelling several");
    }
    await on.getByLabel("Label", { exact: true }).fill("turn");
    await on.getByLabel("Its value", { exact: true }).fill(value);
    await on.getByLabel("Reason, for the audit").fill(`turn ${value}`);
    await on.getByRole("button", { name: "Label 2 devices" }).click();
    await on.getByText(`2 devices were labelled turn=${value}.`).waitFor();
    assert.equal(new URL(on.url()).searchParams.get("q"), "press", "back where one was");
    for (const name of ["press-01", "press-02"]) assert.equal((await labelsOf(name)).turn, value);
  }
  const { items } = await server.api("audit?limit=30");
  for (const name of ["press-01", "press-02"]) assert.ok(items.some((one) => one.subject === `device/${name}/${name}` && one.reason === "turn late"));
  await go("/devices?labels=turn%3Dlate");
  await page.getByLabel("All 2 that match").check();
  await page.getByRole("button", { name: "Retire", exact: true }).click();
  await page.getByRole("heading", { name: "Retire 2 clients?" }).waitFor();
  await wellMade(page, "retiring several");
  await page.getByRole("button", { name: "Retire 2 clients" }).click();
  await page.getByText("2 clients were retired.").waitFor();
  await go("/settings/clients?state=retired");
  await wellMade(page, "clients to tick");
  for (const name of ["press-01", "press-02"]) await page.getByRole("checkbox", { name: `Choose ${name}`, exact: true }).check();
  await page.getByRole("button", { name: "Accept", exact: true }).click();
  await page.getByText("Of those chosen: 2 retired.").waitFor();
  await page.getByRole("button", { name: "Accept 2 clients" }).click();
  await page.getByText("2 clients were accepted.").waitFor();
  assert.equal((await server.api("clients/press-01")).state, "accepted");
  await plain.context().close();
});

test("on a phone the site stands under a device and the components under a deployment, and short names are not broken", async () => {
  const phone = await open(browser, { viewport: { width: 375, height: 800 } });
  await signIn(phone, server);
  await go("/devices?q=robot-0", phone);
  const row = phone.getByRole("row").filter({ has: phone.getByRole("link", { name: "robot-02", exact: true }) });
  await row.getByRole("rowheader").getByText((await labelsOf("robot-02")).site ?? "graz").waitFor();
  const lines = await row.getByRole("link", { name: "robot-02", exact: true }).evaluate((link) => link.getClientRects().length);
  assert.equal(lines, 1, "a name in one line");
  const [one] = (await server.api("deployments?limit=100")).items.filter((known) => known.status?.components?.length);
  await go(`/deployments?device=${one.device}`, phone);
  await phone.getByRole("cell").getByText(one.status.components[0].name).first().waitFor();
  await fitsPhone(phone, "deployments of a device");
  await phone.context().close();
});

test("devices are filtered by a group, in the address as well, and a group of that name is made once", async () => {
  const of = async (selector) => (await server.api(`devices?selector=${encodeURIComponent(selector)}`)).items.map((one) => one.device).sort();
  const shown = async () => (await page.getByRole("table", { name: /Devices/ }).getByRole("rowheader").getByRole("link").allInnerTexts()).sort();
  await go("/devices");
  const all = (await shown()).length;
  await page.getByRole("combobox", { name: "Group" }).selectOption("pressing");
  const wanted = await of("plant.example/zone=pressing");
  assert.ok(wanted.length > 0 && wanted.length < all);
  await until("only the presses are left", async () => (await shown()).join() === wanted.join());
  assert.equal(asked("group"), "pressing");
  await page.reload();
  assert.deepEqual(await shown(), wanted);
  assert.equal(await page.getByRole("combobox", { name: "Group" }).inputValue(), "pressing");
  await go("/groups/new");
  await page.getByLabel("Name", { exact: true }).fill("pressing");
  await page.getByLabel("Labels its devices have").fill("line=1");
  await page.getByRole("button", { name: "Make the group" }).click();
  await page.getByRole("alert").filter({ hasText: "There is a group of this name already" }).waitFor();
  assert.equal((await server.api("groups/pressing")).selector, "plant.example/zone=pressing");
  await wellMade(page, "a group that is there already");
});

test("a group that is deleted is gone from the filters, and a link to it says so", async () => {
  await go("/groups/pressing");
  await page.getByRole("link", { name: "Delete" }).click();
  await page.getByRole("dialog").getByText("Its devices and what runs on them stay as they are.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Delete this group" }).click();
  await page.getByText("Group pressing was deleted.").waitFor();
  await go("/devices");
  assert.equal(await page.getByRole("combobox", { name: "Group" }).getByRole("option", { name: "pressing" }).count(), 0);
  await go("/devices?group=pressing");
  await page.getByRole("heading", { name: "Devices", level: 1 }).waitFor();
  await page.getByRole("alert").filter({ hasText: /group/i }).waitFor();
  await wellMade(page, "devices of a group that is gone");
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/, /409 \(Conflict/, /404 \(Not Found\)/);
});
