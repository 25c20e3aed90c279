// Asks the API every two seconds and shows the answers. Text from devices and packages is foreign: it only ever becomes text.

const POLL_MS = 2000;
const TIMEOUT_MS = 10000;
const ROWS_MAX = 200;
const TOKEN_KEY = 'margrave.token';

const FAILED_MAX = 50;

const STATES = [
  ['converged', 'Converged'],
  ['applying', 'Applying'],
  ['failed', 'Failed'],
  ['older-revision', 'Older revision'],
  ['waiting', 'Waiting'],
  ['not-heard-of', 'Not heard of'],
];
const WORDS = new Map(STATES);
/** What needs a person comes first. */
const URGENCY = ['failed', 'older-revision', 'applying', 'waiting', 'not-heard-of', 'converged'];

const $ = (id) => document.getElementById(id);
let timer = 0;
let lastGood = null;

/** An element with attributes and children; strings become text nodes. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `#icon-${name}`);
  svg.append(use);
  return svg;
}

function state(name, word) {
  return make('span', { class: `state is-${name}` }, icon(name), word);
}

/** Relative for the eye, absolute in the title. */
function ago(text, now) {
  if (!text) return make('span', { class: 'sub' }, 'never');
  const then = new Date(text);
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min']];
  const unit = units.find(([size]) => seconds >= size);
  const words = unit ? `${Math.floor(seconds / unit[0])} ${unit[1]} ago` : `${seconds} s ago`;
  return make('time', { datetime: text, title: then.toString() }, words);
}

async function ask(path) {
  const abort = new AbortController();
  const limit = setTimeout(() => abort.abort(), TIMEOUT_MS);
  try {
    const response = await fetch(`/api/${path}`, {
      headers: { Authorization: `Bearer ${sessionStorage.getItem(TOKEN_KEY)}`, Accept: 'application/json' },
      signal: abort.signal,
    });
    if (!response.ok) {
      const problem = await response.json().catch(() => ({}));
      throw Object.assign(new Error(problem.detail || `status ${response.status}`), { status: response.status });
    }
    return await response.json();
  } finally {
    clearTimeout(limit);
  }
}

function chosenState() {
  const chosen = new URLSearchParams(location.search).get('state');
  return WORDS.has(chosen) ? chosen : null;
}

/** Puts rows into a table, touching only those that changed, so that selection and scrolling stay. */
function fill(table, rows) {
  const body = $(table).tBodies[0];
  rows.forEach(({ key, cells }, index) => {
    const row = make('tr', { 'data-key': key }, ...cells);
    const present = body.rows[index];
    if (!present) body.append(row);
    else if (!present.isEqualNode(row)) present.replaceWith(row);
  });
  while (body.rows.length > rows.length) body.deleteRow(-1);
}

function cell(attributes, ...children) {
  return make('td', attributes, ...children);
}

/** Most clients have one device of the same name; then saying it once is enough. */
function ofClient({ client, device }) {
  return client === device ? null : make('div', { class: 'sub' }, `client ${client}`);
}

/** Failed ones first, even where the page of the list does not reach them. */
function sorted(failed, others) {
  const all = new Map([...failed, ...others].map((deployment) => [deployment.id, deployment]));
  const urgency = (deployment) => URGENCY.indexOf(deployment.convergence);
  return [...all.values()].sort((one, other) => urgency(one) - urgency(other)
    || one.application.localeCompare(other.application)
    || one.client.localeCompare(other.client) || one.device.localeCompare(other.device));
}

function deploymentRow(deployment, now) {
  const { status } = deployment;
  const removing = deployment.desired === 'absent';
  const word = removing && deployment.convergence === 'converged' ? 'Removed' : WORDS.get(deployment.convergence);
  const components = (status?.components ?? []).map((component) =>
    make('span', { class: `chip${component.state === 'failed' ? ' problem' : ''}` }, `${component.name}: ${component.state}`));
  const errors = [status?.error, ...(status?.components ?? []).map((component) => component.error)]
    .filter((error) => error && (error.code || error.message));
  const unsaid = errors.filter((error) => !deployment.explanation.includes(error.message));
  return {
    key: deployment.id,
    cells: [
      cell({}, state(deployment.convergence, word)),
      cell({}, make('div', { class: 'strong' }, `${deployment.application} ${deployment.version}`),
        make('div', { class: 'sub' }, `profile ${deployment.profile}`)),
      cell({}, make('div', { class: 'strong' }, deployment.device), ofClient(deployment)),
      cell({}, components.length ? make('div', { class: 'chips' }, ...components) : make('span', { class: 'sub' }, 'nothing reported')),
      cell({ class: 'known' }, make('div', {}, deployment.explanation),
        ...unsaid.map((error) => make('div', { class: 'problem' }, `${error.code}: ${error.message}`)),
        status?.hostedBy && status.hostedBy !== deployment.device ? make('div', { class: 'sub' }, `runs on ${status.hostedBy}`) : null),
      cell({}, ago(status?.receivedAt, now)),
    ],
  };
}

