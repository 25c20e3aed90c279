// Selecting devices: filters keep the selection, and one checkbox selects all. Every page works without it.
import { later } from './later.js';

const NARROW_MS = 250;

/** Submits the form as its button does, and shows the response in place. @param {(html: string) => void} place @param {(live: boolean) => void} mark */
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

  /** Two requests at once would conflict: the form waits for the pending one. @param {SubmitEvent} event @param {HTMLFormElement} form */
  function inTurn(event, form) {
    narrow.stop();
    if (!narrowing) return;
    event.preventDefault();
    const pressed = event.submitter instanceof HTMLButtonElement ? `button[name="${CSS.escape(event.submitter.name)}"][value="${CSS.escape(event.submitter.value)}"]` : '';
    narrowing.then(() => form.requestSubmit(pressed ? /** @type {HTMLButtonElement | null} */ (form.querySelector(pressed)) : null));
  }

  return { narrow, inTurn };
}

/** One checkbox that selects all enabled ones. @param {Element} clicked */
export function tickAll(clicked) {
  const all = clicked.closest('input[data-all]');
  if (!(all instanceof HTMLInputElement)) return;
  for (const box of document.querySelectorAll(`input[name="${CSS.escape(all.dataset.all ?? '')}"]:not(:disabled)`)) /** @type {HTMLInputElement} */ (box).checked = all.checked;
  recount();
}

/** The number of selected devices: those on other pages, as the server says, and those selected here. */
export function recount() {
  const words = document.querySelector('[data-chosen]');
  if (!(words instanceof HTMLElement)) return;
  const all = Number(words.dataset.chosen) + document.querySelectorAll('input[name="device"]:checked').length;
  const text = `${all.toLocaleString('en')} selected`;
  if (words.textContent !== text) words.textContent = text;
}
