"""State on disk, commands as oracles, and figures on stdout."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest
import work

from dovetail.errors import SearchError
from dovetail.plan import Plan, parse_placement
from dovetail.seal import unsealed
from dovetail.search.bisect import (
    BisectCandidate,
    Bisection,
    BisectRequest,
    CommandOracle,
    MetricRule,
    Setup,
    read_log,
    register_writer,
    reset_bisection,
    setup_of_lines,
    start_bisection,
    writer,
)
from dovetail.search.bisect.candidate import UnsayableCandidate
from dovetail.search.trial import Status

LOW, CPU = parse_placement("vsi:v853@i8pc"), parse_placement("cpu@fp32")


def _setup(folder: Path, count: int = 12) -> Setup:
    request = BisectRequest(str(folder / "candidate.txt"), "exclude", LOW, (CPU,))
    return setup_of_lines([f"n{index}" for index in range(count)], request)


def _finish(found: Bisection, culprits: set[str], most: int = 1000) -> Bisection:
    for _ in range(most):
        if found.finding is not None:
            break
        found.record(Status.FAIL if culprits & set(found.candidate.low) else Status.PASS)
    return found


def test_opened_again_after_every_answer_it_ends_the_same(tmp_path: Path) -> None:
    whole = _finish(start_bisection(tmp_path / "a", _setup(tmp_path)), {"n2", "n9"})
    start_bisection(tmp_path / "b", _setup(tmp_path))
    for _ in range(len(whole.answers)):
        _finish(Bisection.open(tmp_path / "b"), {"n2", "n9"}, most=1)
    again = Bisection.open(tmp_path / "b")
    assert again.finding == whole.finding
    assert again.answers == whole.answers
    assert whole.finding is not None
    assert set(whole.finding.culprits) == {"n2", "n9"}
    assert set(whole.candidate.raised_nodes) == {"n2", "n9"}


def test_an_answer_that_a_crash_cut_short_is_asked_for_again(tmp_path: Path) -> None:
    found = start_bisection(tmp_path / "a", _setup(tmp_path))
    _finish(found, {"n2"}, most=3)
    log = tmp_path / "a" / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-5])
    assert len(Bisection.open(tmp_path / "a").answers) == 2


def test_replay_takes_a_log_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = _finish(start_bisection(tmp_path / "a", _setup(tmp_path)), {"n2"})
    answers = read_log(tmp_path / "a" / "log.jsonl")
    again = whole.replay(answers[:-1])
    assert again.finding is None
    assert _finish(Bisection.open(tmp_path / "a"), {"n2"}).finding == whole.finding
    with pytest.raises(SearchError, match="another candidate"):
        whole.replay(answers[1:])


@pytest.mark.parametrize("damage", ["", "{}", "[]", "null", '{"kind": "dovetail-bisect", "schema": 1}', "\udcff"])
def test_damaged_states_are_one_line(tmp_path: Path, damage: str) -> None:
    start_bisection(tmp_path / "a", _setup(tmp_path))
    (tmp_path / "a" / "bisect.json").write_bytes(damage.encode("utf-8", "surrogateescape"))
    with pytest.raises(SearchError, match="damaged") as caught:
        Bisection.open(tmp_path / "a")
    assert "\n" not in str(caught.value)


def test_damaged_logs_are_one_line(tmp_path: Path) -> None:
    start_bisection(tmp_path / "a", _setup(tmp_path))
    for line in (
        "x",
        "{}",
        '{"raised": 3, "status": "pass", "metric": null, "note": ""}',
        '{"raised": [], "status": 1}',
    ):
        (tmp_path / "a" / "log.jsonl").write_text(line + "\n")
        with pytest.raises(SearchError):
            Bisection.open(tmp_path / "a")


def test_the_answer_that_does_not_fit_is_named_by_its_number(tmp_path: Path) -> None:
    whole = _finish(start_bisection(tmp_path / "a", _setup(tmp_path)), {"n2"})
    log = tmp_path / "a" / "log.jsonl"
    lines = log.read_text().splitlines()
    log.write_text(
        "\n".join([*lines[:2], json.dumps({**unsealed(json.loads(lines[2])), "raised": ["n0"]}), *lines[3:], ""])
    )
    with pytest.raises(SearchError, match=r"log\.jsonl: answer 3 is to another candidate than the one asked for"):
        Bisection.open(tmp_path / "a")
    with pytest.raises(SearchError, match="answer 1 is to another candidate"):
        whole.replay(whole.answers[1:])


def test_the_line_that_is_damaged_is_named_by_its_number(tmp_path: Path) -> None:
    _finish(start_bisection(tmp_path / "a", _setup(tmp_path)), {"n2"}, most=2)
    log = tmp_path / "a" / "log.jsonl"
    log.write_text(log.read_text() + "x\n")
    with pytest.raises(SearchError, match=r"log\.jsonl:3: no answer of a bisection: "):
        read_log(log)


def test_a_log_that_goes_on_after_the_end_is_refused(tmp_path: Path) -> None:
    whole = _finish(start_bisection(tmp_path / "a", _setup(tmp_path)), {"n2"})
    log = tmp_path / "a" / "log.jsonl"
    log.write_text(log.read_text() + whole.answers[-1].to_json() + "\n")
    with pytest.raises(SearchError, match="it goes on after the end"):
        Bisection.open(tmp_path / "a")
    with pytest.raises(SearchError, match="the bisection has ended"):
        whole.record(Status.PASS)


def test_a_log_that_is_no_text_or_not_there_cannot_be_read(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert read_log(log, missing_is_empty=True) == []
    with pytest.raises(SearchError, match=r"log\.jsonl: is not there"):
        read_log(log)
    log.write_bytes(b"\xff\xfe\n")
    for missing_is_empty in (False, True):
        with pytest.raises(SearchError, match=r"log\.jsonl: cannot be read: 'utf-8' codec"):
            read_log(log, missing_is_empty=missing_is_empty)
    log.unlink()
    log.mkdir()
    with pytest.raises(SearchError, match=r"log\.jsonl: cannot be read: .*Is a directory"):
        read_log(log)


@pytest.mark.parametrize(
    "change",
    [{"lines": [], "weights": []}, {"weights": [1.0] * 11}, {"weights": [1.0] * 11 + [0.0]}],
    ids=["no lines", "a weight too few", "a line that cannot do harm"],
)
def test_lines_and_weights_have_to_fit(tmp_path: Path, change: dict[str, object]) -> None:
    start_bisection(tmp_path / "a", _setup(tmp_path))
    path = tmp_path / "a" / "bisect.json"
    path.write_text(json.dumps({**unsealed(json.loads(path.read_text())), **change}))
    with pytest.raises(SearchError, match="damaged: lines and weights do not fit"):
        Bisection.open(tmp_path / "a")


@pytest.mark.parametrize("damaged", ["setup", "plan"])
def test_what_is_said_of_damage_is_cut_short(tmp_path: Path, damaged: str) -> None:
    start_bisection(tmp_path / "a", _setup(tmp_path))
    path = tmp_path / "a" / "bisect.json"
    if damaged == "setup":
        path.write_text("1" * 5000)
    else:
        plan = Plan("g", LOW).to_json().replace(str(LOW), "x" * 500)
        path.write_text(replace(_setup(tmp_path), base_plan=plan).to_json())
    with pytest.raises(SearchError, match=r"bisect\.json: damaged: ") as caught:
        Bisection.open(tmp_path / "a")
    assert len(caught.value.message) == len(f"{path}: damaged: .") + 120


def test_the_setup_has_a_line_for_each_entry_so_that_a_person_can_read_it(tmp_path: Path) -> None:
    text = replace(_setup(tmp_path), lines=("größe",), weights=(1.0,)).to_json()
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
    assert text.startswith('{\n "schema": 3,\n "kind": "dovetail-bisect",\n "lines": [\n  "größe"\n ],\n')


def test_a_figure_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    found = start_bisection(tmp_path / "a", _setup(tmp_path))
    for metric in (0.5, float("nan"), float("inf")):
        found.record(Status.FAIL, metric, "größe")
    lines = (tmp_path / "a" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["metric"] for line in lines] == [0.5, None, None]
    assert all("größe" in line for line in lines)


def test_why_a_format_cannot_say_a_candidate_is_cut_short(tmp_path: Path) -> None:
    def write(candidate: BisectCandidate) -> str:
        if candidate.low and candidate.raised:
            raise UnsayableCandidate("x" * 200)
        return ""

    register_writer("wordy", write)
    found = start_bisection(tmp_path / "a", replace(_setup(tmp_path, 3), format="wordy"))
    found.record(Status.FAIL)
    found.write_candidate()
    notes = {answer.note for answer in found.answers if answer.status is Status.CANNOT_TEST}
    assert notes == {"not written: " + "x" * (160 - len("not written: "))}


def test_folders_that_are_not_ours_stay(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "precious").write_text("x")
    for call in (lambda: start_bisection(tmp_path / "a", _setup(tmp_path)), lambda: reset_bisection(tmp_path / "a")):
        with pytest.raises(SearchError):
            call()
    assert (tmp_path / "a" / "precious").read_text() == "x"
    start_bisection(tmp_path / "b", _setup(tmp_path))
    with pytest.raises(SearchError, match="under way"):
        start_bisection(tmp_path / "b", _setup(tmp_path))
    reset_bisection(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_lines_are_checked() -> None:
    request = BisectRequest("c", "exclude", LOW, (CPU,))
    with pytest.raises(SearchError, match="no lines"):
        setup_of_lines(["", "  "], request)
    with pytest.raises(SearchError, match="'a' is there twice"):
        setup_of_lines(["a", "b", "a "], request)
    with pytest.raises(SearchError, match="Did you mean 'exclude'"):
        setup_of_lines(["a"], BisectRequest("c", "exclud", LOW, (CPU,)))


def test_a_format_can_be_registered() -> None:
    register_writer("shouted", lambda candidate: "".join(candidate.raised).upper())
    assert writer("shouted")(BisectCandidate(("a",), ("b",), ("a",), ("b",))) == "A"
    with pytest.raises(SearchError, match="needs a model"):
        writer("plan")(BisectCandidate((), (), (), ()))


def test_what_a_format_cannot_say_is_not_tested_and_the_next_is_written(tmp_path: Path) -> None:
    def write(candidate: BisectCandidate) -> str:
        if "n0" in candidate.low and "n11" in candidate.raised:
            raise UnsayableCandidate("n0 and n11 go together")
        return " ".join(candidate.raised)

    register_writer("coupled", write)
    found = start_bisection(tmp_path / "a", replace(_setup(tmp_path), format="coupled"))
    for _ in range(100):
        found.write_candidate()
        assert (tmp_path / "candidate.txt").read_text().split() == list(found.candidate.raised)
        if found.finding is not None:
            break
        found.record(Status.FAIL if "n11" in found.candidate.low else Status.PASS)
    unsayable = [answer for answer in found.answers if answer.status is Status.CANNOT_TEST]
    assert {answer.note for answer in unsayable} == {"not written: n0 and n11 go together"}
    assert "n11" in found.candidate.raised


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", Status.PASS),
        ("exit 1", Status.FAIL),
        ("exit 124", Status.FAIL),
        ("exit 125", Status.CANNOT_TEST),
        ("exit 128", Status.CANNOT_TEST),
        ("kill -9 $$", Status.CANNOT_TEST),
    ],
)
def test_exit_codes(script: str, status: Status) -> None:
    assert CommandOracle(["sh", "-c", script]).ask().status is status


def test_commands_that_are_not_there_are_mistakes_not_answers(tmp_path: Path) -> None:
    for command in (["/no/such/command"], ["sh", "-c", "no-such-command"], [str(tmp_path)]):
        with pytest.raises(SearchError, match="cannot be"):
            CommandOracle(command).ask()


@pytest.mark.parametrize("code", [126, 127])
def test_a_shell_that_cannot_run_the_command_says_so(code: int) -> None:
    with pytest.raises(SearchError, match=rf"^'sh' cannot be run \(exit code {code}\): it says nothing"):
        CommandOracle(["sh", "-c", f"exit {code}"]).ask()


def test_a_setup_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a" / "bisect.json").mkdir(parents=True)
    with pytest.raises(SearchError, match=r"bisect\.json: damaged: .*Is a directory"):
        Bisection.open(tmp_path / "a")


def test_a_request_certifies_only_when_told_to() -> None:
    request = BisectRequest("c", "exclude", LOW, (CPU,))
    assert not request.certify
    assert not setup_of_lines(["a"], request).certify


def test_a_time_out_ends_the_children_too(tmp_path: Path) -> None:
    mark, script = tmp_path / "children", 'echo $$ > "$0"; sleep 3600 & echo $! >> "$0"; sleep 3600'
    processes: list[str] = []
    timeout_s = 0.3
    while len(processes) < 2:
        heard = CommandOracle(["sh", "-c", script, str(mark)], timeout_s=timeout_s).ask()
        assert heard.status is Status.CANNOT_TEST
        processes = mark.read_text().split() if mark.exists() else []
        # A busy machine may not even start them in that time.
        timeout_s *= 2
    limit = time.monotonic() + work.PATIENCE_S
    while any(_lives(process) for process in processes):
        assert time.monotonic() < limit
        time.sleep(0.01)


def _lives(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("printed", "rule", "status", "metric"),
    [
        ("mAP=0.5 then mAP=0.8", MetricRule(pattern=r"mAP=([0-9.]+)", at_least=0.7), Status.PASS, 0.8),
        ("mAP=0.5", MetricRule(pattern=r"mAP=([0-9.]+)", at_least=0.7), Status.FAIL, 0.5),
        ("loss 3e-2", MetricRule(pattern=r"loss (\S+)", at_most=0.1), Status.PASS, 0.03),
        ("nothing", MetricRule(pattern=r"loss (\S+)", at_most=0.1), Status.CANNOT_TEST, None),
        ("loss nan", MetricRule(pattern=r"loss (\S+)", at_most=0.1), Status.CANNOT_TEST, None),
        ('{"a": {"b": [1, 2.5]}}', MetricRule(json_path="a.b[1]", at_least=2), Status.PASS, 2.5),
        ('log\n{"a": 1}\nend', MetricRule(json_path="a", at_least=2), Status.FAIL, 1.0),
        ('{"a": "x"}', MetricRule(json_path="a", at_least=2), Status.CANNOT_TEST, None),
        ('{"a": null}', MetricRule(json_path="a", at_least=2), Status.CANNOT_TEST, None),
    ],
)
def test_figures(tmp_path: Path, printed: str, rule: MetricRule, status: Status, metric: float | None) -> None:
    (tmp_path / "said").write_text(printed)
    heard = CommandOracle(["cat", str(tmp_path / "said")], rule).ask()
    assert (heard.status, heard.metric) == (status, metric)
    broken = CommandOracle(["sh", "-c", f"cat {tmp_path / 'said'}; exit 3"], rule).ask()
    assert broken.status is Status.CANNOT_TEST


@pytest.mark.parametrize(
    "rule",
    [
        MetricRule(at_least=1.0),
        MetricRule("x", "y", at_least=1.0),
        MetricRule("(x)"),
        MetricRule("(x)", at_least=1.0, at_most=2.0),
        MetricRule("x", at_least=1.0),
        MetricRule("(", at_least=1.0),
    ],
)
def test_rules_that_make_no_sense(rule: MetricRule) -> None:
    with pytest.raises(SearchError):
        rule.check()


def test_the_candidate_is_replaced_at_once(tmp_path: Path) -> None:
    found = start_bisection(tmp_path / "a", _setup(tmp_path))
    found.write_candidate()
    assert (tmp_path / "candidate.txt").read_bytes() == b"\n"
    found.record(Status.FAIL)
    found.write_candidate()
    assert (tmp_path / "candidate.txt").read_text().split() == list(found.candidate.raised) != []
    assert [item.name for item in tmp_path.iterdir() if "draft" in item.name] == []
    assert json.loads((tmp_path / "a" / "log.jsonl").read_text())["status"] == "fail"
    assert not os.stat(tmp_path / "candidate.txt").st_mode & stat.S_IXUSR


@pytest.mark.parametrize(
    ("rule", "text", "figure"),
    [
        (MetricRule(r"mAP=([0-9.]+) \((\w+)\)", at_least=0.5), "mAP=0.2 (a)\nmAP=0.7 (b)\n", 0.7),
        (MetricRule(r"mAP=([0-9.]+)", at_least=0.5), "mAP=0.2\nmAP=0.7\n", 0.7),
        (MetricRule(r"mAP=(\w+)", at_least=0.5), "mAP=0.2\nmAP=nan\n", None),
        (MetricRule(r"mAP=(\w+)", at_least=0.5), "nothing", None),
        (MetricRule(json_path="eval.map[1]", at_least=0.5), '{"eval": {"map": [0.1, 0.9]}}\nbye', 0.9),
    ],
)
def test_the_last_figure_counts(rule: MetricRule, text: str, figure: float | None) -> None:
    rule.check()
    assert rule.read(text) == figure


def test_a_figure_passes_on_its_side_of_the_limit() -> None:
    assert [MetricRule("(x)", at_least=0.5).passes(value) for value in (0.4, 0.5, 0.6)] == [False, True, True]
    assert [MetricRule("(x)", at_most=0.5).passes(value) for value in (0.4, 0.5, 0.6)] == [True, True, False]


def test_a_start_that_is_stopped_leaves_no_half_of_a_bisection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def stopped(path: Path, text: str, **options: str) -> int:
        write(path, text[: len(text) // 2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", stopped)
    with pytest.raises(KeyboardInterrupt):
        start_bisection(tmp_path / "b", _setup(tmp_path))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    start_bisection(tmp_path / "b", _setup(tmp_path))
