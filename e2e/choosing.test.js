// The deployment wizard in detail: device filters, the selection, and invalid values for every kind of parameter.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, byReason, byState, end, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";
import { answerAlone, choose, drop, filtered, question, shown, tick } from "./support/wizard.js";

const server = new Server();
let browser;
let page;
let devices;
const finished = () => byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
const wrong = (field) => field.evaluate((element) => {
  const box = element.matches("input,select,textarea") ? element : element.querySelector("input");
  return box.getAttribute("aria-invalid") === "true";
});

before(async () => {
  ({ browser, page } = await begin(server));
  devices = (await server.api("devices?limit=100")).items;
});
after(async () => {
  await end(server, browser);
});

const named = (keep) => devices.filter(keep).map((one) => one.device).sort();
const label = (one, name) => one.operatorLabels[name] ?? one.deviceLabels[name];

test("each filter narrows the list, is part of the URL, and keeps the selection", async () => {
  await choose(page, server, "line-monitor");
  const all = await shown(page);
  assert.deepEqual(all, named(() => true));
  await tick(page, "pump-01").check();
  const cases = [
    ["q", "PACKER", named((one) => one.device.includes("packer"))],
    ["labels", "line=1", named((one) => label(one, "line") === "1")],
    ["labels", "plant.example/zone!=pressing,site", named((one) => label(one, "plant.example/zone") !== "pressing" && label(one, "site") !== undefined)],
    ["site", "linz", named((one) => label(one, "site") === "linz")],
    ["group", "packaging", named((one) => label(one, "plant.example/zone") === "packaging")],
  ];
  for (const [name, value, wanted] of cases) {
    assert.ok(wanted.length > 0 && wanted.length < all.length, `${name}=${value} narrows nothing`);
    await filtered(page, { [name]: value }, wanted);
    await page.getByText(/^1 selected$/).waitFor();
    await page.reload();
    assert.deepEqual(await shown(page), wanted, "the filter survives a reload");
    if (name === "q") {
      assert.equal(await page.getByLabel("Name contains").inputValue(), value);
      await wellMade(page, "devices by name");
    }
    await filtered(page, { [name]: "" }, all);
    assert.equal(await tick(page, "pump-01").isChecked(), true, `${name} has lost the selection`);
  }
  await drop(page);
});

test("filters combine, selections from different filters add up, and a cleared checkbox stays cleared", async () => {
  await choose(page, server, "line-monitor");
  const all = await shown(page);
  await filtered(page, { q: "-01", site: "graz" }, named((one) => one.device.includes("-01") && label(one, "site") === "graz"));
  for (const name of ["pump-01", "press-01"]) await tick(page, name).check();
  await filtered(page, { q: "robot" }, ["robot-01"]);
  await tick(page, "robot-01").check();
  await filtered(page, { q: "p", site: "" }, named((one) => one.device.includes("p")));
  await tick(page, "press-01").uncheck();
  await filtered(page, { q: "" }, all);
  for (const [name, is] of [["pump-01", true], ["robot-01", true], ["press-01", false]]) assert.equal(await tick(page, name).isChecked(), is, name);
  await page.getByLabel("Labels").fill("a b");
  await page.getByRole("button", { name: "Filter", exact: true }).click();
  await byReason(page, "invalid-filter").waitFor();
  await wellMade(page, "an invalid filter");
  await filtered(page, { labels: "" }, all);
  assert.equal(await tick(page, "robot-01").isChecked(), true, "an invalid filter keeps the selection");
  await page.getByRole("button", { name: "Continue" }).click();
  await byReason(page, "applies-to").filter({ hasText: "2 devices" }).waitFor();
  await drop(page);
});

test("the number of selected devices follows every click at once", async () => {
  await choose(page, server, "line-monitor");
  const chosen = page.getByText(/^\d+ selected$/);
  assert.equal(await chosen.innerText(), "0 selected");
  assert.equal(await chosen.getAttribute("aria-live"), "polite");
  await tick(page, "pump-01").check();
  assert.equal(await chosen.innerText(), "1 selected");
  const all = page.getByRole("checkbox", { name: "Select all compatible on this page" });
  await all.check();
  const ticked = await page.getByRole("checkbox", { checked: true }).count() - 1;
  assert.equal(await chosen.innerText(), `${ticked} selected`);
  await all.uncheck();
  assert.equal(await chosen.innerText(), "0 selected");
  await drop(page);
});

