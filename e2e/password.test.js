// Password of the local admin: sign-in, wrong passwords, throttling, changing it, without script.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, byReason, end, launch, onlyExpected, open, wellMade } from "./support/margrave.js";

const NEW = "three small words";
const server = new Server();
let browser;
let page;

const first = () => readFileSync(join(server.folder, "admin-password"), "utf8").trim();

async function enter(page, password) {
  await page.goto(`${server.origin}/sign-in`);
  await page.getByLabel("Name", { exact: true }).fill("admin");
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

before(async () => {
  [browser] = await Promise.all([launch(), server.start()]);
  page = await open(browser);
});
after(async () => {
  await end(server, browser);
});

test("the fields are what password managers look for", async () => {
  await page.goto(`${server.origin}/sign-in`);
  assert.equal(await page.getByLabel("Name", { exact: true }).getAttribute("autocomplete"), "username");
  assert.equal(await page.getByLabel("Password", { exact: true }).getAttribute("autocomplete"), "current-password");
  assert.equal(await page.evaluate(() => document.activeElement.id), "name", "the name has the focus");
  await wellMade(page, "sign-in");
});

test("a wrong password is rejected without revealing which field was wrong", async () => {
  await enter(page, "wrong and wrong again");
  await byReason(page, "wrong-password").waitFor();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "admin", "the name stays filled in");
  assert.equal(await page.getByLabel("Password", { exact: true }).inputValue(), "");
  await wellMade(page, "rejected password");
});

test("the admin signs in with the initial password", async () => {
  await enter(page, first());
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.getByText("Signed in as admin").waitFor();
  await byReason(page, "initial-password").waitFor();
  await wellMade(page, "overview with the initial password");
  await page.getByRole("link", { name: "Change the password" }).click();
  await page.getByLabel("Current password").waitFor();
});

test("changing the password signs out only the other browser", async () => {
  const old = first();
  const other = await open(browser);
  await enter(other, old);
  await other.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.goto(`${server.origin}/settings/password`);
  await wellMade(page, "password");
  await page.getByLabel("Current password").fill("not the current one");
  await page.getByLabel("New password", { exact: true }).fill(NEW);
  await page.getByLabel("Confirm new password").fill(NEW);
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByRole("alert").filter({ has: page.locator("a[href='#old']") }).waitFor();
  await wellMade(page, "wrong current password");
  await page.getByLabel("Current password").fill(old);
  await page.getByLabel("New password", { exact: true }).fill(NEW);
  await page.getByLabel("Confirm new password").fill(NEW);
  await page.getByRole("button", { name: "Change the password" }).click();
  await byReason(page, "password-changed").waitFor();
  assert.equal(await byReason(page, "initial-password").count(), 0);
  await other.goto(`${server.origin}/devices`);
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.goto(`${server.origin}/audit?action=operator`);
  await page.getByText("Set password").first().waitFor();
  await other.context().close();
});

test("it works without script", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await enter(plain, NEW);
  await plain.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await plain.goto(`${server.origin}/settings/password`);
  await plain.getByRole("heading", { name: "Change the password of admin" }).waitFor();
  await plain.context().close();
});

test("guessing is throttled and shows when to retry", async () => {
  const guesser = await open(browser);
  for (let round = 0; round < 10; round += 1) await enter(guesser, `wrong and wrong again ${round}`);
  await enter(guesser, NEW);
  await byReason(guesser, "busy").waitFor();
  await wellMade(guesser, "too many wrong passwords");
  await guesser.context().close();
});

test("only rejections were logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/);
});
