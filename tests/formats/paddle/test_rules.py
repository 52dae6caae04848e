"""subgraph.txt, vector by vector of the notes on Paddle Lite's parser."""

from __future__ import annotations

import pytest
import work
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import FormatError
from dovetail.formats.paddle import (
    Dialect,
    LintContext,
    LoggedOperation,
    SubgraphRule,
    fix,
    lint,
    load_rules,
    match_all,
    write_rules,
)
from dovetail.formats.paddle.lint import _PLAIN_LINE, _Linter
from dovetail.formats.paddle.rules import split_fields


def _op(text: str) -> LoggedOperation:
    kind, ins, outs = text.split(":")
    return LoggedOperation(kind, tuple(ins.split(",")) if ins else (), tuple(outs.split(",")) if outs else ())


OPS = {
    "A": _op("conv2d:img,c0.w:c0.out"),
    "B": _op("relu:c0.out:r0.out"),
    "C": _op("relu:r1.in:r1.out"),
    "D": _op("elementwise_add:r0.out,r1.out:add.out"),
    "E": _op("split:add.out:s.0,s.1"),
    "F": _op("fill_constant::k.out"),
    "G": _op("scale:a-b.out:sc.out"),
    "H": _op("elementwise_mul:m,m:mm.out"),
}
ALL = tuple(OPS.values())


def matched(text: str, dialect: Dialect = Dialect.V212) -> str:
    found = match_all(load_rules(text, dialect), ALL)
    return "".join(name for name, op in OPS.items() if op in found)


def errors(text: str, dialect: Dialect = Dialect.V212) -> set[str]:
    found = lint(text.encode(), LintContext(dialect=dialect, operations=ALL))
    return {item.code for item in found if item.code.startswith("E")}


@pytest.mark.parametrize(
    ("text", "new", "old", "codes"),
    [
        ("relu", "BC", "BC", set()),
        ("relu:", "BC", "BC", set()),
        ("relu::", "BC", "BC", set()),
        ("relu:c0.out", "B", "B", set()),
        ("relu::r1.out", "C", "C", set()),
        ("relu:c0.out:r1.out", "", "", {"E06"}),
        ("conv2d:c0.w,img:c0.out", "A", "A", set()),
        ("split:add.out:s.1", "E", "E", set()),
        ("fill_constant::k.out", "F", "F", set()),
        ("conv2d:img:c0.out:extra", "A", "A", {"E09"}),
        ("elementwise_add:r0.out,:add.out", "D", "D", set()),
        ("elementwise_add:,r0.out:add.out", "", "", {"E10"}),
        ("elementwise_add:r0.out, r1.out:add.out", "", "", {"E04"}),
        ("elementwise_mul:m,m:mm.out", "", "", {"E06"}),
        ("elementwise_mul:m:mm.out", "H", "H", set()),
        ("relu:c0.out:r0.out\r\nrelu:r1.in:r1.out", "C", "C", {"E01"}),
        ("conv2d:img # note", "", "", {"E03"}),
        ("# conv2d", "", "", {"E03"}),
        ("#a-conv2d", "A", "", {"E03", "E07"}),
        ("relu:c0.out-split", "BE", "", set()),
        ("scale:a-b.out:sc.out", "", "G", {"E07"}),
        ("scale::sc.out", "G", "G", set()),
        ("\ufeffrelu", "", "", {"E02"}),
        (" relu", "", "", {"E04"}),
        ("relu;c0.out;r0.out", "", "", {"E05"}),
        (":c0.out:r0.out", "", "", {"E11"}),
        ("\n", "", "", set()),
        ("", "", "", {"E08"}),
    ],
)
def test_the_vectors(text: str, new: str, old: str, codes: set[str]) -> None:
    assert matched(text) == new
    assert matched(text, Dialect.V210) == old
    assert errors(text) == codes


def test_builds_that_separate_rules_by_a_bar() -> None:
    assert matched("relu:c0.out-split|conv2d", Dialect.PIPE) == matched("conv2d")
    assert matched("scale:a-b.out:sc.out|relu", Dialect.PIPE) == "".join(sorted("G" + matched("relu")))
    assert matched("scale::sc.out|relu") != matched("scale::sc.out|relu", Dialect.PIPE)
    assert errors("scale:a-b.out:sc.out|conv2d::c0.out", Dialect.PIPE) == set()
    assert "E07" in errors("scale:a|b.out:sc.out", Dialect.PIPE)
    assert "E04" in errors("conv2d::c0.out| scale::sc.out", Dialect.PIPE)


def test_the_old_dialect_has_no_item_separator() -> None:
    assert errors("relu:c0.out-split", Dialect.V210) == {"E06"}
    assert errors("scale:a-b.out:sc.out", Dialect.V210) == set()


@pytest.mark.parametrize(
    ("text", "fields"),
    [("", []), ("a", ["a"]), ("a:", ["a"]), ("a::", ["a", ""]), (":a", ["", "a"]), ("a::b", ["a", "", "b"])],
)
def test_split_keeps_empty_fields_except_the_last(text: str, fields: list[str]) -> None:
    assert split_fields(text, ":") == fields


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("relu:c0.out:r0.out\r\nrelu:r1.in:r1.out\r\n", "relu:c0.out:r0.out\nrelu:r1.in:r1.out\n"),
        ("\ufeffrelu", "relu\n"),
        ("conv2d:img # note", "conv2d:img\n"),
        ("# conv2d\nrelu", "relu\n"),
        ("elementwise_add:r0.out, r1.out:add.out", "elementwise_add:r0.out,r1.out:add.out\n"),
        (" relu ", "relu\n"),
        ("relu;c0.out;r0.out", "relu:c0.out:r0.out\n"),
        ("", "\n"),
        ("conv2d:img:c0.out:extra", "conv2d:img:c0.out\n"),
        ("elementwise_add:,r0.out:add.out", "elementwise_add:r0.out:add.out\n"),
    ],
)
def test_fix_repairs_what_is_mechanical(text: str, fixed: str) -> None:
    assert fix(text) == fixed
    assert not errors(fixed)


