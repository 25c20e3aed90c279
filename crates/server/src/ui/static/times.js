// Readable times in the local time zone. Every page works without it.

/** Relative time, with the local time in the title. */
export function times() {
  clocks();
  const now = Date.now();
  for (const element of document.querySelectorAll('time[datetime]')) {
    const at = new Date(element.getAttribute('datetime') ?? '');
    if (Number.isNaN(at.getTime())) continue;
    const title = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' });
    if (element.getAttribute('title') !== title) element.setAttribute('title', title);
    if (element.hasAttribute('data-exact')) {
      const exact = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
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

/** Hours of a chart, in local time. */
function clocks() {
  for (const element of document.querySelectorAll('[data-clock]')) {
    const at = new Date(element.getAttribute('data-clock') ?? '');
    const text = at.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
    if (!Number.isNaN(at.getTime()) && element.textContent !== text) element.textContent = text;
  }
}
