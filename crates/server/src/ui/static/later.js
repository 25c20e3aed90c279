// Debounced work.

/** @template T @param {number} ms @param {(value: T) => void} work */
export function later(ms, work) {
  let timer = 0;
  const start = (/** @type {T} */ value, wait = ms) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => work(value), wait);
  };
  start.stop = () => clearTimeout(timer);
  return start;
}
