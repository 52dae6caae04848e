"""What a check of a plan found, and how it is shown: a page, JUnit, SARIF and Markdown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from xml.etree import ElementTree

from dovetail.report.page import Block, Page, Prose, Table, Tone, left, wrapped
from dovetail.report.text import printable

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_ABOUT = "Checks of a placement: what its record promised against what it does now."


class Subject(Enum):
    """What a check looks at, in order."""

    MODEL = "model"
    PLACEMENT = "placement"
    REPAIR = "repair"
    REFUSED = "refused"
    GOAL = "goal"
    SCORE = "score"
    LATENCY = "latency"
    INTEGERS = "integers"

    @property
    def about(self) -> str:
        """Return what is asked."""
        return _ABOUTS[self]


_ABOUTS = {
    Subject.MODEL: "the model is the one that the plan was made for",
    Subject.PLACEMENT: "units are where the search put them",
    Subject.REPAIR: "repairs are those that the search found",
    Subject.REFUSED: "targets take what the plan places on them",
    Subject.GOAL: "the loss against the float model is allowed",
    Subject.SCORE: "the score is the one that was recorded",
    Subject.LATENCY: "the predicted latency is not above the recorded one",
    Subject.INTEGERS: "the target gives the integers that were recorded",
}


class CheckOutcome(Enum):
    """How a check ended."""

    SAME = "same"
    NOTE = "note"
    """It changed, and that does no harm, or it was allowed."""
    SKIPPED = "skipped"
    """There is nothing to compare with."""
    CHANGED = "changed"
    """The check fails."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What one check found; `where` names a unit or a tensor, and is empty for the plan as a whole."""

    subject: Subject
    outcome: CheckOutcome
    text: str
    where: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found of a plan, in the order of the subjects."""

    plan: str
    target: str
    findings: tuple[CheckFinding, ...]
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[CheckFinding, ...]:
        """Return what fails."""
        return tuple(item for item in self.findings if item.outcome is CheckOutcome.CHANGED)

    @property
    def verdict(self) -> str:
        """Return the verdict in one line."""
        if not self.failed:
            return f"The plan holds on {self.target}."
        subjects = ", ".join(dict.fromkeys(item.subject.value for item in self.failed))
        return f"The plan does not hold on {self.target}: {subjects}."


def check_page(result: CheckResult) -> Page:
    """Return the page of a check: one row a subject, then what changed."""
    rows = tuple(
        (subject.value, _worst(items).value, "; ".join(dict.fromkeys(item.text for item in items)))
        for subject, items in _by_subject(result).items()
    )
    blocks: list[Block] = [Table("", (left("check"), left("outcome"), wrapped("what")), rows)]
    changes = tuple(
        (item.subject.value, item.where or "the plan", item.before or "-", item.after or "-")
        for item in result.findings
        if item.before or item.after
    )
    if changes:
        columns = (left("check"), wrapped("where"), wrapped("recorded"), wrapped("now"))
        blocks.append(Table("What changed", columns, changes))
    blocks += [Prose("Notes", result.notes)] if result.notes else []
    tone = Tone.BAD if result.failed else Tone.GOOD
    return Page(f"Check of {result.plan}", tuple(blocks), result.verdict, tone)


def check_document(result: CheckResult) -> dict[str, object]:
    """Return it as plain data."""
    return {
        "plan": result.plan,
        "target": result.target,
        "holds": not result.failed,
        "findings": [
            {
                "check": item.subject.value,
                "outcome": item.outcome.value,
                "text": item.text,
                "where": item.where,
                "before": item.before,
                "after": item.after,
            }
            for item in result.findings
        ],
        "notes": list(result.notes),
    }


def check_junit(result: CheckResult) -> str:
    """Return the check as JUnit XML: one test case a subject."""
    groups = _by_subject(result)
    failures = sum(_worst(items) is CheckOutcome.CHANGED for items in groups.values())
    skipped = sum(_worst(items) is CheckOutcome.SKIPPED for items in groups.values())
    counts = {"tests": str(len(groups)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "Dovetail: check", **counts})
    for subject, items in groups.items():
        name = {"classname": "dovetail.check", "name": subject.value, "file": result.plan, "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", name)
        text = "\n".join(_line(item) for item in items)
        outcome = _worst(items)
        if outcome is CheckOutcome.CHANGED:
            failed = next(item for item in items if item.outcome is CheckOutcome.CHANGED)
            ElementTree.SubElement(case, "failure", {"message": printable(failed.text)}).text = text
        elif outcome is CheckOutcome.SKIPPED:
            ElementTree.SubElement(case, "skipped", {"message": printable(items[0].text)})
        else:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def check_sarif(result: CheckResult, version: str) -> str:
    """Return the check as SARIF 2.1.0: what fails as errors, what changed without harm as notes."""
    levels = {CheckOutcome.CHANGED: "error", CheckOutcome.NOTE: "note"}
    shown = [item for item in result.findings if item.outcome in levels]
    place = {"physicalLocation": {"artifactLocation": {"uri": result.plan}, "region": {"startLine": 1}}}
    document = {
        "$schema": _SARIF,
        "version": "2.1.0",
        "properties": {"kind": "dovetail-check"},
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "dovetail check",
                        "version": version,
                        "rules": [
                            {"id": f"dovetail/{item.value}", "shortDescription": {"text": item.about}}
                            for item in Subject
                        ],
                    }
                },
                "results": [
                    {
                        "ruleId": f"dovetail/{item.subject.value}",
                        "ruleIndex": list(Subject).index(item.subject),
                        "level": levels[item.outcome],
                        "message": {"text": _line(item)},
                        "locations": [place],
                    }
                    for item in shown
                ],
            }
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def check_markdown(result: CheckResult) -> str:
    """Return the check as Markdown for a pull request: the verdict, a row a subject, and what changed."""
    lines = [f"### Dovetail: {_cell(result.verdict)}", "", _cell(result.plan), ""]
    lines += ["| check | outcome | what |", "| --- | --- | --- |"]
    for subject, items in _by_subject(result).items():
        text = "; ".join(dict.fromkeys(item.text for item in items))
        lines.append(f"| {subject.value} | {_shown(_worst(items))} | {_cell(text)} |")
    changed = [item for item in result.findings if item.before or item.after]
    if changed:
        lines += ["", "| check | where | recorded | now |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {item.subject.value} | {_cell(item.where or 'the plan')} | {_cell(item.before)} | {_cell(item.after)} |"
            for item in changed
        ]
    lines += ["", _ABOUT, *(f"- {_cell(note)}" for note in result.notes)]
    return "\n".join(lines) + "\n"


def _by_subject(result: CheckResult) -> dict[Subject, list[CheckFinding]]:
    groups: dict[Subject, list[CheckFinding]] = {subject: [] for subject in Subject}
    for item in result.findings:
        groups[item.subject].append(item)
    return {subject: items for subject, items in groups.items() if items}


def _worst(items: list[CheckFinding]) -> CheckOutcome:
    order = list(CheckOutcome)
    return max((item.outcome for item in items), key=order.index)


def _shown(outcome: CheckOutcome) -> str:
    return f"**{outcome.value}**" if outcome is CheckOutcome.CHANGED else outcome.value


def _line(item: CheckFinding) -> str:
    change = f" ({item.before or '-'} -> {item.after or '-'})" if item.before or item.after else ""
    return printable(f"{f'{item.where}: ' if item.where else ''}{item.text}{change}")


def _cell(text: str) -> str:
    """Return a text that stays in its cell of a Markdown table, and is shown as it is."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]<>#|~!$" else sign for sign in printable(text))
