// Adding a package: how far an upload is, and whom the server signs in as elsewhere. Every page works without it.
import { times } from './times.js';

/** What was refused is read first. */
export function toProblems() {
  const summary = document.querySelector('.summary');
  if (summary instanceof HTMLElement) summary.focus();
}

/** An upload says how far it is, and is not begun where it would be refused for its size. @param {HTMLFormElement} form @param {(html: string) => void} place @param {() => void} signedOut */
export function upload(form, place, signedOut) {
  const chosen = form.querySelector('input[type=file]');
  const file = chosen instanceof HTMLInputElement && chosen.files?.[0];
  if (file && file.size > Number(form.dataset.upload)) {
    document.querySelector('.summary')?.remove();
    form.parentElement?.before(form.querySelector('template')?.content.cloneNode(true) ?? '');
    return toProblems();
  }
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
    toProblems();
    times();
  });
  request.addEventListener('error', () => { if (words) words.textContent = 'The connection broke off. Send it again.'; });
  request.send(new FormData(form));
}

/** Says whom the server signs in as when the address that is typed begins with a registry that is kept. @param {HTMLInputElement} field */
export function known(field) {
  const line = field.form?.querySelector('[data-known-words]');
  if (!line) return;
  const host = field.value.trim().replace(/^oci:\/\//, '').split('/')[0].toLowerCase();
  const option = [...(field.form?.querySelectorAll('option') ?? [])].find((one) => one.value && one.value === host);
  line.textContent = field.value.includes('/') && option ? `${option.value}: ${option.getAttribute('data-words')}, kept under Settings.` : '';
}
