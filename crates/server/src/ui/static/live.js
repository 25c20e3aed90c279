// Live regions, filters, dialogs, checks while typing, upload progress, relative times.
// Every page works without it.
import { known, toProblems, upload } from './add.js';
import { choosing, recount, tickAll } from './choose.js';
import { Idiomorph } from './idiomorph.js';
import { later } from './later.js';
import { whileSignedIn } from './session.js';
import { localFields, times } from './times.js';

const FILTER_MS = 250;
const CHECK_MS = 350;
const RETRY_MS = 3000;
const TICK_MS = 5000;
const DONE_MS = 1600;

/** @param {string} id */
const $ = (id) => document.getElementById(id);
let shownAt = new Date();
/** @type {EventSource | null} */
let stream = null;
let retry = 0;
let asked = 0;
let out = false;
let leaving = false;

const morph = {
  morphStyle: 'outerHTML',
  ignoreActiveValue: true,
  callbacks: {
    // Keep what the user has typed or expanded.
    beforeNodeMorphed: (/** @type {Element} */ from) => !(from instanceof HTMLElement && from.dataset.keep !== undefined),
    beforeAttributeUpdated: (/** @type {string} */ name, /** @type {Element} */ element) => !(name === 'open' && element.tagName === 'DETAILS'),
  },
};

/** Fetches the live part of a page and morphs each element into the one with the same id. @param {string} [address] */
async function refresh(address = location.href) {
  // A form is being sent: its response is newer, and reloading the page would cancel it.
  if (leaving) return true;
  const turn = ++asked;
  try {
    const response = await fetch(address, { headers: { 'X-Fragment': 'live' }, credentials: 'same-origin' });
    if (response.status === 401) return signedOut();
    // The page was removed or its address is no longer valid: show the error page.
    if (response.status >= 400 && response.status < 500) { location.reload(); return true; }
    if (!response.ok) throw new Error(String(response.status));
    const text = await response.text();
    if (turn !== asked) return true;
    place(text);
    shownAt = new Date();
    mark(true);
    return true;
  } catch {
    mark(false);
    return false;
  }
}

/** @param {string} html */
function place(html) {
  const parsed = new DOMParser().parseFromString(html, 'text/html');
  for (const piece of [...parsed.body.children]) {
    const here = piece.id && $(piece.id);
    if (here) Idiomorph.morph(here, piece, morph);
  }
  const title = document.querySelector('[data-title]');
  if (title instanceof HTMLElement) document.title = `${title.dataset.title} - Margrave`;
  scripted();
  recount();
  times();
}

/** Shows elements that need script. */
function scripted() {
  for (const one of document.querySelectorAll('[data-script]')) /** @type {HTMLElement} */ (one).hidden = false;
}

/** @param {boolean} live */
function mark(live) {
  const badge = $('mark');
  const stale = $('stale');
  if (badge) {
    badge.classList.remove('unknown');
    badge.textContent = live ? 'Live' : 'Reconnecting';
    badge.classList.toggle('off', !live);
  }
  if (!stale) return;
  stale.hidden = live;
  if (live) return;
  const text = `Connection lost, showing ${shownAt.toLocaleTimeString()}. Retrying.`;
  if (stale.textContent !== text) stale.textContent = text;
}

/** Something was typed into a form that is sent only while the session is valid. */
function isTyped() {
  return [...document.querySelectorAll('form[data-typed] :is(input, textarea)')].some((field) => {
    if (field instanceof HTMLInputElement && (field.type === 'checkbox' || field.type === 'radio')) return field.checked !== field.defaultChecked;
    return (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) && field.value !== field.defaultValue;
  });
}

/** Where the end of the session is reported: in the open dialog, since the page behind it cannot be reached. @returns {HTMLElement | null} */
function stalePlace() {
  const dialog = document.querySelector('dialog[open]');
  if (!dialog) return $('stale');
  const known = dialog.querySelector(':scope > .stale');
  if (known instanceof HTMLElement) return known;
  const made = document.createElement('p');
  made.className = 'stale';
  made.setAttribute('role', 'alert');
  dialog.prepend(made);
  return made;
}

/** Keeps typed input on the page while the user signs in in another tab. @param {boolean} [typed] */
function signedOut(typed = isTyped()) {
  out = true;
  stream?.close();
  const stale = stalePlace();
  if (stale) {
    stale.hidden = false;
    const link = document.createElement('a');
    link.href = `/sign-in?to=${encodeURIComponent(typed ? '/' : location.pathname + location.search)}`;
    link.textContent = typed ? 'Sign in in another tab' : 'Sign in again';
    if (typed) link.target = '_blank';
    stale.replaceChildren(typed ? 'Your session has ended; nothing was sent. ' : 'You are signed out. ', link, typed ? ', then continue here: your input is still on this page.' : '');
    if (typed) stale.scrollIntoView({ block: 'nearest' });
  }
  const badge = $('mark');
  badge?.classList.add('unknown');
  return true;
}

function topics() {
  return ($('live')?.dataset.live ?? '').split(' ').filter(Boolean);
}

/** A hidden page does not listen; a visible one first catches up. */
function listen() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
  if (out || document.hidden || topics().length === 0) return;
  const opened = new EventSource('/ui/events');
  stream = opened;
  let first = true;
  opened.addEventListener('hello', () => {
    if (!first || $('mark')?.classList.contains('off')) refresh();
    first = false;
    mark(true);
  });
  opened.addEventListener('changed', (event) => {
    const changed = event.data.split(' ');
    if (topics().some((topic) => changed.includes(topic))) refresh();
  });
  opened.addEventListener('error', () => {
    mark(false);
    // A browser gives up on a response that is not an event stream, so always reconnect.
    opened.close();
    clearTimeout(retry);
    retry = window.setTimeout(async () => { await refresh(); listen(); }, RETRY_MS);
  });
}

