// External registries: here another Margrave, with its own certificate and password.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, byReason, byState, fitsPhone, launch, onlyExpected, open, signIn, wellMade } from "./support/margrave.js";

const origin = new Server();
const server = new Server();
let browser;
let page;
let host;
let ca;
const go = (path) => page.goto(server.origin + path);
const row = () => page.getByRole("table", { name: "External registries" }).getByRole("row").filter({ hasText: host });

before(async () => {
  [browser] = await Promise.all([launch(), origin.start(), server.start()]);
  host = new URL(origin.urls.trust).host;
  ca = origin.cli("trust", "https-ca");
  const file = join(origin.folder, "ca.pem");
  writeFileSync(file, ca);
  const app = join(origin.folder, "app");
  mkdirSync(app);
  writeFileSync(join(app, "margo.yaml"), `apiVersion: v1
id: press
metadata:
  name: Press
  version: 1.0.0
  catalog:
    organization: [{ name: Example }]
deploymentProfiles:
  - type: compose
    id: small
    components:
      - name: press-stack
        properties: { repository: "oci://${host}/compose/press", revision: 1.0.0 }
`);
  origin.cliWith(origin.token, "app", "push", app, "--to", `oci://${host}/apps/press`, "--registry-ca", file, "--username", "me", "--password-stdin", "--no-import");
  page = await open(browser);
  await signIn(page, server);
});
after(async () => {
  await browser?.close();
  origin.stop();
  server.stop();
});

test("an empty page explains external registries", async () => {
  await go("/settings/registries");
  await byReason(page, "no-registries").waitFor();
  await page.getByRole("heading", { name: "Embedded registry" }).waitFor();
  await wellMade(page, "no external registries");
  await page.getByRole("link", { name: "Certificates" }).click();
  await page.getByRole("heading", { name: "Server identity" }).waitFor();
  await wellMade(page, "trust");
  await go("/catalog/add");
  assert.equal(await page.getByLabel("Registry", { exact: true }).count(), 0, "there is nothing to choose from");
});

test("an untrusted import links to the settings with the address filled in", async () => {
  await go("/catalog/add");
  await page.getByLabel("Image reference").fill(`${host}/apps/press:1.0.0`);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  const alert = page.getByRole("alert");
  await alert.getByText(/its certificate is not trusted/).waitFor();
  await wellMade(page, "an import that is not trusted");
  await alert.getByRole("link", { name: new RegExp(`Save ${host}`) }).click();
  await page.getByRole("heading", { name: "Add a registry" }).waitFor();
  assert.equal(await page.getByLabel("Address", { exact: true }).inputValue(), host);
});

test("errors are shown at their fields, and the input stays except for the password", async () => {
  await go("/settings/registries/add");
  await page.getByLabel("Address", { exact: true }).fill("registry.example/apps");
  await page.getByLabel("User", { exact: true }).fill("ci");
  await page.getByRole("button", { name: "Add and check" }).click();
  const alert = page.getByRole("alert");
  await alert.getByText(/contains more than a registry/).waitFor();
  assert.equal(await page.getByLabel("User", { exact: true }).inputValue(), "ci");
  await wellMade(page, "a registry that was not saved");
  await fitsPhone(page, "a registry that was not saved");
  await page.getByLabel("Address", { exact: true }).fill("registry.example");
  await page.getByText("Connection options").click();
  await page.getByLabel("Additional trusted CA (PEM)").fill("hello");
  await page.getByLabel(/Use plain HTTP/).check();
  await page.getByRole("button", { name: "Add and check" }).click();
  for (const text of [/loopback addresses only/, /not a PEM file/, /Give the password that goes with the username/]) await alert.getByText(text).waitFor();
  assert.deepEqual((await server.api("registries")).items, []);
});

