// Readable times in the local time zone. Every page works without it.

/** Relative time, with the local time in the title. */
export function times() {
  clocks();
  zones();
  const now = Date.now();
  for (const element of document.querySelectorAll('time[datetime]')) {
    const at = new Date(element.getAttribute('datetime') ?? '');
    if (Number.isNaN(at.getTime())) continue;
    const title = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' });
    if (element.getAttribute('title') !== title) element.setAttribute('title', title);
    if (element.hasAttribute('data-exact')) {
      // As wide as the text of the server, so that nothing moves: 2026-11-17 09:04:47.
      const exact = at.toLocaleString('sv-SE');
      if (element.textContent !== exact) element.textContent = exact;
      continue;
    }
    // Rounded to the nearest unit, like the server (`relative` in words.rs), so a validity of 30 days reads as 30 days from the start.
    const seconds = Math.round(Math.abs(now - at.getTime()) / 1000);
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.round(seconds / unit));
    const words = seconds < 60 ? `${seconds} s` : minutes < 60 ? `${minutes} min` : hours < 48 ? `${hours} h` : `${days} days`;
    const text = at.getTime() > now + 2000 ? `in ${words}` : seconds < 5 ? 'just now' : `${words} ago`;
    if (element.textContent !== text) element.textContent = text;
  }
}

/** The name of the local time zone, where times are local. */
function zones() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'local time';
  for (const element of document.querySelectorAll('[data-zone]')) {
    if (element.textContent !== zone) element.textContent = zone;
  }
}

/** Fields for a time hold UTC. Shows them in local time; a hidden field of the same name keeps the time in UTC. */
export function localFields() {
  for (const field of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('input[data-utc][name]'))) {
    const utc = document.createElement('input');
    utc.type = 'hidden';
    utc.name = field.name;
    utc.value = field.value;
    field.removeAttribute('name');
    field.after(utc);
    const at = new Date(`${field.value}Z`);
    if (!Number.isNaN(at.getTime())) field.value = localMinute(at);
    // Before the form reads its fields.
    field.addEventListener('input', () => {
      const typed = new Date(field.value);
      utc.value = Number.isNaN(typed.getTime()) ? '' : typed.toISOString().slice(0, 16);
    });
  }
}

/** @param {Date} at */
function localMinute(at) {
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Hours of a chart, in local time. */
function clocks() {
  for (const element of document.querySelectorAll('[data-clock]')) {
    const at = new Date(element.getAttribute('data-clock') ?? '');
    const text = at.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
    if (!Number.isNaN(at.getTime()) && element.textContent !== text) element.textContent = text;
  }
}