@given(st.text(alphabet="ab:,-;# \r\n\ufeff", max_size=40))
def test_fix_is_idempotent_and_leaves_nothing_mechanical(text: str) -> None:
    once = fix(text)
    assert once
    assert fix(once) == once
    codes = {item.code for item in lint(once.encode())}
    assert not codes & {"E01", "E02", "E03", "E05", "E08", "E09", "E10"}


@given(st.binary(max_size=200))
def test_lint_never_raises(content: bytes) -> None:
    lint(content, LintContext(operations=ALL))


def _warnings(text: str, operations: tuple[LoggedOperation, ...] = ALL, **context: object) -> set[str]:
    found = lint(text.encode(), LintContext(operations=operations, **context))  # type: ignore[arg-type]
    return {item.code for item in found if item.code.startswith("W")}


CHAIN = tuple(
    _op(text)
    for text in (
        "feed:feed:x",
        "conv2d:x,w:c.out",
        "batch_norm:b,m,s,v,c.out:m,bn.out,sm,sv,v",
        "relu:bn.out:r.out",
        "pool2d:r.out:p.out",
        "yolo_box:p.out:y.out",
        "fetch:y.out:fetch",
    )
)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("relu", {"W02", "W05", "W06"}),
        ("relu:bn.out:r.out", {"W05", "W06"}),
        ("pool2d:r.out:p.out", set()),
        ("pool2d:r.out:p.out\npool2d:r.out:p.out", {"W03"}),
        ("yolo_box:p.out:y.out", {"W04"}),
        ("feed:feed:x", {"W04"}),
        ("conv2d:x,w:c.out\nbatch_norm::bn.out\nrelu:bn.out:r.out", set()),
    ],
)
def test_warnings(text: str, codes: set[str]) -> None:
    assert _warnings(text, CHAIN) == codes


def test_warnings_about_the_surroundings() -> None:
    assert "W01" in _warnings("relu")
    assert "W07" in _warnings("\n", made_for="aaaa", model_digest="bbbb")
    assert "W08" in _warnings("relu\n", cache_folder="cache", previous=b"\n")
    assert _warnings("split:add.out:s.1", cache_folder="cache", previous=b"split:add.out:s.1") == {"W06"}


def test_an_unknown_name_gets_the_nearest_operator() -> None:
    found = lint(b"conv2d:img,c0.w:c0.outt", LintContext(operations=ALL))
    assert found[0].code == "E06"
    assert found[0].hint is not None
    assert "conv2d:img,c0.w:c0.out" in found[0].hint
    assert "relu" in str(lint(b"rellu", LintContext(operations=ALL))[-1])


@given(st.sets(st.sampled_from(sorted(OPS))), st.sampled_from(Dialect))
def test_what_is_written_matches_what_was_chosen(names: set[str], dialect: Dialect) -> None:
    chosen = [OPS[name] for name in sorted(names)]
    text = write_rules(chosen, ALL, dialect)
    assert "".join(sorted(names)) == matched(text, dialect)
    assert text.endswith("\n")
    assert "\r" not in text


def test_an_operator_that_cannot_be_told_apart_is_an_error() -> None:
    twins = (_op("relu:a-1:b-1"), _op("relu:a-2:b-2"))
    with pytest.raises(FormatError, match="E07"):
        write_rules(twins[:1], twins, Dialect.V212)
    assert write_rules(twins[:1], twins, Dialect.V210) == "relu:a-1:b-1\n"
    assert write_rules(twins[:1], twins, Dialect.V212, whole_types=True) == "relu\n"
    # Choosing both is no ambiguity.
    assert write_rules(twins, twins, Dialect.V212) == "relu::\n"


def test_a_rule_that_also_matches_a_wider_operator_is_not_written() -> None:
    wide = (_op("concat:a,b:c,d"), _op("concat:a:c"))
    with pytest.raises(FormatError):
        write_rules(wide[1:], wide)
    assert match_all((SubgraphRule("concat", ("a", "b"), ()),), wide) == wide[:1]


def test_many_dead_rules_and_long_ones_take_no_time() -> None:
    """A thousand rules that match nothing, each long: only the first get the nearest operator."""
    rules = "".join(f"conv2d:{'x' * 5000}{i}:y{i}\n" for i in range(1000))
    many = ALL * 200
    with work.little():
        found = lint(rules.encode(), LintContext(operations=many))
    assert [item.code for item in found] == ["E06"] * 1000
    assert sum(item.hint is not None for item in found) == 20


@given(line=st.text(alphabet="aZ_0:,;-#/ \t\r\ufeff.", max_size=14))
@settings(max_examples=400, deadline=None)
def test_a_line_that_is_not_looked_at_closely_has_nothing_wrong(line: str) -> None:
    linter = _Linter(line.encode(), LintContext())
    assert _PLAIN_LINE.fullmatch(line) is None or list(linter.line_findings(line, 1)) == []
