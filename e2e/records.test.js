// Events, audit log, access tokens, sessions, enrollment tokens, the embedded registry.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, byReason, byState, end, fitsPhone, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
const go = (path, on = page) => on.goto(server.origin + path);
const asked = (name) => new URL(page.url()).searchParams.get(name) ?? "";
const choose = (name) => page.getByRole("main").getByRole("combobox", { name, exact: true });
const entries = () => page.getByRole("list").locator(":scope > li").filter({ has: page.locator("time") });
const records = () => page.getByRole("table", { name: /Audit/ }).getByRole("row").filter({ has: page.getByRole("cell") });

before(async () => {
  ({ browser, page } = await begin(server));
});
after(async () => {
  await end(server, browser);
});

/** The column of the audit log with this heading. */
async function column(name) {
  const at = (await page.getByRole("columnheader").allInnerTexts()).indexOf(name);
  assert.ok(at >= 0, name);
  // At one moment: the filter replaces the rows.
  return records().evaluateAll((rows, index) => rows.map((row) => row.cells[index].innerText), at);
}

/** A row of a settings table. */
const row = (text, on = page) => on.getByRole("row").filter({ hasText: text });

test("events are filtered by application and time, and the address can be reloaded and shared", async () => {
  await until("something was installed", async () => (await server.api("events?kind=deployment.installed&limit=1")).items.length > 0);
  await go("/events");
  const all = await entries().count();
  await choose("Application").selectOption("Vibration Analytics");
  await until("only one application is left", async () => {
    const texts = await entries().allInnerTexts();
    return texts.length > 0 && texts.length < all && texts.some((text) => text.includes("Vibration Analytics")) && !texts.some((text) => text.includes("Line Monitor"));
  });
  assert.equal(asked("application"), "vibration-analytics");
  await choose("Time").selectOption("Last hour");
  await until("the time is in the address", () => asked("since") !== "");
  assert.ok((await entries().count()) > 0, "all events are recent");
  await wellMade(page, "events of one application");
  const address = page.url();
  await page.reload();
  assert.equal(page.url(), address);
  assert.equal(await choose("Application").locator("option:checked").innerText(), "Vibration Analytics");
  assert.equal(await choose("Time").locator("option:checked").innerText(), "Last hour");
  // Another operator sees the same at this address.
  const other = await open(browser);
  await signIn(other, server);
  await other.goto(address);
  await other.getByRole("main").getByRole("listitem").filter({ hasText: "Vibration Analytics" }).first().waitFor();
  assert.equal(await other.getByRole("main").getByRole("listitem").filter({ hasText: "Line Monitor" }).count(), 0);
  await other.context().close();
  await entries().filter({ hasText: "Vibration Analytics" }).getByRole("link").first().click();
  await page.getByRole("heading", { name: /Vibration Analytics/, level: 1 }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "Events", level: 1 }).waitFor();
  assert.equal(page.url(), address, "Back returns to the same page");
  assert.equal(await choose("Application").locator("option:checked").innerText(), "Vibration Analytics");
});

test("a filter without matching events links to all events", async () => {
  await go("/events?kind=deployment.failed&client=gateway-01");
  await page.getByRole("heading", { name: "No matching events" }).waitFor();
  await wellMade(page, "no events");
  await page.getByRole("link", { name: "Show all events" }).click();
  await until("all events are shown", async () => (await entries().count()) > 1);
});

