// A single device: labels, gateway, history, decommissioning, workloads; and groups that several operators edit.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, byReason, byState, end, fitsPhone, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
const main = (on = page) => on.getByRole("main");
const go = (path, on = page) => on.goto(server.origin + path);
const device = (name) => `/devices/${name.split("/")[0]}/${name}`;
const asked = (name) => new URL(page.url()).searchParams.get(name) ?? "";
const finished = () => byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
const labelsOf = async (name) => (await server.api(`devices/${name.split("/")[0]}/${name}`)).operatorLabels;

before(async () => {
  ({ browser, page } = await begin(server));
});
after(async () => {
  await end(server, browser);
});

test("one label is changed, one removed, and the others stay", async () => {
  await go(device("robot-01"));
  const before = await labelsOf("robot-01");
  assert.deepEqual(Object.keys(before).sort(), ["line", "site"]);
  await page.getByLabel("New label").fill("shift");
  await page.getByLabel("Value", { exact: true }).fill("night");
  await page.getByRole("button", { name: "Save labels" }).click();
  await byReason(page, "labels-saved").waitFor();
  await page.getByLabel("shift", { exact: true }).fill("day");
  await page.getByLabel("Remove line").check();
  await page.getByRole("region", { name: "Labels" }).getByLabel("Comment (recorded in the audit log)").fill("moved to another line");
  await page.getByRole("button", { name: "Save labels" }).click();
  await byReason(page, "labels-saved").waitFor();
  await until("the page shows it", async () => (await page.getByLabel("line", { exact: true }).count()) === 0);
  assert.deepEqual(await labelsOf("robot-01"), { shift: "day", site: before.site });
  await wellMade(page, "labels");
  await go("/devices?labels=shift%3Dday");
  assert.deepEqual(await page.getByRole("table", { name: /Devices/ }).getByRole("rowheader").getByRole("link").allInnerTexts(), ["robot-01"]);
  await go("/devices?labels=line");
  assert.equal(await page.getByRole("link", { name: "robot-01", exact: true }).count(), 0);
  const { items } = await server.api("audit?limit=20");
  assert.ok(items.some((record) => record.subject === "device/robot-01/robot-01" && record.comment === "moved to another line"));
});

test("an invalid label is rejected and the input stays", async () => {
  const [long, before] = ["long".repeat(200), await labelsOf("robot-01")];
  await go(device("robot-01"));
  await page.getByLabel("New label").fill(long);
  await page.getByLabel("Value", { exact: true }).fill("7");
  await page.getByRole("button", { name: "Save labels" }).click();
  await page.getByRole("alert").first().waitFor();
  assert.equal(await page.getByLabel("New label").inputValue(), long);
  assert.deepEqual(await labelsOf("robot-01"), before);
});

test("long words wrap, in labels and in messages about them", async () => {
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
    await page.getByLabel("Value", { exact: true }).fill("7");
    await page.getByRole("button", { name: "Save labels" }).click();
    await page.getByRole("alert").first().waitFor();
    await wellMade(page, "a label that is too long");
  } finally {
    await server.api("devices/robot-02/robot-02", "PATCH", { labels: { [long]: null } });
  }
});

test("a gateway links to the devices behind it, and they link back", async () => {
  await go(device("gateway-01"));
  const behind = page.getByRole("region", { name: "Behind this gateway" });
  assert.equal(await behind.getByRole("link").count(), 3);
  await wellMade(page, "gateway");
  await fitsPhone(page, "gateway");
  await behind.getByRole("link", { name: /cell-1/ }).click();
  await page.getByRole("heading", { name: /cell-1/, level: 1 }).waitFor();
  for (const title of ["Workloads", "Hardware and capabilities", "Identity", "Events", "Labels"]) {
    await main().getByRole("heading", { name: title, exact: true }).waitFor();
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
  await byReason(page, "for-device").waitFor();
  assert.equal(asked("device"), "gateway-01/gateway-01/cell-2");
  await wellMade(page, "catalog for one device");
  await page.getByRole("link", { name: "Vibration Analytics" }).click();
  await byReason(page, "compatibility").waitFor();
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  assert.equal(await page.getByRole("checkbox", { name: "gateway-01/cell-2", exact: true }).isChecked(), true);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Machine class").selectOption("class-1");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Deploy to 1 device" }).click();
  await finished();
  await go(device("gateway-01/cell-2"));
  await page.getByRole("region", { name: "Workloads" }).getByRole("link", { name: /Vibration Analytics/ }).waitFor();
});

