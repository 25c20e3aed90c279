// Accessibility: without script, without a mouse, on a phone. Every page, and a complete deployment.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, byReason, byState, end, fitsPhone, onlyExpected, open, signIn, tabTo, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
let plain;
const go = (path, on = page) => on.goto(server.origin + path);
const rowsThatFit = (on) => on.getByRole("row").filter({ has: on.getByRole("rowheader") }).filter({ has: on.locator('[data-state="compatible"]') });

before(async () => {
  ({ browser, page } = await begin(server));
  plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
});
after(async () => {
  await end(server, browser);
});

/** The address of every page, with content. */
async function everyPage() {
  const [deployment] = (await server.api("deployments")).items;
  const ask = `/deployments/${deployment.id}`;
  return [
    "/", "/devices", "/devices?state=offline", "/devices?q=nothing-like-it", "/devices/add", "/devices/press-01/press-01", "/devices/gateway-01/gateway-01",
    "/devices/press-01/press-01?ask=delete", "/clients/press-01?ask=decommission", "/groups", "/groups/new", "/groups/pressing",
    "/catalog", "/catalog?q=nothing-like-it", "/catalog?device=press-01/press-01", "/catalog/add", "/catalog/line-monitor", "/catalog/line-monitor/compatibility",
    "/deployments", "/deployments?state=failed", ask, `${ask}?ask=remove`, "/rollouts", `/rollouts/${deployment.rollout}`,
    "/events", "/events?kind=client", "/audit", "/audit?check=yes",
    "/settings/tokens", "/settings/sessions", "/settings/identities", "/settings/enrollment-tokens", "/settings/registries", "/settings/registries/add", "/settings/certificates", "/nothing/here",
  ];
}

