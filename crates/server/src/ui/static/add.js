// Adding a package: upload progress, and the user name for saved registries. Every page works without it.
import { times } from './times.js';

/** Moves the focus to the problems. */
export function toProblems() {
  const summary = document.querySelector('.summary');
  if (summary instanceof HTMLElement) summary.focus();
}

/** Uploads with progress; an archive over the size limit is rejected before the upload. @param {HTMLFormElement} form @param {(html: string) => void} place @param {() => void} signedOut */
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
  // Request only the fragment: the page itself is opened below, and still has to show the notice.
  request.setRequestHeader('X-Fragment', 'upload');
  request.upload.addEventListener('progress', (event) => {
    bar.hidden = false;
    bar.max = event.total;
    bar.value = event.loaded;
    if (words) words.textContent = event.loaded < event.total ? `${Math.floor(event.loaded * 100 / event.total)} % uploaded` : 'Uploaded. Validating the package.';
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
  request.addEventListener('error', () => { if (words) words.textContent = 'The connection was lost. Upload the archive again.'; });
  request.send(new FormData(form));
}

/** Shows the user name when the image reference begins with a saved registry. @param {HTMLInputElement} field */
export function known(field) {
  const line = field.form?.querySelector('[data-known-words]');
  if (!line) return;
  const host = field.value.trim().replace(/^oci:\/\//, '').split('/')[0].toLowerCase();
  const option = [...(field.form?.querySelectorAll('option') ?? [])].find((one) => one.value && one.value === host);
  line.textContent = field.value.includes('/') && option ? `${option.value}: ${option.getAttribute('data-words')}, saved under Settings.` : '';
}
