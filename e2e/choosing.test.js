// Deploying, looked at closely: which devices the filters leave, what becomes of ticks, and every kind of question with wrong answers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, end, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";
import { answerAlone, choose, drop, filtered, question, shown, tick } from "./support/wizard.js";

const server = new Server();
let browser;
let page;
let devices;
const finished = () => page.getByRole("status").filter({ hasText: "Finished: done everywhere." }).waitFor({ timeout: 60_000 });
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

test("each filter narrows the list, stands in the address, and no tick is lost by any of them", async () => {
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
    await page.getByText(/^1 device chosen/).waitFor();
    await page.reload();
    assert.deepEqual(await shown(page), wanted, "what was asked for holds after loading again");
    if (name === "q") {
      assert.equal(await page.getByLabel("Name contains").inputValue(), value);
      await wellMade(page, "devices by name");
    }
    await filtered(page, { [name]: "" }, all);
    assert.equal(await tick(page, "pump-01").isChecked(), true, `${name} has lost a tick`);
  }
  await drop(page);
});

test("filters go together, ticks from different ones add up, and one that is taken away stays away", async () => {
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
  await page.getByRole("alert").filter({ hasText: "selector" }).waitFor();
  await wellMade(page, "a filter that cannot be read");
  await filtered(page, { labels: "" }, all);
  assert.equal(await tick(page, "robot-01").isChecked(), true, "a filter that cannot be read loses nothing");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("These answers are for 2 devices").waitFor();
  await drop(page);
});

test("the number of those chosen follows every tick at once", async () => {
  await choose(page, server, "line-monitor");
  const chosen = page.getByText(/devices? chosen so far$/);
  assert.equal(await chosen.innerText(), "0 devices chosen so far");
  assert.equal(await chosen.getAttribute("aria-live"), "polite");
  await tick(page, "pump-01").check();
  assert.equal(await chosen.innerText(), "1 device chosen so far");
  const all = page.getByRole("checkbox", { name: "Choose all on this page that fit" });
  await all.check();
  const ticked = await page.getByRole("checkbox", { checked: true }).count() - 1;
  assert.equal(await chosen.innerText(), `${ticked} devices chosen so far`);
  await all.uncheck();
  assert.equal(await chosen.innerText(), "0 devices chosen so far");
  await drop(page);
});

for (const javaScriptEnabled of [true, false]) {
  test(`ticks and answers are there again after going back, right or wrong, ${javaScriptEnabled ? "with" : "without"} script`, async () => {
    const on = await open(browser, { javaScriptEnabled });
    await signIn(on, server);
    await choose(on, server, "line-monitor");
    await tick(on, "pump-01").check();
    await on.getByRole("navigation", { name: "Steps" }).getByRole("button", { name: "Version" }).click();
    await on.getByRole("button", { name: "Continue" }).click();
    assert.equal(await tick(on, "pump-01").isChecked(), true, "a tick");
    await on.getByRole("button", { name: "Continue" }).click();
    await on.getByLabel("Line name").fill("Typed by me");
    await on.getByLabel("Sampling interval").fill("lots");
    await on.getByRole("button", { name: "Back", exact: true }).click();
    await on.getByRole("button", { name: "Continue" }).click();
    assert.equal(await on.getByLabel("Line name").inputValue(), "Typed by me");
    assert.equal(await on.getByLabel("Sampling interval").inputValue(), "lots", "what is wrong as well");
    assert.equal(await wrong(on.getByLabel("Sampling interval")), true);
    if (javaScriptEnabled) await wellMade(on, "answers kept though wrong");
    await drop(on);
    await on.context().close();
  });
}