function deviceRow(device, now) {
  const labels = [
    ...Object.entries(device.operatorLabels).map(([name, value]) =>
      make('span', { class: 'chip operator', title: 'set by an operator' }, `${name}=${value}`)),
    ...Object.entries(device.deviceLabels).map(([name, value]) =>
      make('span', { class: 'chip', title: 'reported by the device' }, `${name}=${Array.isArray(value) ? value.join('|') : value}`)),
  ];
  const model = [device.vendor, device.modelNumber].filter(Boolean).join(' ');
  const kind = device.hostsWorkloads
    ? [device.deploymentTypes.join(', '), device.architectures.join(', ')].filter(Boolean).join(' · ')
    : 'gateway, hosts nothing itself';
  return {
    key: `${device.client}/${device.device}`,
    cells: [
      cell({}, device.silent ? state('not-heard-of', 'Silent') : state('converged', 'Heard of')),
      cell({}, make('div', { class: 'strong' }, device.device), ofClient(device)),
      cell({}, make('div', {}, model || 'unknown'), make('div', { class: 'sub' }, kind)),
      cell({}, labels.length ? make('div', { class: 'chips' }, ...labels) : make('span', { class: 'sub' }, 'none')),
      cell({}, ago(device.lastSeenAt, now)),
    ],
  };
}

function showCounts(summary, chosen) {
  const counts = summary.deployments;
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const card = (href, number, word, name, current) => make('a',
    { href, 'aria-current': current ? 'true' : undefined, class: number === 0 ? 'zero' : undefined },
    make('span', { class: 'number' }, String(number)),
    make('span', { class: `word${name ? ` is-${name}` : ''}` }, name ? icon(name) : null, word));
  const clients = summary.clients;
  const cards = [
    card('/', total, 'deployments', null, chosen === null),
    ...STATES.map(([name, word]) => card(`/?state=${name}`, counts[name] ?? 0, word, name, chosen === name)),
    make('span', { class: 'plain' }, make('span', { class: 'number' }, String(summary.devices)),
      make('span', { class: 'word' }, `devices of ${clients.accepted} clients${clients.silent ? `, ${clients.silent} silent` : ''}`)),
  ];
  const nav = $('counts');
  const focused = [...nav.children].indexOf(document.activeElement);
  cards.forEach((fresh, index) => {
    const present = nav.children[index];
    if (!present) nav.append(fresh);
    else if (!present.isEqualNode(fresh)) present.replaceWith(fresh);
  });
  if (focused >= 0) nav.children[focused]?.focus();
}

function showEmpty(id, empty, ...children) {
  $(`${id}-empty`).hidden = !empty;
  $(id).parentElement.hidden = empty;
  if (empty && !$(`${id}-empty`).hasChildNodes()) $(`${id}-empty`).replaceChildren(...children);
  if (!empty) $(`${id}-empty`).replaceChildren();
}

function code(text) {
  return make('code', {}, text);
}

