// The status page in a real Chromium against a real server: wrong token, right token, live change, server gone and back.
import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync, existsSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const margrave = join(root, "target/debug/margrave");
const folder = mkdtempSync(join(tmpdir(), "margrave-e2e-"));
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

let server;
let browser;
let page;
let origin;
const consoleErrors = [];

function start(operators = "127.0.0.1:0") {
  rmSync(join(folder, "addresses.json"), { force: true });
  server = spawn(
    margrave,
    ["serve", "--data", folder, "--devices", "127.0.0.1:0", "--trust", "127.0.0.1:0", "--operators", operators],
    { stdio: "ignore" },
  );
}

async function until(what, condition, seconds = 30) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `waited ${seconds} s in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const cli = (...args) => execFileSync(margrave, ["--data", folder, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

async function address() {
  await until("the server says where it listens", () => existsSync(join(folder, "addresses.json")));
  return JSON.parse(readFileSync(join(folder, "addresses.json"), "utf8")).urls.operators;
}

before(async () => {
  assert.ok(browserPath, "no Chromium found: run `make setup`");
  start();
  origin = await address();
  await until("the server is ready", () => fetch(`${origin}/readyz`).then((answer) => answer.ok, () => false));
  browser = await chromium.launch({
    executablePath: browserPath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.on("console", (message) => message.type() === "error" && consoleErrors.push(message.text()));
  page.on("pageerror", (error) => consoleErrors.push(String(error)));
});

after(async () => {
  await browser?.close();
  server?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

test("a wrong token is refused with the next step", async () => {
  await page.goto(origin);
  await page.getByLabel("API token").fill("mga_wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "token" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "Deployments" }).isVisible(), false);
});

test("the right token shows an empty fleet that says what to do", async () => {
  const token = readFileSync(join(folder, "admin-token"), "utf8").trim();
  await page.goto(`${origin}/#token=${token}`);
  await page.reload();
  await page.getByRole("heading", { name: "Deployments" }).waitFor();
  assert.ok(!page.url().includes(token), "the token must leave the address bar");
  const text = await page.locator("main").innerText();
  assert.match(text, /margrave (app import|deploy|client enrol-token)/, "an empty fleet names the first step");
});

test("a device that reports appears without reloading", async () => {
  const out = join(folder, "press-07");
  cli("client", "mint", "press-07", "--out", out);
  const config = join(folder, "agent.toml");
  const server = readFileSync(join(out, "wfm-url"), "utf8").trim();
  writeFileSync(config, `server = "${server}"
state_dir = "${join(folder, "agent-state")}"
[poll]
period = "200ms"
start_spread = "0s"
[identity]
certificate = "${join(out, "cert.pem")}"
key = "${join(out, "key.pem")}"
trust_bundle = "${join(out, "bundle.pem")}"
`);
  const agent = spawn(join(root, "target/debug/margrave-agent"), ["run", "--config", config], { stdio: "ignore" });
  try {
    await page.getByRole("table", { name: /Devices/ }).getByText("press-07").first().waitFor({ timeout: 30_000 });
  } finally {
    agent.kill("SIGKILL");
  }
});

test("the page says when the server is gone and recovers by itself", async () => {
  const before = consoleErrors.length;
  const listen = new URL(origin).host;
  server.kill("SIGKILL");
  await page.getByRole("alert").filter({ hasText: /retry|lost|reach/i }).waitFor({ timeout: 30_000 });
  start(listen);
  await page.locator("#stale").waitFor({ state: "hidden", timeout: 30_000 });
  // A refused connection is what this test causes; nothing else may be logged.
  consoleErrors.splice(before, consoleErrors.length, ...consoleErrors.slice(before).filter((text) => !/ERR_|Failed to (load|fetch)/.test(text)));
});

test("nothing but the refused sign-in was logged in the console", () => {
  const unexpected = consoleErrors.filter((text) => !/401/.test(text));
  assert.deepEqual(unexpected, []);
});