test("a form that took longer than the session stays on the page, and goes on after signing in in another tab", async () => {
  const on = await open(browser);
  await signIn(on, server);
  await question(on, server, "line-monitor", ["pump-01"]);
  await on.getByLabel("Line name").fill("Typed for an hour");
  const place = on.url();
  await on.context().clearCookies();
  await on.getByRole("button", { name: "Review" }).click();
  await on.getByRole("alert").filter({ hasText: "Your session has ended" }).waitFor();
  assert.equal(on.url(), place);
  await wellMade(on, "a session that ended");
  const other = await on.context().newPage();
  await signIn(other, server);
  await on.getByRole("button", { name: "Review" }).click();
  await on.getByText("1 device would change.").waitFor();
  await on.getByText("Typed for an hour").first().waitFor();
  await drop(on);
  await on.context().close();
});

test("without script a form after the session leads to sign-in, says so, and back", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await question(plain, server, "line-monitor", ["pump-01"]);
  const place = plain.url();
  await plain.context().clearCookies();
  await plain.getByRole("button", { name: "Review" }).click();
  await plain.getByText("Your session has ended; what you sent was not done.").waitFor();
  await plain.getByLabel("Access token").fill(server.token);
  await plain.getByRole("button", { name: "Sign in" }).click();
  await plain.waitForURL(place);
  await drop(plain);
  await plain.context().close();
});

test("a device that cannot take it says why, and the reason stands with it under a filter as well", async () => {
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

test("wrong answers of every kind are said while they are typed, and the words go when they are right", async () => {
  await question(page, server, "vibration-analytics", ["pump-01"]);
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
  await drop(page);
});

test("without script the server says the same, field by field, and keeps what was answered", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await question(plain, server, "vibration-analytics", ["pump-02"]);
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
  await page.getByText("1 device would change.").waitFor();
  // Back to the questions: the box is as it was left.
  await page.getByRole("button", { name: "Back", exact: true }).click();
  assert.equal(await box.isChecked(), false);
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Deploy to 1 device" }).click();
  await finished();
  const { items: [{ values }] } = await server.api("deployments?client=pump-01&application=line-monitor");
  assert.deepEqual([values.showRejects, values.shiftModel, values.controllerAddress], [false, "two-shift", "opc.tcp://press-7.plant.example:4840"]);
});

test("a device with an answer of its own gets it, and the others get the one for all", async () => {
  await question(page, server, "line-monitor", ["press-01", "packer-01"]);
  await page.getByLabel("Line name").fill("Together");
  await page.getByLabel("Sampling interval").fill("7");
  await answerAlone(page, "packer-01", "Sampling interval", "33");
  assert.equal(await page.getByLabel("Line name").inputValue(), "Together", "what was typed before is not lost");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("2 devices would change.").waitFor();
  await page.getByRole("region", { name: /The same change on .*packer-01/ }).getByText("33", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Deploy to 2 devices" }).click();
  // What comes next must not begin while the browser is on its way here.
  await page.getByText("2 changes were made, one for each set of answers.").waitFor();
  await until("both have it", async () => {
    const of = async (client) => (await server.api(`deployments?client=${client}&application=line-monitor`)).items[0]?.values;
    const [press, packer] = [await of("press-01"), await of("packer-01")];
    return press?.sampleSeconds === 7 && packer?.sampleSeconds === 33 && [press, packer].every((values) => values.lineName === "Together");
  });
});

test("devices are narrowed by how they do, and a tick on one that is not shown is kept", async () => {
  await until("one device is silent", async () => (await server.api("devices?limit=100")).items.some((one) => one.silent));
  await choose(page, server, "shift-board");
  const all = await shown(page);
  await page.getByRole("row").filter({ has: page.getByRole("rowheader") }).filter({ hasText: "Fits" }).getByRole("checkbox").first().check();
  await filtered(page, { state: "silent" }, ["offline-01"]);
  await page.getByText(/^1 device chosen/).waitFor();
  await filtered(page, { state: "" }, all);
  assert.equal(await page.getByRole("checkbox", { checked: true }).count(), 1);
  await drop(page);
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/, /400 \(Bad Request/);
});
