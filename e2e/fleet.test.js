// Typical operator tasks with simulated devices: overview, devices, labels, groups, catalog, deployment, rollback.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, byReason, byState, end, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;

const main = () => page.getByRole("main");
const go = (path) => page.goto(server.origin + path);

before(async () => {
  ({ browser, page } = await begin(server));
});
after(async () => {
  await end(server, browser);
});

test("the overview shows devices by state, rollouts in progress and what needs attention", async () => {
  await go("/");
  await main().getByRole("heading", { name: "Needs attention" }).waitFor();
  await main().getByRole("link", { name: /failed on/ }).first().waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  await main().getByRole("img", { name: /The last 24 hours/ }).first().waitFor();
  await wellMade(page, "overview");
  await page.setViewportSize({ width: 375, height: 800 });
  await wellMade(page, "overview on a phone");
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("devices are filtered by name, site and state, also in the address", async () => {
  await go("/devices");
  await page.getByRole("table", { name: /Devices/ }).getByRole("link", { name: "press-01" }).waitFor();
  await wellMade(page, "devices");
  await page.getByLabel("Name contains").pressSequentially("PRESS");
  await until("only presses are left", async () => (await page.getByRole("rowheader").filter({ hasNotText: "press" }).count()) === 0);
  assert.equal(new URL(page.url()).searchParams.get("q"), "PRESS");
  assert.equal(await page.getByLabel("Name contains").evaluate((field) => field === document.activeElement), true, "the field keeps the focus");
  await page.reload();
  assert.equal(await page.getByLabel("Name contains").inputValue(), "PRESS");
  await page.getByLabel("Name contains").fill("nothing like it");
  await byReason(page, "no-match").waitFor();
  await wellMade(page, "no device");
  await page.getByRole("link", { name: "Show all devices" }).click();
  await page.getByLabel("Labels").fill("a b");
  await byReason(page, "invalid-filter").waitFor();
  await go("/devices?state=offline");
  await page.getByRole("table", { name: /Devices/ }).getByRole("link", { name: "offline-01" }).waitFor();
});

test("a device shows capabilities, workloads and status", async () => {
  await go("/devices?q=press-01");
  await page.getByRole("table").getByRole("link", { name: "press-01" }).click();
  await page.getByRole("heading", { name: "press-01", level: 1 }).waitFor();
  for (const title of ["Workloads", "Hardware and capabilities", "Identity", "Status explained", "Events", "Labels"]) {
    await main().getByRole("heading", { name: title, exact: true }).waitFor();
  }
  await wellMade(page, "device");
  await page.setViewportSize({ width: 375, height: 800 });
  await wellMade(page, "device on a phone");
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("the second of two operators who edit labels sees a conflict", async () => {
  const other = await open(browser);
  await signIn(other, server);
  for (const one of [page, other]) {
    await one.goto(`${server.origin}/devices/press-01/press-01`);
    await one.getByLabel("New label").fill("hall");
  }
  await page.getByLabel("Value", { exact: true }).fill("3");
  await page.getByRole("button", { name: "Save labels" }).click();
  await byReason(page, "labels-saved").waitFor();
  await other.getByLabel("Value", { exact: true }).fill("4");
  await other.getByRole("button", { name: "Save labels" }).click();
  await byReason(other, "conflict").waitFor();
  assert.equal(await other.getByLabel("hall", { exact: true }).inputValue(), "3", "the current value");
  assert.equal(await other.getByLabel("Value", { exact: true }).inputValue(), "4", "the input stays");
  await wellMade(other, "conflict");
  await other.context().close();
});

test("a gateway shows the devices behind it", async () => {
  await go("/devices?q=gateway");
  await page.getByRole("table").getByRole("rowheader").first().getByRole("link").click();
  await main().getByRole("heading", { name: "Behind this gateway" }).waitFor();
});

test("a group is created, shows its devices and is deleted", async () => {
  await go("/groups/new");
  await page.getByLabel("Name", { exact: true }).fill("hall-three");
  await page.getByLabel("Label selector").fill("hall three");
  await page.getByRole("button", { name: "Create group" }).click();
  await byReason(page, "invalid").first().waitFor();
  await wellMade(page, "wrong group");
  await page.getByLabel("Label selector").fill("hall=3");
  await page.getByRole("button", { name: "Create group" }).click();
  await page.getByRole("link", { name: "1 device" }).click();
  await page.getByRole("table").getByRole("link", { name: "press-01" }).waitFor();
  await go("/groups");
  await wellMade(page, "groups");
  await page.getByRole("link", { name: "hall-three" }).click();
  await page.getByRole("link", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete group" }).click();
  await byReason(page, "group-deleted").waitFor();
});

test("the catalog is searched, and an application says what it is and needs", async () => {
  await go("/catalog");
  await wellMade(page, "catalog");
  await page.getByLabel("Name, supplier or tag contains").pressSequentially("vibra");
  await until("one is left", async () => (await page.getByRole("article").count()) === 1);
  await page.getByRole("link", { name: "Vibration Analytics" }).click();
  await page.getByRole("heading", { name: /Vibration Analytics 2.3.0/ }).waitFor();
  await main().getByText("2 cores, amd64 or arm64").waitFor();
  await main().getByRole("heading", { name: "Release notes" }).waitFor();
  await wellMade(page, "application");
});

test("an application is deployed step by step, and watched until it is there", async () => {
  await go("/catalog/line-monitor");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("heading", { name: "Deploy Line Monitor" }).waitFor();
  await wellMade(page, "step version");
  await page.getByLabel("1.0.0").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("table", { name: "Select devices" }).waitFor();
  await wellMade(page, "step devices");
  const has = page.getByRole("row").filter({ has: page.locator('[data-state="installed"]') }).getByRole("checkbox").first();
  assert.equal(await has.isDisabled(), true, "a device that already has the application cannot be selected");
  const unfit = page.getByRole("row").filter({ has: page.locator('[data-state="incompatible"]') });
  assert.equal(await unfit.first().getByRole("checkbox").isDisabled(), true, "an incompatible device cannot be selected (CON-02)");
  await page.getByRole("button", { name: "Continue" }).click();
  await byReason(page, "no-device-selected").waitFor();
  const fits = page.getByRole("row").filter({ has: page.getByRole("rowheader") }).filter({ has: page.locator('[data-state="compatible"]') });
  const chosen = [await fits.nth(0).getByRole("rowheader").innerText(), await fits.nth(1).getByRole("rowheader").innerText()];
  for (const name of chosen) await page.getByRole("checkbox", { name, exact: true }).check();
  await page.getByRole("button", { name: "Continue" }).click();

  await byReason(page, "applies-to").filter({ hasText: "2 devices" }).waitFor();
  await wellMade(page, "step questions");
  await page.getByLabel("Sampling interval").fill("61");
  await page.locator("[data-wrong]:not(:empty)").waitFor();
  assert.equal(await page.getByLabel("Sampling interval").getAttribute("aria-invalid"), "true", "checked while typing");
  await page.getByRole("button", { name: "Review" }).click();
  const summary = page.getByRole("alert");
  await summary.getByRole("link", { name: /Sampling interval: Must be at most 60/ }).waitFor();
  await summary.getByRole("link", { name: /Line name/ }).waitFor();
  assert.equal(await summary.evaluate((element) => element === document.activeElement), true, "focus is on the summary");
  await wellMade(page, "wrong answers");
  await page.getByLabel("Sampling interval").fill("10");
  await page.getByLabel("Line name").fill("Press 7");
  await page.getByLabel("Device", { exact: true }).selectOption({ label: chosen[0] });
  await page.getByRole("button", { name: "Add override" }).click();
  await byReason(page, "override").filter({ hasText: chosen[0] }).waitFor();
  assert.equal(await page.getByLabel("Line name").inputValue(), "Press 7", "it begins with what all get");
  await wellMade(page, "answers of one device");
  await page.getByLabel("Target rate").fill("0");
  await page.locator("[data-wrong]:not(:empty)").waitFor();
  await page.getByRole("button", { name: "Save override" }).click();
  await page.getByRole("alert").getByRole("link", { name: /Target rate: Must be at least/ }).waitFor();
  await page.getByLabel("Target rate").fill("12.5");
  await page.getByRole("button", { name: "Save override" }).click();
  await page.getByText("Target rate: 12.5").waitFor();
  assert.equal(await page.getByLabel("Line name").inputValue(), "Press 7", "nothing that was answered is lost");
  await page.getByRole("button", { name: "Review" }).click();

  await byReason(page, "update", 2).waitFor();
  assert.equal(await page.getByRole("region", { name: /The same change on/ }).count(), 2, "one for each set of answers");
  await wellMade(page, "review");
  await page.getByLabel("Comment (recorded in the audit log)").fill("line 7 goes live");
  await page.getByRole("button", { name: "Deploy to 2 devices" }).click();
  await byReason(page, "rollouts-created").waitFor();
  await wellMade(page, "changes");
  await page.getByRole("link", { name: /Deploy Line Monitor 1.0.0 to [a-z]/ }).first().click();
  await byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
  await wellMade(page, "change");
  const audit = await server.api("audit?limit=50");
  assert.ok(audit.items.some((record) => record.action === "rollout.create" && record.comment === "line 7 goes live"));
});

test("a deployment is reconfigured, goes back to the revision before, and is removed", async () => {
  const { items } = await server.api("deployments?application=line-monitor&state=up-to-date");
  await go(`/deployments/${items[0].id}`);
  await main().getByRole("heading", { name: "Revisions" }).waitFor();
  await wellMade(page, "deployment");
  await page.getByRole("button", { name: "Reconfigure" }).click();
  assert.equal(await page.getByLabel("Line name").getAttribute("readonly"), "", "what cannot change is locked");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("alert").filter({ has: page.locator("a[href='#configuration']") }).waitFor();
  await page.getByLabel("Sampling interval").fill("20");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 1).waitFor();
  await page.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
  await go(`/deployments/${items[0].id}`);
  await page.getByRole("link", { name: "Roll back to revision 1" }).click();
  await byReason(page.getByRole("dialog"), "affected", 1).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back to revision 1" }).click();
  await byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
  const back = await server.api(`deployments/${items[0].id}`);
  assert.deepEqual([back.revision, back.values.sampleSeconds], [3, items[0].values.sampleSeconds]);
  await go(`/deployments/${items[0].id}`);
  await page.getByRole("definition").filter({ hasText: "Correct and report" }).waitFor();
  await page.getByRole("button", { name: "Reconfigure" }).click();
  await page.getByText("Policies", { exact: true }).click();
  const drift = page.getByLabel("Drift");
  assert.equal(await drift.inputValue(), "", "what is not touched stays as it is");
  await drift.selectOption("Report only");
  await wellMade(page, "policies");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("definition").filter({ hasText: "Report only instead of: correct and report" }).waitFor();
  await byReason(page, "update", 1).waitFor();
  await wellMade(page, "review of a policy");
  await page.getByRole("button", { name: "Reconfigure 1 device" }).click();
  await byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
  const changed = await server.api(`deployments/${items[0].id}`);
  assert.deepEqual([changed.policy.drift, changed.values], ["report", back.values], "the policy alone");
  await go(`/deployments/${items[0].id}`);
  const remove = page.getByRole("link", { name: "Remove", exact: true });
  await remove.click();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await remove.evaluate((link) => link === document.activeElement), true, "after a dialog focus is back at its opener");
  await remove.click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove from 1 device" }).click();
  await page.getByRole("heading", { name: /^Remove Line Monitor from [a-z]/ }).waitFor();
  await byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
});

test("what failed names code, source, message and what to do", async () => {
  const { items } = await until("something has failed", async () => {
    const failed = await server.api("deployments?state=failed");
    return failed.items.length > 0 && failed;
  }, 90);
  await go("/deployments?state=failed");
  await wellMade(page, "deployments");
  await page.getByRole("table").getByRole("rowheader").first().getByRole("link").click();
  await main().locator("section.note[data-reason]").first().waitFor();
  await wellMade(page, "failed deployment");
  assert.ok(items.length > 0);
  const before = await server.api(`deployments/${items[0].id}`);
  // The device retries automatically. The link is shown while the deployment has failed; confirming during an attempt
  // reports that there is nothing to retry.
  await until("the retry is confirmed while the deployment has failed", async () => {
    await go(`/deployments/${items[0].id}`);
    await page.getByRole("link", { name: "Retry" }).first().click({ timeout: 120_000 });
    await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
    const told = byReason(page, "retry-requested");
    await told.or(byReason(page, "unchanged")).first().waitFor();
    return told.isVisible();
  }, 120);
  await until("the device has adopted the new version", async () => {
    const now = await server.api(`deployments/${items[0].id}`);
    return now.targetVersion > before.targetVersion && now.reported.adoptedVersion >= now.targetVersion;
  });
});

test("a rollout waits for a device that goes offline while it is published", async () => {
  const { items } = await server.api("deployments?client=offline-01");
  await go(`/rollouts/${items[0].rollout}`);
  await byState(page.getByRole("table"), "device-offline").waitFor();
  await byState(page, "device-offline", ".legend ").waitFor();
});

test("events and audit log are filtered, and the integrity is verified", async () => {
  await go("/events");
  await wellMade(page, "events");
  await page.getByLabel("Type", { exact: true }).selectOption("Failures");
  await until("only failures are left", async () => {
    const kinds = await page.locator(".timeline .chip").allInnerTexts();
    return kinds.length > 0 && kinds.every((kind) => kind === "Failed");
  });
  await go("/audit");
  await wellMade(page, "audit log");
  await page.getByLabel("Target").fill("press-01");
  await until("only that device is left", async () => {
    const rows = await page.getByRole("row").allInnerTexts();
    return rows.length > 1 && rows.slice(1).every((row) => row.includes("press-01"));
  });
  await page.getByRole("link", { name: "Verify integrity" }).click();
  await byReason(page, "intact").waitFor();
});

test("a client is decommissioned and approved again, with the number of affected devices", async () => {
  await go("/devices/press-01/press-01");
  await page.getByRole("link", { name: "Decommission" }).click();
  await byReason(page.getByRole("dialog"), "affected", 1).waitFor();
  await page.getByRole("dialog").getByLabel("Comment (recorded in the audit log)").fill("stolen");
  await page.getByRole("dialog").getByRole("button", { name: "Decommission this device" }).click();
  await byReason(page, "decommissioned").waitFor();
  await byState(main(), "blocked").first().waitFor();
  // The next steps link to the action.
  await page.getByRole("listitem").getByRole("link", { name: "Approve press-01" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve this device" }).click();
  await byReason(page, "approved").waitFor();
});

test("an enrollment token is created and revoked", async () => {
  await go("/devices/add");
  await wellMade(page, "add a device");
  await page.getByLabel("Device name").fill("not a name!");
  await page.getByRole("button", { name: "Create enrollment token" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Device name").fill("press-99");
  await page.getByRole("button", { name: "Create enrollment token" }).click();
  await page.getByText(/margrave-agent enroll --trust-url/).waitFor();
  await wellMade(page, "enrollment token");
  await go("/settings/enrollment-tokens");
  await wellMade(page, "enrollment tokens");
  await page.getByRole("link", { name: "Revoke the enrollment token for press-99" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke 1 enrollment token" }).click();
  await byReason(page, "revoked").waitFor();
});

test("simulated devices and their deployments are marked, real ones are not", async () => {
  // No engine is reachable there: the reported runtime does not depend on it.
  server.device("docker-01", "", "compose", '[compose]\nsocket = "/nowhere/docker.sock"\n');
  await until("it has reported", async () => (await server.api("devices")).items.some((one) => one.device === "docker-01"));
  const mark = (place) => byState(place, "simulated");
  await go("/devices?q=-01");
  const row = (name) => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
  await mark(row("press-02").or(row("tiny-01")).first()).waitFor();
  assert.equal(await mark(row("docker-01")).count(), 0, "its agent has Docker");
  await go("/devices/docker-01/docker-01");
  await page.getByRole("heading", { name: "docker-01", level: 1 }).waitFor();
  assert.equal(await mark(main()).count(), 0);
  await go("/devices/tiny-01/tiny-01");
  await main().locator(".note[data-reason=simulated]").waitFor();
  await mark(main()).waitFor();
  await wellMade(page, "simulated device");
  const [deployment] = (await server.api("deployments")).items;
  assert.equal(deployment.simulated, true);
  await go(`/deployments/${deployment.id}`);
  await main().locator(".note[data-reason=simulated]").waitFor();
  await wellMade(page, "simulated deployment");
  await go("/deployments");
  await mark(main()).first().waitFor();
});

test("settings show tokens, device identities, registries and certificates", async () => {
  for (const [path, heading] of [["tokens", "New token"], ["identities", null], ["registries", "Embedded registry"], ["certificates", "Server identity"]]) {
    await go(`/settings/${path}`);
    if (heading) await main().getByRole("heading", { name: heading }).waitFor();
    await wellMade(page, `settings ${path}`);
  }
  await go("/settings/tokens");
  await page.getByLabel("Name", { exact: true }).fill("build server");
  await page.getByRole("button", { name: "Create token" }).click();
  await byReason(page, "token-created").waitFor();
  await page.getByText(/^mgv_/).waitFor();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/, /409 \(Conflict/, /404 \(Not Found\)/);
});
