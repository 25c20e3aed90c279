// In and out: wrong token, right token, coming back to where one was, sessions that are ended elsewhere, requests from other sites.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, end, launch, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;

before(async () => {
  [browser] = await Promise.all([launch(), server.start()]);
  page = await open(browser);
});
after(async () => {
  await end(server, browser);
});

test("whoever is not signed in is asked to, and comes back to where they wanted", async () => {
  await page.goto(`${server.origin}/devices?q=press`);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await wellMade(page, "sign-in");
  await page.getByLabel("Access token").fill(server.token);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Devices", level: 1 }).waitFor();
  assert.equal(new URL(page.url()).search, "?q=press");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("a wrong token is refused with the next step", async () => {
  await page.getByLabel("Access token").fill("mgv_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").filter({ hasText: "not known" }).waitFor();
  assert.equal(await page.getByLabel("Access token").getAttribute("aria-invalid"), "true");
  await wellMade(page, "refused sign-in");
});

test("a link with the token signs in, and the token leaves the address", async () => {
  await page.goto(`${server.origin}/sign-in#token=${server.token}`);
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  assert.ok(!page.url().includes(server.token));
  const cookies = await page.context().cookies();
  const session = cookies.find((cookie) => cookie.name === "margrave");
  assert.deepEqual([session.httpOnly, session.sameSite], [true, "Strict"]);
  assert.ok(!session.value.includes(server.token));
});

test("an empty fleet says what to do first", async () => {
  await page.goto(server.origin);
  await page.getByRole("link", { name: "Invite the first device" }).waitFor();
  await wellMade(page, "empty overview");
  for (const [path, text] of [["/devices", "No device has joined yet"], ["/catalog", "The catalog is empty"], ["/deployments", "Nothing is deployed"], ["/changes", "No changes yet"], ["/groups", "No groups yet"]]) {
    await page.goto(server.origin + path);
    await page.getByRole("heading", { name: text }).waitFor();
    await wellMade(page, `empty ${path}`);
  }
});

test("a page that does not exist says so and leads back", async () => {
  await page.goto(`${server.origin}/nothing/here`);
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  await page.getByText("Request id to quote").waitFor();
  await wellMade(page, "not found");
  await page.goto(`${server.origin}/devices/nobody/nothing`);
  await page.getByRole("heading", { name: "There is no such thing" }).waitFor();
});

test("a session can be ended from elsewhere", async () => {
  const other = await open(browser);
  await signIn(other, server);
  await page.goto(`${server.origin}/settings/sessions`);
  await wellMade(page, "sessions");
  await page.getByRole("link", { name: "End the session of" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "End this session" }).click();
  await page.getByText("The session was ended.").waitFor();
  await other.goto(`${server.origin}/devices`);
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.context().close();
});

test("revoking the token signs out every browser that used it", async () => {
  const made = await server.api("tokens", "POST", { name: "night shift" });
  const other = await open(browser);
  await other.goto(`${server.origin}/sign-in#token=${made.secret}`);
  await other.getByText("night shift").first().waitFor();
  await page.goto(`${server.origin}/settings/tokens`);
  await page.getByRole("link", { name: "Revoke night shift" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke this token" }).click();
  await page.getByText("The token was revoked.").waitFor();
  await until("the other page says that it is signed out", async () => {
    await other.goto(`${server.origin}/`);
    return other.url().includes("/sign-in");
  });
  await other.context().close();
});

test("another site cannot make a browser do anything", async () => {
  const cookies = await page.context().cookies();
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  for (const headers of [{ "Sec-Fetch-Site": "cross-site" }, { Origin: "http://evil.example" }, {}]) {
    const answer = await fetch(`${server.origin}/sign-out`, { method: "POST", headers: { cookie, ...headers }, redirect: "manual" });
    assert.equal(answer.status, 403, JSON.stringify(headers));
  }
  await page.reload();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
});

test("every answer carries strict headers", async () => {
  const answer = await fetch(`${server.origin}/sign-in`);
  const policy = answer.headers.get("content-security-policy");
  assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
  assert.ok(!/unsafe|http:/.test(policy), policy);
  assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
  assert.equal(answer.headers.get("referrer-policy"), "same-origin");
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const html = await answer.text();
  assert.ok(!/style=|onclick=|<style|<script>/.test(html), "nothing inline");
  for (const [, path] of html.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)) {
    const asset = await fetch(server.origin + path);
    assert.equal(asset.status, 200, path);
    assert.match(asset.headers.get("cache-control"), /immutable/, path);
  }
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /404 \(Not Found\)/, /422 \(Unprocessable/, /401 \(Unauthorized\)/);
});
