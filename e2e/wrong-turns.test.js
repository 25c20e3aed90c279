// Error cases: an invalid package, no JavaScript, a form sent twice, a server restart, a stale draft.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, begin, byReason, end, onlyExpected, open, root, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
const go = (path, on = page) => on.goto(server.origin + path);

before(async () => {
  ({ browser, page } = await begin(server, server.start()));
});
after(async () => {
  await end(server, browser);
});

/** A package as tar.gz, with its description changed. */
function packed(name, change) {
  const folder = join(server.folder, name);
  mkdirSync(folder);
  cpSync(join(root, "samples/line-monitor/1.0.0"), folder, { recursive: true });
  writeFileSync(join(folder, "margo.yaml"), change(readFileSync(join(folder, "margo.yaml"), "utf8")));
  const archive = join(server.folder, `${name}.tar.gz`);
  execFileSync("tar", ["czf", archive, "-C", folder, "margo.yaml", "resources"]);
  return archive;
}

test("an invalid package is rejected with every problem, and nothing is added", async () => {
  const archive = packed("broken", (text) => text
    .replace("apiVersion: v1", "apiVersion: v9")
    .replace("icon: ./resources/icon.svg", "icon: ./resources/no-icon.svg")
    .replace("dataType: integer", "dataType: number")
    .replace(/( +)schema: \S+/, "$1schema: nowhere"));
  await go("/catalog/add");
  await wellMade(page, "add an application");
  await page.getByLabel("Package archive").setInputFiles(archive);
  await page.getByRole("button", { name: "Upload" }).click();
  const summary = byReason(page, "broken-package");
  await summary.waitFor();
  // In the order of the lines: structure, a missing file, an invalid reference.
  const said = await summary.getByRole("listitem").allInnerTexts();
  assert.equal(said.length, 4, said.join("\n"));
  assert.match(said[0], /^apiVersion: line \d+: v9 is not a known version/);
  assert.match(said[1], /^metadata\.catalog\.application\.icon: line \d+: names \.\/resources\/no-icon\.svg, which is not in the package/);
  assert.match(said[2], /\.schema: line \d+: nowhere is not the name of a schema/);
  assert.match(said[3], /\.dataType: line \d+: number is not a data type/);
  await wellMade(page, "invalid package");
  assert.equal((await server.api("applications")).items.length, 0);
});

test("an archive over the limit is rejected before the upload", async () => {
  await go("/catalog/add");
  const large = join(server.folder, "large.tar.gz");
  writeFileSync(large, "");
  truncateSync(large, (32 << 20) + 1);
  const sent = [];
  const note = (request) => { if (request.method() === "POST") sent.push(request.url()); };
  page.on("request", note);
  await page.getByLabel("Package archive").setInputFiles(large);
  await page.getByRole("button", { name: "Upload" }).click();
  const summary = byReason(page, "too-large");
  await summary.waitFor();
  assert.ok(await summary.evaluate((element) => element === document.activeElement));
  assert.deepEqual(sent, []);
  await wellMade(page, "an archive over the limit");
  // A second attempt shows one message only, and another file is uploaded.
  await page.getByRole("button", { name: "Upload" }).click();
  assert.equal(await page.getByRole("alert").count(), 1);
  await page.getByLabel("Package archive").setInputFiles({ name: "notes.gz", mimeType: "application/gzip", buffer: Buffer.from("hello") });
  await page.getByRole("button", { name: "Upload" }).click();
  await byReason(page, "broken-package").waitFor();
  page.off("request", note);
  assert.equal(sent.length, 1);
});

test("a file that is not a package is rejected with instructions", async () => {
  const refused = async (name, bytes, said) => {
    await go("/catalog/add");
    await page.getByLabel("Package archive").setInputFiles({ name, mimeType: "application/gzip", buffer: Buffer.from(bytes) });
    await page.getByRole("button", { name: "Upload" }).click();
    const summary = byReason(page, "broken-package");
    await summary.filter({ hasText: said }).waitFor();
    return summary;
  };
  const summary = await refused("notes.gz", "hello", "This is a text file, not an archive");
  assert.match(await summary.innerText(), /tar -czf package\.tar\.gz -C FOLDER \./);
  await wellMade(page, "no package");
  await refused("package.zip", "PK\u0003\u0004", "This is a ZIP archive");
  await refused("empty.tar.gz", "", "The upload is empty");
});

test("the page explains how to add a folder", async () => {
  await go("/catalog/add");
  await page.getByText("I have a folder, not an archive").click();
  await page.getByText("margrave app import FOLDER").waitFor();
  await wellMade(page, "how to pack a folder");
});

test("an unreachable registry is reported with the cause", async () => {
  await go("/catalog/add");
  await page.getByLabel("Image reference").fill("127.0.0.1:9/apps/thing:1.0.0");
  await page.getByText("Connection options").click();
  await page.getByLabel("Use plain HTTP").check();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await byReason(page, "registry").waitFor();
  assert.equal(await page.getByLabel("Image reference").inputValue(), "127.0.0.1:9/apps/thing:1.0.0", "the input is kept");
});

test("a valid package is uploaded and is in the catalog", async () => {
  await go("/catalog/add");
  await page.getByLabel("Package archive").setInputFiles(packed("good", (text) => text));
  await page.getByRole("button", { name: "Upload" }).click();
  await byReason(page, "application-added").waitFor();
  assert.equal(await page.locator("#left-out").count(), 0);
});

