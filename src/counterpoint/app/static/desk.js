"use strict";
const form = document.getElementById("desk");
const results = document.getElementById("results");
const features = [...form.querySelectorAll(".feature")];
const at = (id) => document.getElementById(id);
const number = (input) => (input && input.value !== "" ? Number(input.value) : null);
const EFFORT = ["a quarter", "half", "as set", "double", "four times"];

// The options of a list are told apart by their position among its values, never by a text: HTML,
// JSON and JavaScript write the same value in different ways

const values = new Map([...form.querySelectorAll("[data-values]")].map((list) => [list, JSON.parse(list.dataset.values)]));
const chosen = (list) => values.get(list)[list.selectedIndex];

function choose(list, value) {
  const known = values.get(list);
  if (!known.includes(value)) {
    known.push(value); // the service says what is wrong with it
    list.add(new Option(value));
  }
  list.selectedIndex = known.indexOf(value);
}

// The state: what the controls say, and back

function read() {
  const wish = { row: {}, keep: [], ranges: {}, effort: {} };
  for (const feature of features) {
    const name = feature.dataset.name;
    const now = feature.querySelector(".now");
    wish.row[name] = values.has(now) ? chosen(now) : number(now);
    if (feature.querySelector(".keep")?.checked) wish.keep.push(name);
    const ends = range(feature);
    if (ends && (ends[0] !== null || ends[1] !== null)) wish.ranges[name] = ends;
    const effort = Number(feature.querySelector(".effort")?.value ?? 0);
    if (effort) wish.effort[name] = 2 ** effort;
  }
  if (at("target")) wish.target = chosen(at("target"));
  if (at("certainty") && at("certainty").value !== "50") wish.certainty = at("certainty").value / 100;
  for (const id of ["low", "high", "most"]) if (number(at(id)) !== null) wish[id] = number(at(id));
  return wish;
}

// The same as a question, as in a policy file

function question(wish, only) {
  const keep = only ? features.map((f) => f.dataset.name).filter((name) => !only.includes(name)) : wish.keep;
  const constraints = Object.entries(wish.ranges).map(([feature, ends]) => {
    const given = ["low", "high"].map((end, k) => [end, ends[k]]).filter(([, value]) => value !== null);
    return { kind: "bounds", feature, ...Object.fromEntries(given) };
  });
  if (keep.length) constraints.push({ kind: "immutable", features: keep });
  if (wish.most) constraints.push({ kind: "max_changes", count: wish.most });
  const asked = { rows: [wish.row], constraints };
  if (Object.keys(wish.effort).length) {
    const weights = JSON.parse(form.dataset.weights);
    for (const name in wish.effort) weights[name] *= wish.effort[name];
    asked.cost = { kind: form.dataset.cost, weights };
  }
  const { low, high, certainty, target } = wish;
  const label = target ?? JSON.parse(form.dataset.aim);
  if (low !== undefined || high !== undefined) asked.target = { kind: "interval", low, high };
  else if (certainty && label !== null) asked.target = { kind: "probability", label, at_least: certainty };
  else if (target !== null) asked.target = target;
  return asked;
}

function write(wish) {
  setRow(wish.row);
  for (const feature of features) {
    const name = feature.dataset.name;
    const keep = feature.querySelector(".keep");
    if (keep) keep.checked = wish.keep.includes(name);
    const box = feature.querySelector(".range");
    if (box) {
      const [low, high] = Object.hasOwn(wish.ranges, name) ? wish.ranges[name] : [null, null];
      const position = (value) => Math.round((value - box.dataset.low) / box.dataset.step);
      const [a, b] = box.querySelectorAll("input");
      a.value = low === null ? 0 : position(low);
      b.value = high === null ? b.max : position(high);
    }
    const effort = feature.querySelector(".effort");
    if (effort) effort.value = Object.hasOwn(wish.effort, name) ? Math.log2(wish.effort[name]) : 0;
  }
  if (at("target")) choose(at("target"), wish.target);
  if (at("certainty")) at("certainty").value = Math.round(100 * (wish.certainty ?? 0.5));
  for (const id of ["low", "high", "most"]) if (at(id)) at(id).value = wish[id] ?? "";
  setPerson(wish.person ?? "");
}

let person = ""; // whose values are shown

function setPerson(index) {
  person = at("person").value = index;
}

function setRow(row) {
  for (const feature of features) {
    const now = feature.querySelector(".now");
    const value = row[feature.dataset.name] ?? null;
    if (values.has(now)) choose(now, value);
    else {
      now.value = value ?? "";
      if (value !== null && now.value === "") throw new Error(`${feature.dataset.name}: ${value} is not a number.`);
    }
  }
}

// A slider counts steps, so that its ends are exactly those of the data

function range(feature) {
  const box = feature.querySelector(".range");
  if (!box) return null;
  const { low, step } = box.dataset;
  const [a, b] = box.querySelectorAll("input");
  const value = (input) => Number((Number(low) + input.value * step).toPrecision(12));
  return [a.value > 0 ? value(a) : null, Number(b.value) < Number(b.max) ? value(b) : null];
}

function say() {
  for (const feature of features) {
    const box = feature.querySelector(".range");
    if (box) {
      const [a, b] = box.querySelectorAll("input");
      const [low, high] = range(feature);
      const words = [low ?? Number(box.dataset.low), high ?? Number(box.dataset.high)];
      const short = words.map((value) => String(Number(value.toPrecision(6))));
      [a.ariaValueText, b.ariaValueText] = short;
      box.querySelector("output").value = `may be ${short[0]} to ${short[1]}`;
    }
    const effort = feature.querySelector(".effort");
    if (effort) {
      effort.ariaValueText = EFFORT[Number(effort.value) + 2];
      effort.parentElement.querySelector("output").value = effort.ariaValueText;
    }
  }
  const certainty = at("certainty");
  if (certainty) {
    const words = certainty.value === "50" ? "the decision is enough" : `at least ${certainty.value} %`;
    certainty.ariaValueText = words;
    certainty.parentElement.querySelector("output").value = words;
  }
}

