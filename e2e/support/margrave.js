// A real server (alone, or the demo with simulated devices) and a real Chromium for the tests.
import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import { chromium } from "playwright-core";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const margrave = join(root, "target/debug/margrave");
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

/** Waits for a condition, never for a time. The deadline leaves room for a machine that runs the cluster tests as well. */
export async function until(what, condition, seconds = 80) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `timed out after ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A server with its own data directory. */
export class Server {
  folder = mkdtempSync(join(tmpdir(), "margrave-e2e-"));
  #children = [];
  #process;

  /** With an empty fleet; `settings` as in its configuration file. */
  async start(operators = "127.0.0.1:0", settings = "") {
    const file = join(this.folder, "margrave.toml");
    if (settings) writeFileSync(file, settings);
    const more = existsSync(file) ? ["--config", file] : [];
    return this.#run(["serve", ...more, "--data", this.folder, "--devices", "127.0.0.1:0", "--trust", "127.0.0.1:0", "--operators", operators]);
  }

  /** With simulated devices, sample applications and a few deployments. */
  async startDemo(port = "0", devices = "12") {
    await this.#run(["--data", this.folder, "demo", "--port", port, "--devices", devices]);
    await until("the demo has its fleet", () => existsSync(join(this.folder, "demo-seeded")), 120);
    return this;
  }

  async #run(args) {
    const before = this.#process;
    // A killed process holds its data directory until it has exited.
    if (before) await until("the previous server has exited", () => before.exitCode !== null || before.signalCode !== null);
    rmSync(join(this.folder, "addresses.json"), { force: true });
    this.#process = spawn(margrave, args, { stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    this.#process.stderr.on("data", (data) => { stderr = (stderr + data).slice(-4000); });
    await until("the server has written its addresses", () => {
      assert.equal(this.#process.exitCode, null, `the server has exited: ${stderr}`);
      return existsSync(join(this.folder, "addresses.json"));
    });
    this.urls = JSON.parse(readFileSync(join(this.folder, "addresses.json"), "utf8")).urls;
    this.origin = this.urls.operators;
    await until("the server is ready", () => fetch(`${this.origin}/readyz`).then((answer) => answer.ok, () => false));
    return this;
  }

  get token() {
    return readFileSync(join(this.folder, "admin-token"), "utf8").trim();
  }

  cli(...args) {
    return execFileSync(margrave, ["--data", this.folder, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** With standard input. */
  cliWith(input, ...args) {
    return execFileSync(margrave, ["--data", this.folder, ...args], { encoding: "utf8", input, stdio: ["pipe", "pipe", "pipe"] });
  }

  /** Calls the operator API. */
  async api(path, method = "GET", body = undefined) {
    const answer = await fetch(`${this.origin}/api/${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
    return answer.status === 204 ? null : answer.json();
  }

  /** Changes the database directly while the server is running. */
  sql(statement) {
    const script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None).execute(sys.argv[2])";
    execFileSync("python3", ["-c", script, join(this.folder, "margrave.db"), statement], { stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Limits the number of deployments in the database. Returns a function that removes the limit. */
  holdBack(deployments) {
    this.sql(`CREATE TRIGGER held_back BEFORE INSERT ON deployments WHEN (SELECT COUNT(*) FROM deployments) >= ${deployments}
      BEGIN SELECT RAISE(ABORT, 'held back'); END`);
    return () => this.sql("DROP TRIGGER held_back");
  }

  /** Starts another of our programs; it is stopped with the server. */
  spawn(program, ...args) {
    const child = spawn(join(root, "target/debug", program), args, { stdio: "ignore" });
    this.#children.push(child);
    return child;
  }

  /** The real agent with the simulated runtime; `behavior` is its script, read before every action. `more` are additional settings. */
  device(name, behavior = "", type = "compose", more = "") {
    const folder = join(this.folder, name);
    this.cli("client", "mint", name, "--out", folder);
    mkdirSync(join(folder, "state"));
    const said = (file) => readFileSync(join(folder, file), "utf8").trim();
    writeFileSync(join(folder, "capabilities.json"), JSON.stringify({
      properties: {
        id: name, vendor: "Example Edge Works", modelNumber: "Box PC 427", serialNumber: `EEW-${name}`,
        cpus: [{ cores: 4, architecture: "amd64" }], memory: "8Gi", storage: "64Gi", peripherals: [], interfaces: [{ type: "ethernet" }],
        otelCollector: true, supportedRuntimes: ["oci"], supportedDeploymentTypes: [type],
      },
      labels: { "plant.example/zone": "pressing" },
    }));
    const script = join(folder, "behavior.toml");
    writeFileSync(script, behavior);
    writeFileSync(join(folder, "agent.toml"), `server = "${said("wfm-url")}"
state_dir = "${join(folder, "state")}"
runtime = "simulated"
observe_period = "1s"
[device]
id = "${name}"
capabilities = "${join(folder, "capabilities.json")}"
discover = false
[poll]
period = "300ms"
start_spread = "0s"
[retry]
first = "200ms"
max = "1s"
[simulated]
script = "${script}"
[identity]
certificate = "${join(folder, "cert.pem")}"
key = "${join(folder, "key.pem")}"
trust_bundle = "${join(folder, "bundle.pem")}"
${more}`);
    const process = this.spawn("margrave-agent", "run", "--config", join(folder, "agent.toml"));
    return { process, behave: (text) => writeFileSync(script, text) };
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

/** Elements by `data-reason`, if given with this `data-count` (docs/testing.md); sentences may change, these do not. */
export function byReason(on, reason, count = undefined) {
  return on.locator(`[data-reason="${reason}"]${count === undefined ? "" : `[data-count="${count}"]`}`);
}

/** Elements by `data-state`; `within` is a selector before it, such as `[role=status]` for the element or `.legend ` for its parent. */
export function byState(on, state, within = "") {
  return on.locator(`${within}[data-state="${state}"]`);
}

/** A page that records console errors. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  // As for `until`; the default is 30 s.
  context.setDefaultTimeout(60_000);
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

/** Starts a server and a browser, and opens a page with a session. */
export async function begin(server, started = server.startDemo()) {
  const [browser] = await Promise.all([launch(), started]);
  const page = await open(browser);
  await signIn(page, server);
  return { browser, page };
}

export async function end(server, browser) {
  await browser?.close();
  server.stop();
}

/** No accessibility violations in both themes; nothing wider than the page. */
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

/** Nothing is wider than the window of a phone. */
export async function fitsPhone(page, name) {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 375, height: 800 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${name} is ${wide} pixels wider than a phone`);
  await page.setViewportSize(before);
}

/** Presses Tab until the element has the focus. */
export async function tabTo(page, locator, most = 120) {
  await locator.waitFor();
  for (let pressed = 0; pressed < most; pressed++) {
    if (await locator.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`${locator} cannot be reached with the Tab key`);
}

/** Allows only the expected console errors. */
export function onlyExpected(page, ...allowed) {
  const unexpected = page.complaints.filter((text) => !allowed.some((pattern) => pattern.test(text)));
  assert.deepEqual(unexpected, []);
}
