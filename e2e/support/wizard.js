// Wizard steps shared by several tests.
import assert from "node:assert/strict";
import { byReason, until } from "./margrave.js";

const rows = (page) => page.getByRole("table", { name: "Select devices" }).getByRole("rowheader");

export const tick = (page, name) => page.getByRole("checkbox", { name, exact: true });

/** A draft at the device selection step. */
export async function choose(page, server, application) {
  await page.goto(`${server.origin}/catalog/${application}`);
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await rows(page).first().waitFor();
}

/** Devices in the list, in order of their names. */
export async function shown(page) {
  return (await rows(page).allInnerTexts()).sort();
}

/** Sets these filters, such as `q` or `site`; waits until the URL has them and only these devices are left. */
export async function filtered(page, given, wanted) {
  const words = { q: "Name contains", labels: "Labels", site: "Site", group: "Group", state: "State" };
  const place = page.getByRole("group", { name: "Filter devices" });
  for (const [name, value] of Object.entries(given)) {
    const field = place.getByLabel(words[name], { exact: true });
    await (name === "q" || name === "labels" ? field.fill(value) : field.selectOption(value));
  }
  await place.getByRole("button", { name: "Filter", exact: true }).click();
  let found;
  await until(`${JSON.stringify(given)} is in the address and leaves ${wanted}`, async () => {
    const address = new URL(page.url()).searchParams;
    // The page may be replaced meanwhile.
    found = await shown(page).catch(() => null);
    return Object.entries(given).every(([name, value]) => (address.get(name) ?? "") === value) && found?.join() === wanted.join();
  }, 15).catch((error) => assert.fail(`${error.message}, but ${found} at ${page.url()}`));
}

/** A draft at the configuration step, for these devices. */
export async function question(page, server, application, names) {
  await choose(page, server, application);
  for (const name of names) await tick(page, name).check();
  await page.getByRole("button", { name: "Continue" }).click();
  await byReason(page, "applies-to").filter({ hasText: `${names.length} device` }).waitFor();
}

const alone = (page) => page.getByRole("region", { name: "Per-device overrides" });

/** Adds an override for one device. */
export async function answerAlone(page, device, name, value) {
  await alone(page).getByLabel("Device", { exact: true }).selectOption({ label: device });
  await alone(page).getByRole("button", { name: "Add override" }).click();
  await byReason(page, "override").filter({ hasText: device }).waitFor();
  await page.getByLabel(name).fill(value);
  await page.getByRole("button", { name: "Save override" }).click();
  await hasAlone(page, value);
}

/** Waits until the override is listed. */
export async function hasAlone(page, value) {
  await alone(page).getByText(new RegExp(`: ${value}$`)).first().waitFor({ timeout: 10_000 });
}

export async function drop(page) {
  await page.getByRole("button", { name: "Discard draft" }).click();
  // A dialog, or a page without JavaScript; the button behind it has the same name.
  await page.locator("form.ask").getByRole("button", { name: "Discard draft" }).click();
  await byReason(page, "draft-discarded").waitFor();
}