test("a device shows its report history, when it was last seen, and its events", async () => {
  await until("it has reported", async () => (await server.api("deployments?client=press-02&state=up-to-date")).items.length > 0);
  await go(device("press-02"));
  const runs = page.getByRole("region", { name: "Workloads" });
  await runs.getByText(/^\d+\/\d+ running$/).first().waitFor();
  assert.ok((await runs.getByRole("definition").filter({ has: page.locator("[data-state=installed]") }).count()) > 0, "reported and desired states are shown");
  const chart = runs.getByRole("img", { name: /installed from/ }).first();
  await chart.waitFor();
  assert.match(await chart.getAttribute("aria-label"), /installing from .*, installed from /);
  const heard = main().getByText(/^Last seen/);
  await heard.waitFor();
  const at = await heard.locator("time").getAttribute("datetime");
  assert.ok(Math.abs(Date.now() - Date.parse(at)) < 60_000, `last seen at ${at}`);
  const events = page.getByRole("region", { name: "Events" });
  await events.locator("[data-event='deployment.installed']").first().waitFor();
  await events.getByRole("link").first().click();
  await page.getByRole("heading", { name: "Events", level: 1 }).waitFor();
  assert.equal(asked("client"), "press-02");
  assert.ok((await page.getByRole("listitem").filter({ hasText: "press-02" }).count()) > 0);
});

