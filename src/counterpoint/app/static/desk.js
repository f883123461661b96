"use strict";
const at = (id) => document.getElementById(id);
const form = at("desk");
const results = [at("answer"), at("plans")];
const features = [...form.querySelectorAll(".feature")];
const number = (input) => (input && input.value !== "" && Number.isFinite(Number(input.value)) ? Number(input.value) : null);
const digits = (value) => String(Number(value.toPrecision(6)));

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

// The state: who it is about, as the service has them, and what the controls say

let person = null; // {row, cells, title, summary}

function cells() {
  const row = {};
  for (const feature of features) {
    const now = feature.querySelector(".now");
    row[feature.dataset.name] = values.has(now) ? chosen(now) : number(now);
  }
  return row;
}

function setCells(row) {
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

const isTypedIn = () => Object.entries(cells()).filter(([name, value]) => (person.cells[name] ?? null) !== value).length;

function read() {
  const wish = { keep: [], ranges: {}, effort: {} };
  for (const feature of features) {
    const name = feature.dataset.name;
    if (feature.querySelector(".keep")?.checked) wish.keep.push(name);
    const ends = [number(feature.querySelector(".low")), number(feature.querySelector(".high"))];
    if (ends[0] !== null || ends[1] !== null) wish.ranges[name] = ends;
    const effort = Number(feature.querySelector(".effort")?.value ?? 0);
    if (effort) wish.effort[name] = 2 ** effort;
  }
  if (at("target")) wish.target = chosen(at("target"));
  if (at("certainty") && at("certainty").value !== "50") wish.certainty = at("certainty").value / 100;
  for (const id of ["low", "high", "most"]) if (number(at(id)) !== null) wish[id] = number(at(id));
  return wish;
}

function write(wish) {
  for (const feature of features) {
    const name = feature.dataset.name;
    const keep = feature.querySelector(".keep");
    if (!keep) continue;
    keep.checked = wish.keep.includes(name);
    const [low, high] = Object.hasOwn(wish.ranges, name) ? wish.ranges[name] : [null, null];
    if (feature.querySelector(".range")) {
      feature.querySelector(".low").value = low ?? "";
      feature.querySelector(".high").value = high ?? "";
    }
    const effort = feature.querySelector(".effort");
    if (effort) effort.value = Object.hasOwn(wish.effort, name) ? Math.log2(wish.effort[name]) : 0;
  }
  if (at("target")) choose(at("target"), wish.target);
  if (at("certainty")) at("certainty").value = Math.round(100 * (wish.certainty ?? 0.5));
  for (const id of ["low", "high", "most"]) if (at(id)) at(id).value = wish[id] ?? "";
}

// A bookmark holds the number of a row and the settings, and nothing of what the row holds

function remember() {
  const mark = { row: person.row, of: form.dataset.people, ...read() };
  history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(mark)));
}

// The same as a question, as in a policy file

function question() {
  const wish = read();
  const constraints = Object.entries(wish.ranges).map(([feature, ends]) => {
    const set = ["low", "high"].map((end, k) => [end, ends[k]]).filter(([, value]) => value !== null);
    return { kind: "bounds", feature, ...Object.fromEntries(set) };
  });
  if (wish.keep.length) constraints.push({ kind: "immutable", features: wish.keep });
  if (wish.most !== undefined) constraints.push({ kind: "max_changes", count: wish.most });
  const query = { rows: [cells()], constraints };
  if (Object.keys(wish.effort).length) {
    const weights = JSON.parse(form.dataset.weights);
    for (const name in wish.effort) weights[name] *= wish.effort[name];
    query.cost = { kind: form.dataset.cost, weights };
  }
  const { low, high, certainty, target } = wish;
  const label = target ?? JSON.parse(form.dataset.aim);
  if (low !== undefined || high !== undefined) query.target = { kind: "interval", low, high };
  else if (certainty && label !== null) query.target = { kind: "probability", label, at_least: certainty };
  else if (target !== null) query.target = target;
  return query;
}

