// The catalog: cards, application pages, search, and removing a version.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, begin, byReason, end, fitsPhone, onlyExpected, open, root, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;
const main = () => page.getByRole("main");
const go = (path) => page.goto(server.origin + path);
const card = (name) => page.getByRole("article").filter({ has: page.getByRole("heading", { name, exact: true }) });
const names = () => page.getByRole("article").getByRole("heading").allInnerTexts();
const asked = (name) => new URL(page.url()).searchParams.get(name) ?? "";

before(async () => {
  ({ browser, page } = await begin(server));
});
after(async () => {
  await end(server, browser);
});

/** Until these applications are shown and no others, in any order. */
async function left(...wanted) {
  await until(`only ${wanted} are left`, async () => {
    const shown = await names();
    return shown.length === wanted.length && wanted.every((name) => shown.includes(name));
  });
}

/** The icon is loaded; its alt text is empty because the name is next to it. */
async function drawn(place) {
  const picture = place.locator("img").first();
  await until("the icon is loaded", () => picture.evaluate((image) => image.complete && image.naturalWidth > 0));
  assert.equal(await picture.getAttribute("alt"), "");
}

test("a card shows icon, tagline, publisher, versions, tags and the number of deployments", async () => {
  await go("/catalog");
  const one = card("Line Monitor");
  await drawn(one);
  for (const text of ["What the line did, while it is doing it.", "Margrave Samples"]) await one.getByText(text).waitFor();
  await one.getByText(/^1\.1\.0\b.*\b1 older/).waitFor();
  for (const tag of ["monitoring", "production"]) await one.getByRole("link", { name: tag, exact: true }).waitFor();
  const { items } = await server.api("deployments?application=line-monitor");
  await one.getByText(new RegExp(`on ${items.length} devices`)).waitFor();
  await card("Shift Board").getByText("not deployed").waitFor();
  await fitsPhone(page, "catalog");
});

test("applications are found by name, publisher and tag, with a URL that can be reloaded", async () => {
  await go("/catalog");
  const all = await names();
  assert.ok(all.length >= 4, all.join());
  const search = page.getByLabel("Name, supplier or tag contains");
  await search.fill("SAMPLES");
  await until("the URL has it", () => asked("q") === "SAMPLES");
  await left(...all);
  await search.fill("printing");
  await left("Label Printer Bridge");
  await search.fill("");
  await left(...all);
  const tag = page.getByRole("combobox", { name: "Tag" });
  await tag.selectOption("maintenance");
  await left("Vibration Analytics");
  assert.equal(asked("tag"), "maintenance");
  await page.reload();
  await left("Vibration Analytics");
  assert.equal(await tag.inputValue(), "maintenance");
  await page.getByRole("link", { name: "Vibration Analytics" }).click();
  await page.getByRole("heading", { name: /Vibration Analytics/, level: 1 }).waitFor();
  await page.goBack();
  await left("Vibration Analytics");
  // A tag on a card links to all applications with that tag.
  await go("/catalog");
  await card("Line Monitor").getByRole("link", { name: "monitoring", exact: true }).click();
  await until("the tag is selected", () => asked("tag") === "monitoring");
  assert.equal(await tag.inputValue(), "monitoring");
  await card("Line Monitor").waitFor();
  assert.equal(await card("Label Printer Bridge").count(), 0);
  await wellMade(page, "catalog by tag");
});

test("the application page shows the content of the card and every version", async () => {
  await go("/catalog/line-monitor");
  await page.getByRole("heading", { name: "Line Monitor 1.1.0", level: 1 }).waitFor();
  await drawn(main());
  await main().getByText(/What the line did, while it is doing it\..*Margrave Samples/).waitFor();
  const versions = page.getByRole("region", { name: "Versions" });
  assert.equal(await versions.getByText("1.1.0").getAttribute("aria-current"), "true");
  const facts = page.getByRole("region", { name: "Package" });
  await facts.getByRole("link", { name: "production", exact: true }).waitFor();
  await facts.getByRole("definition").filter({ hasText: "Margrave Samples" }).first().waitFor();
  await versions.getByRole("link", { name: "1.0.0" }).click();
  await page.getByRole("heading", { name: "Line Monitor 1.0.0", level: 1 }).waitFor();
  assert.equal(asked("version"), "1.0.0");
  await page.goBack();
  await page.getByRole("heading", { name: "Line Monitor 1.1.0", level: 1 }).waitFor();
});