test("only the version of one deployment is changed", async () => {
  const all = (await server.api("deployments?application=line-monitor")).items;
  const one = all.find((deployment) => deployment.client === "press-02");
  await until("it is up to date", async () => (await server.api(`deployments/${one.id}`)).state === "up-to-date");
  await go(`/deployments/${one.id}`);
  await page.getByRole("button", { name: "Upgrade or downgrade" }).click();
  await page.getByRole("heading", { name: /Upgrade or downgrade Line Monitor/ }).waitFor();
  assert.equal(await page.getByLabel("1.1.0").isChecked(), true, "the other version is preselected");
  await page.getByRole("button", { name: "Continue" }).click();
  assert.equal(await page.getByLabel("Line name").getAttribute("readonly"), "", "an immutable value is read-only");
  await page.getByLabel("Shift model").selectOption("one-shift");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 1).waitFor();
  await wellMade(page, "review of another version");
  await page.getByRole("button", { name: /1\.1\.0/ }).click();
  await finished();
  const now = await server.api(`deployments/${one.id}`);
  assert.deepEqual([now.version, now.revision, now.values.shiftModel, now.values.lineName], ["1.1.0", one.revision + 1, "one-shift", one.values.lineName]);
  for (const other of all.filter((deployment) => deployment.id !== one.id)) {
    assert.equal((await server.api(`deployments/${other.id}`)).version, other.version, `${other.client} is unchanged`);
  }
  await go(`/deployments/${one.id}`);
  await page.getByRole("link", { name: `Roll back to revision ${one.revision}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: `Roll back to revision ${one.revision}` }).click();
  await finished();
  assert.equal((await server.api(`deployments/${one.id}`)).version, "1.0.0");
});

test("a removal on an offline device is pending, and every page shows it", async () => {
  await until("it is offline", async () => (await server.api("devices/offline-01/offline-01")).offline);
  const { items: [{ id }] } = await server.api("deployments?client=offline-01&application=line-monitor");
  await go(`/deployments/${id}`);
  await page.getByRole("link", { name: "Remove", exact: true }).click();
  await byReason(page.getByRole("dialog"), "affected", 1).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Remove from 1 device" }).click();
  await page.getByRole("heading", { name: "Remove Line Monitor from offline-01" }).waitFor();
  await byState(page, "device-offline", ".legend ").waitFor();
  assert.equal(await byState(page, "completed", "[role=status]").count(), 0);
  await wellMade(page, "a removal that waits");
  await go(`/deployments/${id}`);
  await byState(page, "device-offline", "[role=status] ").waitFor();
  assert.equal(await page.getByRole("link", { name: "Remove", exact: true }).count(), 0, "it is already removing");
  await wellMade(page, "a deployment that is being removed");
  await go(device("offline-01"));
  await page.getByRole("region", { name: "Workloads" }).getByRole("link", { name: /Line Monitor/ }).waitFor();
  await byState(page, "offline").first().waitFor();
});

test("a decommissioned client is blocked everywhere and can be approved again", async () => {
  await go(device("pump-02"));
  await page.getByRole("link", { name: "Decommission" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Decommission this device" }).click();
  await byReason(page, "decommissioned").waitFor();
  assert.equal(await main().getByRole("link", { name: "Deploy to this device" }).count(), 0);
  await go("/devices?state=blocked");
  await page.getByRole("table", { name: /Devices/ }).getByRole("link", { name: "pump-02" }).waitFor();
  await go("/settings/identities?state=decommissioned");
  await page.getByRole("row").filter({ hasText: "pump-02" }).getByRole("link", { name: "Approve pump-02" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve this device" }).click();
  await byReason(page, "approved").waitFor();
  assert.equal((await server.api("clients/pump-02")).state, "accepted");
  await main().getByRole("link", { name: "Deploy to this device" }).waitFor();
  await go("/devices?state=blocked");
  await byReason(page, "no-match").waitFor();
});

test("a deleted device reappears when it reports again", async () => {
  // An event about the deletion arrives before the response to the form; without events the page waits for the response.
  const alone = await open(browser);
  await alone.addInitScript(() => { window.EventSource = class extends EventTarget { close() {} }; });
  await signIn(alone, server);
  await go(device("tiny-01"), alone);
  await alone.getByRole("link", { name: "Delete record" }).click();
  const dialog = alone.getByRole("dialog");
  await dialog.getByRole("heading", { name: /tiny-01/ }).waitFor();
  await wellMade(alone, "deleting a device record");
  await dialog.getByLabel("Comment (recorded in the audit log)").fill("scrapped");
  await dialog.getByRole("button", { name: "Delete record" }).click();
  await byReason(alone, "record-deleted").waitFor();
  await alone.getByRole("heading", { name: "Devices", level: 1 }).waitFor();
  onlyExpected(alone);
  await alone.context().close();
  assert.ok((await server.api("audit?limit=20")).items.some((record) => record.subject === "device/tiny-01/tiny-01" && record.comment === "scrapped"));
  const answer = await go(device("tiny-01"));
  if (answer.status() === 404) await page.getByRole("heading", { level: 1, name: "Not found" }).waitFor();
  else assert.deepEqual(await labelsOf("tiny-01"), {}, "it has reported again and has no labels");
});

test("the second of two operators who edit a group sees a conflict and loses no input", async () => {
  const other = await open(browser);
  await signIn(other, server);
  for (const one of [page, other]) await go("/groups/packaging", one);
  await wellMade(page, "group");
  await page.getByLabel("Label selector").fill("plant.example/zone=packaging,site=graz");
  await page.getByLabel("Description").fill("Packaging in Graz");
  await page.getByRole("status").filter({ hasText: /The group will have .*: 0 added, \d+ removed/ }).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await byReason(page, "group-saved").waitFor();
  await other.getByLabel("Label selector").fill("plant.example/zone=packaging,site=linz");
  await other.getByRole("button", { name: "Save" }).click();
  const told = byReason(other, "conflict");
  await told.waitFor();
  await told.getByText("plant.example/zone=packaging,site=graz").waitFor();
  assert.equal(await other.getByLabel("Label selector").inputValue(), "plant.example/zone=packaging,site=linz", "the input stays");
  await wellMade(other, "group changed by another operator");
  assert.equal((await server.api("groups/packaging")).selector, "plant.example/zone=packaging,site=graz", "nothing was overwritten");
  await other.getByRole("button", { name: "Save" }).click();
  await byReason(other, "group-saved").waitFor();
  assert.equal((await server.api("groups/packaging")).selector, "plant.example/zone=packaging,site=linz");
  onlyExpected(other, /409 \(Conflict/, /412 \(Precondition/);
  await other.context().close();
});

test("a group lists its devices and, without script, shows the effect before saving", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await server.api("groups/counted", "PUT", { selector: "site=graz" });
  const inside = (await server.api("devices?selector=site%3Dgraz")).items.map((one) => one.device).sort();
  await go("/groups/counted", plain);
  const members = plain.getByRole("region", { name: "Devices", exact: true }).getByRole("listitem").getByRole("link");
  assert.deepEqual((await members.allInnerTexts()).sort(), inside);
  await plain.getByLabel("Label selector").fill("site=linz");
  await plain.getByRole("button", { name: "Save" }).click();
  await byReason(plain, "confirm").filter({ hasText: `, ${inside.length} removed` }).waitFor();
  assert.equal((await server.api("groups/counted")).selector, "site=graz");
  await plain.getByRole("button", { name: "Save" }).click();
  await byReason(plain, "group-saved").waitFor();
  assert.equal((await server.api("groups/counted")).selector, "site=linz");
  await plain.context().close();
  await go("/groups/counted");
  await wellMade(page, "a group with its devices");
  await fitsPhone(page, "a group with its devices");
  await page.getByLabel("Application").selectOption("Line Monitor");
  await page.getByRole("button", { name: "Deploy to this group" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await byReason(page, "all-selected").filter({ hasText: "site=linz" }).waitFor();
  await page.getByRole("button", { name: "Discard draft" }).click();
  await page.getByRole("dialog").getByRole("link", { name: "Cancel" }).click();
  assert.equal(await byReason(page, "all-selected").filter({ hasText: "site=linz" }).count(), 1, "the draft still exists");
  await page.getByRole("button", { name: "Discard draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard draft" }).click();
  await byReason(page, "draft-discarded").waitFor();
});

test("bulk labels and decommissioning work with and without script, and the selection survives a refresh", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  for (const [on, value] of [[page, "early"], [plain, "late"]]) {
    await go("/devices?q=press", on);
    for (const name of ["press-01", "press-02"]) await on.getByRole("checkbox", { name: `Select ${name}`, exact: true }).check();
    if (on === page) {
      await server.api("devices/robot-02/robot-02", "PATCH", { labels: { touched: "yes" } });
      await page.getByRole("checkbox", { name: "Select all on this page" }).waitFor();
      const fresh = page.waitForResponse((response) => response.request().headers()["x-fragment"] === "live");
      await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
      await fresh;
      assert.equal(await page.getByRole("checkbox", { name: "Select press-01", exact: true }).isChecked(), true);
    }
    await on.getByRole("button", { name: "Label", exact: true }).click();
    await byReason(on, "affected", 2).waitFor();
    if (on === page) {
      await wellMade(page, "bulk labels");
      await fitsPhone(page, "bulk labels");
    }
    await on.getByLabel("Label", { exact: true }).fill("turn");
    await on.getByLabel("Value", { exact: true }).fill(value);
    await on.getByLabel("Comment (recorded in the audit log)").fill(`turn ${value}`);
    await on.getByRole("button", { name: "Label 2 devices" }).click();
    await byReason(on, "label-set").waitFor();
    assert.equal(new URL(on.url()).searchParams.get("q"), "press", "back on the same page");
    for (const name of ["press-01", "press-02"]) assert.equal((await labelsOf(name)).turn, value);
  }
  const { items } = await server.api("audit?limit=30");
  for (const name of ["press-01", "press-02"]) assert.ok(items.some((one) => one.subject === `device/${name}/${name}` && one.comment === "turn late"));
  await go("/devices?labels=turn%3Dlate");
  await page.getByLabel("All 2 matching").check();
  await page.getByRole("button", { name: "Decommission", exact: true }).click();
  await page.getByRole("heading", { name: "Decommission 2 device identities?" }).waitFor();
  await wellMade(page, "bulk decommissioning");
  await page.getByRole("button", { name: "Decommission 2 device identities" }).click();
  await byReason(page, "decommissioned").waitFor();
  await go("/settings/identities?state=decommissioned");
  await wellMade(page, "device identities to select");
  for (const name of ["press-01", "press-02"]) await page.getByRole("checkbox", { name: `Select ${name}`, exact: true }).check();
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await byReason(page, "affected", 2).waitFor();
  await page.getByRole("button", { name: "Approve 2 device identities" }).click();
  await byReason(page, "approved").waitFor();
  assert.equal((await server.api("clients/press-01")).state, "accepted");
  await plain.context().close();
});

test("on a phone the site is shown below a device and the components below a deployment, and short names do not wrap", async () => {
  const phone = await open(browser, { viewport: { width: 375, height: 800 } });
  await signIn(phone, server);
  await go("/devices?q=robot-0", phone);
  const row = phone.getByRole("row").filter({ has: phone.getByRole("link", { name: "robot-02", exact: true }) });
  await row.getByRole("rowheader").getByText((await labelsOf("robot-02")).site ?? "graz").waitFor();
  const lines = await row.getByRole("link", { name: "robot-02", exact: true }).evaluate((link) => link.getClientRects().length);
  assert.equal(lines, 1, "a name in one line");
  const [one] = (await server.api("deployments?limit=100")).items.filter((known) => known.reported?.components?.length);
  await go(`/deployments?device=${one.device}`, phone);
  await phone.getByRole("cell").getByText(one.reported.components[0].name).first().waitFor();
  await fitsPhone(phone, "deployments of a device");
  await phone.context().close();
});

test("devices are filtered by group, also in the address, and a group name is unique", async () => {
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
  await page.getByLabel("Label selector").fill("line=1");
  await page.getByRole("button", { name: "Create group" }).click();
  await byReason(page, "exists").waitFor();
  assert.equal((await server.api("groups/pressing")).selector, "plant.example/zone=pressing");
  await wellMade(page, "a group that already exists");
});

test("a deleted group disappears from the filters, and a link to it shows an error", async () => {
  await go("/groups/pressing");
  await page.getByRole("link", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete group" }).click();
  await byReason(page, "group-deleted").waitFor();
  await go("/devices");
  assert.equal(await page.getByRole("combobox", { name: "Group" }).getByRole("option", { name: "pressing" }).count(), 0);
  await go("/devices?group=pressing");
  await page.getByRole("heading", { name: "Devices", level: 1 }).waitFor();
  await byReason(page, "invalid-filter").waitFor();
  await wellMade(page, "devices of a deleted group");
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/, /409 \(Conflict/, /404 \(Not Found\)/);
});
