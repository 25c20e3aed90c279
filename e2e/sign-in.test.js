// Sign-in: wrong and right token, redirects, sessions ended elsewhere, requests from other sites.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, byReason, end, launch, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

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

test("sign-in redirects back to the requested page", async () => {
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

test("a wrong token is rejected with the next step", async () => {
  await page.getByLabel("Access token").fill("mgv_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await byReason(page, "wrong-token").waitFor();
  assert.equal(await page.getByLabel("Access token").getAttribute("aria-invalid"), "true");
  await wellMade(page, "rejected sign-in");
});

test("a link with a token signs in and removes the token from the address", async () => {
  await page.goto(`${server.origin}/sign-in#token=${server.token}`);
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  assert.ok(!page.url().includes(server.token));
  const cookies = await page.context().cookies();
  const session = cookies.find((cookie) => cookie.name === "margrave");
  assert.deepEqual([session.httpOnly, session.sameSite], [true, "Strict"]);
  assert.ok(!session.value.includes(server.token));
});

test("an empty fleet shows the first step", async () => {
  await page.goto(server.origin);
  await page.getByRole("link", { name: "Add the first device" }).waitFor();
  await wellMade(page, "empty overview");
  for (const [path, text] of [["/devices", "No devices yet"], ["/catalog", "The catalog is empty"], ["/deployments", "No deployments yet"], ["/rollouts", "No rollouts yet"], ["/groups", "No groups yet"]]) {
    await page.goto(server.origin + path);
    await page.getByRole("heading", { name: text }).waitFor();
    await wellMade(page, `empty ${path}`);
  }
});

test("an unknown page shows an error and links back", async () => {
  await page.goto(`${server.origin}/nothing/here`);
  await page.getByRole("heading", { name: "Page not found" }).waitFor();
  await page.getByText("Request ID").waitFor();
  await wellMade(page, "not found");
  await page.goto(`${server.origin}/devices/absent/nothing`);
  await page.getByRole("heading", { name: "Not found" }).waitFor();
});

test("a session can be ended from another browser", async () => {
  const other = await open(browser);
  await signIn(other, server);
  await page.goto(`${server.origin}/settings/sessions`);
  await wellMade(page, "sessions");
  await page.getByRole("link", { name: "End the session of" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "End session" }).click();
  await byReason(page, "session-ended").waitFor();
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
  await page.getByRole("dialog").getByRole("button", { name: "Revoke token" }).click();
  await byReason(page, "revoked").waitFor();
  await until("the other browser is signed out", async () => {
    await other.goto(`${server.origin}/`);
    return other.url().includes("/sign-in");
  });
  await other.context().close();
});

test("requests from another site are rejected", async () => {
  const cookies = await page.context().cookies();
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  for (const headers of [{ "Sec-Fetch-Site": "cross-site" }, { Origin: "http://evil.example" }, {}]) {
    const answer = await fetch(`${server.origin}/sign-out`, { method: "POST", headers: { cookie, ...headers }, redirect: "manual" });
    assert.equal(answer.status, 403, JSON.stringify(headers));
  }
  await page.reload();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
});

test("every response has strict headers", async () => {
  const answer = await fetch(`${server.origin}/sign-in`);
  const policy = answer.headers.get("content-security-policy");
  assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
  assert.ok(!/unsafe|http:/.test(policy), policy);
  assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
  assert.equal(answer.headers.get("referrer-policy"), "same-origin");
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const html = await answer.text();
  assert.ok(!/style=|onclick=|<style|<script>/.test(html), "no inline code");
  for (const [, path] of html.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)) {
    const asset = await fetch(server.origin + path);
    assert.equal(asset.status, 200, path);
    assert.match(asset.headers.get("cache-control"), /immutable/, path);
  }
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /404 \(Not Found\)/, /422 \(Unprocessable/, /401 \(Unauthorized\)/);
});