// A receipt of a further plan says that nothing is cheaper among changes of the same features

function alone(query, only) {
  const keep = features.map((feature) => feature.dataset.name).filter((name) => !only.includes(name));
  const constraints = query.constraints.filter((rule) => rule.kind !== "immutable");
  return { ...query, constraints: [...constraints, { kind: "immutable", features: keep }] };
}

// A slider with two ends: its fields hold the limits, and are empty where it is at an end. It counts
// steps, so that its ends are exactly those of the policy, and what is between them is round

function scale(box) {
  const [low, high, step] = ["low", "high", "step"].map((name) => Number(box.dataset[name]));
  const start = Math.floor(low / step + 1e-9);
  const count = Math.ceil(high / step - 1e-9) - start;
  const value = (k) => (k <= 0 ? low : k >= count ? high : Number(((start + k) * step).toPrecision(12)));
  const position = (v) => Math.min(count, Math.max(0, v <= low ? 0 : v >= high ? count : Math.round(v / step) - start));
  const share = (v) => Math.min(1, Math.max(0, (v - low) / (high - low)));
  return { low, high, count, value, position, share };
}

function drag(box, input) {
  const { count, value } = scale(box);
  const [a, b] = [box.querySelector(".from"), box.querySelector(".to")];
  if (Number(a.value) > Number(b.value)) input.value = (input === a ? b : a).value; // ends do not cross
  const field = box.querySelector(input === a ? ".low" : ".high");
  const k = Number(input.value);
  field.value = k === (input === a ? 0 : count) ? "" : value(k);
}

function describeRange(box, now) {
  const { low, high, count, position, share } = scale(box);
  const [a, b] = [box.querySelector(".from"), box.querySelector(".to")];
  const ends = [number(box.querySelector(".low")) ?? low, number(box.querySelector(".high")) ?? high];
  [a.max, b.max] = [count, count];
  [a.value, b.value] = ends.map(position);
  [a.ariaValueText, b.ariaValueText] = ends.map(digits);
  a.classList.toggle("above", a.value > count / 2); // or both at an end could not be parted
  const reach = now === null ? [low, high] : [now - (box.dataset.fall ?? Infinity), now + Number(box.dataset.rise ?? Infinity)];
  const [least, most] = [Math.max(low, reach[0]), Math.min(high, reach[1])];
  box.style.setProperty("--f", share(Math.max(ends[0], least)));
  box.style.setProperty("--t", share(Math.max(Math.min(ends[1], most), ends[0], least)));
  const moves = least !== low || most !== high;
  box.parentElement.querySelector(".here").textContent = moves && least <= most ? `; from here ${digits(least)} to ${digits(most)}` : "";
  box.querySelector(".mark").hidden = now === null || now < low || now > high;
  if (now !== null) box.style.setProperty("--n", share(now));
}

const EFFORTS = ["much easier", "easier", "as now", "harder", "much harder"];
const TIMES = ["costs a quarter", "costs half", "", "costs twice", "costs four times as much"];

function describe() {
  for (const feature of features) {
    const state = feature.querySelector(".state");
    if (!state) continue;
    const now = feature.querySelector(".now");
    const value = number(now);
    const words = [values.has(now) ? now.options[now.selectedIndex].text : value === null ? "missing" : digits(value)];
    const box = feature.querySelector(".range");
    if (box) {
      describeRange(box, value);
      const [low, high] = [box.querySelector(".low").value, box.querySelector(".high").value];
      if (low) words.push(`at least ${low}`);
      if (high) words.push(`at most ${high}`);
    }
    const effort = feature.querySelector(".effort");
    if (effort) {
      const k = Number(effort.value) + 2;
      effort.ariaValueText = EFFORTS[k];
      effort.parentElement.querySelector("output").value = [EFFORTS[k], TIMES[k]].filter(Boolean).join(", ");
      if (k !== 2) words.push(EFFORTS[k]);
    }
    if (feature.querySelector(".keep").checked) words.push("stays as it is");
    state.textContent = words.join(", ");
    feature.querySelector(".refusal").textContent = "";
  }
  const certainty = at("certainty");
  if (certainty) {
    const words = certainty.value === "50" ? "the decision is enough" : `at least ${certainty.value} %`;
    certainty.ariaValueText = words;
    certainty.parentElement.querySelector("output").value = words;
  }
  const count = isTypedIn();
  at("title").textContent = person.title;
  at("summary").textContent = count
    ? `${person.summary}; ${count === 1 ? "one value is" : `${count} values are`} typed in, which no bookmark holds.`
    : person.summary;
}

