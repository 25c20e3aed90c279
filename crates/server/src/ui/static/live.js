// What the browser does by itself: live regions, filters, dialogs, checks while typing, an upload's progress, times that go on.
// Every page works without it.
import { Idiomorph } from './idiomorph.js';

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
    // What is being typed or was unfolded belongs to the person, not to the server.
    beforeNodeMorphed: (/** @type {Element} */ from) => !(from instanceof HTMLElement && from.dataset.keep !== undefined),
    beforeAttributeUpdated: (/** @type {string} */ name, /** @type {Element} */ element) => !(name === 'open' && element.tagName === 'DETAILS'),
  },
};

/** Asks for the changing part of a page and morphs each piece into the one of the same id. @param {string} [address] */
async function refresh(address = location.href) {
  // A form is on its way: what it brings is newer, and to load the page anew would call it back.
  if (leaving) return true;
  const turn = ++asked;
  try {
    const response = await fetch(address, { headers: { 'X-Fragment': 'live' }, credentials: 'same-origin' });
    if (response.status === 401) return signedOut();
    // What was shown is gone, or the address makes no sense any more: the page that says so knows more.
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
  times();
}

/** @param {boolean} live */
function mark(live) {
  const badge = $('mark');
  const stale = $('stale');
  if (badge) {
    badge.hidden = false;
    badge.textContent = live ? 'Live' : 'Not live';
    badge.classList.toggle('off', !live);
  }
  if (!stale) return;
  stale.hidden = live;
  if (live) return;
  const text = `Connection lost, showing ${shownAt.toLocaleTimeString()}. Retrying.`;
  if (stale.textContent !== text) stale.textContent = text;
}

function signedOut() {
  out = true;
  stream?.close();
  const stale = $('stale');
  if (stale) {
    stale.hidden = false;
    stale.replaceChildren('You are signed out. ', Object.assign(document.createElement('a'), { href: `/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`, textContent: 'Sign in again' }));
  }
  const badge = $('mark');
  if (badge) badge.hidden = true;
  return true;
}

function topics() {
  return ($('live')?.dataset.live ?? '').split(' ').filter(Boolean);
}

/** A hidden page listens to nothing; a shown one first looks at what it missed. */
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
    // A browser gives up on an answer that is no stream; so it is begun anew in any case.
    opened.close();
    clearTimeout(retry);
    retry = window.setTimeout(async () => { await refresh(); listen(); }, RETRY_MS);
  });
}

/** Something that is being worked out is asked for until it is there. */
function pulse() {
  const every = Number($('live')?.dataset.every ?? 0);
  if (every) window.setTimeout(async () => { if (!document.hidden) await refresh(); pulse(); }, every * 1000);
}

/** Relative for the eye, local time in the title. */
function times() {
  const now = Date.now();
  for (const element of document.querySelectorAll('time[datetime]')) {
    const at = new Date(element.getAttribute('datetime') ?? '');
    if (Number.isNaN(at.getTime())) continue;
    const title = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' });
    if (element.getAttribute('title') !== title) element.setAttribute('title', title);
    // To the nearest, as the server rounds (`relative` in words.rs): what is valid for 30 days says so from the first moment.
    const seconds = Math.round(Math.abs(now - at.getTime()) / 1000);
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.round(seconds / unit));
    const words = seconds < 60 ? `${seconds} s` : minutes < 60 ? `${minutes} min` : hours < 48 ? `${hours} h` : `${days} days`;
    const text = at.getTime() > now + 2000 ? `in ${words}` : seconds < 5 ? 'just now' : `${words} ago`;
    if (element.textContent !== text) element.textContent = text;
  }
}

/** A filter form puts its state into the address and shows what it finds at once. */
const filter = later(FILTER_MS, (/** @type {HTMLFormElement} */ form) => {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) query.set(name, String(value));
  const address = `${form.getAttribute('action') || location.pathname}${query.size ? `?${query}` : ''}`;
  history.replaceState(null, '', address);
  refresh(address);
});

