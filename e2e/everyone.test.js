// For everyone: without script, without a mouse, on a phone. Every page, and the whole way from the catalog to a device that runs it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, end, fitsPhone, onlyExpected, open, signIn, tabTo, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
let plain;
const go = (path, on = page) => on.goto(server.origin + path);
const rowsThatFit = (on) => on.getByRole("row").filter({ has: on.getByRole("rowheader") }).filter({ hasText: "Fits" }).filter({ hasNotText: "already" });

before(async () => {
  ({ browser, page } = await begin(server));
  plain = await open(browser, { javaScriptEnabled: false });
  await signIn(plain, server);
});
after(async () => {
  await end(server, browser);
});

/** The address of every page there is, with something on it. */
async function everyPage() {
  const [deployment] = (await server.api("deployments")).items;
  const ask = `/deployments/${deployment.id}`;
  return [
    "/", "/devices", "/devices?state=silent", "/devices?q=nothing-like-it", "/devices/add", "/devices/press-01/press-01", "/devices/gateway-01/gateway-01",
    "/devices/press-01/press-01?ask=forget", "/clients/press-01?ask=retire", "/groups", "/groups/new", "/groups/pressing",
    "/catalog", "/catalog?q=nothing-like-it", "/catalog?device=press-01/press-01", "/catalog/add", "/catalog/line-monitor", "/catalog/line-monitor?where=yes",
    "/deployments", "/deployments?state=failed", ask, `${ask}?ask=remove`, "/changes", `/changes/${deployment.change}`,
    "/activity", "/activity?kind=client", "/activity/audit", "/activity/audit?check=yes",
    "/settings/tokens", "/settings/sessions", "/settings/clients", "/settings/invitations", "/settings/registries", "/settings/registries/add", "/settings/trust", "/nothing/here",
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
      assert.ok((await form.getByRole("button").count()) > 0, `${path}: a form that cannot be sent`);
    }
    assert.equal(await plain.locator("[data-script]:visible").count(), 0, `${path}: what only works with script is not shown`);
  }
});

test("without script the whole wizard is gone through, with a wrong answer on the way", async () => {
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
  await plain.getByText("When something goes wrong, or it is removed").click();
  await plain.getByLabel("When it fails").selectOption("Stop until somebody changes it");
  await plain.getByRole("button", { name: "Review" }).click();
  await plain.getByText("1 device would change.").waitFor();
  await plain.getByRole("definition").filter({ hasText: "Stop until somebody changes it" }).waitFor();
  await plain.getByLabel("Reason, for the audit").fill("no script here");
  await plain.getByRole("button", { name: "Deploy to 1 device" }).click();
  await plain.getByRole("heading", { name: /^Deploy Line Monitor 1.0.0 to [a-z]/ }).waitFor();
  await until("the device has it", async () => {
    await plain.reload();
    return (await plain.getByRole("status").filter({ hasText: "Finished: done everywhere." }).count()) > 0;
  }, 60);
  // And away with it again: what asks before it acts is a page of its own.
  await plain.getByRole("rowheader").getByRole("link").click();
  await plain.getByRole("definition").filter({ hasText: "Stop until somebody changes it" }).waitFor();
  await plain.getByRole("link", { name: "Remove", exact: true }).click();
  await plain.getByRole("heading", { name: `Remove Line Monitor from ${chosen}?` }).waitFor();
  await plain.getByRole("button", { name: "Remove from 1 device" }).click();
  await plain.getByRole("heading", { name: /^Remove Line Monitor from [a-z]/ }).waitFor();
});

test("without script labels are set and a device is invited", async () => {
  await go("/devices/pump-01/pump-01", plain);
  await plain.getByLabel("New label").fill("hall");
  await plain.getByLabel("Its value").fill("9");
  await plain.getByRole("button", { name: "Save labels" }).click();
  await plain.getByText("The labels were changed.").waitFor();
  await go("/devices/add", plain);
  await plain.getByLabel("Name of the device").fill("press-98");
  await plain.getByRole("button", { name: "Make the invitation" }).click();
  await plain.getByText(/margrave-agent enrol --trust-url/).waitFor();
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
  await page.getByRole("table", { name: "Devices to choose from" }).waitFor();
  const name = await rowsThatFit(page).first().getByRole("rowheader").innerText();
  await press(page.getByRole("checkbox", { name, exact: true }), "Space");
  await press(page.getByRole("button", { name: "Continue" }));
  await tabTo(page, page.getByLabel("Line name"));
  await page.keyboard.type("By keyboard");
  await press(page.getByText("When something goes wrong, or it is removed"));
  await tabTo(page, page.getByLabel("When it is removed"));
  await page.keyboard.type("Delete");
  await press(page.getByRole("button", { name: "Review" }));
  await page.getByText("1 device would change.").waitFor();
  await page.getByRole("definition").filter({ hasText: "Delete its data as well" }).waitFor();
  await tabTo(page, page.getByLabel("Reason, for the audit"));
  await page.keyboard.type("no mouse");
  await press(page.getByRole("button", { name: "Deploy to 1 device" }));
  await page.getByRole("status").filter({ hasText: "Finished: done everywhere." }).waitFor({ timeout: 60_000 });
  // A dialog, and out of it again.
  await press(page.getByRole("rowheader").getByRole("link"));
  await press(page.getByRole("link", { name: "Remove", exact: true }));
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("link", { name: "Remove", exact: true }).evaluate((link) => link === document.activeElement), true);
});

test("on a phone the wizard fits, step by step", async () => {
  await page.setViewportSize({ width: 375, height: 800 });
  await go("/catalog/vibration-analytics");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("heading", { name: "Deploy Vibration Analytics" }).waitFor();
  await wellMade(page, "version on a phone");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("table", { name: "Devices to choose from" }).waitFor();
  await wellMade(page, "devices on a phone");
  await rowsThatFit(page).first().getByRole("checkbox").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Machine class").selectOption("class-3");
  await page.getByLabel("gearbox").check();
  await wellMade(page, "questions on a phone");
  await page.getByText("When something goes wrong, or it is removed").click();
  await page.getByLabel("When it is changed by hand").selectOption("Report it, touch nothing");
  await wellMade(page, "policies on a phone");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("1 device would change.").waitFor();
  await wellMade(page, "review on a phone");
  await page.getByRole("button", { name: "Drop this draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop this draft" }).click();
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /404 \(Not Found\)/);
});