test("on a phone no page is wider than the window", async () => {
  await page.setViewportSize({ width: 375, height: 800 });
  for (const path of await everyPage()) {
    await go(path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await fitsPhone(page, path);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("without script every page has its heading, and every form a button", async () => {
  for (const path of await everyPage()) {
    await go(path, plain);
    assert.equal(await plain.getByRole("heading", { level: 1 }).count(), 1, path);
    for (const form of await plain.locator("form:not([role=search])").all()) {
      assert.ok((await form.getByRole("button").count()) > 0, `${path}: a form without a button`);
    }
    assert.equal(await plain.locator("[data-script]:visible").count(), 0, `${path}: elements that need script are hidden`);
  }
});

test("without script the wizard works, including an invalid value", async () => {
  await go("/catalog", plain);
  await plain.getByLabel("Name, supplier or tag contains").fill("line");
  await plain.getByRole("button", { name: "Filter" }).click();
  await plain.getByRole("link", { name: "Line Monitor" }).click();
  await plain.getByRole("button", { name: "Deploy", exact: true }).click();
  await plain.getByLabel("1.0.0").check();
  await plain.getByRole("button", { name: "Continue" }).click();
  await plain.getByLabel("Name contains").fill("press");
  await plain.getByRole("button", { name: "Filter" }).click();
  const chosen = await rowsThatFit(plain).first().getByRole("rowheader").innerText();
  await plain.getByRole("checkbox", { name: chosen, exact: true }).check();
  await plain.getByRole("button", { name: "Continue" }).click();
  await plain.getByLabel("Sampling interval").fill("61");
  await plain.getByRole("button", { name: "Review" }).click();
  await plain.getByRole("alert").getByRole("link", { name: /Sampling interval: Must be at most 60/ }).waitFor();
  await plain.getByLabel("Sampling interval").fill("12");
  await plain.getByLabel("Line name").fill("Without script");
  await plain.getByText("Policies", { exact: true }).click();
  await plain.getByLabel("On failure").selectOption("Stop");
  await plain.getByRole("button", { name: "Review" }).click();
  await byReason(plain, "update", 1).waitFor();
  await plain.getByRole("definition").filter({ hasText: "Stop" }).waitFor();
  await plain.getByLabel("Comment (recorded in the audit log)").fill("no script here");
  await plain.getByRole("button", { name: "Deploy to 1 device" }).click();
  await plain.getByRole("heading", { name: /^Deploy Line Monitor 1.0.0 to [a-z]/ }).waitFor();
  await until("the device has it", async () => {
    await plain.reload();
    return (await byState(plain, "completed", "[role=status]").count()) > 0;
  }, 60);
  // Remove it again: without script the confirmation is a page.
  await plain.getByRole("rowheader").getByRole("link").click();
  await plain.getByRole("definition").filter({ hasText: "Stop" }).waitFor();
  await plain.getByRole("link", { name: "Remove", exact: true }).click();
  await plain.getByRole("heading", { name: `Remove Line Monitor from ${chosen}?` }).waitFor();
  await plain.getByRole("button", { name: "Remove from 1 device" }).click();
  await plain.getByRole("heading", { name: /^Remove Line Monitor from [a-z]/ }).waitFor();
});

test("without script labels are set and an enrollment token is created", async () => {
  await go("/devices/pump-01/pump-01", plain);
  await plain.getByLabel("New label").fill("hall");
  await plain.getByLabel("Value", { exact: true }).fill("9");
  await plain.getByRole("button", { name: "Save labels" }).click();
  await byReason(plain, "labels-saved").waitFor();
  await go("/devices/add", plain);
  await plain.getByLabel("Device name").fill("press-98");
  await plain.getByRole("button", { name: "Create enrollment token" }).click();
  await plain.getByText(/margrave-agent enroll --trust-url/).waitFor();
});

test("with the keyboard alone an application is deployed", async () => {
  await go("/catalog/line-monitor");
  const press = async (locator, key = "Enter") => {
    await tabTo(page, locator);
    await page.keyboard.press(key);
  };
  await press(page.getByRole("button", { name: "Deploy", exact: true }));
  await page.getByRole("heading", { name: "Deploy Line Monitor" }).waitFor();
  await press(page.getByRole("button", { name: "Continue" }));
  await page.getByRole("table", { name: "Select devices" }).waitFor();
  const name = await rowsThatFit(page).first().getByRole("rowheader").innerText();
  await press(page.getByRole("checkbox", { name, exact: true }), "Space");
  await press(page.getByRole("button", { name: "Continue" }));
  await tabTo(page, page.getByLabel("Line name"));
  await page.keyboard.type("By keyboard");
  await press(page.getByText("Policies", { exact: true }));
  await tabTo(page, page.getByLabel("On removal"));
  await page.keyboard.type("Delete");
  await press(page.getByRole("button", { name: "Review" }));
  await byReason(page, "update", 1).waitFor();
  await page.getByRole("definition").filter({ hasText: "Delete data" }).waitFor();
  await tabTo(page, page.getByLabel("Comment (recorded in the audit log)"));
  await page.keyboard.type("no mouse");
  await press(page.getByRole("button", { name: "Deploy to 1 device" }));
  await byState(page, "completed", "[role=status]").waitFor({ timeout: 60_000 });
  // Open and close a dialog.
  await press(page.getByRole("rowheader").getByRole("link"));
  await press(page.getByRole("link", { name: "Remove", exact: true }));
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("link", { name: "Remove", exact: true }).evaluate((link) => link === document.activeElement), true);
});

test("on a phone every wizard step fits", async () => {
  await page.setViewportSize({ width: 375, height: 800 });
  await go("/catalog/vibration-analytics");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("heading", { name: "Deploy Vibration Analytics" }).waitFor();
  await wellMade(page, "version on a phone");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("table", { name: "Select devices" }).waitFor();
  await wellMade(page, "devices on a phone");
  await rowsThatFit(page).first().getByRole("checkbox").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Machine class").selectOption("class-3");
  await page.getByLabel("gearbox").check();
  await wellMade(page, "questions on a phone");
  await page.getByText("Policies", { exact: true }).click();
  await page.getByLabel("Drift").selectOption("Report only");
  await wellMade(page, "policies on a phone");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 1).waitFor();
  await wellMade(page, "review on a phone");
  await page.getByRole("button", { name: "Discard draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard draft" }).click();
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /404 \(Not Found\)/);
});
