// Takes the pictures for README and docs from a demo of its own: `make screenshots`.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Server, byReason, launch, open, root, signIn, until } from "./margrave.js";

/** Those that README and docs show; with a folder of your own you get all pages, at three widths, light and dark. */
const MAIN = ["overview", "devices", "device", "catalog", "application", "select-devices", "configuration", "review", "rollout", "deployment", "events", "compatibility", "phone-dark"];
const folder = process.argv[2] ?? join(root, "docs/screens");
mkdirSync(folder, { recursive: true });
const wanted = (name) => process.argv[2] !== undefined || MAIN.includes(name);
const take = async (on, name) => { if (wanted(name)) await on.screenshot({ path: join(folder, `${name}.png`) }); };
const server = new Server();
const browser = await launch();

/** Every page whole, at three widths, light and dark, for reviews of style changes. */
async function everything(failed) {
  const pages = {
    overview: "/", devices: "/devices", "devices-none": "/devices?q=none-like-it", "device-add": "/devices/add", device: "/devices/press-01/press-01", gateway: "/devices/gateway-01/gateway-01",
    decommission: "/clients/press-01?ask=decommission", groups: "/groups", group: "/groups/pressing", "group-new": "/groups/new", catalog: "/catalog", "catalog-device": "/catalog?device=tiny-01/tiny-01",
    "catalog-add": "/catalog/add", application: "/catalog/line-monitor", compatibility: "/catalog/vibration-analytics/compatibility", deployments: "/deployments", deployment: `/deployments/${failed.id}`,
    retry: `/deployments/${failed.id}?ask=retry`, rollouts: "/rollouts", rollout: `/rollouts/${failed.rollout}`, events: "/events", audit: "/audit",
    tokens: "/settings/tokens", sessions: "/settings/sessions", identities: "/settings/identities", "enrollment-tokens": "/settings/enrollment-tokens", registries: "/settings/registries", certificates: "/settings/certificates", "not-found": "/nothing/here",
  };
  for (const [width, colorScheme] of [1280, 1920, 390].flatMap((width) => ["light", "dark"].map((scheme) => [width, scheme]))) {
    const look = `${width}-${colorScheme}`;
    const page = await open(browser, { viewport: { width, height: 860 }, colorScheme });
    await signIn(page, server);
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(server.origin + path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.screenshot({ path: join(folder, `${name}.${look}.png`), fullPage: true });
    }
    const whole = (name) => page.screenshot({ path: join(folder, `${name}.${look}.png`), fullPage: true });
    await page.goto(`${server.origin}/catalog/line-monitor`);
    await page.getByRole("button", { name: "Deploy", exact: true }).click();
    await page.getByRole("button", { name: "Continue" }).waitFor();
    await whole("wizard-version");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("table").waitFor();
    await whole("wizard-devices");
    await page.getByRole("row").filter({ has: page.locator('[data-state="compatible"]') }).getByRole("checkbox", { disabled: false }).last().check();
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByLabel("Line name").fill("Press 7");
    await page.getByText("Policies", { exact: true }).click();
    await page.getByLabel("On failure").selectOption("Roll back");
    await whole("wizard-configuration");
    await page.getByRole("button", { name: "Review" }).click();
    await byReason(page, "update").waitFor();
    await whole("wizard-review");
    await page.getByRole("button", { name: "Discard draft" }).click();
    await page.goto(`${server.origin}/deployments/${failed.id}`);
    await page.getByRole("button", { name: "Reconfigure" }).click();
    await page.getByText("Policies", { exact: true }).click();
    await page.getByLabel("On failure").selectOption("Stop");
    await whole("reconfigure-configuration");
    await page.getByRole("button", { name: "Review" }).click();
    await byReason(page, "update").waitFor();
    await whole("reconfigure-review");
    await page.getByRole("button", { name: "Discard draft" }).click();
    await page.context().close();
  }
}
try {
  await server.startDemo("0", "24");
  await until("the fleet has done what it can", async () => {
    const { deployments, clients } = await server.api("summary");
    return (deployments["up-to-date"] ?? 0) > 5 && (deployments.failed ?? 0) > 0 && clients.offline > 0;
  }, 90);
  const page = await open(browser, { viewport: { width: 1280, height: 860 } });
  await signIn(page, server);
  const shot = async (name, path, on = page) => {
    await on.goto(server.origin + path);
    await on.getByRole("heading", { level: 1 }).waitFor();
    await take(on, name);
  };
  await shot("overview", "/");
  await shot("devices", "/devices");
  await shot("device", "/devices/press-01/press-01");
  await shot("catalog", "/catalog");
  await shot("application", "/catalog/line-monitor");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("table").waitFor();
  await take(page, "select-devices");
  const fits = page.getByRole("row").filter({ has: page.getByRole("rowheader") }).filter({ has: page.locator('[data-state="compatible"]') });
  for (let index = 0; index < 3; index++) await fits.nth(index).getByRole("checkbox").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Line name").fill("Press 7");
  await take(page, "configuration");
  await page.getByRole("button", { name: "Review" }).click();
  await byReason(page, "update").waitFor();
  await take(page, "review");
  await page.getByLabel("Comment (recorded in the audit log)").fill("line 7 goes live");
  await page.getByRole("button", { name: /Deploy to/ }).click();
  await page.getByRole("status").waitFor();
  await page.getByText(/[123] of 3 done/).waitFor();
  await take(page, "rollout");
  const { items } = await until("something has failed", async () => {
    const failed = await server.api("deployments?state=failed");
    return failed.items.length > 0 && failed;
  });
  await shot("deployment", `/deployments/${items[0].id}`);
  await shot("events", "/events");
  await shot("compatibility", "/catalog/vibration-analytics/compatibility");
  const phone = await open(browser, { viewport: { width: 375, height: 812 }, colorScheme: "dark" });
  await signIn(phone, server);
  await shot("phone-dark", "/", phone);
  await shot("phone-dark-devices", "/devices", phone);
  const dark = await open(browser, { colorScheme: "dark", viewport: { width: 1280, height: 860 } });
  await signIn(dark, server);
  await shot("overview-dark", "/", dark);
  await shot("device-dark", "/devices/press-01/press-01", dark);
  if (process.argv[2]) await everything(items[0]);
} finally {
  await browser.close();
  server.stop();
}