test("description and release notes are rendered as Markdown, and the license can be opened", async () => {
  await go("/catalog/line-monitor");
  const about = page.getByRole("region", { name: "About" });
  await about.getByRole("heading", { name: "Line Monitor" }).waitFor();
  await about.getByText("Reads the counters of one production line").waitFor();
  const notes = page.getByRole("region", { name: "Release notes" });
  for (const version of ["1.1.0", "1.0.0"]) await notes.getByRole("heading", { name: version }).waitFor();
  assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1, "headings of a package are below those of the page");
  const license = page.getByText("Apache License 2.0");
  assert.equal(await license.isVisible(), false);
  await page.getByText("License", { exact: true }).click();
  await license.waitFor();
  await wellMade(page, "application with its license");
  await fitsPhone(page, "application with its license");
});

test("untrusted Markdown is rendered without scripts and unsafe links", async () => {
  const folder = join(server.folder, "stranger");
  mkdirSync(folder);
  cpSync(join(root, "samples/shift-board/1.0.0"), folder, { recursive: true });
  const file = join(folder, "margo.yaml");
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace(/^id: .*$/m, "id: stranger").replace(/^ {2}name: .*$/m, "  name: Stranger"));
  writeFileSync(join(folder, "resources/description.md"), `# Stranger

Some **loud** words and \`code\`.

- one
- two

<script>window.stranger = true</script><img src=x onerror="window.stranger = true">

[a good way](https://margrave.example/stranger) and [a bad way](javascript:window.stranger=true)
`);
  server.cli("app", "import", folder);
  await go("/catalog/stranger");
  const about = page.getByRole("region", { name: "About" });
  await about.getByRole("listitem").filter({ hasText: "two" }).waitFor();
  assert.equal(await about.locator("strong").innerText(), "loud");
  assert.equal(await about.locator("code").first().innerText(), "code");
  await about.getByRole("link", { name: "a good way" }).waitFor();
  assert.equal(await about.getByRole("link", { name: "a bad way" }).count(), 0);
  assert.equal(await about.locator("script, img").count(), 0);
  assert.equal(await page.evaluate(() => "stranger" in window && window.stranger === true), false);
  await wellMade(page, "Markdown of a stranger");
});

test("an unused version is removed, with a comment in the audit log", async () => {
  const alone = await open(browser);
  // No live updates here; the race with them is tested below.
  await alone.addInitScript(() => { window.EventSource = class extends EventTarget { close() {} }; });
  await signIn(alone, server);
  await alone.goto(`${server.origin}/catalog/stranger`);
  await alone.getByRole("link", { name: "Remove this version" }).click();
  const dialog = alone.getByRole("dialog");
  await byReason(dialog, "affected", 0).waitFor();
  await wellMade(alone, "removing a version");
  await dialog.getByLabel("Comment (recorded in the audit log)").fill("came from a stranger");
  await dialog.getByRole("button", { name: "Remove from the catalog" }).click();
  await byReason(alone, "version-removed").waitFor();
  await alone.getByRole("heading", { name: "Catalog", level: 1 }).waitFor();
  onlyExpected(alone);
  await alone.context().close();
  const { items } = await server.api("audit?limit=20");
  assert.ok(items.some((record) => record.subject.startsWith("application/stranger") && record.comment === "came from a stranger"));
  await go("/catalog");
  assert.equal(await card("Stranger").count(), 0);
  const answer = await go("/catalog/stranger");
  assert.equal(answer.status(), 404);
  await page.getByRole("heading", { name: "Not found" }).waitFor();
});

test("a version in use is not removed: the page says so and leads back", async () => {
  await go("/catalog/line-monitor?version=1.0.0");
  await page.getByRole("link", { name: "Remove this version" }).click();
  const dialog = page.getByRole("dialog", { name: "Line Monitor 1.0.0 cannot be removed from the catalog" });
  await dialog.getByText(/It has \d+ deployments?\./).waitFor();
  assert.equal(await dialog.getByRole("button").count(), 0, "there is nothing to confirm");
  await wellMade(page, "a version in use");
  await dialog.getByRole("link", { name: "Back" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("heading", { name: /Line Monitor/, level: 1 }).waitFor();
  await server.api("applications/line-monitor/versions/1.0.0");
});

test("the removal of a version is confirmed, even if the live update arrives before the response", async () => {
  const other = await page.context().newPage();
  for (const one of [other, page]) {
    await one.goto(`${server.origin}/catalog/shift-board`);
    await one.getByText("Live", { exact: true }).waitFor();
  }
  // Delay the response until other open pages show that the version is gone.
  await page.route("**/catalog/shift-board", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const response = await route.fetch({ maxRedirects: 0 });
    await other.getByRole("heading", { name: "Not found" }).waitFor();
    return route.fulfill({ response }).catch(() => {});
  });
  await page.getByRole("link", { name: "Remove this version" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove from the catalog" }).click();
  try {
    await byReason(page, "version-removed").waitFor({ timeout: 5000 });
  } finally {
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await other.close();
  }
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /404 \(Not Found\)/, /409 \(Conflict/);
});
