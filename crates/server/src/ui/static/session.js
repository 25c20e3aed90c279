// Sends a long form only if the session is still valid. Every page works without it.

/** Checks the session first; if it has ended, the form stays as it is. @param {(live: boolean) => void} mark @param {() => void} ended @param {() => void} again */
export function whileSignedIn(mark, ended, again) {
  let sure = false;
  let out = false;
  return async (/** @type {SubmitEvent} */ event, /** @type {HTMLFormElement} */ form) => {
    if (sure) { sure = false; return; }
    event.preventDefault();
    const pressed = event.submitter;
    const response = await fetch('/ui/session', { credentials: 'same-origin' }).catch(() => null);
    if (!response) return mark(false);
    if (response.status === 401) { out = true; return ended(); }
    if (out) again();
    sure = true;
    form.requestSubmit(pressed instanceof HTMLElement && pressed.isConnected ? pressed : null);
  };
}
