// Choosing devices: narrowing the choice down keeps what is ticked, and one box ticks all. Every page works without it.
import { later } from './later.js';

const NARROW_MS = 250;

/** The form goes to the server as with its button, and what comes back is shown in place. @param {(html: string) => void} place @param {(live: boolean) => void} mark */
export function choosing(place, mark) {
  /** @type {Promise<void> | null} */
  let narrowing = null;

  const narrow = later(NARROW_MS, (/** @type {HTMLFormElement} */ form) => {
    const turn = (narrowing ?? Promise.resolve()).then(async () => {
      const body = new URLSearchParams(/** @type {any} */ (new FormData(form)));
      body.delete('after');
      body.set('go', 'filter');
      const response = await fetch(form.action, { method: 'POST', body, headers: { 'X-Fragment': 'live' }, credentials: 'same-origin' }).catch(() => null);
      if (!response?.ok) return mark(false);
      place(await response.text());
      history.replaceState(null, '', response.url);
      mark(true);
    }).finally(() => { if (narrowing === turn) narrowing = null; });
    narrowing = turn;
  });

  /** Two steps at once would be told as two people at work: the form waits for what is on its way. @param {SubmitEvent} event @param {HTMLFormElement} form */
  function inTurn(event, form) {
    narrow.stop();
    if (!narrowing) return;
    event.preventDefault();
    const pressed = event.submitter instanceof HTMLButtonElement ? `button[name="${CSS.escape(event.submitter.name)}"][value="${CSS.escape(event.submitter.value)}"]` : '';
    narrowing.then(() => form.requestSubmit(pressed ? /** @type {HTMLButtonElement | null} */ (form.querySelector(pressed)) : null));
  }

  return { narrow, inTurn };
}

/** One box for all that can be ticked. @param {Element} clicked */
export function tickAll(clicked) {
  const all = clicked.closest('input[data-all]');
  if (!(all instanceof HTMLInputElement)) return;
  for (const box of document.querySelectorAll(`input[name="${CSS.escape(all.dataset.all ?? '')}"]:not(:disabled)`)) /** @type {HTMLInputElement} */ (box).checked = all.checked;
  recount();
}

/** How many are chosen: on other pages, as the server knows, and ticked here. */
export function recount() {
  const words = document.querySelector('[data-chosen]');
  if (!(words instanceof HTMLElement)) return;
  const all = Number(words.dataset.chosen) + document.querySelectorAll('input[name="device"]:checked').length;
  const text = `${all.toLocaleString('en')} device${all === 1 ? '' : 's'} chosen so far`;
  if (words.textContent !== text) words.textContent = text;
}
