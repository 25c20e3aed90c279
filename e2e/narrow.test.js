// Small windows and long words: no page is wider than the window, and nothing hides the focus.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, begin, byReason, end, onlyExpected, root, tabTo, until, wellMade } from "./support/margrave.js";

const LONG = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft";
const server = new Server();
let browser;
let page;
const go = (path) => page.goto(server.origin + path);

/** A package as tar.gz with the longest word in its name, and a table in its description. */
function packed() {
  const folder = join(server.folder, "long");
  mkdirSync(folder);
  cpSync(join(root, "samples/line-monitor/1.0.0"), folder, { recursive: true });
  const file = join(folder, "margo.yaml");
  const text = readFileSync(file, "utf8").replace(/^( *)name: Line Monitor$/m, `$1name: ${LONG}`).replace(/^( *)tagline: .*$/m, `$1tagline: ${LONG}${LONG}`);
  assert.ok(text.includes(LONG));
  writeFileSync(file, text);
  const archive = join(server.folder, "long.tar.gz");
  execFileSync("tar", ["czf", archive, "-C", folder, "margo.yaml", "resources"]);
  return archive;
}

before(async () => {
  ({ browser, page } = await begin(server, server.start()));
  server.device("press-07-in-the-very-long-hall-of-the-northern-plant", "");
  server.device("lathe-3");
  await until("the devices have reported", async () => (await server.api("devices")).items.length === 2);
});
after(async () => {
  await end(server, browser);
});

test("Back after an upload returns to the previous page", async () => {
  await go("/catalog");
  await go("/catalog/add");
  await page.getByLabel("Package archive").setInputFiles(packed());
  await page.getByRole("button", { name: "Upload" }).click();
  await page.waitForURL(/\/catalog\/line-monitor/);
  await page.getByRole("heading", { level: 1, name: LONG }).waitFor();
  await byReason(page, "application-added").waitFor();
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "Add an application" }).waitFor();
  assert.match(page.url(), /\/catalog\/add$/);
});

test("at 320 pixels, with the longest words, no page is wider than the window", async () => {
  const device = (await server.api("devices")).items.find((one) => one.device.startsWith("press"));
  const made = await server.api("deployments", "POST", { kind: "create", application: "line-monitor", version: "1.0.0", scope: { devices: [{ client: device.client, device: device.device }] }, values: { lineName: "Press 7" }, comment: LONG });
  const deployments = await until("it is published", async () => (await server.api("deployments")).items.at(0) && (await server.api("deployments")).items);
  const paths = ["/", "/devices", `/devices/${device.client}/${device.device}`, "/devices/add", "/groups", "/catalog", "/catalog/line-monitor", "/catalog/add", "/deployments", "/deployments?state=removing", "/rollouts", "/events", "/audit", "/deployments/nothing", "/settings/tokens", "/settings/password", "/settings/sessions", "/settings/identities", "/settings/enrollment-tokens", "/settings/registries", "/settings/registries/add", "/settings/certificates"];
  paths.push(`/rollouts/${made.id}`);
  paths.push(`/deployments/${deployments[0].id}`);
  for (const width of [320, 375]) {
    await page.setViewportSize({ width, height: 700 });
    for (const path of paths) {
      await go(path);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      const who = await page.evaluate(() => [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, pre")).map((one) => `${one.tagName}.${one.className}`).slice(0, 5).join(", "));
      assert.ok(wide <= 0, `${path} is ${wide} pixels wider than ${width}: ${who}`);
    }
  }
  await go("/deployments/nothing");
  await wellMade(page, "an error page");
  await page.setViewportSize({ width: 1280, height: 900 });
  await go("/catalog");
  const apart = await page.evaluate(() => [...document.querySelectorAll(".card")].every((card) => card.scrollWidth <= card.clientWidth));
  assert.ok(apart, "the content of a card stays inside");
});

test("the sticky footer never hides the focus", async () => {
  await go("/catalog/line-monitor");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("checkbox", { disabled: false }).last().check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Line name").waitFor();
  await page.getByText("Policies", { exact: true }).click();
  for (const [width, height] of [[1280, 900], [1280, 600], [320, 225]]) {
    await page.setViewportSize({ width, height });
    await page.evaluate(() => { scrollTo(0, 0); });
    await page.locator("main").focus();
    for (let pressed = 0; pressed < 30; pressed++) {
      await page.keyboard.press("Tab");
      const hidden = await page.evaluate(() => {
        const [here, bar] = [document.activeElement, document.querySelector(".sticky")];
        if (!here?.closest("main") || bar.contains(here)) return "";
        const [field, edge] = [here.getBoundingClientRect(), bar.getBoundingClientRect()];
        const sticks = getComputedStyle(bar).position === "sticky";
        return sticks && field.bottom > edge.top + 1 && field.top < edge.bottom ? here.outerHTML.slice(0, 120) : "";
      });
      assert.equal(hidden, "", `${width}x${height}`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("a confirmation that cannot be loaded leaves the page in place, marked as reconnecting", async () => {
  await go("/devices");
  await page.getByRole("link", { name: /^press-07/ }).first().click();
  await page.getByText("Live", { exact: true }).waitFor();
  const question = page.locator("a[data-ask]").first();
  await tabTo(page, question);
  const before = page.url();
  server.kill();
  await page.keyboard.press("Enter");
  await page.getByText("Reconnecting").waitFor();
  await page.getByText("Connection lost").waitFor();
  assert.equal(page.url(), before);
  onlyExpected(page, /ERR_CONNECTION|ERR_EMPTY_RESPONSE|Failed to load resource|ERR_INCOMPLETE|422/);
});