for (const javaScriptEnabled of [true, false]) {
  test(`selection and values are kept after going back, valid or not, ${javaScriptEnabled ? "with" : "without"} script`, async () => {
    const on = await open(browser, { javaScriptEnabled });
    await signIn(on, server);
    await choose(on, server, "line-monitor");
    await tick(on, "pump-01").check();
    await on.getByRole("navigation", { name: "Steps" }).getByRole("button", { name: "Version" }).click();
    await on.getByRole("button", { name: "Continue" }).click();
    assert.equal(await tick(on, "pump-01").isChecked(), true, "the selection");
    await on.getByRole("button", { name: "Continue" }).click();
    await on.getByLabel("Line name").fill("Typed by me");
    await on.getByLabel("Sampling interval").fill("lots");
    await on.getByRole("button", { name: "Back", exact: true }).click();
    await on.getByRole("button", { name: "Continue" }).click();
    assert.equal(await on.getByLabel("Line name").inputValue(), "Typed by me");
    assert.equal(await on.getByLabel("Sampling interval").inputValue(), "lots", "invalid values as well");
    assert.equal(await wrong(on.getByLabel("Sampling interval")), true);
    if (javaScriptEnabled) await wellMade(on, "invalid values kept");
    await drop(on);
    await on.context().close();
  });
}

test("a form that outlasts the session stays on the page and continues after signing in in another tab", async () => {
  const on = await open(browser);
  await signIn(on, server);
  await question(on, server, "line-monitor", ["pump-01"]);
  await on.getByLabel("Line name").fill("Typed for an hour");
  const place = on.url();
  await on.context().clearCookies();
  await on.getByRole("button", { name: "Review" }).click();
  await on.locator("#stale:not([hidden])").waitFor();
  assert.equal(on.url(), place);
  await wellMade(on, "a session that ended");
  const other = await on.context().newPage();
  await signIn(other, server);
  await on.getByRole("button", { name: "Review" }).click();
  await byReason(on, "update", 1).waitFor();
  await on.getByText("Typed for an hour").first().waitFor();
  await drop(on);
  await on.context().close();
});

test("without JavaScript a form sent after the session leads to sign-in with a notice, and back", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await question(plain, server, "line-monitor", ["pump-01"]);
  const place = plain.url();
  await plain.context().clearCookies();
  await plain.getByRole("button", { name: "Review" }).click();
  await byReason(plain, "session-ended").waitFor();
  await plain.getByLabel("Access token").fill(server.token);
  await plain.getByRole("button", { name: "Sign in" }).click();
  await plain.waitForURL(place);
  await drop(plain);
  await plain.context().close();
});

test("an incompatible device shows the reason, with a filter as well", async () => {
  await choose(page, server, "vibration-analytics");
  await filtered(page, { q: "tiny" }, ["tiny-01"]);
  const row = page.getByRole("row").filter({ hasText: "tiny-01" });
  assert.equal(await row.getByRole("checkbox").isDisabled(), true);
  await row.getByText(/memory/i).first().waitFor();
  await drop(page);
});

/** The fields of Vibration Analytics, one of each kind. */
const kinds = (on) => ({
  oneOf: on.getByLabel("Machine class"),
  many: on.getByRole("group", { name: "Bearings" }),
  range: on.getByLabel("Keep for"),
  precision: on.getByLabel("Warning level"),
  pattern: on.getByLabel("Notify"),
  number: on.getByLabel("Sampling rate"),
});

test("invalid values of every kind are reported while typing, and the messages disappear when fixed", async () => {
  await question(page, server, "vibration-analytics", ["pump-01"]);
  const fields = kinds(page);
  assert.equal(await fields.many.getByRole("checkbox", { name: "drive-end", exact: true }).isChecked(), true, "the default is selected");
  const said = async (field, what) => {
    await until(what, () => wrong(field));
    const described = await field.getAttribute("aria-describedby");
    const words = await page.evaluate((ids) => ids.split(" ").map((id) => document.getElementById(id)?.dataset.wrong === undefined ? "" : document.getElementById(id).innerText).join(""), described);
    assert.ok(words.trim().length > 0, `${what}: reported at the field`);
    return words;
  };
  await fields.range.fill("731");
  assert.match(await said(fields.range, "too much"), /730/);
  await fields.range.fill("0");
  await until("the lower limit is named", async () => /at least 1\b/.test(await said(fields.range, "too little")));
  await fields.range.fill("lots");
  await said(fields.range, "no number");
  await fields.precision.fill("2.85");
  await said(fields.precision, "too precise");
  await fields.pattern.fill("absent");
  await said(fields.pattern, "no address");
  await wellMade(page, "invalid values while typing");
  await fields.range.fill("30");
  await fields.precision.fill("2.9");
  await fields.pattern.fill("me@plant.example");
  for (const field of [fields.range, fields.precision, fields.pattern]) await until("valid again", async () => !(await wrong(field)));
  await drop(page);
});

