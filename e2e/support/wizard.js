// Steps of deploying that several journeys go.
import assert from "node:assert/strict";
import { until } from "./margrave.js";

const rows = (page) => page.getByRole("table", { name: "Devices to choose from" }).getByRole("rowheader");

export const tick = (page, name) => page.getByRole("checkbox", { name, exact: true });

/** A draft at the step where devices are chosen. */
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

/** Filters by what these fields are given, as `q` or `site`; waits until the address says so and only these devices are left. */
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
    // A page may go while it is looked at.
    found = await shown(page).catch(() => null);
    return Object.entries(given).every(([name, value]) => (address.get(name) ?? "") === value) && found?.join() === wanted.join();
  }, 15).catch((error) => assert.fail(`${error.message}, but ${found} at ${page.url()}`));
}

/** At the questions, for these devices. */
export async function question(page, server, application, names) {
  await choose(page, server, application);
  for (const name of names) await tick(page, name).check();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText(`These answers are for ${names.length} device`).waitFor();
}

const alone = (page) => page.getByRole("region", { name: "Answers for one device alone" });

/** Gives one device an answer of its own, at the place for it: there, or on a page with the questions as they are. */
export async function answerAlone(page, device, name, value) {
  await alone(page).getByLabel("Device", { exact: true }).selectOption({ label: device });
  const here = await alone(page).getByLabel("Its answer").count();
  if (here) {
    await alone(page).getByLabel("Question").selectOption(name);
    await alone(page).getByLabel("Its answer").fill(value);
  }
  await alone(page).getByRole("button").last().click();
  if (!here) {
    await page.getByText(`For ${device} alone`).first().waitFor();
    await page.getByLabel(name).fill(value);
    await page.getByRole("button", { name: new RegExp(`^Keep for ${device}`) }).click();
  }
  await hasAlone(page, value);
}

/** An answer of one device alone is listed. */
export async function hasAlone(page, value) {
  await alone(page).getByText(new RegExp(`: ${value}$`)).first().waitFor({ timeout: 10_000 });
}

export async function drop(page) {
  await page.getByRole("button", { name: "Drop this draft" }).click();
  // A dialog, or without script a page; the button behind it has the same name.
  await page.locator("form.ask").getByRole("button", { name: "Drop this draft" }).click();
  await page.getByText("The draft was dropped. Nothing was deployed.").waitFor();
}
