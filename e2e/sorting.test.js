// Every list is sorted by the heads of its columns: with and without script, page by page, and in the address.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, end, onlyExpected, open, signIn, tabTo } from "./support/margrave.js";
import { choose } from "./support/wizard.js";

const server = new Server();
let browser;
let page;

const go = (path) => page.goto(server.origin + path);
const head = (column, on = page) => on.locator(`th:has([data-action="sort"][data-column="${column}"])`);
const sort = (column, on = page) => on.locator(`[data-action="sort"][data-column="${column}"]`);
const order = (column, on = page) => head(column, on).getAttribute("aria-sort");

/** The column's cells in each row; a time by its machine-readable value. */
async function cells(column, on = page) {
  const index = await head(column, on).evaluate((cell) => [...cell.parentElement.children].indexOf(cell));
  return on.getByRole("table").first().locator("tbody > tr:not(.narrow)").evaluateAll((rows, index) => rows.map((row) => {
    const cell = row.children[index];
    if (cell.scope === "row") return cell.innerText.split("\n")[0].trim();
    return cell.querySelector("time")?.dateTime ?? cell.querySelector("[data-state]:not([data-state=simulated])")?.dataset.state ?? cell.innerText.split("\n")[0].trim();
  }), index);
}

const isSorted = (values) => values.every((value, index) => index === 0 || values[index - 1] <= value);

before(async () => {
  ({ browser, page } = await begin(server));
  server.cli("group", "put", "alpha", "--selector", "site=graz");
  server.cli("group", "put", "beta", "--selector", "site=linz");
  for (const name of ["zeta", "alfa"]) server.cli("token", "create", name);
  for (const name of ["new-2", "new-1"]) server.cli("client", "enrollment-token", name);
});
after(async () => {
  await end(server, browser);
});

test("a click on a head sorts, a second one reverses, and the address keeps the order", async () => {
  for (const [path, column] of [
    ["/devices", "device"], ["/devices", "site"], ["/deployments", "application"], ["/deployments", "device"], ["/rollouts", "application"],
    ["/settings/identities", "id"], ["/settings/identities", "state"], ["/catalog/line-monitor/compatibility", "device"],
    ["/catalog/line-monitor/compatibility", "site"], ["/groups", "name"], ["/settings/tokens", "name"], ["/settings/enrollment-tokens", "for"],
  ]) {
    await go(path);
    await sort(column).click();
    await page.waitForURL(new RegExp(`sort=${column}`));
    assert.equal(await order(column), "ascending", `${path} by ${column}`);
    const ascending = await cells(column);
    assert.ok(ascending.length > 1 && isSorted(ascending), `${path} by ${column}: ${ascending}`);
    await sort(column).click();
    await page.waitForURL(new RegExp(`sort=-${column}`));
    assert.equal(await order(column), "descending", `${path} by ${column}`);
    assert.ok(isSorted((await cells(column)).reverse()), `${path} by ${column}, descending`);
    await page.reload();
    assert.equal(await order(column), "descending", `${path} after a reload`);
  }
});

test("columns of times start with the newest", async () => {
  for (const [path, column] of [["/devices", "last-seen"], ["/deployments", "last-report"], ["/settings/identities", "registered"], ["/settings/tokens", "created"], ["/settings/enrollment-tokens", "created"], ["/settings/sessions", "signed-in"]]) {
    await go(path);
    await sort(column).click();
    await page.waitForURL(new RegExp(`sort=-${column}`));
    assert.equal(await order(column), "descending", `${path} by ${column}`);
    const newest = (await cells(column)).filter((value) => /^\d{4}-/.test(value));
    assert.ok(newest.length > 0, `${path}: no times`);
    // Devices call while the page is shown, so their times are those of the last write.
    if (!["last-seen", "last-report"].includes(column)) assert.ok(isSorted(newest.reverse()), `${path} by ${column}: ${newest}`);
  }
  for (const path of ["/rollouts", "/audit"]) {
    await go(path);
    const column = path === "/audit" ? "time" : "started";
    assert.equal(await order(column), "descending", `${path} starts with the newest`);
    const newest = await cells(column);
    await sort(column).click();
    await page.waitForURL(new RegExp(`sort=${column}`));
    const oldest = await cells(column);
    assert.ok(isSorted(oldest) && oldest[0] < newest[0], `${path}: ${oldest[0]} is not older than ${newest[0]}`);
  }
  await go("/events");
  const times = () => page.locator(".timeline time").evaluateAll((all) => all.map((one) => one.dateTime));
  const newest = await times();
  await sort("time").click();
  await page.waitForURL(/sort=time/);
  const oldest = await times();
  assert.ok(isSorted(oldest) && oldest[0] < newest[0], "the oldest event comes first");
});

test("deployments start with failed ones and continue by device; states are sorted by urgency", async () => {
  const severity = ["failed", "device-offline", "outdated", "pending", "updating", "up-to-date"];
  const ranks = async () => (await cells("state")).map((state) => severity.indexOf(state)).filter((rank) => rank >= 0);
  await go("/deployments");
  const states = await cells("state");
  const failed = states.filter((state) => state === "failed").length;
  assert.deepEqual(states.slice(0, failed).filter((state) => state !== "failed"), [], "failed ones come first");
  const devices = await cells("device");
  const rest = devices.filter((_, index) => index >= failed && severity.includes(states[index]));
  assert.ok(rest.length > 1 && isSorted(rest), `then by device: ${rest}`);
  await go("/deployments?sort=state");
  assert.ok(isSorted(await ranks()), `by state: ${await ranks()}`);
  await go("/deployments?sort=-state");
  assert.ok(isSorted((await ranks()).reverse()), `descending: ${await ranks()}`);
  await go("/devices?sort=state");
  const urgency = ["failed", "degraded", "blocked", "offline", "updating", "online"];
  const ranked = (await cells("state")).map((state) => urgency.indexOf(state)).filter((rank) => rank >= 0);
  assert.ok(ranked.length > 1 && isSorted(ranked), `devices by state: ${ranked}`);
});

test("pages follow the order and the filter, and the selection of the wizard survives sorting", async () => {
  const names = [];
  let after = "";
  do {
    const { items, next } = await server.api(`devices?sort=-device&limit=5${after}`);
    names.push(...items.map((device) => device.device));
    after = next ? `&after=${next}` : "";
  } while (after);
  const all = (await server.api("devices?limit=1000")).items.map((device) => device.device).sort().reverse();
  assert.deepEqual(names, all);
  await go("/devices?q=press&sort=-device");
  await page.getByLabel("Name contains").fill("press-0");
  await page.getByLabel("Name contains").press("Enter");
  await page.waitForURL(/q=press-0.*sort=-device/);

  await choose(page, server, "line-monitor");
  const box = page.getByRole("table").getByRole("checkbox", { disabled: false }).last();
  const value = await box.getAttribute("value");
  await box.check();
  await sort("device").click();
  await page.waitForURL(/sort=device/);
  assert.equal(await order("device"), "ascending");
  assert.ok(isSorted(await cells("device")));
  assert.ok(await page.locator(`input[name="device"][value="${value}"]`).isChecked(), "the selection survives");
});

test("lists are sorted with the keyboard and without script", async () => {
  await go("/devices");
  await tabTo(page, sort("site"));
  await page.keyboard.press("Enter");
  await page.waitForURL(/sort=site/);
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await plain.goto(`${server.origin}/devices`);
  await sort("device", plain).click();
  await plain.waitForURL(/sort=device/);
  assert.ok(isSorted(await cells("device", plain)));
  await plain.context().close();
  onlyExpected(page);
});
