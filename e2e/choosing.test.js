// Deploying, looked at closely: which devices the filters leave, what becomes of ticks, and every kind of question with wrong answers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, launch, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
let devices;
const go = (path, on = page) => on.goto(server.origin + path);
const asked = (name, on = page) => new URL(on.url()).searchParams.get(name) ?? "";
const shown = (on = page) => on.getByRole("table", { name: "Devices to choose from" }).getByRole("rowheader").allInnerTexts();
const tick = (name, on = page) => on.getByRole("checkbox", { name, exact: true });
const finished = (on = page) => on.getByRole("status").filter({ hasText: "Finished: done everywhere." }).waitFor({ timeout: 60_000 });
const wrong = (field) => field.evaluate((element) => {
  const box = element.matches("input,select,textarea") ? element : element.querySelector("input");
  return box.getAttribute("aria-invalid") === "true";
});

before(async () => {
  [browser] = await Promise.all([launch(), server.startDemo()]);
  page = await open(browser);
  await signIn(page, server);
  devices = (await server.api("devices?limit=100")).items;
});
after(async () => {
  await browser?.close();
  server.stop();
});

/** A draft at the step where devices are chosen. */
async function choose(application, on = page) {
  await go(`/catalog/${application}`, on);
  await on.getByRole("button", { name: "Deploy", exact: true }).click();
  await on.getByRole("button", { name: "Continue" }).click();
  await on.getByRole("table", { name: "Devices to choose from" }).waitFor();
}

/** At the questions, for these devices. */
async function question(application, names, on = page) {
  await choose(application, on);
  for (const name of names) await tick(name, on).check();
  await on.getByRole("button", { name: "Continue" }).click();
  await on.getByText(`These answers are for ${names.length} device`).waitFor();
}

async function drop(on = page) {
  await on.getByRole("button", { name: "Drop this draft" }).click();
  await on.getByText("The draft was dropped. Nothing was deployed.").waitFor();
}

/** Presses the button and waits for the page that comes of it. */
async function filter(on = page) {
  await Promise.all([on.waitForEvent("load"), on.getByRole("button", { name: "Filter", exact: true }).click()]);
}

const named = (keep) => devices.filter(keep).map((one) => one.device).sort();
const label = (one, name) => one.operatorLabels[name] ?? one.deviceLabels[name];

test("each filter narrows the list, stands in the address, and no tick is lost by any of them", async () => {
  await choose("line-monitor");
  const all = (await shown()).sort();
  assert.deepEqual(all, named(() => true));
  await tick("pump-01").check();
  const by = (name, role) => page.getByRole("group", { name: "Filter devices" }).getByRole(role, { name, exact: true });
  const text = by("Name contains", "searchbox");
  const labels = by("Labels", "textbox");
  const list = (name) => by(name, "combobox");
  const cases = [
    [text, "q", "PACKER", named((one) => one.device.includes("packer"))],
    [labels, "labels", "line=1", named((one) => label(one, "line") === "1")],
    [labels, "labels", "!plant.example/zone", named((one) => label(one, "plant.example/zone") === undefined)],
    [list("Site"), "site", "linz", named((one) => label(one, "site") === "linz")],
    [list("Group"), "group", "packaging", named((one) => label(one, "plant.example/zone") === "packaging")],
  ];
  let round = 0;
  for (const [field, name, value, wanted] of cases) {
    const set = (to) => (name === "q" || name === "labels" ? field.fill(to) : field.selectOption(to));
    assert.ok(wanted.length < all.length, `${name}=${value} narrows nothing`);
    await set(value);
    await filter();
    assert.equal(asked(name), value);
    if (wanted.length) assert.deepEqual((await shown()).sort(), wanted, `${name}=${value}`);
    else await page.getByRole("heading", { name: "No device matches" }).waitFor();
    await page.getByText(/^1 device chosen/).waitFor();
    if (round++ === 0) {
      await wellMade(page, "devices by name");
      await page.reload();
      assert.equal(await field.inputValue(), value, "what was asked for stands there after loading again");
      assert.deepEqual((await shown()).sort(), wanted);
    }
    await set("");
    await filter();
    assert.equal(asked(name), "");
    assert.deepEqual((await shown()).sort(), all);
    assert.equal(await tick("pump-01").isChecked(), true, `${name} has lost a tick`);
  }
  await drop();
});

