// The local admin: a name and a password, a wrong one, too many wrong ones, another one, and no script.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, end, launch, onlyExpected, open, wellMade } from "./support/margrave.js";

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
  assert.equal(await page.evaluate(() => document.activeElement.id), "name", "one can type at once");
  await wellMade(page, "sign-in");
});

test("a wrong password is refused without saying which of both was wrong", async () => {
  await enter(page, "wrong and wrong again");
  await page.getByRole("alert").filter({ hasText: "Name or password is wrong." }).waitFor();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "admin", "the name need not be typed again");
  assert.equal(await page.getByLabel("Password", { exact: true }).inputValue(), "");
  await wellMade(page, "refused password");
});

test("the first password lets the admin in", async () => {
  await enter(page, first());
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.getByText("Signed in as admin").waitFor();
  await page.getByText("The password of admin is still the first one").waitFor();
  await wellMade(page, "overview with the first password");
  await page.getByRole("link", { name: "Change the password" }).click();
  await page.getByLabel("Present password").waitFor();
});

test("the password is changed, the other browser is signed out, this one stays", async () => {
  const old = first();
  const other = await open(browser);
  await enter(other, old);
  await other.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.goto(`${server.origin}/settings/password`);
  await wellMade(page, "password");
  await page.getByLabel("Present password").fill("not the present one");
  await page.getByLabel("New password", { exact: true }).fill(NEW);
  await page.getByLabel("New password again").fill(NEW);
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByRole("alert").filter({ hasText: "This is not the present password." }).waitFor();
  await wellMade(page, "wrong present password");
  await page.getByLabel("Present password").fill(old);
  await page.getByLabel("New password", { exact: true }).fill(NEW);
  await page.getByLabel("New password again").fill(NEW);
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByText("The password was changed. Your other session was ended.").waitFor();
  assert.equal(await page.getByText("is still the first one").count(), 0);
  await other.goto(`${server.origin}/devices`);
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.goto(`${server.origin}/activity/audit?action=operator`);
  await page.getByText("Set a password").first().waitFor();
  await other.context().close();
});

test("without script the same works", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await enter(plain, NEW);
  await plain.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await plain.goto(`${server.origin}/settings/password`);
  await plain.getByRole("heading", { name: "Change the password of admin" }).waitFor();
  await plain.context().close();
});

test("whoever guesses is told when to try again", async () => {
  const guesser = await open(browser);
  for (let round = 0; round < 10; round += 1) await enter(guesser, `wrong and wrong again ${round}`);
  await enter(guesser, NEW);
  await guesser.getByRole("alert").filter({ hasText: /Too many wrong passwords. Try again in \d+ seconds?./ }).waitFor();
  await wellMade(guesser, "too many wrong passwords");
  await guesser.context().close();
});

test("nothing was complained about but refusals", () => {
  onlyExpected(page, /422 \(Unprocessable/);
});