test("the audit log is filtered by actor, action and time, and each filter is in the address", async () => {
  // A second actor.
  const { secret } = await server.api("tokens", "POST", { name: "night shift" });
  const made = await fetch(`${server.origin}/api/groups/by-night`, {
    method: "PUT", headers: { Authorization: `Bearer ${secret}`, "Content-Type": "application/json" }, body: JSON.stringify({ selector: "line=1", comment: "so many of them" }),
  });
  assert.ok(made.ok, `${made.status}`);
  await go("/audit");
  await choose("Actor").selectOption("night shift");
  await until("only that actor is left", async () => {
    const who = await column("Actor");
    return who.length > 0 && who.every((name) => name.includes("night shift"));
  });
  assert.ok(asked("actor").includes("night shift"));
  await row("by-night").getByText("so many of them").waitFor();
  await page.reload();
  assert.equal((await column("Actor")).length, 1);
  await choose("Actor").selectOption("Any actor");
  await choose("Action").selectOption("Groups");
  await until("only groups are left", async () => {
    const about = await column("Target");
    return about.length > 1 && about.every((text) => text.startsWith("group "));
  });
  assert.equal(asked("action"), "group");
  await choose("Time").selectOption("Last 24 hours");
  await until("the time is in the address", () => asked("since") !== "");
  const kept = await column("Target");
  assert.ok(kept.length > 1);
  await wellMade(page, "audit log of groups");
  await fitsPhone(page, "audit log of groups");
  const address = page.url();
  await records().getByRole("link", { name: "group by-night" }).click();
  await page.getByRole("heading", { name: "by-night", level: 1 }).waitFor();
  await page.goBack();
  assert.equal(page.url(), address);
  assert.deepEqual(await column("Target"), kept);
  assert.equal(await choose("Action").locator("option:checked").innerText(), "Groups");
  await page.reload();
  assert.deepEqual(await column("Target"), kept);
});

test("events and audit log are filtered by two dates, with and without script", async () => {
  const day = (days) => `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)}T08:00`;
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  for (const path of ["/events", "/audit"]) {
    await go(path);
    await page.getByLabel("From (UTC)").fill(day(1));
    await until("nothing is from tomorrow or later", async () => (await page.getByRole("heading", { name: /^No matching (events|audit records)/ }).count()) === 1);
    assert.equal(asked("from"), day(1));
    await page.getByLabel("From (UTC)").fill(day(-1));
    await page.getByLabel("Until (UTC)").fill(day(1));
    await until("entries are shown again", async () => (await page.getByRole("main").locator("time").count()) > 0);
    assert.deepEqual([asked("from"), asked("until")], [day(-1), day(1)]);
    await page.reload();
    assert.equal(await page.getByLabel("Until (UTC)").inputValue(), day(1));
    await wellMade(page, `${path} between two dates`);
    await fitsPhone(page, `${path} between two dates`);

    await go(path, plain);
    await plain.getByLabel("From (UTC)").fill(day(1));
    await plain.getByLabel("Until (UTC)").fill(day(-1));
    await plain.getByRole("button", { name: "Filter" }).click();
    await byReason(plain, "invalid-filter").waitFor();
    const until_ = plain.getByLabel("Until (UTC)");
    assert.equal(await until_.getAttribute("aria-invalid"), "true");
    await plain.locator("#until-wrong").waitFor();
    await go(`${path}?from=soon`, plain);
    assert.equal(await plain.getByLabel("From (UTC)").inputValue(), "soon", "the invalid input stays");
  }
  await plain.context().close();
});

test("times and the time filter are in the time zone of the browser, and the address is in UTC", async () => {
  const vienna = await open(browser, { timezoneId: "Europe/Vienna" });
  await signIn(vienna, server);
  await go("/audit?from=2026-01-01T00:00&until=2099-07-01T10:00", vienna);
  assert.equal(await vienna.getByLabel("Until (Europe/Vienna)").inputValue(), "2099-07-01T12:00");
  await vienna.getByRole("columnheader", { name: "Time (Europe/Vienna)" }).waitFor();
  const time = vienna.getByRole("table").locator("time").first();
  const at = new Date(await time.getAttribute("datetime"));
  assert.equal(await time.innerText(), at.toLocaleString("sv-SE", { timeZone: "Europe/Vienna" }));
  assert.equal(await time.evaluate((element) => element.getClientRects().length), 1, "one line");
  await vienna.getByLabel("From (Europe/Vienna)").fill("2026-07-01T00:30");
  await until("the filter is in the address", () => new URL(vienna.url()).searchParams.get("from") === "2026-06-30T22:30");
  // Verification keeps the filter that was set last.
  await vienna.getByRole("link", { name: "Verify integrity" }).click();
  await byReason(vienna, "intact").waitFor();
  assert.equal(new URL(vienna.url()).searchParams.get("from"), "2026-06-30T22:30");
  assert.equal(await vienna.getByLabel("From (Europe/Vienna)").inputValue(), "2026-07-01T00:30");
  await vienna.context().close();
});

