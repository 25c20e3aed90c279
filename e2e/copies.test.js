// An application with its images, copied from another registry: here another Margrave, with its own certificate and password.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, byState, fitsPhone, launch, onlyExpected, open, signIn, wellMade } from "./support/margrave.js";

const origin = new Server();
const server = new Server();
let browser;
let page;
let host;
const go = (path) => page.goto(server.origin + path);

before(async () => {
  [browser] = await Promise.all([launch(), origin.start(), server.start()]);
  host = new URL(origin.urls.trust).host;
  push();
  page = await open(browser);
  await signIn(page, server);
});
after(async () => {
  await browser?.close();
  origin.stop();
  server.stop();
});

/** An image with one small layer, as `docker save` would write it, and an application that runs it. */
function push() {
  const layout = join(origin.folder, "layout");
  mkdirSync(join(layout, "blobs/sha256"), { recursive: true });
  const put = (content, mediaType) => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
    const digest = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(join(layout, "blobs/sha256", digest), bytes);
    return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
  };
  writeFileSync(join(layout, "hello"), "hello");
  const layer = execFileSync("tar", ["c", "-C", layout, "hello"]);
  const config = put({ architecture: "amd64", os: "linux", config: {}, rootfs: { type: "layers", diff_ids: [`sha256:${createHash("sha256").update(layer).digest("hex")}`] } }, "application/vnd.oci.image.config.v1+json");
  const manifest = { schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config, layers: [put(layer, "application/vnd.oci.image.layer.v1.tar")] };
  const index = { schemaVersion: 2, manifests: [put(manifest, manifest.mediaType)] };
  writeFileSync(join(layout, "index.json"), JSON.stringify(index));
  writeFileSync(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  const archive = join(origin.folder, "image.tar");
  execFileSync("tar", ["cf", archive, "-C", layout, "oci-layout", "index.json", "blobs"]);
  const ca = join(origin.folder, "ca.pem");
  writeFileSync(ca, origin.cli("trust", "https-ca"));
  const to = (repository) => ["--to", `oci://${host}/${repository}`, "--registry-ca", ca, "--username", "me", "--password-stdin"];
  const pushed = (...args) => origin.cliWith(origin.token, "app", "push", ...args);
  pushed(archive, ...to("images/web:1.0"));
  const stack = join(origin.folder, "stack");
  mkdirSync(stack);
  writeFileSync(join(stack, "compose.yaml"), `services:\n  web: { image: "${host}/images/web:1.0" }\n`);
  pushed(stack, ...to("compose/press"), "--version", "1.0.0");
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
  pushed(app, ...to("apps/press"), "--no-import");
}

async function ask(source, password = origin.token) {
  await go("/catalog/add");
  await page.getByLabel("Image reference").fill(source);
  await page.getByLabel("User name (optional)").fill("me");
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByLabel(/Also copy its components and images/).check();
  await page.getByText("Connection options").click();
  await page.getByLabel("Additional trusted CA (PEM)").fill(origin.cli("trust", "https-ca"));
  await page.getByRole("button", { name: "Add", exact: true }).click();
}

test("an application is copied with its components and images, with progress per artifact", async () => {
  await ask(`${host}/apps/press:1.0.0`);
  await page.getByRole("heading", { name: `Copying oci://${host}/apps/press:1.0.0` }).waitFor();
  await page.getByRole("status").filter({ hasText: "Done" }).waitFor({ timeout: 30_000 });
  const rows = page.getByRole("table", { name: "Artifacts" }).getByRole("row");
  for (const name of ["apps/press:1.0.0", "compose/press", "images/web:1.0"]) {
    await byState(rows.filter({ hasText: name }), "copied").waitFor();
  }
  await wellMade(page, "a copy");
  await fitsPhone(page, "a copy");
  await page.getByRole("link", { name: "Press 1.0.0" }).click();
  await page.getByRole("heading", { name: "Press 1.0.0" }).waitFor();
  await go("/settings/registries");
  await page.getByRole("row").filter({ hasText: "images/web" }).waitFor();
  await page.getByRole("link", { name: `oci://${host}/apps/press:1.0.0` }).waitFor();
});

test("existing artifacts are not copied again", async () => {
  await ask(`${host}/apps/press:1.0.0`);
  await page.getByRole("status").filter({ hasText: "Done" }).waitFor({ timeout: 30_000 });
  assert.equal(await byState(page.getByRole("table"), "present").count(), 3);
});

test("a wrong password and a missing package are reported with the cause", async () => {
  await ask(`${host}/apps/press:1.0.0`, "wrong");
  await byState(page, "failed").first().waitFor({ timeout: 30_000 });
  await wellMade(page, "a copy that failed");
  await ask(`${host}/apps/nothing:1.0.0`);
  await byState(page, "failed").first().waitFor({ timeout: 30_000 });
  assert.equal((await server.api("applications")).items.length, 1);
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page);
});
