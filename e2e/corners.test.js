// Rarely used pages in both themes and at narrow widths; Enter in fields; Back after signing out.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, byReason, end, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";
import { answerAlone, choose, drop, filtered, hasAlone, question, shown, tick } from "./support/wizard.js";

const WIDTHS = [1280, 375, 320];
const server = new Server();
let browser;
let page;
const go = (path, on = page) => on.goto(server.origin + path);
const wide = (on) => on.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);

before(async () => {
  ({ browser, page } = await begin(server));
});
after(async () => {
  await end(server, browser);
});

/** No violations in both themes at every width, and no horizontal scrolling. Collects all problems. */
async function everywhere(name, on = page) {
  const found = [];
  for (const width of WIDTHS) {
    await on.setViewportSize({ width, height: 900 });
    const more = await wide(on);
    if (more > 0) found.push(`${name} is ${more} pixels wider than ${width}`);
    await wellMade(on, `${name} at ${width}`).catch((error) => found.push(error.message));
  }
  await on.setViewportSize({ width: 1280, height: 900 });
  return [...new Set(found)];
}

/** Every page in turn. */
async function allOf(pages) {
  const found = [];
  for (const [name, path, status = 200] of pages) {
    const answer = await go(path);
    assert.equal(answer.status(), status, path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    found.push(...(await everywhere(name)));
  }
  assert.deepEqual(found, []);
}

test("confirmation pages fit everywhere", async () => {
  const [one] = (await server.api("deployments")).items;
  const [token] = (await server.api("tokens")).items;
  // An earlier revision to roll back to.
  await server.api("rollouts", "POST", {
    kind: "reconfigure", application: one.application, scope: { deployments: [one.id] },
    values: one.application === "line-monitor" ? { sampleSeconds: 9 } : { retentionDays: 9 },
  });
  await until("there are two revisions", async () => (await server.api(`deployments/${one.id}`)).revision > one.revision);
  await allOf([
    ["removing a deployment", `/deployments/${one.id}?ask=remove`],
    ["going back", `/deployments/${one.id}?ask=back&revision=1`],
    ["trying again", `/deployments/${one.id}?ask=retry`],
    ["deleting a device record", "/devices/press-01/press-01?ask=delete"],
    ["decommissioning a client", "/clients/press-01?ask=decommission"],
    ["approving a client", "/clients/press-01?ask=accept"],
    ["deleting a group", "/groups/pressing?ask=delete"],
    ["bulk labels", "/devices/bulk?do=label&all=yes"],
    ["bulk decommissioning", "/settings/identities/bulk?do=decommission&all=yes"],
    ["removing a version", "/catalog/line-monitor?version=1.1.0&ask=delete"],
    ["revoking a token", `/settings/tokens?revoke=${token.id}`],
  ]);
});

test("rarely used pages fit everywhere", async () => {
  await allOf([
    ["editing a group", "/groups/pressing"],
    ["a new group", "/groups/new"],
    ["compatibility of an application", "/catalog/line-monitor/compatibility"],
    ["the catalog for a device", "/catalog?device=press-01/press-01"],
    ["an application for an incompatible device", "/catalog/vibration-analytics?device=tiny-01/tiny-01"],
    ["a gateway", "/devices/gateway-01/gateway-01"],
    ["a device behind a gateway", "/devices/gateway-01/gateway-01/cell-1"],
    ["password", "/settings/password"],
    ["unknown page", "/nothing/here", 404],
    ["unknown device", "/devices/absent/nothing", 404],
  ]);
});

test("error pages fit everywhere", async () => {
  await go("/catalog/line-monitor?version=1.0.0&ask=delete");
  assert.deepEqual(await everywhere("a version in use, asked for"), []);
  assert.equal(await page.getByRole("button", { name: "Remove from the catalog" }).count(), 0);
  // An outdated page still sends the form.
  const [answer] = await Promise.all([
    page.waitForResponse((response) => response.request().method() === "POST"),
    page.locator("form.ask").evaluate((form) => {
      form.insertAdjacentHTML("beforeend", '<input name="action" value="delete"><input name="version" value="1.0.0">');
      form.action = "/catalog/line-monitor";
      form.submit();
    }),
  ]);
  assert.equal(answer.status(), 409);
  await page.getByRole("heading", { level: 1 }).waitFor();
  assert.deepEqual(await everywhere("a version in use"), []);
});

test("every common page fits the narrowest window", async () => {
  const [deployment] = (await server.api("deployments")).items;
  await page.setViewportSize({ width: 320, height: 800 });
  const found = [];
  for (const path of [
    "/", "/devices", "/devices/add", "/devices/press-01/press-01", "/groups", "/catalog", "/catalog/add", "/catalog/line-monitor",
    "/deployments", `/deployments/${deployment.id}`, "/rollouts", `/rollouts/${deployment.rollout}`, "/events", "/audit",
    "/settings/tokens", "/settings/sessions", "/settings/identities", "/settings/enrollment-tokens", "/settings/registries", "/settings/registries/add", "/settings/certificates",
  ]) {
    await go(path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    const more = await wide(page);
    if (more > 0) found.push(`${path} is ${more} pixels too wide`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  assert.deepEqual(found, []);
});

test("every wizard step fits the narrowest window", async () => {
  await page.setViewportSize({ width: 320, height: 800 });
  const found = [];
  const look = async (name) => {
    const more = await wide(page);
    if (more > 0) found.push(`${name} is ${more} pixels too wide`);
  };
  await question(page, server, "line-monitor", ["pump-01", "packer-01"]);
  for (const name of ["version", "devices", "configuration"]) {
    await go(`/deploy/${draft(page)}/${name}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await look(name);
  }
  await page.getByLabel("Line name").fill("x");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("alert").waitFor();
  await look("wrong answers");
  await page.getByLabel("Line name").fill("Narrow");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update", 2).waitFor();
  await look("review");
  await drop(page);
  await page.setViewportSize({ width: 1280, height: 900 });
  assert.deepEqual(found, []);
});

const step = (on) => new URL(on.url()).pathname.split("/").at(-1);
const draft = (on) => new URL(on.url()).pathname.split("/")[2];

/** Presses Enter and waits for the step it leads to, in the same draft. */
async function enter(on, field, to) {
  const id = draft(on);
  await field.press("Enter");
  await until(`Enter leads to ${to}`, () => step(on) === to, 10).catch((error) => assert.fail(`${error.message}, but to ${on.url()}`));
  assert.deepEqual([draft(on), await byReason(on, "draft-discarded").count()], [id, 0]);
}

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with script" : "without script";

  test(`Enter in a device filter applies it and loses nothing, ${how}`, async () => {
    const on = await open(browser, { javaScriptEnabled });
    await signIn(on, server);
    await choose(on, server, "line-monitor");
    const all = await shown(on);
    await tick(on, "pump-01").check();
    await on.getByLabel("Name contains").fill("robot");
    await enter(on, on.getByLabel("Name contains"), "devices");
    await until("only robots are left", async () => (await shown(on).catch(() => [])).every((name) => name.includes("robot")));
    await on.getByText(/^1 selected$/).waitFor();
    await filtered(on, { q: "" }, all);
    assert.equal(await tick(on, "pump-01").isChecked(), true);
    await drop(on);
    onlyExpected(on);
    await on.context().close();
  });

  test(`Enter in a parameter continues to the review or shows errors, ${how}`, async () => {
    const on = await open(browser, { javaScriptEnabled });
    await signIn(on, server);
    for (const names of [["pump-01"], ["pump-01", "packer-01"]]) {
      await question(on, server, "line-monitor", names);
      await on.getByLabel("Line name").fill("x");
      await enter(on, on.getByLabel("Line name"), "configuration");
      await on.getByRole("alert").getByRole("link", { name: /^Line name/ }).waitFor({ timeout: 10_000 });
      await on.getByLabel("Line name").fill("By Enter");
      await enter(on, on.getByLabel("Sampling interval"), "review");
      await on.getByText(`${names.length} device`).first().waitFor();
      await drop(on);
    }
    onlyExpected(on, /422 \(Unprocessable/);
    await on.context().close();
  });

  test(`Enter in a parameter never removes an override, ${how}`, async () => {
    const on = await open(browser, { javaScriptEnabled });
    await signIn(on, server);
    await question(on, server, "line-monitor", ["pump-01", "packer-01"]);
    await on.getByLabel("Line name").fill("By Enter");
    await answerAlone(on, "packer-01", "Sampling interval", "33");
    await enter(on, on.getByLabel("Line name"), "review");
    await on.getByRole("button", { name: "Back", exact: true }).click();
    await hasAlone(on, "33");
    await drop(on);
    await on.context().close();
  });

  test(`Enter in the comment of a review deploys and loses nothing, ${how}`, async () => {
    const on = await open(browser, { javaScriptEnabled });
    await signIn(on, server);
    const device = javaScriptEnabled ? "press-01" : "gateway-01/cell-1";
    await question(on, server, "line-monitor", [device]);
    await on.getByLabel("Line name").fill("By Enter");
    await on.getByRole("button", { name: "Review" }).click();
    await on.getByRole("button", { name: "Deploy to 1 device" }).waitFor();
    await on.getByLabel("Comment (recorded in the audit log)").fill(`by Enter ${how}`);
    await on.getByLabel("Comment (recorded in the audit log)").press("Enter");
    await on.getByRole("heading", { name: /^Deploy Line Monitor .* to /, level: 1 }).waitFor({ timeout: 10_000 });
    const [change] = (await server.api("rollouts?limit=1")).items;
    assert.equal(change.comment, `by Enter ${how}`);
    await on.context().close();
  });
}

test("Enter in the comment of a confirmation confirms, and Cancel does nothing", async () => {
  await server.api("groups/short-lived", "PUT", { selector: "line=1" });
  await go("/groups/short-lived");
  await page.getByRole("link", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("link", { name: "Cancel" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await server.api("groups/short-lived");
  await page.getByRole("link", { name: "Delete" }).click();
  await page.getByRole("dialog").getByLabel("Comment (recorded in the audit log)").fill("served its time");
  await page.getByRole("dialog").getByLabel("Comment (recorded in the audit log)").press("Enter");
  await byReason(page, "group-deleted").waitFor();
  assert.ok((await server.api("audit?limit=10")).items.some((record) => record.comment === "served its time"));
});

test("after signing out, Back shows nothing of the fleet", async () => {
  const other = await open(browser);
  await signIn(other, server);
  for (const path of ["/devices", "/devices/press-01/press-01", "/settings/tokens"]) await go(path, other);
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  for (let steps = 0; steps < 3; steps += 1) {
    await other.goBack();
    await until("nothing of the fleet is shown", async () => !/press-01|gateway-01|Signed in as/.test(await other.locator("body").innerText()));
    assert.equal(await other.getByRole("navigation", { name: "Main" }).count(), 0);
  }
  await go("/devices", other);
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.context().close();
});

test("nothing unexpected was logged in the console", () => {
  onlyExpected(page, /404 \(Not Found\)/, /409 \(Conflict/, /422 \(Unprocessable/);
});
