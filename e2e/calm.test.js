// Live pages do not jump: a rollout in progress, a device that fails and retries, also without JavaScript.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, byReason, byState, end, launch, open, root, signIn, until, wellMade } from "./support/margrave.js";

/** Cumulative layout shift: 0.1 is considered good when a page loads; live updates should stay below that. */
const SHIFT_MAX = 0.05;

const server = new Server();
let browser;
let page;

const go = (path, on = page) => on.goto(server.origin + path);

before(async () => {
  [browser] = await Promise.all([launch(), server.start("127.0.0.1:0", 'offline_after = "4s"\n')]);
  server.cli("app", "import", join(root, "samples/line-monitor/1.0.0"));
  page = await open(browser);
  await page.addInitScript(() => {
    globalThis.moved = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const nodes = (entry.sources ?? []).map(({ node }) => node?.nodeName && `${node.nodeName}.${node.className}#${node.id}`);
        if (!entry.hadRecentInput) globalThis.moved.push({ value: entry.value, nodes });
      }
    }).observe({ type: "layout-shift", buffered: true });
  });
  await signIn(page, server);
});
after(async () => {
  await end(server, browser);
});

async function joined(name) {
  await until(`${name} has joined`, async () => (await server.api("devices")).items.some((device) => device.device === name));
}

/** Deploys to these devices; returns the rollout once it is published. */
async function deploy(names) {
  const devices = names.map((name) => ({ client: name, device: name }));
  const body = { kind: "create", application: "line-monitor", version: "1.0.0", scope: { devices }, values: { lineName: "Press 7" } };
  const { id } = await server.api("deployments", "POST", body);
  await until("the rollout is published", async () => (await server.api(`rollouts/${id}`)).finished);
  return id;
}

async function calm(what) {
  const moved = await page.evaluate(() => globalThis.moved);
  const sum = moved.reduce((all, { value }) => all + value, 0);
  assert.ok(sum < SHIFT_MAX, `${what} moved by ${sum}: ${JSON.stringify(moved)}`);
}

test("the page of a rollout does not jump while devices update, on desktop and phone", async () => {
  for (const [width, prefix] of [[1280, "desk"], [375, "phone"]]) {
    const names = [1, 2, 3, 4].map((number) => `${prefix}-0${number}`);
    names.forEach((name, index) => server.device(name, `delay = "${index + 1}s"\n`));
    for (const name of names) await joined(name);
    await page.setViewportSize({ width, height: 900 });
    const id = await deploy(names);
    await go(`/rollouts/${id}`);
    await page.getByRole("group", { name: "Its deployments by state" }).waitFor();
    const status = page.getByRole("status").filter({ hasText: /still updating|Completed/ });
    await status.filter({ hasText: "Completed on all devices." }).waitFor({ timeout: 60_000 });
    await byState(page.getByRole("table"), "up-to-date").nth(3).waitFor();
    await calm(`the rollout on ${prefix}`);
    await wellMade(page, `a completed rollout, ${prefix}`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("a failed device stays in place on the overview while it retries", async () => {
  const device = server.device("flaky-01", 'delay = "3s"\n[[rule]]\ncomponent = "line-monitor-stack"\nfail = "always"\nmessage = "image not found"\n');
  await joined("flaky-01");
  await deploy(["flaky-01"]);
  const { id } = (await server.api("deployments?client=flaky-01")).items[0];
  const attempts = async () => (await server.api(`deployments/${id}/status-history`)).items.filter(({ state }) => state === "failed").length;
  await until("it has failed", async () => (await attempts()) > 0);
  await go("/");
  const link = page.getByRole("link", { name: "Line Monitor 1.0.0 failed on 1 device" });
  await link.waitFor();
  await page.evaluate(() => {
    globalThis.vanished = 0;
    const looks = () => [...document.querySelectorAll("a")].some((one) => one.textContent.includes("failed on 1 device"));
    new MutationObserver(() => { if (!looks()) globalThis.vanished += 1; }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  // Each attempt takes long enough to be visible.
  await byReason(page, "retrying").waitFor({ timeout: 60_000 });
  const before = await attempts();
  await until("it has retried several times", async () => (await attempts()) >= before + 2, 90);
  assert.equal(await page.evaluate(() => globalThis.vanished), 0, "it never disappeared");
  await calm("the overview");
  await wellMade(page, "an overview with a device that retries");
  await go(`/deployments/${id}`);
  await byState(page, "failed", "[role=status] ").waitFor();
  await page.getByText("image not found").first().waitFor();
  device.behave("");
  await byState(page, "up-to-date", "[role=status] ").waitFor({ timeout: 60_000 });
  await go("/");
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await link.waitFor({ state: "detached" });
});

test("without JavaScript the page of a rollout reloads, and a device shows when it was offline", async () => {
  const { process } = server.device("press-01");
  await joined("press-01");
  process.kill("SIGSTOP");
  const id = await deploy(["press-01"]);
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await until("the device is offline", async () => (await server.api(`rollouts/${id}`)).deployments["device-offline"] === 1);
  await go(`/rollouts/${id}`, plain);
  await byState(plain, "device-offline", ".legend ").waitFor();
  await plain.locator("a[href*='state=device-offline']").first().waitFor();
  await until("the offline event is recorded", async () => (await server.api("events?kind=client.offline&client=press-01")).items.length > 0, 60);
  process.kill("SIGCONT");
  await byState(plain, "completed", "[role=status]").waitFor({ timeout: 60_000 });
  await plain.context().close();

  await go("/devices/press-01/press-01");
  const happened = page.getByRole("region", { name: "Events" });
  await happened.getByRole("img", { name: /offline from .* online from/ }).waitFor({ timeout: 60_000 });
  await happened.getByRole("listitem").filter({ hasText: "went offline: last seen at" }).first().waitFor();
});

test("a rollout is withdrawn on an offline device, and the device never gets it", async () => {
  const { process } = server.device("press-02");
  await joined("press-02");
  process.kill("SIGSTOP");
  const id = await deploy(["press-02"]);
  await until("the device is offline", async () => (await server.api(`rollouts/${id}`)).deployments["device-offline"] === 1);
  await go(`/rollouts/${id}`);
  await page.getByRole("link", { name: "Withdraw on 1 offline device" }).click();
  const dialog = page.getByRole("dialog", { name: "Withdraw Line Monitor 1.0.0 on 1 offline device?" });
  await byReason(dialog, "affected", 1).waitFor();
  await wellMade(page, "withdrawing");
  await dialog.getByLabel("Comment (recorded in the audit log)").fill("the line is being rebuilt");
  await dialog.getByRole("button", { name: "Withdraw on 1 offline device" }).click();
  await page.waitForURL((address) => /\/rollouts\/./.test(address.pathname) && !address.pathname.endsWith(id));
  await page.getByText("the line is being rebuilt").waitFor();
  process.kill("SIGCONT");
  await byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
  assert.deepEqual((await server.api("deployments?client=press-02")).items, []);
  await go("/devices/press-02/press-02");
  await page.getByRole("heading", { name: "press-02", level: 1 }).waitFor();
  assert.equal(await page.getByRole("link", { name: /^Line Monitor/ }).count(), 0);
});