test("filters go together, ticks from different ones add up, and one that is taken away stays away", async () => {
  await choose("line-monitor");
  await page.getByLabel("Name contains").fill("-01");
  await page.getByRole("combobox", { name: "Site" }).selectOption("graz");
  await filter();
  assert.deepEqual((await shown()).sort(), named((one) => one.device.includes("-01") && label(one, "site") === "graz"));
  assert.deepEqual([asked("q"), asked("site")], ["-01", "graz"]);
  await tick("pump-01").check();
  await tick("press-01").check();
  await page.getByLabel("Name contains").fill("robot");
  await filter();
  await tick("robot-01").check();
  await page.getByLabel("Name contains").fill("p");
  await page.getByRole("combobox", { name: "Site" }).selectOption("");
  await filter();
  await tick("press-01").uncheck();
  await page.getByLabel("Name contains").fill("");
  await filter();
  for (const [name, is] of [["pump-01", true], ["robot-01", true], ["press-01", false]]) assert.equal(await tick(name).isChecked(), is, name);
  await page.getByLabel("Labels").fill("a b");
  await filter();
  await page.getByRole("alert").filter({ hasText: "selector" }).waitFor();
  await wellMade(page, "a filter that cannot be read");
  await page.getByLabel("Labels").fill("");
  await filter();
  assert.equal(await tick("robot-01").isChecked(), true, "a filter that cannot be read loses nothing");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("These answers are for 2 devices").waitFor();
  await drop();
});