// Asking: one question at a time, the latest state next; other plans once it is quiet

const PATIENCE = 400; // milliseconds that a question which nobody waits for any more may take

async function call(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const options = body ? { method: "POST", headers, body: JSON.stringify(body), signal } : {};
  const reply = await fetch(path, options);
  const text = await reply.text();
  if (reply.ok) return text;
  const isOurs = reply.headers.get("Content-Type") === "application/json";
  throw new Error(isOurs ? JSON.parse(text).detail : `The service answers with status ${reply.status}.`);
}

function sentence(error) {
  return error instanceof TypeError ? "The service does not answer. Look whether it still runs." : error.message;
}

function wrong(error) {
  const box = document.createElement("p");
  box.className = "wrong";
  box.dataset.line = box.textContent = sentence(error);
  return box;
}

function waiting(text) {
  const box = document.createElement("p");
  box.className = "waiting";
  box.textContent = text;
  return box;
}

let generation = 0; // of the state: an answer to an older one is shown as old, or not at all
let persons = 0; // of the values that it is about: an answer to others is never shown
let fetching = false; // whether a person's values are on their way
let query = null; // what the answer that is shown answers
let running = null; // the question under way
let impatience = 0;
let quiet = 0;
let further = new AbortController(); // other plans, or the reason why there is none

function line() {
  const text = results[0].querySelector("[data-line]")?.dataset.line ?? "";
  at("line").textContent = text;
}

function age(isOther) {
  generation += 1;
  persons += isOther;
  clearTimeout(quiet);
  further.abort();
  for (const section of results) {
    section.ariaBusy = "true";
    if (isOther) section.replaceChildren();
    else section.classList.add("old");
  }
  if (isOther) {
    query = null;
    results[0].replaceChildren(waiting("Computing …"));
  }
  line();
}

function show(box, question, isCurrent) {
  const [answer, plans] = results;
  query = question;
  answer.innerHTML = box;
  answer.classList.toggle("old", !isCurrent);
  answer.ariaBusy = String(!isCurrent);
  plans.style.minHeight = `${plans.offsetHeight}px`; // nothing jumps below
  plans.replaceChildren();
  plans.classList.remove("old");
  line();
  if (!isCurrent) return;
  for (const [name, text] of Object.entries(JSON.parse(answer.querySelector("[data-refused]")?.dataset.refused ?? "{}"))) {
    const feature = features.find((item) => item.dataset.name === name);
    feature.querySelector(".refusal").textContent = text;
    feature.open = true;
  }
  document.dispatchEvent(new Event("answered"));
}

async function ask(isOther = false) {
  describe();
  remember();
  age(isOther);
  if (running) {
    impatience ||= setTimeout(() => running?.abort(), PATIENCE);
    return;
  }
  let mine;
  do {
    mine = generation;
    const whom = persons;
    const wish = question();
    running = new AbortController();
    const html = await call("/desk/answer", wish, running.signal).catch((error) => (error.name === "AbortError" ? null : wrong(error).outerHTML));
    clearTimeout(impatience);
    impatience = 0;
    if (html !== null && whom === persons) show(html, wish, mine === generation);
  } while (mine !== generation && !fetching);
  running = null;
  if (mine === generation) quiet = setTimeout(follow, 150);
}