// Asking: one question at a time, the latest state next; other plans once it is quiet

async function call(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const options = body ? { method: "POST", headers, body: JSON.stringify(body), signal } : {};
  const reply = await fetch(path, options);
  const text = await reply.text();
  if (reply.ok) return text;
  const isOurs = reply.headers.get("Content-Type") === "application/json";
  throw new Error(isOurs ? JSON.parse(text).detail : `The service answers with status ${reply.status}.`);
}

function wrong(error) {
  const said = document.createElement("p");
  said.className = "wrong";
  said.textContent = error instanceof TypeError ? "The service does not answer." : error.message;
  return said;
}

// Results are about the person whose values are shown, or there are none

const asked = {}; // section of results → the wish that it answers
let fetches = 0;
let fetching = false;

function isCurrent(wish) {
  return !fetching && JSON.stringify(wish?.row) === JSON.stringify(read().row);
}

function clear(...sections) {
  for (const id of sections) at(id).replaceChildren();
  at("line").textContent = at("answer").querySelector("[data-line]")?.dataset.line ?? "";
}

async function fetchRow(index) {
  const mine = ++fetches;
  fetching = true;
  others.abort();
  clear("answer", "plans");
  try {
    const row = JSON.parse(await call(`/desk/rows/${index}`));
    if (mine !== fetches) return null;
    fetching = false;
    return row;
  } catch (error) {
    if (mine === fetches) {
      fetching = false;
      fail(error);
    }
    return null;
  }
}

function fail(error) {
  at("person").value = person;
  at("answer").replaceChildren(wrong(error));
  document.dispatchEvent(new Event("answered"));
}

let asking = false;
let again = false;
let quiet = 0;
let others = new AbortController();

async function ask() {
  say();
  again = true;
  clear(...["answer", "plans"].filter((id) => !isCurrent(asked[id])));
  if (asking) return;
  asking = true;
  clearTimeout(quiet);
  others.abort();
  while (again) {
    again = false;
    const wish = read();
    history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify({ ...wish, person })));
    const html = await call("/desk/answer", question(wish)).catch((error) => wrong(error).outerHTML);
    if (!isCurrent(wish)) continue;
    asked.answer = wish;
    at("answer").innerHTML = html;
    clear();
    document.dispatchEvent(new Event("answered"));
  }
  asking = false;
  quiet = setTimeout(plans, 250);
}

async function plans() {
  const wish = read();
  others = new AbortController();
  results.ariaBusy = "true";
  try {
    const html = await call("/desk/plans", question(wish), others.signal);
    if (isCurrent(wish)) {
      asked.plans = wish;
      at("plans").innerHTML = html;
    }
  } catch (error) {
    if (error.name !== "AbortError") at("plans").replaceChildren();
  }
  results.ariaBusy = "false";
  document.dispatchEvent(new Event("planned"));
}

// What people do

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", (event) => {
  event.preventDefault();
  location.hash = "";
  start();
});
form.addEventListener("input", async (event) => {
  const { target } = event;
  if (target.id === "person") {
    const index = target.value;
    if (index === "") return setPerson(index);
    const row = await fetchRow(index);
    if (!row) return;
    try {
      setRow(row);
    } catch (error) {
      return fail(error);
    }
    setPerson(index);
  } else if (target.classList.contains("now")) {
    setPerson("");
  } else if (target.matches(".low, .high")) {
    const [a, b] = target.parentElement.querySelectorAll("input");
    if (Number(a.value) > Number(b.value)) (target === a ? b : a).value = target.value;
  }
  ask();
});

results.addEventListener("click", async (event) => {
  const { target } = event;
  if (!target.matches("button.receipt")) return;
  const only = target.dataset.only && JSON.parse(target.dataset.only);
  try {
    const text = await call("/desk/receipt", question(asked[target.closest("section").id], only));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/jsonl" }));
    link.download = "receipt.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    target.replaceWith(wrong(error));
  }
});

at("receipt").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  const records = (await file.text()).split("\n").filter((line) => line.trim());
  try {
    const said = JSON.parse(await call("/recheck", { records }));
    const proved = said.proved.every(Boolean) ? " and is proved" : ", but its optimality is not proved";
    at("checked").textContent = said.ok ? `The receipt is true of this model${proved}.` : said.problems.join(" ");
  } catch (error) {
    at("checked").textContent = error.message;
  }
});

async function start() {
  for (const box of form.querySelectorAll(".range")) {
    const { low, high, step } = box.dataset;
    for (const input of box.querySelectorAll("input")) {
      input.min = 0;
      input.max = Math.round((high - low) / step);
    }
  }
  try {
    const wish = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    write(wish);
    checkPerson(wish);
  } catch {
    const first = form.dataset.first;
    const row = await fetchRow(first);
    if (!row) return;
    const list = at("target");
    const preset = list && Math.max(0, [...list.options].findIndex((option) => option.defaultSelected));
    try {
      write({ row, keep: [], ranges: {}, effort: {}, person: first, target: list && values.get(list)[preset] });
    } catch (error) {
      return fail(error);
    }
  }
  ask();
}

// A bookmark may be older than the people who are offered

async function checkPerson(wish) {
  const row = wish.person && JSON.parse(await call(`/desk/rows/${wish.person}`).catch(() => "{}"));
  if (row && person === wish.person && Object.keys(wish.row).some((name) => row[name] !== wish.row[name])) setPerson("");
}

addEventListener("hashchange", start);
start();