/** A choice that is narrowed down keeps what is ticked: the form goes to the server as with its button, and is shown in place. */
/** @type {Promise<void> | null} */
let narrowing = null;
const narrow = later(FILTER_MS, (/** @type {HTMLFormElement} */ form) => {
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

/** A form that is checked while it is filled in: the server says what is wrong, in its own words. */
const check = later(CHECK_MS, async (/** @type {HTMLFormElement} */ form) => {
  const address = form.dataset.check;
  if (!address) return;
  const response = await fetch(address, { method: 'POST', body: new URLSearchParams(/** @type {any} */ (new FormData(form))), headers: { 'X-Fragment': 'check' }, credentials: 'same-origin' }).catch(() => null);
  if (!response?.ok) return;
  const parsed = new DOMParser().parseFromString(await response.text(), 'text/html');
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

/** @template T @param {number} ms @param {(value: T) => void} work */
function later(ms, work) {
  let timer = 0;
  const start = (/** @type {T} */ value, wait = ms) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => work(value), wait);
  };
  start.stop = () => clearTimeout(timer);
  return start;
}

/** What asks before it acts comes as a dialog; without script the same address is a page. @param {HTMLAnchorElement} link */
async function ask(link) {
  const response = await fetch(link.href, { headers: { 'X-Fragment': 'ask' }, credentials: 'same-origin' }).catch(() => null);
  // Nobody answers: what is shown stays, and says that it is not live.
  if (!response) { mark(false); return listen(); }
  if (response.status === 401) return signedOut();
  if (!response.ok) return location.assign(link.href);
  const parsed = new DOMParser().parseFromString(await response.text(), 'text/html');
  const content = parsed.querySelector('.ask');
  if (!content) return location.assign(link.href);
  const dialog = document.createElement('dialog');
  const title = content.querySelector('h1, h2');
  if (title) {
    title.id = 'ask-title';
    dialog.setAttribute('aria-labelledby', 'ask-title');
  }
  dialog.append(document.adoptNode(content));
  document.body.append(dialog);
  dialog.addEventListener('close', () => { dialog.remove(); link.focus(); });
  dialog.addEventListener('click', (event) => {
    if (event.target instanceof Element && event.target.closest('[data-cancel]')) { event.preventDefault(); dialog.close(); }
  });
  dialog.showModal();
}

/** An upload says how far it is. @param {HTMLFormElement} form */
function upload(form) {
  const request = new XMLHttpRequest();
  const bar = /** @type {HTMLProgressElement} */ (form.querySelector('progress'));
  const words = form.querySelector('[data-progress]');
  request.open('POST', form.action);
  // Only the part that changes is wanted: the page itself is opened below, and has still to say what was done.
  request.setRequestHeader('X-Fragment', 'upload');
  request.upload.addEventListener('progress', (event) => {
    bar.hidden = false;
    bar.max = event.total;
    bar.value = event.loaded;
    if (words) words.textContent = event.loaded < event.total ? `${Math.floor(event.loaded * 100 / event.total)} % sent` : 'Sent. Checking the package.';
  });
  request.addEventListener('load', () => {
    if (request.status === 401) return signedOut();
    if (request.status === 200) return location.assign(request.responseURL);
    const parsed = new DOMParser().parseFromString(request.responseText, 'text/html');
    const main = parsed.querySelector('main');
    if (main) document.querySelector('main')?.replaceWith(document.adoptNode(main));
    else place(request.responseText);
    document.querySelector('.summary')?.focus();
    times();
  });
  request.addEventListener('error', () => { if (words) words.textContent = 'The connection broke off. Send it again.'; });
  request.send(new FormData(form));
}

document.addEventListener('input', (event) => {
  const form = event.target instanceof Element && event.target.closest('form');
  if (!form) return;
  if (form.dataset.filter !== undefined) filter(form);
  if (form.dataset.check) check(form);
  if (event.target instanceof Element && event.target.closest('[data-narrow]')) narrow(form);
});
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement)) return;
  if (form.dataset.filter !== undefined) { event.preventDefault(); filter(form, 0); }
  if (form.querySelector('[data-narrow]')) inTurn(event, form);
  if (form.dataset.upload !== undefined) { event.preventDefault(); upload(form); }
  leaving = !event.defaultPrevented;
});
document.addEventListener('click', (event) => {
  if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest('a[data-ask]');
  if (link instanceof HTMLAnchorElement) { event.preventDefault(); ask(link); }
  const all = event.target.closest('input[data-all]');
  if (all instanceof HTMLInputElement) for (const box of document.querySelectorAll(`input[name="${CSS.escape(all.dataset.all ?? '')}"]:not(:disabled)`)) /** @type {HTMLInputElement} */ (box).checked = all.checked;
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
window.addEventListener('pageshow', (event) => { leaving = false; if (event.persisted) { refresh(); listen(); } });

/** A link may bring a token behind `#token=`; it is shown to the server once, in the form, and leaves the address at once. */
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
for (const button of document.querySelectorAll('[data-script]')) /** @type {HTMLElement} */ (button).hidden = false;
document.querySelector('.summary')?.focus();
times();
setInterval(times, TICK_MS);
pulse();
listen();
