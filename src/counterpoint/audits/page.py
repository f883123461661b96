"""Write an audit as a page of HTML that stands alone: no other file, script or address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from counterpoint.audits import differences
from counterpoint.audits.drawing import svg_of_curves
from counterpoint.audits.wording import estimate, percent
from counterpoint.errors import several
from counterpoint.records.record import fingerprint


def audit_page(audit: Any) -> str:
    """Return the page of an `Audit`."""
    target = audit.words.target(audit.target)
    title = f"Audit: who cannot reach {target}"
    grouped = f", by {audit.words.groups}" if len(audit.groups) > 1 else ""
    made = datetime.fromisoformat(audit.made["time"])
    sections = [
        f"<h1>{escape(title)}</h1>",
        _quiet(f"{len(audit.group):,} rows{grouped}. Made on {made:%d %B %Y, %H:%M} UTC."),
        f'<div class="summary">{_paragraph(audit.summary())}</div>',
        *_meaning(audit),
        *_groups(audit),
        *_differences(audit),
        *_costs(audit),
        *_protected(audit),
        *_rules(audit),
        *_asked(audit),
    ]
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + "\n</main>\n</body>\n</html>\n"
    )


# Sections


def _meaning(audit: Any) -> list[str]:
    """Return the definitions of the kinds of rows that there are."""
    counts = audit.groups.iloc[0]
    return [
        "<h2>What the words mean</h2>",
        _definitions((kind, text) for kind, text in audit.meaning().items() if counts[kind]),
    ]


def _groups(audit: Any) -> list[str]:
    """Return the table of groups, with the remarks on intervals."""
    table = audit.groups
    counts = table.loc[:, "rows":"unusable"]
    kinds = [*counts.loc[:, (counts != 0).any()].columns]
    level = f"With {100 * audit.confidence:.4g} % intervals."
    lines = []
    for k, (name, line) in enumerate(table.iterrows()):
        cells = [f"{line[kind]:,}" for kind in kinds]
        for kind in ("fixed", "cost"):
            value, interval = estimate(line, kind)
            cells.append(f"{value}<small>{interval}</small>" if interval else value)
        lines.append((audit.words.group(str(name)) if k else "all rows", cells))
    columns = [audit.words.groups, *kinds, "fixed share", "median cost"]
    return ["<h2>Groups</h2>", _table(columns, lines), _bullets(audit.remarks()), _quiet(level)]


def _differences(audit: Any) -> list[str]:
    """Return the results of the tests of differences, and the meaning of their p-values."""
    compared = differences.in_words(audit.differences, audit.words, audit.confidence)
    if not compared:
        return []
    blocks = [f"<h3>{escape(head)}</h3>{_bullets(sentences)}" for head, sentences in compared]
    notes = map(_quiet, differences.notes(audit.differences))
    return ["<h2>Could the differences be chance?</h2>", *blocks, *notes]


def _costs(audit: Any) -> list[str]:
    """Return the picture of costs with its caption; nothing if no row needs an action."""
    if not audit.needs.any():
        return []
    curves = svg_of_curves(audit)
    caption = (
        "The share of rows with an action of at most a cost, among those that need one. Where a "
        "curve ends below 100 %, nothing within the rules helps the rows that remain."
    )
    cost = audit.words.cost(audit.explainer)  # a sentence, here within another one
    return [
        "<h2>What actions cost</h2>",
        f'<figure>{curves}<figcaption id="curves">{caption}</figcaption></figure>',
        _quiet(f"Cost of a change: {cost[0].lower()}{cost[1:]}"),
    ]


def _protected(audit: Any) -> list[str]:
    """Return the table of the effect of protected columns on each group, if there are any."""
    if audit.protected is None:
        return []
    out = ["<h2>Protected columns</h2>", _paragraph(audit.protected.heading(audit.words))]
    if audit.protected.influence is not None:
        note = (
            "Columns that stand in for a protected one, as a postcode may for origin, are measured "
            "only if they are named."
        )
        out += [_definitions(audit.protected.meaning().items()), _quiet(note)]
        table = audit.protected.table(audit.words)
        lines = [
            ("all rows" if k == 0 else str(name), [*map(_text, cells)])
            for k, (name, *cells) in enumerate(table.itertuples())
        ]
        out.append(_table([audit.words.groups, *table.columns], lines))
    return out


def _rules(audit: Any) -> list[str]:
    """Return the rules of the policy, and the table of the effect of leaving each out."""
    rules = [audit.words.rule(rule) for rule in audit.explainer.constraints]
    out = ["<h2>Rules</h2>", _bullets(rules) or _paragraph("The policy has no rules.")]
    fixed, unfixed = audit.sampled
    if len(audit.constraints):
        head = (
            f"Each rule was left out alone, for a sample of {several(fixed, 'fixed row')} and "
            f"{several(unfixed, 'other row')}. Rules that are not in the table change nothing for "
            "these rows."
        )
        columns = ["without the rule", "fixed rows that have an action", "cost that others save"]
        lines = [
            (rule, [_bar(line["frees"]), _bar(line["saves"]), _bar(line["named"])])
            for rule, line in audit.constraints.iterrows()
        ]
        out += [_paragraph(head), _table([*columns, "conflicts that name the rule"], lines)]
    limits = audit.limits_of_data()
    return [*out, *([_paragraph(limits)] if limits else [])]


def _asked(audit: Any) -> list[str]:
    """Return the query, the model and the time, and how the audit can be checked."""
    explainer, answers, words = audit.explainer, audit.answers, audit.words
    query, made = answers.query, audit.made
    reading = query.model
    versions = ", ".join(f"{name} {made[name]}" for name in made if name != "time")
    limit = query.effort.seconds
    steps = getattr(explainer.model, "steps", [("", explainer.model)])  # of a pipeline
    entries = {
        "Target": words.target(audit.target),
        "Model": ", then ".join(type(step).__name__ for _, step in steps),
        "Fingerprint": fingerprint(reading.form, query.features, reading.fills),
        "Features": ", ".join(map(words.speech.name, answers.features.names)),
        "Intervals": f"{100 * audit.confidence:.4g} %: Clopper and Pearson's for shares, of order "
        "statistics for medians; both hold for any distribution",
        "Time limit": f"{limit:g} seconds for each row" if limit else "none",
        "Made": f"{made['time']}, with {versions}",
    }
    check = (
        "The fingerprint is a SHA-256 digest of what was read of the model. The answer to each "
        "row, with its proof, can be written as a record and checked again against the model, "
        "without solving anything."
    )
    scope = (
        "Fixed rows are fixed under these rules, within what the data showed, and for this model. "
        "Tests and intervals treat the rows as a random sample of those that the model will meet; "
        "a difference that is hard to explain by chance is not yet explained. Costs are compared "
        "among rows that have an action."
    )
    return ["<h2>What was asked</h2>", _definitions(entries.items()), *map(_quiet, (check, scope))]


# Elements


def _text(text: str) -> str:
    """Escape text; a number stays on a line with its sign."""
    nbsp = "\N{NO-BREAK SPACE}"
    return escape(text).replace(" %", f"{nbsp}%").replace("p = ", f"p{nbsp}={nbsp}")


def _paragraph(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def _quiet(text: str) -> str:
    return f'<p class="quiet">{_text(text)}</p>'


def _bullets(items: Iterable[str]) -> str:
    lines = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<ul>{lines}</ul>" if lines else ""


def _definitions(entries: Iterable[tuple[str, str]]) -> str:
    lines = (f"<dt>{_text(term)}</dt><dd>{_text(text)}</dd>" for term, text in entries)
    return f"<dl>{''.join(lines)}</dl>"


def _table(columns: Sequence[str], lines: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table; the first cell of a line is text, the others are HTML.

    Each cell says its column too, since on a phone a line stands as a card of its own.
    """
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in columns)
    body = []
    for name, cells in lines:
        data = "".join(
            f'<td data-label="{escape(column)}">{cell}</td>'
            for column, cell in zip(columns[1:], cells, strict=True)
        )
        body.append(f'<tr><th scope="row">{_text(name)}</th>{data}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _bar(share: float) -> str:
    width = f'<span class="bar"><i style="width: {100 * share:.1f}%"></i></span>'
    return f"{percent(share)}{width}"