test("a device that cannot take it says why, and the reason stands with it under every filter", async () => {
  await choose("vibration-analytics");
  await page.getByLabel("Name contains").fill("tiny");
  await filter();
  const row = page.getByRole("row").filter({ hasText: "tiny-01" });
  assert.equal(await row.getByRole("checkbox").isDisabled(), true);
  await row.getByText(/memory/i).first().waitFor();
  await drop();
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

test("wrong answers of every kind are said while they are typed, and the words go when they are right", async () => {
  await question("vibration-analytics", ["pump-01"]);
  const fields = kinds(page);
  assert.equal(await fields.many.getByRole("checkbox", { name: "drive-end", exact: true }).isChecked(), true, "the default is ticked");
  const said = async (field, what) => {
    await until(what, () => wrong(field));
    const described = await field.getAttribute("aria-describedby");
    const words = await page.evaluate((ids) => ids.split(" ").map((id) => document.getElementById(id)?.dataset.wrong === undefined ? "" : document.getElementById(id).innerText).join(""), described);
    assert.ok(words.trim().length > 0, `${what}: said beside the field`);
    return words;
  };
  await fields.range.fill("731");
  assert.match(await said(fields.range, "too much"), /730/);
  await fields.range.fill("0");
  await until("the other end is named", async () => /at least 1\b/.test(await said(fields.range, "too little")));
  await fields.range.fill("lots");
  await said(fields.range, "no number");
  await fields.precision.fill("2.85");
  await said(fields.precision, "too precise");
  await fields.pattern.fill("nobody");
  await said(fields.pattern, "no address");
  await wellMade(page, "wrong answers while typing");
  await fields.range.fill("30");
  await fields.precision.fill("2.9");
  await fields.pattern.fill("me@plant.example");
  for (const field of [fields.range, fields.precision, fields.pattern]) await until("right again", async () => !(await wrong(field)));
  await drop();
});

test("without script the server says the same, field by field, and keeps what was answered", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await question("vibration-analytics", ["pump-02"], plain);
  let fields = kinds(plain);
  await fields.many.getByRole("checkbox", { name: "drive-end", exact: true }).uncheck();
  await fields.range.fill("731");
  await fields.precision.fill("2.85");
  await fields.pattern.fill("nobody");
  await fields.number.selectOption("6400");
  await plain.getByRole("button", { name: "Review" }).click();
  const summary = plain.getByRole("alert");
  for (const name of ["Machine class", "Bearings", "Keep for", "Warning level", "Notify"]) {
    await summary.getByRole("link", { name: new RegExp(`^${name}: `) }).waitFor();
  }
  fields = kinds(plain);
  for (const name of ["oneOf", "range", "precision", "pattern"]) assert.equal(await wrong(fields[name]), true, name);
  assert.deepEqual([await fields.range.inputValue(), await fields.pattern.inputValue(), await fields.number.inputValue()], ["731", "nobody", "6400"]);
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
  await plain.getByText("1 device would change.").waitFor();
  await plain.getByRole("button", { name: "Deploy to 1 device" }).click();
  await plain.getByRole("heading", { name: /Deploy Vibration Analytics/, level: 1 }).waitFor();
  const { items: [{ values }] } = await server.api("deployments?client=pump-02&application=vibration-analytics");
  assert.deepEqual([values.machineClass, values.bearings, values.samplingRate, values.retentionDays, values.warnLevel, values.notifyAddress],
    ["class-3", ["gearbox", "fan"], 6400, 30, 2.9, "me@plant.example"], "each of its own type");
  await plain.context().close();
});

test("a box that is not ticked is a no, and is one when it comes to the device", async () => {
  await question("line-monitor", ["pump-01"]);
  await page.getByLabel("Line name").fill("Boxes");
  const box = page.getByRole("checkbox", { name: "Show rejects" });
  assert.equal(await box.isChecked(), true, "the default");
  await box.uncheck();
  await page.getByLabel("Controller address").fill("http://controller");
  await until("the pattern is checked while typing", () => wrong(page.getByLabel("Controller address")));
  await page.getByLabel("Controller address").fill("opc.tcp://press-7.plant.example:4840");
  await page.getByLabel("Shift model").selectOption("two-shift");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("1 device would change.").waitFor();
  // Back to the questions: the box is as it was left.
  await page.getByRole("link", { name: "Back", exact: true }).click();
  assert.equal(await box.isChecked(), false);
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Deploy to 1 device" }).click();
  await finished();
  const { items: [{ values }] } = await server.api("deployments?client=pump-01&application=line-monitor");
  assert.deepEqual([values.showRejects, values.shiftModel, values.controllerAddress], [false, "two-shift", "opc.tcp://press-7.plant.example:4840"]);
});

/** Gives one device an answer of its own, at the place for it. */
async function own(device, name, value) {
  const place = page.getByRole("region", { name: "Answers for one device alone" });
  await place.getByLabel("Device", { exact: true }).selectOption(device);
  const here = await place.getByLabel("Its answer").count();
  if (here) {
    await place.getByLabel("Question").selectOption(name);
    await place.getByLabel("Its answer").fill(value);
  }
  await place.getByRole("button").last().click();
  if (!here) {
    // A page of its own, with the questions as they are.
    await page.getByLabel(name, { exact: true }).fill(value);
    await page.getByLabel(name, { exact: true }).press("Enter");
  }
  await page.getByRole("region", { name: "Answers for one device alone" }).getByText(value).first().waitFor();
}

test("a device with an answer of its own gets it, and the others get the one for all", async () => {
  await question("line-monitor", ["press-01", "packer-01"]);
  await page.getByLabel("Line name").fill("Together");
  await page.getByLabel("Sampling interval").fill("7");
  await own("packer-01", "Sampling interval", "33");
  assert.equal(await page.getByLabel("Line name").inputValue(), "Together", "what was typed before is not lost");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("2 devices would change.").waitFor();
  await page.getByRole("region", { name: /The same change on .*packer-01/ }).getByText("33", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Deploy to 2 devices" }).click();
  await until("both have it", async () => {
    const of = async (client) => (await server.api(`deployments?client=${client}&application=line-monitor`)).items[0]?.values;
    const [press, packer] = [await of("press-01"), await of("packer-01")];
    return press?.sampleSeconds === 7 && packer?.sampleSeconds === 33 && [press, packer].every((values) => values.lineName === "Together");
  });
});

test("devices are narrowed by how they do, and a tick on one that is not shown is kept", async () => {
  await until("one device is silent", async () => (await server.api("devices?limit=100")).items.some((one) => one.silent));
  await choose("shift-board");
  const box = page.getByRole("row").filter({ hasText: "Fits" }).getByRole("checkbox").first();
  await box.check();
  await page.getByRole("combobox", { name: "State" }).selectOption("silent");
  await filter();
  assert.deepEqual([asked("state"), await shown()], ["silent", ["offline-01"]]);
  await page.getByText(/^1 device chosen/).waitFor();
  await page.getByRole("combobox", { name: "State" }).selectOption("");
  await filter();
  assert.equal(await page.getByRole("checkbox", { checked: true }).count(), 1);
  await drop();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/, /400 \(Bad Request/);
});