test("files that the catalog does not need are one expandable line", async () => {
  const archive = join(server.folder, "whole.tar.gz");
  execFileSync("tar", ["czf", archive, "-C", join(root, "samples/line-monitor"), "1.1.0"]);
  await go("/catalog/add");
  await page.getByLabel("Package archive").setInputFiles(archive);
  await page.getByRole("button", { name: "Upload" }).click();
  const line = page.locator("#left-out > summary");
  await line.waitFor();
  const file = page.getByText("components/line-monitor/Chart.yaml");
  assert.equal(await file.isVisible(), false);
  await line.click();
  await file.waitFor();
  await wellMade(page, "unneeded files");
});

test("without JavaScript everything works: sign-in, filter, forms, confirmations", async () => {
  const plain = await open(browser, { javaScriptEnabled: false });
  await go("/sign-in", plain);
  await plain.getByLabel("Access token").fill(server.token);
  await plain.getByRole("button", { name: "Sign in" }).click();
  await plain.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await go("/groups/new", plain);
  await plain.getByLabel("Name", { exact: true }).fill("plain");
  await plain.getByLabel("Label selector").fill("site=graz");
  await plain.getByRole("button", { name: "Create group" }).click();
  await byReason(plain, "group-created").waitFor();
  await go("/devices", plain);
  await byReason(plain, "no-devices").waitFor();
  await go("/catalog", plain);
  await plain.getByLabel("Name, supplier or tag contains").fill("nothing");
  await plain.getByRole("button", { name: "Filter" }).click();
  await byReason(plain, "no-match").waitFor();
  await go("/groups/plain", plain);
  await plain.getByRole("link", { name: "Delete" }).click();
  await plain.getByRole("heading", { name: "Delete group plain?" }).waitFor();
  await plain.getByRole("button", { name: "Delete group" }).click();
  await byReason(plain, "group-deleted").waitFor();
  await plain.context().close();
});

test("a form sent twice has one effect", async () => {
  await go("/settings/tokens");
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  const key = await page.locator("form.form input[name=key]").inputValue();
  const body = new URLSearchParams({ key, name: "twice", days: "", comment: "" });
  const send = () => fetch(`${server.origin}/settings/tokens`, { method: "POST", body, headers: { cookie, "Sec-Fetch-Site": "same-origin" } });
  const secret = async (answer) => (await answer.text()).match(/mgv_[\w-]+/)[0];
  const [one, two] = await Promise.all([send(), send()]);
  assert.equal(await secret(one), await secret(two), "both show the same token");
  const { items } = await server.api("tokens");
  assert.equal(items.filter((token) => token.name === "twice").length, 1);
});

test("a new device appears without reloading", async () => {
  await go("/devices");
  await page.getByText("Live", { exact: true }).waitFor();
  const out = join(server.folder, "press-07");
  server.cli("client", "mint", "press-07", "--out", out);
  const config = join(server.folder, "agent.toml");
  writeFileSync(config, `server = "${readFileSync(join(out, "wfm-url"), "utf8").trim()}"
state_dir = "${join(server.folder, "agent-state")}"
[poll]
period = "200ms"
start_spread = "0s"
[identity]
certificate = "${join(out, "cert.pem")}"
key = "${join(out, "key.pem")}"
trust_bundle = "${join(out, "bundle.pem")}"
`);
  server.spawn("margrave-agent", "run", "--config", config);
  await page.getByRole("table", { name: /Devices/ }).getByText("press-07").first().waitFor({ timeout: 40_000 });
});

test("a device without a runtime says that nothing can run there, and what to do", async () => {
  await go("/devices");
  await byReason(page.getByRole("row", { name: /press-07/ }), "no-runtime").waitFor();
  await page.getByRole("link", { name: "press-07", exact: true }).click();
  await byReason(page, "no-runtime").first().waitFor();
  assert.equal(await page.getByRole("link", { name: "Deploy to this device" }).count(), 0);
  await wellMade(page, "device without a runtime");
});

test("the application page reports unreachable components, and they can be checked again", async () => {
  await go("/catalog/line-monitor");
  await byReason(page, "unavailable-components").waitFor();
  await page.getByText(/registry registry\.margrave\.example does not exist/).first().waitFor();
  await wellMade(page, "application with unreachable components");
  await page.getByRole("button", { name: "Check again" }).click();
  await byReason(page, "components-missing").waitFor();
});

test("the second of two windows with one draft is warned", async () => {
  await go("/catalog/line-monitor");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("heading", { name: "Deploy Line Monitor" }).waitFor();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("table", { name: "Select devices" }).waitFor();
  await other.getByRole("button", { name: "Continue" }).click();
  await byReason(other, "conflict").waitFor();
  await other.close();
  await page.getByRole("button", { name: "Discard draft" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard draft" }).click();
  await byReason(page, "draft-discarded").waitFor();
});

test("the page says when the connection is lost and recovers automatically", async () => {
  await go("/devices");
  await page.getByText("Live", { exact: true }).waitFor();
  const listen = new URL(server.origin).host;
  server.kill();
  await page.locator("#stale:not([hidden])").waitFor({ timeout: 30_000 });
  await server.start(listen);
  await until("the warning is gone", async () => (await page.locator("#stale:not([hidden])").count()) === 0);
  await page.getByText("Live", { exact: true }).waitFor();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /422 \(Unprocessable/, /412 \(Precondition/, /ERR_/, /Failed to (load|fetch)/);
});
