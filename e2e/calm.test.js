// What is watched keeps its place: a change that is carried out, a device that fails and tries again and again, without script as well.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, end, launch, open, root, signIn, until, wellMade } from "./support/margrave.js";

/** As a browser counts it: 0.1 is called good for a page somebody opens, and nobody should notice this much. */
const SHIFT_MAX = 0.05;

const server = new Server();
let browser;
let page;

const go = (path, on = page) => on.goto(server.origin + path);

before(async () => {
  [browser] = await Promise.all([launch(), server.start("127.0.0.1:0", 'silent_after = "4s"\n')]);
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

/** Deploys to these devices; gives the change once every device is told. */
async function deploy(names) {
  const devices = names.map((name) => ({ client: name, device: name }));
  const body = { kind: "create", application: "line-monitor", version: "1.0.0", scope: { devices }, answers: { lineName: "Press 7" } };
  const { id } = await server.api("deployments", "POST", body);
  await until("every device is told", async () => (await server.api(`changes/${id}`)).finished);
  return id;
}

async function calm(what) {
  const moved = await page.evaluate(() => globalThis.moved);
  const sum = moved.reduce((all, { value }) => all + value, 0);
  assert.ok(sum < SHIFT_MAX, `${what} moved by ${sum}: ${JSON.stringify(moved)}`);
}

test("the page of a change does not jump while devices carry it out, on a desk and on a phone", async () => {
  for (const [width, prefix] of [[1280, "desk"], [375, "phone"]]) {
    const names = [1, 2, 3, 4].map((number) => `${prefix}-0${number}`);
    names.forEach((name, index) => server.device(name, `delay = "${index + 1}s"\n`));
    for (const name of names) await joined(name);
    await page.setViewportSize({ width, height: 900 });
    const id = await deploy(names);
    await go(`/changes/${id}`);
    const tiles = page.getByRole("group", { name: "Its deployments by state" });
    const words = ["Up to date", "Applying", "Failed", "Waiting for the device", "Device not heard of"];
    for (const word of words) await tiles.getByText(word, { exact: true }).waitFor();
    const status = page.getByRole("status").filter({ hasText: /waiting for|Finished/ });
    await status.filter({ hasText: "Finished: done everywhere." }).waitFor({ timeout: 60_000 });
    await page.getByRole("table").getByText("Up to date", { exact: true }).nth(3).waitFor();
    await calm(`the change on ${prefix}`);
    await wellMade(page, `a change that is done, ${prefix}`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("a device that fails stays where it is on the overview while it tries again", async () => {
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
  // Each attempt takes long enough for somebody who looks once a second.
  await page.getByText("trying again now").waitFor({ timeout: 60_000 });
  const before = await attempts();
  await until("it has tried again and again", async () => (await attempts()) >= before + 2, 90);
  assert.equal(await page.evaluate(() => globalThis.vanished), 0, "it never left");
  await calm("the overview");
  await wellMade(page, "an overview with a device that tries again");
  await go(`/deployments/${id}`);
  await page.getByRole("status").filter({ hasText: "Failed" }).waitFor();
  await page.getByText("image not found").first().waitFor();
  device.behave("");
  await page.getByRole("status").filter({ hasText: "Up to date" }).waitFor({ timeout: 60_000 });
  await go("/");
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await link.waitFor({ state: "detached" });
});

test("without script the page of a change that waits loads itself again, and a device says when it was silent", async () => {
  const { process } = server.device("press-01");
  await joined("press-01");
  process.kill("SIGSTOP");
  const id = await deploy(["press-01"]);
  const plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
  await until("nobody hears of it", async () => (await server.api(`changes/${id}`)).deployments["not-heard-of"] === 1);
  await go(`/changes/${id}`, plain);
  await plain.getByText("1 device does not call; it waits until it does.").waitFor();
  await plain.getByText("A device that does not call gets it when it comes back.").waitFor();
  await until("its silence is written down", async () => (await server.api("events?kind=client.silent&client=press-01")).items.length > 0, 60);
  process.kill("SIGCONT");
  await plain.getByText("Finished: done everywhere.").waitFor({ timeout: 60_000 });
  await plain.context().close();

  await go("/devices/press-01/press-01");
  const happened = page.getByRole("region", { name: "What happened" });
  await happened.getByRole("img", { name: /silent from .* heard of from/ }).waitFor({ timeout: 60_000 });
  await happened.getByRole("listitem").filter({ hasText: "is silent: last heard of at" }).first().waitFor();
});

test("what waits for a device that does not call is called off with one button, and the device finds nothing of it", async () => {
  const { process } = server.device("press-02");
  await joined("press-02");
  process.kill("SIGSTOP");
  const id = await deploy(["press-02"]);
  await until("nobody hears of it", async () => (await server.api(`changes/${id}`)).deployments["not-heard-of"] === 1);
  await go(`/changes/${id}`);
  await page.getByRole("link", { name: "Call it off there" }).click();
  const dialog = page.getByRole("dialog", { name: "Call Line Monitor 1.0.0 off on 1 device?" });
  await dialog.getByText("This touches 1 device.").waitFor();
  await wellMade(page, "calling off");
  await dialog.getByLabel("Reason, for the audit").fill("the line is being rebuilt");
  await dialog.getByRole("button", { name: "Call it off on 1 device" }).click();
  await page.waitForURL((address) => /\/changes\/./.test(address.pathname) && !address.pathname.endsWith(id));
  await page.getByText("the line is being rebuilt").waitFor();
  process.kill("SIGCONT");
  await page.getByRole("status").filter({ hasText: "Finished: done everywhere." }).waitFor({ timeout: 60_000 });
  assert.deepEqual((await server.api("deployments?client=press-02")).items, []);
  await go("/devices/press-02/press-02");
  await page.getByRole("heading", { name: "press-02", level: 1 }).waitFor();
  assert.equal(await page.getByRole("link", { name: /^Line Monitor/ }).count(), 0);
});