test("the audit log does not move while it loads", async () => {
  await page.addInitScript(() => {
    window.shift = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => { window.shift += entry.value; })).observe({ type: "layout-shift", buffered: true });
  });
  await go("/audit");
  await records().first().waitFor();
  // A shift is reported after the frame in which it happened.
  await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
  assert.ok((await page.evaluate(() => window.shift)) < 0.02);
});

test("the audit log finds actions by the name of the device, group or application", async () => {
  await go("/audit");
  for (const [text, named] of [["press-02", /press-02/], ["Line Monitor", /Line Monitor/], ["group by-night", /by-night/]]) {
    await page.getByLabel("Target").fill(text);
    await until(`only ${text} is left`, async () => {
      const about = await column("Target").catch(() => []);
      return about.length > 0 && about.every((one) => named.test(one));
    });
  }
});

test("a token is created, works, is revoked, and no longer works", async () => {
  await go("/settings/tokens");
  await page.getByLabel("Name", { exact: true }).fill("build server");
  await page.getByRole("button", { name: "Create token" }).click();
  const secret = await page.getByText(/^mgv_/).innerText();
  await wellMade(page, "a new token");
  const use = async () => (await fetch(`${server.origin}/api/summary`, { headers: { Authorization: `Bearer ${secret}` } })).status;
  assert.equal(await use(), 200);
  await go("/settings/tokens");
  assert.equal(await page.getByText(secret).count(), 0, "it was shown once");
  await byState(row("build server"), "active").waitFor();
  await page.getByRole("link", { name: "Revoke build server" }).click();
  await page.getByRole("dialog").getByLabel("Comment (recorded in the audit log)").fill("not used any more");
  await page.getByRole("dialog").getByRole("button", { name: "Revoke token" }).click();
  await byReason(page, "revoked").waitFor();
  await byState(row("build server"), "revoked").waitFor();
  assert.equal(await page.getByRole("link", { name: "Revoke build server" }).count(), 0);
  assert.equal(await use(), 401);
  await wellMade(page, "tokens");
});

test("sessions are listed with their address, the current one is marked, and another is ended", async () => {
  const { secret } = await server.api("tokens", "POST", { name: "visitor" });
  const other = await open(browser);
  await go(`/sign-in#token=${secret}`, other);
  await other.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await go("/settings/sessions");
  const mine = row("this session");
  assert.equal(await mine.count(), 1);
  assert.equal(await mine.getByRole("link", { name: /End/ }).count(), 0, "the current session ends by signing out");
  await row("visitor").getByText("127.0.0.1").waitFor();
  await wellMade(page, "sessions");
  await row("visitor").getByRole("link", { name: /End/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End session" }).click();
  await byReason(page, "session-ended").waitFor();
  assert.equal(await row("visitor").count(), 0);
  await go("/devices", other);
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.context().close();
});

test("a revoked enrollment token is no longer active", async () => {
  for (const name of ["press-98", "press-99"]) {
    await go("/devices/add");
    await page.getByLabel("Device name").fill(name);
    await page.getByRole("button", { name: "Create enrollment token" }).click();
    await page.getByText(/margrave-agent enroll --trust-url/).waitFor();
  }
  await go("/settings/enrollment-tokens");
  await page.getByRole("link", { name: "Revoke the enrollment token for press-99" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke 1 enrollment token" }).click();
  await byReason(page, "revoked").waitFor();
  assert.equal(await page.getByRole("link", { name: "Revoke the enrollment token for press-99" }).count(), 0);
  await byState(row("press-98"), "active").waitFor();
  await wellMade(page, "enrollment tokens");
  const { items } = await server.api("audit?limit=30");
  assert.ok(items.some((record) => record.action.startsWith("enrollment") && JSON.stringify(record).includes("press-99")));
});

test("garbage collection deletes unreferenced blobs and shows how much it freed", async () => {
  const before = await server.api("registry");
  await go("/settings/registries");
  await wellMade(page, "registry");
  await page.getByRole("link", { name: "Run garbage collection" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run garbage collection" }).click();
  await byReason(page, "garbage-collected").waitFor();
  const after = await server.api("registry");
  assert.ok(after.blobs <= before.blobs);
  await page.getByRole("heading", { name: "Embedded registry" }).waitFor();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page);
});