// The reason why there is none stands in the answer; other plans below

async function follow() {
  const next = results[0].querySelector("[data-next]")?.dataset.next;
  const place = next === "why" ? results[0].querySelector(".why") : results[1];
  const mine = generation;
  if (next) {
    place.replaceChildren(waiting(next === "why" ? "Looking for the reason …" : "Looking for other plans …"));
    further = new AbortController();
    const html = await call(`/desk/${next}`, query, further.signal).catch((error) => (error.name === "AbortError" ? "" : wrong(error).outerHTML));
    if (mine !== generation) return;
    place.innerHTML = html;
    const jump = results[0].querySelector(".jump");
    if (jump) jump.hidden = !results[1].querySelector("h2");
  }
  results[1].style.minHeight = "";
  results[1].ariaBusy = "false";
  document.dispatchEvent(new Event("planned"));
}

function fail(error) {
  results[0].replaceChildren(wrong(error));
  results[0].ariaBusy = "false";
  line();
  document.dispatchEvent(new Event("answered"));
}

// Who it is about

let fetches = 0;

async function choosePerson(row) {
  const mine = ++fetches;
  fetching = true;
  age(true);
  try {
    const known = JSON.parse(await call(`/desk/rows/${row}`));
    if (mine !== fetches) return;
    fetching = false;
    person = { row, ...known };
    setCells(person.cells);
    ask(true);
  } catch (error) {
    if (mine !== fetches) return;
    fetching = false;
    fail(error);
  }
}

const search = at("search");
const matches = at("matches");
let searches = 0;
let typing = 0;
let listed = null; // the words that the list is about

function close() {
  searches += 1;
  clearTimeout(typing);
  listed = null;
  at("list").hidden = true;
  search.ariaExpanded = "false";
  search.removeAttribute("aria-activedescendant");
}

function activate(option) {
  for (const item of matches.children) item.ariaSelected = String(item === option);
  option.scrollIntoView({ block: "nearest" });
  search.setAttribute("aria-activedescendant", option.id);
}

async function look() {
  const mine = ++searches;
  const words = search.value;
  let text;
  const options = [];
  try {
    const reply = JSON.parse(await call("/desk/people", { query: words }));
    for (const match of reply.matches) {
      const option = document.createElement("li");
      option.role = "option";
      option.id = `match${match.row}`;
      option.dataset.row = match.row;
      option.ariaSelected = "false";
      const title = document.createElement("strong");
      title.textContent = `${match.title}: ${match.decision}`;
      option.append(title, ` ${match.summary}`);
      options.push(option);
    }
    const more = reply.count - options.length;
    text = !options.length
      ? "Nobody is like that. A word is part of a cell, or a whole number; age=38 is a 38 in one column."
      : more > 0 ? `${more} more: add a word, such as age=38, or a row's number.` : "";
  } catch (error) {
    text = sentence(error);
  }
  if (mine !== searches) return;
  listed = words;
  matches.replaceChildren(...options);
  at("hint").textContent = text;
  at("list").hidden = false;
  search.ariaExpanded = "true";
  search.removeAttribute("aria-activedescendant");
}

function pick(option) {
  close();
  search.value = "";
  choosePerson(Number(option.dataset.row));
}

search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(look, 120);
});
search.addEventListener("focus", look);
search.addEventListener("blur", close);
matches.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
matches.addEventListener("click", (event) => {
  const option = event.target.closest("li");
  if (option) pick(option);
});
search.addEventListener("keydown", async (event) => {
  if (event.key === "Escape") return close();
  if (!["Enter", "ArrowDown", "ArrowUp"].includes(event.key)) return;
  event.preventDefault();
  clearTimeout(typing);
  while (listed !== search.value) await look(); // it was typed faster than it was found
  const options = [...matches.children];
  if (at("list").hidden || !options.length) return;
  const active = options.findIndex((option) => option.ariaSelected === "true");
  if (event.key === "Enter") return pick(options[Math.max(active, 0)]);
  const k = event.key === "ArrowDown" ? active + 1 : active < 0 ? -1 : active - 1;
  activate(options[(k + options.length) % options.length]);
});