test("without JavaScript the server reports the same, field by field, and keeps the values", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await question(plain, server, "vibration-analytics", ["pump-02"]);
  let fields = kinds(plain);
  await fields.many.getByRole("checkbox", { name: "drive-end", exact: true }).uncheck();
  await fields.range.fill("731");
  await fields.precision.fill("2.85");
  await fields.pattern.fill("absent");
  await fields.number.selectOption("6400");
  await plain.getByRole("button", { name: "Review" }).click();
  const summary = plain.getByRole("alert");
  for (const name of ["Machine class", "Bearings", "Keep for", "Warning level", "Notify"]) {
    await summary.getByRole("link", { name: new RegExp(`^${name}: `) }).waitFor();
  }
  fields = kinds(plain);
  for (const name of ["oneOf", "range", "precision", "pattern"]) assert.equal(await wrong(fields[name]), true, name);
  assert.deepEqual([await fields.range.inputValue(), await fields.pattern.inputValue(), await fields.number.inputValue()], ["731", "absent", "6400"]);
  // A link in the summary leads to its field.
  const target = await summary.getByRole("link", { name: /^Keep for: / }).getAttribute("href");
  assert.equal(await plain.locator(target).evaluate((element) => element.labels[0].innerText.startsWith("Keep for")), true);
  assert.equal((await server.api("deployments?client=pump-02&application=vibration-analytics")).items.length, 0, "nothing was deployed");

  await fields.oneOf.selectOption("class-3");
  for (const name of ["gearbox", "fan"]) await fields.many.getByRole("checkbox", { name, exact: true }).check();
  await fields.range.fill("30");
  await fields.precision.fill("2.9");
  await fields.pattern.fill("me@plant.example");
  await plain.getByRole("button", { name: "Review" }).click();
  await byReason(plain, "update", 1).waitFor();
  await plain.getByRole("button", { name: "Deploy to 1 device" }).click();
  await plain.getByRole("heading", { name: /Deploy Vibration Analytics/, level: 1 }).waitFor();
  const { items: [{ values }] } = await server.api("deployments?client=pump-02&application=vibration-analytics");
  assert.deepEqual([values.machineClass, values.bearings, values.samplingRate, values.retentionDays, values.warnLevel, values.notifyAddress],
    ["class-3", ["gearbox", "fan"], 6400, 30, 2.9, "me@plant.example"], "each of its own type");
  await plain.context().close();
});

test("a cleared checkbox means false, on the device as well", async () => {
  await question(page, server, "line-monitor", ["pump-01"]);
  await page.getByLabel("Line name").fill("Boxes");
  const box = page.getByRole("checkbox", { name: "Show rejects" });
  assert.equal(await box.isChecked(), true, "the default");
  await box.uncheck();
  await page.getByLabel("Controller address").fill("http://controller");
  await until("the pattern is checked while typing", () => wrong(page.getByLabel("Controller address")));
  await page.getByLabel("Controller address").fill("opc.tcp://press-7.plant.example:4840");
  await page.getByLabel("Shift model").selectOption("two-shift");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 1).waitFor();
  // Back to the configuration: the checkbox is unchanged.
  await page.getByRole("button", { name: "Back", exact: true }).click();
  assert.equal(await box.isChecked(), false);
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Deploy to 1 device" }).click();
  await finished();
  const { items: [{ values }] } = await server.api("deployments?client=pump-01&application=line-monitor");
  assert.deepEqual([values.showRejects, values.shiftModel, values.controllerAddress], [false, "two-shift", "opc.tcp://press-7.plant.example:4840"]);
});

test("a device with an override gets it, and the others get the common value", async () => {
  await question(page, server, "line-monitor", ["press-01", "packer-01"]);
  await page.getByLabel("Line name").fill("Together");
  await page.getByLabel("Sampling interval").fill("7");
  await answerAlone(page, "packer-01", "Sampling interval", "33");
  assert.equal(await page.getByLabel("Line name").inputValue(), "Together", "earlier input is kept");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 2).waitFor();
  await page.getByRole("region", { name: /The same change on .*packer-01/ }).getByText("33", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Deploy to 2 devices" }).click();
  // Wait for the page before the next step.
  await byReason(page, "rollouts-created").waitFor();
  await until("both have it", async () => {
    const of = async (client) => (await server.api(`deployments?client=${client}&application=line-monitor`)).items[0]?.values;
    const [press, packer] = [await of("press-01"), await of("packer-01")];
    return press?.sampleSeconds === 7 && packer?.sampleSeconds === 33 && [press, packer].every((values) => values.lineName === "Together");
  });
});

test("devices are filtered by state, and the selection of hidden devices is kept", async () => {
  await until("one device is offline", async () => (await server.api("devices?limit=100")).items.some((one) => one.offline));
  await choose(page, server, "shift-board");
  const all = await shown(page);
  await page.getByRole("row").filter({ has: page.getByRole("rowheader") }).filter({ has: page.locator('[data-state="compatible"]') }).getByRole("checkbox").first().check();
  await filtered(page, { state: "offline" }, ["offline-01"]);
  await page.getByText(/^1 selected$/).waitFor();
  await filtered(page, { state: "" }, all);
  assert.equal(await page.getByRole("checkbox", { checked: true }).count(), 1);
  await drop(page);
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/, /400 \(Bad Request/);
});