function show(summary, devices, deployments, chosen) {
  const now = new Date(summary.at);
  showCounts(summary, chosen);
  const counts = summary.deployments;
  const total = chosen ? counts[chosen] ?? 0 : Object.values(counts).reduce((sum, count) => sum + count, 0);
  const note = (shown, all, more) => (shown < all ? `the first ${shown} of ${all}; ${more} shows all` : `${shown}`);
  $('deployments-note').textContent = note(deployments.items.length, Math.max(total, deployments.items.length), 'margrave deployment list');
  $('devices-note').textContent = note(devices.items.length, Math.max(summary.devices, devices.items.length), 'margrave device list');
  fill('deployments', deployments.items.map((deployment) => deploymentRow(deployment, now)));
  fill('devices', devices.items.map((device) => deviceRow(device, now)));
  const none = deployments.items.length === 0;
  if (chosen) {
    showEmpty('deployments', none, make('p', {}, `No deployment is “${WORDS.get(chosen)}”.`),
      make('p', {}, make('a', { href: '/' }, 'Show all deployments')));
  } else if (summary.applications === 0) {
    showEmpty('deployments', none, make('p', {}, 'Nothing is deployed, and the catalog is empty.'),
      make('p', {}, 'Add an application with ', code('margrave app import ./my-application'), ', then deploy it.'));
  } else {
    showEmpty('deployments', none, make('p', {}, 'Nothing is deployed yet.'),
      make('p', {}, 'See what could run where with ', code('margrave app fit <application>'), ', then use ', code('margrave deploy'), '.'));
  }
  showEmpty('devices', devices.items.length === 0, make('p', {}, 'No device has reported yet.'),
    make('p', {}, 'Let one in with ', code('margrave client enrol-token <client>'), ', or start simulated ones with ', code('make demo'), '.'));
  const failed = counts.failed ?? 0;
  document.title = `${failed ? `${failed} failed - ` : ''}Fleet status - Margrave`;
}

function clock(date) {
  return date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
}

function live(works, text) {
  $('live').hidden = false;
  $('live').classList.toggle('off', !works);
  if ($('live').textContent !== text) $('live').textContent = text;
}

async function poll() {
  clearTimeout(timer);
  if (document.hidden || !sessionStorage.getItem(TOKEN_KEY)) return;
  const chosen = chosenState();
  try {
    const filter = chosen ? `&convergence=${chosen}` : '';
    const [summary, devices, deployments, failed] = await Promise.all([
      ask('summary'),
      ask(`devices?limit=${ROWS_MAX}`),
      ask(`deployments?limit=${ROWS_MAX}${filter}`),
      chosen ? { items: [] } : ask(`deployments?limit=${FAILED_MAX}&convergence=failed`),
    ]);
    deployments.items = sorted(failed.items, deployments.items);
    lastGood = new Date();
    $('fleet').hidden = false;
    $('stale').hidden = true;
    show(summary, devices, deployments, chosen);
    live(true, 'Live');
  } catch (error) {
    if (error.status === 401) return signIn('This token is not accepted (any more). Give another one.');
    const since = lastGood ? `Showing ${clock(lastGood)}.` : 'Nothing to show yet.';
    const text = error.status ? `The server answers with an error: ${error.message}. ${since} Retrying.` : `Connection lost. ${since} Retrying.`;
    $('fleet').hidden = false;
    if ($('stale').textContent !== text) $('stale').textContent = text;
    $('stale').hidden = false;
    live(false, 'Not live');
  }
  timer = setTimeout(poll, POLL_MS);
}

function signIn(problem) {
  clearTimeout(timer);
  sessionStorage.removeItem(TOKEN_KEY);
  lastGood = null;
  $('fleet').hidden = true;
  $('live').hidden = true;
  $('sign-out').hidden = true;
  $('sign-in').hidden = false;
  $('sign-in-error').hidden = !problem;
  $('sign-in-error').textContent = problem ?? '';
  $('token').focus();
}

function signedIn() {
  $('sign-in').hidden = true;
  $('sign-out').hidden = false;
  poll();
}

/** A link may bring the token behind `#token=`; it goes from the address at once, and never reaches the server in it. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get('token');
  if (given === null) return;
  if (given) sessionStorage.setItem(TOKEN_KEY, given.trim());
  history.replaceState(null, '', location.pathname + location.search);
}

$('sign-in').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN_KEY, $('token').value.trim());
  $('token').value = '';
  signedIn();
});
$('sign-out').addEventListener('click', () => signIn());
$('counts').addEventListener('click', (event) => {
  const link = event.target.closest('a');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, '', link.getAttribute('href'));
  $('deployments-empty').replaceChildren();
  poll();
});
window.addEventListener('popstate', poll);
window.addEventListener('hashchange', () => { takeToken(); if (sessionStorage.getItem(TOKEN_KEY)) signedIn(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) poll(); });

takeToken();
if (sessionStorage.getItem(TOKEN_KEY)) signedIn(); else signIn();
