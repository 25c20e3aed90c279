// Compact lists, honest progress, compatibility of an application, and forms that say what is wrong. Elements are found by role,
// label and the hooks `data-state`, `data-action` and `data-reason`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, begin, byReason, end, fitsPhone, onlyExpected, open, signIn, until, wellMade } from "./support/margrave.js";

const server = new Server();
let browser;
let page;

const go = (path) => page.goto(server.origin + path);
const act = (name, on = page) => on.locator(`[data-action="${name}"]`);
const begun = async (form) => {
  const answer = await page.request.post(`${server.origin}/deploy`, { form, headers: { "sec-fetch-site": "same-origin" }, maxRedirects: 0 });
  return answer.headers().location.replace(/\/[a-z]+$/, "");
};
const rows = () => page.getByRole("table").locator("tbody > tr:visible");

before(async () => {
  ({ browser, page } = await begin(server));
});
after(async () => {
  await end(server, browser);
});

test("lists have one line per row, a head that stays, and one line of states", async () => {
  await page.setViewportSize({ width: 1280, height: 860 });
  const three = [1, 2, 3];
  await Promise.all(three.map((number) => server.api(`groups/line-${number}`, "PUT", { selector: `line=${number}`, description: "All machines of one line, with a description that is longer than its column" })));
  await Promise.all(three.map((number) => server.api(`clients/guest-${number}/enrollment-token`, "POST", {})));
  await Promise.all(three.map((number) => server.api("tokens", "POST", { name: `shift ${number}` })));
  for (const _ of three) {
    const other = await open(browser);
    await signIn(other, server);
    await other.context().close();
  }
  const all = (await server.api("rollouts")).items;
  const largest = all.reduce((one, other) => (other.total > one.total ? other : one));
  const [application] = (await server.api("applications")).items;
  const draft = await begun({ kind: "create", application: application.id, version: application.newestVersion });
  for (const path of ["/devices", "/deployments", "/rollouts", `/rollouts/${largest.id}`, "/audit", "/catalog/vibration-analytics/compatibility", `${draft}/devices`, "/groups", "/settings/tokens", "/settings/sessions", "/settings/identities", "/settings/enrollment-tokens"]) {
    await go(path);
    await page.getByRole("table").waitFor();
    const heights = await rows().evaluateAll((all) => all.map((row) => Math.round(row.getBoundingClientRect().height)));
    assert.ok(heights.length > 2 && Math.max(...heights) <= 41, `${path}: rows of ${[...new Set(heights)]} pixels`);
    const head = await page.getByRole("columnheader").first().evaluate((cell) => {
      document.body.style.minHeight = "300vh";
      scrollTo(0, document.querySelector("tbody").getBoundingClientRect().top + scrollY + 30);
      return cell.getBoundingClientRect().top;
    });
    assert.ok(Math.abs(head) < 2, `${path}: the head of the table is at ${head}`);
    await page.evaluate(() => scrollTo(0, 0));
    await wellMade(page, path);
    await fitsPhone(page, path);
  }
  await page.request.post(`${server.origin}${draft}/discard`, { headers: { "sec-fetch-site": "same-origin" } });
  await go("/events");
  const lines = await page.locator(".timeline > li").evaluateAll((all) => all.map((line) => line.getBoundingClientRect().height));
  assert.ok(lines.length > 2 && Math.max(...lines) <= 44, `events of ${Math.max(...lines)} pixels`);
  await go("/deployments");
  const tallies = page.getByRole("group", { name: "All deployments by state" }).getByRole("link");
  const tops = await tallies.evaluateAll((all) => all.map((one) => one.offsetTop));
  assert.equal(new Set(tops).size, 1, "the states are on one line");
  assert.ok((await tallies.allInnerTexts()).every((text) => !text.startsWith("0")), "states without deployments are hidden");
  await page.setViewportSize({ width: 1920, height: 1080 });
  const width = await page.getByRole("table").evaluate((table) => table.getBoundingClientRect().width);
  assert.ok(width > 1600, `the table is only ${width} pixels wide`);
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("every state on a page has its API value, and simulated devices are marked once", async () => {
  for (const path of ["/", "/devices", "/deployments", "/rollouts"]) {
    await go(path);
    assert.equal(await page.locator(".state:not([data-state])").count(), 0, path);
    assert.ok((await page.locator("main [data-state]").count()) > 0, path);
  }
  await go("/deployments");
  assert.equal(await page.locator('main [data-state="simulated"]').count(), 1);
  const { state } = (await server.api("deployments?limit=1")).items[0];
  await go(`/deployments?state=${state}`);
  const states = await rows().locator(`td > [data-state]`).evaluateAll((all) => [...new Set(all.map((one) => one.dataset.state))]);
  assert.deepEqual(states, [state]);
});

test("a progress bar is filled as far as devices are done, and failed ones have their own part", async () => {
  await until("a deployment has failed", async () => (await server.api("deployments?state=failed")).items.length > 0);
  const { rollout } = (await server.api("deployments?state=failed")).items[0];
  const { total, deployments } = await server.api(`rollouts/${rollout}`);
  await go("/rollouts");
  const widths = (bar) => bar.locator("rect").evaluateAll((all) => Object.fromEntries(all.map((one) => [one.dataset.state, one.width.baseVal.value / 1000])));
  const listed = page.locator(`#x-${rollout}`);
  for (const place of [listed, null]) {
    if (!place) await go(`/rollouts/${rollout}`);
    const part = await widths((place ?? page.locator("main")).locator("svg.bar").first());
    const expected = (deployments["up-to-date"] ?? 0) / total;
    assert.ok(Math.abs((part["up-to-date"] ?? 0) - expected) < 0.02, `done: ${JSON.stringify(part)} of ${expected}`);
    assert.ok(part.failed > 0, "the failed part is visible");
  }
  await page.getByText(`of ${total} done`).first().waitFor();
});

test("the compatibility of an application lists every device with its reasons, and leads to a deployment", async () => {
  await go("/catalog/vibration-analytics");
  await page.getByRole("link", { name: "Compatibility", exact: true }).click();
  await page.getByRole("heading", { name: /^Compatibility of Vibration Analytics/ }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/catalog/vibration-analytics/compatibility");
  const version = new URL(page.url()).searchParams.get("version");
  const { items } = await server.api(`applications/vibration-analytics/versions/${version}/compatibility?limit=1000`);
  assert.equal(await rows().count(), items.length);
  const shown = await rows().locator("td > [data-state]").evaluateAll((all) => all.map((one) => one.dataset.state).filter((state) => /compatible|unknown/.test(state)).sort());
  assert.deepEqual(shown, items.map((one) => one.outcome).sort(), "as in the API");
  await wellMade(page, "compatibility");
  await fitsPhone(page, "compatibility");
  const reason = await page.getByLabel("Reason").locator("option").nth(1).getAttribute("value");
  await page.getByLabel("Reason").selectOption(reason);
  await until("only devices with this reason are left", async () => {
    const codes = await rows().evaluateAll((all) => all.map((row) => [...row.querySelectorAll("[data-reason]")].flatMap((one) => one.dataset.reason.split(" "))));
    return codes.length > 0 && codes.length < items.length && codes.every((list) => list.includes(reason));
  });
  const name = await rows().first().getByRole("rowheader").innerText();
  await rows().first().getByRole("rowheader").getByRole("link").click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await page.goBack();
  await page.getByRole("group", { name: "Devices by compatibility" }).locator('a[data-state="compatible"]').click();
  await until("only compatible devices are left", async () => (await rows().locator('[data-state="incompatible"]').count()) === 0);
  const fits = Number((await act("deploy").innerText()).match(/\d+/)?.[0] ?? 1);
  await act("deploy").click();
  await page.getByText(`${fits} selected`).waitFor();
  assert.match(page.url(), /\/devices$/);
  await act("select-individually").click();
  await act("select-all").waitFor();
  await act("continue").click();
  await page.locator('[data-reason="no-device-selected"]').waitFor();
  await act("select-all").click();
  await page.getByText(`${fits} selected`).waitFor();
});

test("drafts are listed below what needs attention, are distinguishable, and are discarded from there", async () => {
  await go("/");
  const drafts = page.getByRole("region", { name: "Drafts" });
  const [draft, attention] = await Promise.all([drafts, page.getByRole("region", { name: "Needs attention" })].map((one) => one.boundingBox()));
  assert.ok(draft.y > attention.y, "drafts come later");
  await drafts.getByText(/all eligible devices/).first().waitFor();
  const [{ newestVersion: version }] = (await server.api("applications")).items.filter((one) => one.id === "vibration-analytics");
  const taken = (await server.api("deployments?application=vibration-analytics&limit=1000")).items.map((one) => one.device);
  const compatible = (await server.api(`applications/vibration-analytics/versions/${version}/compatibility?limit=1000`)).items.filter((one) => one.outcome === "compatible" && !taken.includes(one.device));
  assert.ok(compatible.length > 1);
  for (const { client, device } of compatible.slice(0, 2)) {
    await begun({ kind: "create", application: "vibration-analytics", version, device: `${client}/${device}` });
  }
  await go("/");
  const texts = await drafts.getByRole("listitem").evaluateAll((all) => all.map((one) => [one.querySelector("a").textContent, one.querySelector(".soft").firstChild.textContent]));
  const titles = texts.map(([title]) => title);
  assert.ok(new Set(titles).size < titles.length, "several drafts have the same title");
  assert.equal(new Set(texts.map(String)).size, texts.length, "apart from the time, each is described differently");
  await act("discard", drafts).first().click();
  const dialog = page.getByRole("dialog");
  const frame = await dialog.locator(".panel").evaluate((panel) => getComputedStyle(panel).borderTopWidth);
  assert.equal(frame, "0px", "no border inside the dialog");
  await act("discard", dialog).click();
  await byReason(page, "draft-discarded").waitFor();
  assert.equal(new URL(page.url()).pathname, "/");
});

test("an upgrade of all devices begins with the devices, and its review shows the comment at once", async () => {
  await go("/catalog/line-monitor");
  const upgrade = page.locator('[data-action="upgrade"], [data-action="downgrade"]');
  await upgrade.first().click();
  await page.locator("[aria-current=step]").filter({ hasText: "Devices" }).waitFor();
  await act("continue").click();
  await act("review").click();
  const comment = page.getByLabel("Comment (recorded in the audit log)");
  await comment.waitFor();
  const [field, bar] = await Promise.all([comment.boundingBox(), page.locator(".sticky").boundingBox()]);
  assert.ok(field.y + field.height <= bar.y, "the comment is not below the sticky bar");
  const changes = page.getByRole("region", { name: /^The same change on/ });
  const texts = await changes.evaluateAll((all) => all.map((card) => `${card.querySelector("header .soft").textContent} ${card.querySelector(".facts").textContent}`));
  assert.equal(new Set(texts).size, texts.length, "the same change is shown once");
  await act("discard").first().click();
  await act("discard", page.getByRole("dialog")).click();
  await byReason(page, "draft-discarded").waitFor();
});

test("an invalid image reference is reported once, at its field", async () => {
  await go("/catalog/add");
  await page.getByLabel("Image reference").fill("registry.example/UPPER CASE");
  await act("add").click();
  const summary = byReason(page, "invalid");
  await summary.getByRole("link", { name: "Image reference" }).waitFor();
  assert.equal(await page.getByLabel("Image reference").getAttribute("aria-invalid"), "true");
  const problem = await page.locator("#source-wrong").innerText();
  assert.ok(problem.length > 10);
  assert.equal((await page.locator("main").innerText()).split(problem).length, 2, "once");
  await wellMade(page, "an invalid image reference");
});

test("a name that is in use leaves one safe button, and the page is one column on a phone", async () => {
  await go("/devices/add");
  await page.getByLabel("Device name").fill("press-01");
  await act("create").click();
  await act("enroll-again").waitFor();
  assert.equal(await page.locator("main .button.main").count(), 1);
  assert.equal(await page.locator("form .button.danger").count(), 0, "the other one is beside its explanation");
  await wellMade(page, "a name that is in use");
  await page.setViewportSize({ width: 390, height: 844 });
  const columns = () => page.locator("dl.facts").evaluateAll((all) => all.map((list) => getComputedStyle(list).gridTemplateColumns.split(" ").length));
  assert.deepEqual([...new Set(await columns())], [1]);
  await go("/devices/add");
  await page.getByLabel("Device name").fill("press-97");
  await act("create").click();
  await page.getByText(/margrave-agent enroll --trust-url/).waitFor();
  assert.deepEqual([...new Set(await columns())], [1], "the page with the enrollment token");
  await wellMade(page, "an enrollment token on a phone");
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("the title of a dialog breaks only at spaces", async () => {
  const { client, device } = (await server.api("devices?limit=50")).items.find((one) => one.device.includes("-"));
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 860 });
    await go(`/devices/${client}/${device}`);
    await act("decommission").first().click();
    const title = page.getByRole("dialog").getByRole("heading", { level: 1 });
    await title.filter({ hasText: device }).waitFor();
    const broken = await title.evaluate((heading) => {
      const texts = document.createTreeWalker(heading, NodeFilter.SHOW_TEXT);
      const found = [];
      for (let node = texts.nextNode(); node; node = texts.nextNode()) {
        for (const word of node.textContent.matchAll(/\S+/g)) {
          const range = document.createRange();
          range.setStart(node, word.index);
          range.setEnd(node, word.index + word[0].length);
          if (new Set([...range.getClientRects()].map((one) => Math.round(one.top))).size > 1) found.push(word[0]);
        }
      }
      return found;
    });
    assert.deepEqual(broken, [], `at ${width} pixels`);
    await page.getByRole("dialog").locator("[data-cancel]").click();
  }
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("a new token is shown apart from the table", async () => {
  await go("/settings/tokens");
  await page.getByLabel("Name", { exact: true }).fill("gap");
  await act("create").click();
  const created = page.getByRole("status").filter({ hasText: "created" });
  await created.waitFor();
  const [box, table] = await Promise.all([created, page.locator("#live > .panel").first()].map((one) => one.boundingBox()));
  assert.ok(table.y - (box.y + box.height) >= 8, `${table.y - box.y - box.height} pixels`);
  await page.setViewportSize({ width: 390, height: 844 });
  await wellMade(page, "a new token on a phone");
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("on a phone a time in the audit log stays inside its column", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await go("/audit");
  const beyond = await page.locator("td > time").evaluateAll((all) => all.map((time) => time.getBoundingClientRect().right - time.parentElement.getBoundingClientRect().right));
  assert.ok(beyond.length > 0 && Math.max(...beyond) <= 0, `${Math.max(...beyond)} pixels beyond the column`);
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("the states of an application's deployments are labeled", async () => {
  const { application } = (await server.api("deployments?limit=1")).items[0];
  await go(`/catalog/${application}`);
  const panel = page.getByRole("region", { name: "Deployments", exact: true });
  const bars = await panel.locator("svg.bar").evaluateAll((all) => all.map((bar) => bar.getAttribute("aria-label")));
  const legends = await panel.locator(".legend").evaluateAll((all) => all.map((legend) => [...legend.children].map((part) => part.textContent).join(", ")));
  assert.ok(bars.length > 0);
  assert.deepEqual(legends, bars);
});

test("a comment in a dialog survives the end of the session", async () => {
  await go("/settings/tokens");
  await page.getByRole("link", { name: "Revoke gap" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Comment (recorded in the audit log)").fill("no longer in use");
  const session = await page.context().cookies();
  await page.context().clearCookies();
  await act("revoke", dialog).click();
  await dialog.getByRole("link", { name: "Sign in in another tab" }).waitFor();
  assert.equal(await dialog.getByLabel("Comment (recorded in the audit log)").inputValue(), "no longer in use");
  await page.context().addCookies(session);
  await act("revoke", dialog).click();
  await page.getByText("Token revoked.").waitFor();
  assert.ok((await server.api("audit?limit=20")).items.some((record) => record.comment === "no longer in use"));
});

test("with a token, the warning about the password leads to the sign-in page", async () => {
  await go("/");
  await act("sign-in", page.getByRole("main")).click();
  await page.getByLabel("Name", { exact: true }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("to"), "/settings/password");
});

test("what was typed survives the end of the session", async () => {
  await go("/settings/tokens");
  await page.getByLabel("Name", { exact: true }).fill("line 7");
  await page.context().clearCookies();
  await act("create").click();
  await page.getByRole("link", { name: "Sign in in another tab" }).waitFor();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "line 7");
  onlyExpected(page, /4(01|09|22)/);
});
