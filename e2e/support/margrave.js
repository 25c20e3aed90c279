// A real server (alone, or the demo with its simulated devices) and a real Chromium, for the journeys beside this file.
import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import { chromium } from "playwright-core";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const margrave = join(root, "target/debug/margrave");
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

/** Waits for a condition, never for a time. */
export async function until(what, condition, seconds = 40) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `waited ${seconds} s in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A server in a folder of its own. */
export class Server {
  folder = mkdtempSync(join(tmpdir(), "margrave-e2e-"));
  #children = [];
  #process;

  /** With an empty fleet. */
  async start(operators = "127.0.0.1:0") {
    return this.#run(["serve", "--data", this.folder, "--devices", "127.0.0.1:0", "--trust", "127.0.0.1:0", "--operators", operators]);
  }

  /** With simulated devices, sample applications and a few deployments. */
  async startDemo(port = "0", devices = "12") {
    await this.#run(["--data", this.folder, "demo", "--port", port, "--devices", devices]);
    await until("the demo has its fleet", () => existsSync(join(this.folder, "demo-seeded")), 120);
    return this;
  }

  async #run(args) {
    rmSync(join(this.folder, "addresses.json"), { force: true });
    this.#process = spawn(margrave, args, { stdio: ["ignore", "ignore", "pipe"] });
    let told = "";
    this.#process.stderr.on("data", (data) => { told = (told + data).slice(-4000); });
    await until("the server says where it listens", () => {
      assert.equal(this.#process.exitCode, null, `the server has ended: ${told}`);
      return existsSync(join(this.folder, "addresses.json"));
    });
    this.origin = JSON.parse(readFileSync(join(this.folder, "addresses.json"), "utf8")).urls.operators;
    await until("the server is ready", () => fetch(`${this.origin}/readyz`).then((answer) => answer.ok, () => false));
    return this;
  }

  get token() {
    return readFileSync(join(this.folder, "admin-token"), "utf8").trim();
  }

  cli(...args) {
    return execFileSync(margrave, ["--data", this.folder, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Asks the operator API. */
  async api(path, method = "GET", body = undefined) {
    const answer = await fetch(`${this.origin}/api/${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
    return answer.status === 204 ? null : answer.json();
  }

  /** Another program of ours, ended with the server. */
  spawn(program, ...args) {
    const child = spawn(join(root, "target/debug", program), args, { stdio: "ignore" });
    this.#children.push(child);
    return child;
  }

  /** As a power cut would. */
  kill() {
    this.#process?.kill("SIGKILL");
  }

  stop() {
    for (const child of this.#children) child.kill("SIGKILL");
    this.kill();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

export async function launch() {
  assert.ok(browserPath, "no Chromium found: run `make setup`");
  return chromium.launch({
    executablePath: browserPath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A page that remembers what the console complained about. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.on("console", (message) => message.type() === "error" && page.complaints.push(message.text()));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  return page;
}

export async function signIn(page, server) {
  await page.goto(`${server.origin}/sign-in`);
  await page.getByLabel("Access token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
}

/** No violation of accessibility rules, in both themes; nothing wider than the page. */
export async function wellMade(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(`(() => { ${axe.source} })()`);
    const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
    const violations = found.violations.map((rule) => `${rule.id}: ${rule.nodes.map((node) => `${node.target} ${node.failureSummary}`).slice(0, 3).join(" | ")}`);
    assert.deepEqual(violations, [], `${name} in ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${name} is ${wide} pixels wider than the window`);
}

/** What a test causes on purpose may be complained about; nothing else. */
export function onlyExpected(page, ...allowed) {
  const unexpected = page.complaints.filter((text) => !allowed.some((pattern) => pattern.test(text)));
  assert.deepEqual(unexpected, []);
}
