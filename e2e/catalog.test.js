// The catalog as somebody looks at it who has to choose: what stands on a card and on the page, finding, and taking a version away.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Server, begin, end, fitsPhone, onlyExpected, open, root, signIn, until, wellMade } from "./support/margrave.js";

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

/** The picture is there and can be drawn; it says nothing, since the name stands beside it. */
async function drawn(place) {
  const picture = place.locator("img").first();
  await until("the icon is loaded", () => picture.evaluate((image) => image.complete && image.naturalWidth > 0));
  assert.equal(await picture.getAttribute("alt"), "");
}

test("a card shows icon, tagline, publisher, versions, tags and where it runs", async () => {
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

test("applications are found by name, publisher and tag, as an address that can be reloaded and left again", async () => {
  await go("/catalog");
  const all = await names();
  assert.ok(all.length >= 4, all.join());
  const search = page.getByLabel("Name, supplier or tag contains");
  await search.fill("SAMPLES");
  await until("the address has it", () => asked("q") === "SAMPLES");
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
  // A tag on a card is a way to the others that have it.
  await go("/catalog");
  await card("Line Monitor").getByRole("link", { name: "monitoring", exact: true }).click();
  await until("the tag is chosen", () => asked("tag") === "monitoring");
  assert.equal(await tag.inputValue(), "monitoring");
  await card("Line Monitor").waitFor();
  assert.equal(await card("Label Printer Bridge").count(), 0);
  await wellMade(page, "catalog by tag");
});

test("the page of an application has what the card has, and every version", async () => {
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

test("description and release notes are read as Markdown, and the licence can be opened", async () => {
  await go("/catalog/line-monitor");
  const about = page.getByRole("region", { name: "About" });
  await about.getByRole("heading", { name: "Line Monitor" }).waitFor();
  await about.getByText("Reads the counters of one production line").waitFor();
  const notes = page.getByRole("region", { name: "Release notes" });
  for (const version of ["1.1.0", "1.0.0"]) await notes.getByRole("heading", { name: version }).waitFor();
  assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1, "headings of a package stand below those of the page");
  const licence = page.getByText("Apache License 2.0");
  assert.equal(await licence.isVisible(), false);
  await page.getByText("Licence", { exact: true }).click();
  await licence.waitFor();
  await wellMade(page, "application with its licence");
  await fitsPhone(page, "application with its licence");
});

test("Markdown of a stranger is drawn, and runs nothing and leads nowhere it should not", async () => {
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

test("a version nobody uses is removed, with a reason in the audit", async () => {
  const alone = await open(browser);
  // What happens when the page hears of it before the answer comes is looked at below.
  await alone.addInitScript(() => { window.EventSource = class extends EventTarget { close() {} }; });
  await signIn(alone, server);
  await alone.goto(`${server.origin}/catalog/stranger`);
  await alone.getByRole("link", { name: "Remove this version" }).click();
  const dialog = alone.getByRole("dialog");
  await dialog.getByText("No device is touched.").waitFor();
  await wellMade(alone, "removing a version");
  await dialog.getByLabel("Reason, for the audit").fill("came from a stranger");
  await dialog.getByRole("button", { name: "Remove from the catalog" }).click();
  await alone.getByRole("status").filter({ hasText: "removed from the catalog" }).waitFor();
  await alone.getByRole("heading", { name: "Catalog", level: 1 }).waitFor();
  onlyExpected(alone);
  await alone.context().close();
  const { items } = await server.api("audit?limit=20");
  assert.ok(items.some((record) => record.subject.startsWith("application/stranger") && record.reason === "came from a stranger"));
  await go("/catalog");
  assert.equal(await card("Stranger").count(), 0);
  const answer = await go("/catalog/stranger");
  assert.equal(answer.status(), 404);
  await page.getByRole("heading", { name: "There is no such thing" }).waitFor();
});

test("a version in use is not removed: the page says so and leads back, and everything is as it was", async () => {
  await go("/catalog/line-monitor?version=1.0.0");
  await page.getByRole("link", { name: "Remove this version" }).click();
  const dialog = page.getByRole("dialog", { name: "Line Monitor 1.0.0 cannot be removed from the catalog" });
  await dialog.getByText(/deployments? of it exists?\./).waitFor();
  assert.equal(await dialog.getByRole("button").count(), 0, "nothing can be confirmed that would be refused");
  await wellMade(page, "a version in use");
  await dialog.getByRole("link", { name: "Back" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("heading", { name: /Line Monitor/, level: 1 }).waitFor();
  await server.api("applications/line-monitor/versions/1.0.0");
});

test("whoever removes a version is told so, even when the page hears of it before the answer comes", async () => {
  const other = await page.context().newPage();
  for (const one of [other, page]) {
    await one.goto(`${server.origin}/catalog/shift-board`);
    await one.getByText("Live", { exact: true }).waitFor();
  }
  // The answer to the form comes late: not before everybody who looks at the page has heard that it is gone.
  await page.route("**/catalog/shift-board", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const response = await route.fetch({ maxRedirects: 0 });
    await other.getByRole("heading", { name: "There is no such thing" }).waitFor();
    return route.fulfill({ response }).catch(() => {});
  });
  await page.getByRole("link", { name: "Remove this version" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove from the catalog" }).click();
  try {
    await page.getByRole("status").filter({ hasText: "removed from the catalog" }).waitFor({ timeout: 5000 });
  } finally {
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await other.close();
  }
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /404 \(Not Found\)/, /409 \(Conflict/);
});