test("a registry is added, and a failed check is explained", async () => {
  await go("/settings/registries/add");
  await page.getByLabel("Address", { exact: true }).fill(host);
  await page.getByLabel("User", { exact: true }).fill("me");
  await page.getByLabel("Password or token").fill("wrong-password");
  await page.getByRole("button", { name: "Add and check" }).click();
  await byState(row(), "untrusted").waitFor();
  await wellMade(page, "a registry that is not trusted");
  await fitsPhone(page, "a registry that is not trusted");
  await row().getByRole("link", { name: `Edit ${host}` }).click();
  await page.getByText("Connection options").click();
  await page.getByLabel("Additional trusted CA (PEM)").fill(ca);
  await page.getByRole("button", { name: "Save and check" }).click();
  await byState(row(), "denied").waitFor();
  await row().getByRole("link", { name: `Edit ${host}` }).click();
  await page.getByText("A password is stored.", { exact: false }).waitFor();
  await wellMade(page, "changing a registry");
  assert.equal(await page.getByLabel("Password or token").inputValue(), "", "it is never shown");
  await page.getByLabel("Password or token").fill(origin.token);
  await page.getByRole("button", { name: "Save and check" }).click();
  await byState(row(), "reachable").waitFor();
  await row().getByText("Reachable; the user and password were accepted").waitFor();
  await row().getByRole("button", { name: `Check ${host}` }).click();
  await byReason(page, "reachable").waitFor();
  await wellMade(page, "a registry that answered");
});

test("a concurrent change is not overwritten", async () => {
  await go(`/settings/registries/update?host=${encodeURIComponent(host)}`);
  const { revision } = await server.api(`registries/${host}`);
  const answer = await fetch(`${server.origin}/api/registries/${host}`, {
    method: "PUT", headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json", "If-Match": `"${revision}"` },
    body: JSON.stringify({ username: "me", password: origin.token, ca, comment: "faster" }),
  });
  assert.equal(answer.status, 200);
  await page.getByLabel("User", { exact: true }).fill("somebody");
  await page.getByLabel("Password or token").fill("else");
  await page.getByRole("button", { name: "Save and check" }).click();
  await byReason(page, "conflict").waitFor();
  await page.getByRole("row").filter({ hasText: "somebody" }).waitFor();
  await wellMade(page, "a registry changed by two operators");
  assert.equal((await server.api(`registries/${host}`)).username, "me");
});

test("an application is added from it without a password", async () => {
  await go("/catalog/add");
  await page.getByLabel("Image reference").fill(`${host}/apps/`);
  await page.getByRole("status").filter({ hasText: `${host}: signs in as me, saved under Settings.` }).waitFor();
  await page.getByLabel("Registry", { exact: true }).selectOption(`${host}: signs in as me`);
  await page.getByLabel("Image reference").fill("apps/press:1.0.0");
  await wellMade(page, "adding from a registry that is kept");
  await fitsPhone(page, "adding from a registry that is kept");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("heading", { name: "Press 1.0.0" }).waitFor();
  await byReason(page, "application-added").filter({ hasText: host }).waitFor();
});

test("the password is in no page, response or record", async () => {
  let told = JSON.stringify([await server.api("registries"), await server.api("audit?limit=100"), await server.api("events?limit=100")]);
  for (const path of ["/settings/registries", `/settings/registries/update?host=${encodeURIComponent(host)}`, "/audit", "/events", "/catalog/add"]) {
    await go(path);
    told += await page.content();
  }
  assert.ok(told.includes(host) && !told.includes(origin.token) && !told.includes("wrong-password"));
});

test("it is removed after a confirmation that explains the effect", async () => {
  await go("/settings/registries");
  await row().getByRole("link", { name: `Remove ${host}` }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/The password of me is deleted/).waitFor();
  await dialog.getByText(/One version in the catalog came from it; that version and its deployments stay/).waitFor();
  await wellMade(page, "removing a registry");
  await dialog.getByRole("link", { name: "Cancel" }).click();
  await row().waitFor();
  await row().getByRole("link", { name: `Remove ${host}` }).click();
  await dialog.getByLabel("Comment (recorded in the audit log)").fill("contract ended");
  await dialog.getByRole("button", { name: "Remove this registry" }).click();
  await byReason(page, "no-registries").waitFor();
  const { items } = await server.api("audit?limit=5");
  assert.ok(items.some((record) => record.action === "registry.remove" && record.comment === "contract ended"));
});

test("the registry of an import is saved on request", async () => {
  await go("/catalog/add");
  await page.getByLabel("Image reference").fill(`${host}/apps/press:1.0.0`);
  await page.getByLabel("User name (optional)").fill("me");
  await page.getByLabel("Password", { exact: true }).fill(origin.token);
  await page.getByLabel(/Save this registry under Settings/).check();
  await page.getByText("Connection options").click();
  await page.getByLabel("Additional trusted CA (PEM)").fill(ca);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("heading", { name: "Press 1.0.0" }).waitFor();
  await go("/settings/registries");
  await byState(row(), "reachable").waitFor();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /status of 422/, /status of 409/);
});