/** Refreshes periodically, for pages that change without an event. */
function pulse() {
  const every = Number($('live')?.dataset.every ?? 0);
  if (every) window.setTimeout(async () => { if (!document.hidden) await refresh(); pulse(); }, every * 1000);
}

/** A filter form puts its state into the address and shows the results immediately. */
const filter = later(FILTER_MS, (/** @type {HTMLFormElement} */ form) => {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) query.set(name, String(value));
  const address = `${form.getAttribute('action') || location.pathname}${query.size ? `?${query}` : ''}`;
  history.replaceState(null, '', address);
  refresh(address);
});

/** A form that the server checks while it is filled in. */
const check = later(CHECK_MS, async (/** @type {HTMLFormElement} */ form) => {
  const address = form.dataset.check;
  if (!address) return;
  const response = await fetch(address, { method: 'POST', body: new URLSearchParams(/** @type {any} */ (new FormData(form))), headers: { 'X-Fragment': 'check' }, credentials: 'same-origin' }).catch(() => null);
  if (response?.status === 401) return signedOut(true);
  if (!response?.ok) return;
  const parsed = new DOMParser().parseFromString(await response.text(), 'text/html');
  for (const piece of parsed.querySelectorAll('[data-told]')) {
    const here = $(piece.id);
    if (here instanceof HTMLInputElement && piece instanceof HTMLInputElement) here.value = piece.value;
    else if (here) here.textContent = piece.textContent;
  }
  for (const piece of parsed.querySelectorAll('[data-wrong]')) {
    const here = piece.id && $(piece.id);
    if (!here) continue;
    here.textContent = piece.textContent;
    const name = here.getAttribute('data-wrong') ?? '';
    for (const field of form.querySelectorAll(`[name="${CSS.escape(name)}"]`)) {
      if (piece.textContent?.trim()) field.setAttribute('aria-invalid', 'true');
      else field.removeAttribute('aria-invalid');
    }
  }
});

/** Shows a confirmation as a dialog; without script the same address is a page. @param {string} address @param {HTMLElement} opener */
async function ask(address, opener) {
  const response = await fetch(address, { headers: { 'X-Fragment': 'ask' }, credentials: 'same-origin' }).catch(() => null);
  // The server does not respond: keep the page and mark it as not live.
  if (!response) { mark(false); return listen(); }
  if (response.status === 401) return signedOut();
  if (!response.ok) return location.assign(address);
  const parsed = new DOMParser().parseFromString(await response.text(), 'text/html');
  const content = parsed.querySelector('.ask');
  if (!content) return location.assign(address);
  const dialog = document.createElement('dialog');
  const title = content.querySelector('h1, h2');
  if (title) {
    title.id = 'ask-title';
    dialog.setAttribute('aria-labelledby', 'ask-title');
  }
  dialog.append(document.adoptNode(content));
  document.body.append(dialog);
  dialog.addEventListener('close', () => { dialog.remove(); opener.focus(); });
  dialog.addEventListener('click', (event) => {
    if (event.target instanceof Element && event.target.closest('[data-cancel]')) { event.preventDefault(); dialog.close(); }
  });
  dialog.showModal();
}

const choice = choosing(place, mark);

const stillIn = whileSignedIn(mark, () => signedOut(true), () => { out = false; const stale = stalePlace(); if (stale) stale.hidden = true; });

document.addEventListener('input', (event) => {
  if (event.target instanceof HTMLInputElement && event.target.matches('[data-known]')) known(event.target);
  const form = event.target instanceof Element && event.target.closest('form');
  if (!form) return;
  if (form.dataset.filter !== undefined) filter(form);
  if (form.dataset.check) check(form);
  recount();
  if (event.target instanceof Element && event.target.closest('[data-narrow]')) choice.narrow(form);
});
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement)) return;
  if (form.dataset.filter !== undefined) { event.preventDefault(); filter(form, 0); }
  if (form.querySelector('[data-narrow]')) choice.inTurn(event, form);
  if (form.dataset.ask !== undefined) { event.preventDefault(); ask(form.action, event.submitter ?? form); }
  if (form.dataset.upload !== undefined) { event.preventDefault(); upload(form, place, signedOut); }
  if (form.dataset.typed !== undefined && !event.defaultPrevented) stillIn(event, form);
  leaving = !event.defaultPrevented;
});
document.addEventListener('click', (event) => {
  if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest('a[data-ask]');
  if (link instanceof HTMLAnchorElement) { event.preventDefault(); ask(link.href, link); }
  tickAll(event.target);
  const button = event.target.closest('button[data-copy]');
  if (button instanceof HTMLButtonElement) {
    const before = button.textContent;
    navigator.clipboard?.writeText($(button.dataset.copy ?? '')?.textContent?.trim() ?? '').then(() => {
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = before; }, DONE_MS);
    });
  }
});
document.addEventListener('visibilitychange', () => { if (!document.hidden && topics().length) refresh(); listen(); });
window.addEventListener('pagehide', () => stream?.close());
window.addEventListener('pageshow', (event) => { leaving = false; recount(); if (event.persisted) { refresh(); listen(); } });

/** A link may contain a token after `#token=`: it is submitted once in the form and removed from the address. */
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  const field = $('token');
  if (!token || !(field instanceof HTMLInputElement)) return;
  history.replaceState(null, '', location.pathname + location.search);
  field.value = token;
  field.form?.requestSubmit();
}
window.addEventListener('hashchange', takeToken);
takeToken();
scripted();
toProblems();
localFields();
times();
setInterval(times, TICK_MS);
pulse();
listen();