// What people do

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", (event) => {
  event.preventDefault();
  history.replaceState(null, "", location.pathname);
  start();
});
form.addEventListener("input", ({ target }) => {
  if (target.id === "filter") {
    const text = target.value.toLowerCase();
    for (const feature of form.querySelectorAll("details.feature")) feature.hidden = !feature.dataset.name.toLowerCase().includes(text);
    return;
  }
  if (!person || fetching) return;
  if (target.matches(".from, .to")) drag(target.closest(".range"), target);
  ask(target.classList.contains("now"));
});

results.forEach((section) => section.addEventListener("click", async ({ target }) => {
  if (target.matches("button.jump")) results[1].scrollIntoView();
  if (!target.matches("button.receipt")) return;
  const only = target.dataset.only && JSON.parse(target.dataset.only);
  try {
    const text = await call("/desk/receipt", only ? alone(query, only) : query);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/jsonl" }));
    link.download = "receipt.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    target.replaceWith(wrong(error));
  }
}));

const LARGEST = 5e5; // bytes; receipts have a few thousand

async function checked(file) {
  if (file.size > LARGEST) return "This file is too large for a receipt of this page.";
  const records = (await file.text()).split("\n").filter((row) => row.trim());
  let parsed = [];
  try {
    parsed = records.map((row) => JSON.parse(row));
  } catch {
    // no record
  }
  if (!parsed.length || !parsed.every((record) => String(record?.schema).startsWith("counterpoint-record/"))) return "This file is no receipt: those are the .jsonl files that the button “Receipt” saves.";
  const { ok, proved, problems } = JSON.parse(await call("/recheck", { records }));
  if (!ok) return `This receipt is not true of this model: ${problems[0]}`;
  if (proved.every(Boolean)) return "The receipt is true of this model and is proved.";
  const excess = Math.max(...parsed.map(({ objective, proved_bound: bound }) => (bound > 0 ? objective / bound - 1 : Infinity)));
  if (!Number.isFinite(excess)) return "The receipt is true of this model, but its optimality is not proved.";
  return `The receipt is true of this model: at most ${Math.ceil(1000 * excess) / 10} % above the cheapest possible change (proved).`;
}

at("receipt").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  at("checked").textContent = "Checking …";
  const text = await checked(file).catch(sentence);
  at("checked").textContent = text;
  at("checked").className = text.startsWith("The receipt is true") ? "right" : "wrong";
});

// The decision stays in sight, in a line, where the answer is not

new IntersectionObserver(([entry]) => {
  at("line").hidden = entry.isIntersecting || entry.boundingClientRect.top > 0;
}).observe(results[0]);

function start() {
  const list = at("target");
  const preset = list && Math.max(0, [...list.options].findIndex((option) => option.defaultSelected));
  const blank = { keep: [], ranges: {}, effort: {}, target: list && values.get(list)[preset] };
  let mark = {};
  try {
    mark = { ...blank, ...JSON.parse(decodeURIComponent(location.hash.slice(1))) };
    write(mark);
  } catch {
    write(blank); // there is no bookmark, or none of this page
  }
  if (!Number.isInteger(mark.row)) choosePerson(Number(form.dataset.first));
  else if (mark.of === form.dataset.people) choosePerson(mark.row);
  else fail(new Error("This bookmark is about a person of other data than those that are offered here. Search for a person."));
}

// On a phone the answer and other plans are not to be a long way apart

if (matchMedia("(max-width: 60rem)").matches) for (const feature of form.querySelectorAll("details.feature")) feature.open = false;
addEventListener("hashchange", start);
start();
