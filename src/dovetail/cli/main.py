"""The command line: `dovetail VERB ...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from dovetail import __version__
from dovetail.cli.acuity_compare import AcuityCompare
from dovetail.cli.acuity_golden import AcuityGolden
from dovetail.cli.acuity_lint import AcuityLint
from dovetail.cli.advise import Advise
from dovetail.cli.bisect import Bisect
from dovetail.cli.board_add import BoardAdd
from dovetail.cli.board_kit import BoardKit
from dovetail.cli.board_list import BoardList
from dovetail.cli.board_remove import BoardRemove
from dovetail.cli.bundle_example import BundleExample
from dovetail.cli.bundle_onnx import BundleOnnx
from dovetail.cli.bundle_pack import BundlePack
from dovetail.cli.bundle_unpack import BundleUnpack
from dovetail.cli.calibrate import Calibrate
from dovetail.cli.calibrate_cost import CalibrateCost
from dovetail.cli.check import CheckVerb
from dovetail.cli.compare import Compare
from dovetail.cli.compile import Compile
from dovetail.cli.cost import Cost
from dovetail.cli.demo import Demo
from dovetail.cli.devices import Devices
from dovetail.cli.diff import Diff
from dovetail.cli.doctor import Doctor
from dovetail.cli.edit import EditVerb
from dovetail.cli.env_install import EnvInstall
from dovetail.cli.env_list import EnvList
from dovetail.cli.env_remove import EnvRemove
from dovetail.cli.explain import Explain
from dovetail.cli.explain_diff import ExplainDiff
from dovetail.cli.export import Export
from dovetail.cli.farm_status import FarmStatusVerb
from dovetail.cli.farm_worker import FarmWorker
from dovetail.cli.formats import Formats
from dovetail.cli.import_plan import ImportPlan
from dovetail.cli.inspect import Inspect
from dovetail.cli.job_list import JobList
from dovetail.cli.job_remove import JobRemove
from dovetail.cli.job_resume import JobResume
from dovetail.cli.job_run import JobRun
from dovetail.cli.job_schema import JobSchema
from dovetail.cli.job_show import JobShow
from dovetail.cli.judge import Judge
from dovetail.cli.memory import is_memory_short
from dovetail.cli.nbg_extract import NbgExtract
from dovetail.cli.nbg_info import NbgInfo
from dovetail.cli.openvino_apply import OpenvinoApply
from dovetail.cli.ort_check import OrtCheck
from dovetail.cli.output import drop_output, safe_output, tell
from dovetail.cli.paddle_fix import PaddleFix
from dovetail.cli.paddle_from_log import PaddleFromLog
from dovetail.cli.paddle_lint import PaddleLint
from dovetail.cli.paddle_match import PaddleMatch
from dovetail.cli.plan import PlanVerb
from dovetail.cli.profile import Profile
from dovetail.cli.quantize import Quantize
from dovetail.cli.reduce import ReduceVerb
from dovetail.cli.repair import RepairVerb
from dovetail.cli.replay import Replay
from dovetail.cli.report import ReportVerb
from dovetail.cli.run import RunVerb
from dovetail.cli.sdk_failures import SdkFailures
from dovetail.cli.sdk_install import SdkInstall
from dovetail.cli.sdk_probe import SdkProbe
from dovetail.cli.sdk_status import SdkStatus
from dovetail.cli.serve import Serve
from dovetail.cli.signals import Terminated, asked_to_end
from dovetail.cli.split import SplitVerb
from dovetail.cli.tune import Tune
from dovetail.cli.verb import ExitCode, Verb, add_verb
from dovetail.cli.verify import Verify

VERBS: dict[str, type[Verb]] = {
    "demo": Demo,
    "inspect": Inspect,
    "explain": Explain,
    "advise": Advise,
    "calibrate": Calibrate,
    "plan": PlanVerb,
    "cost": Cost,
    "calibrate-cost": CalibrateCost,
    "quantize": Quantize,
    "compile": Compile,
    "run": RunVerb,
    "profile": Profile,
    "compare": Compare,
    "verify": Verify,
    "explain-diff": ExplainDiff,
    "judge": Judge,
    "reduce": ReduceVerb,
    "repair": RepairVerb,
    "split": SplitVerb,
    "tune": Tune,
    "replay": Replay,
    "report": ReportVerb,
    "check": CheckVerb,
    "diff": Diff,
    "edit": EditVerb,
    "bisect": Bisect,
    "serve": Serve,
    "devices": Devices,
    "export": Export,
    "import-plan": ImportPlan,
    "formats": Formats,
    "doctor": Doctor,
}

GROUPS: dict[str, tuple[str, dict[str, type[Verb]]]] = {
    "paddle": (
        "Work on the files of Paddle Lite and FastDeploy.",
        {"lint": PaddleLint, "fix": PaddleFix, "match": PaddleMatch, "from-log": PaddleFromLog},
    ),
    "acuity": (
        "Work on the files of Acuity (pegasus).",
        {"compare": AcuityCompare, "lint": AcuityLint, "golden": AcuityGolden},
    ),
    "openvino": ("Work with OpenVINO.", {"apply": OpenvinoApply}),
    "ort": ("Work with ONNX Runtime.", {"check": OrtCheck}),
    "env": (
        "Make, list and remove the environments of converters (PyTorch, TensorFlow, Paddle).",
        {"list": EnvList, "install": EnvInstall, "remove": EnvRemove},
    ),
    "board": (
        "Name the boards that --on knows, see what is there, and make kits for those without a network.",
        {"add": BoardAdd, "list": BoardList, "remove": BoardRemove, "kit": BoardKit},
    ),
    "farm": (
        "Boards of a Dask cluster: who is there, and how one joins.",
        {"status": FarmStatusVerb, "worker": FarmWorker},
    ),
    "job": (
        "Run a bundle over samples here or on a board, beside what was predicted; jobs can be gone on with.",
        {
            "run": JobRun,
            "list": JobList,
            "show": JobShow,
            "resume": JobResume,
            "remove": JobRemove,
            "schema": JobSchema,
        },
    ),
    "bundle": (
        "Hand bundles on.",
        {"pack": BundlePack, "unpack": BundleUnpack, "onnx": BundleOnnx, "example": BundleExample},
    ),
    "sdk": (
        "Install and examine vendors' SDKs.",
        {"install": SdkInstall, "status": SdkStatus, "probe": SdkProbe, "failures": SdkFailures},
    ),
    "nbg": ("Look into VeriSilicon's binary networks.", {"info": NbgInfo, "extract": NbgExtract}),
}
"""Commands of two words: the first word, what it is about, and the second words."""

HELP = """Fit one neural network across an NPU and a CPU.

Exit codes: 0 done, or the target is met; 1 the answer is no (a comparison fails, a search is not accepted);
2 bad input, one line on stderr says what; 70 a defect of Dovetail; 130 interrupted; 143 terminated.
"""

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "terminal_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dovetail {__version__}")
        raise typer.Exit


@app.callback(help=HELP, invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _name, _kind in VERBS.items():
    add_verb(app, _name, _kind)
add_verb(app, "load", Inspect, hidden=True)
for _group, (_title, _verbs) in GROUPS.items():
    _sub = typer.Typer(rich_markup_mode=None, help=_title, no_args_is_help=True)
    for _name, _kind in _verbs.items():
        add_verb(_sub, _name, _kind)
    app.add_typer(_sub, name=_group)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; mistakes in the options are one line on stderr."""
    command = typer.main.get_command(app)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    try:
        with safe_output():
            code = command.main(args=given, prog_name="dovetail", standalone_mode=False)
    except SystemExit as end:
        # That is how help ends where its reader has gone, and completion.
        drop_output()
        return ExitCode.DONE if end.code == 1 else int(end.code or 0)
    except OSError as error:
        if is_memory_short(error):
            raise
        # Commands tell their own errors: what is left is that nobody takes what they say.
        drop_output()
        if isinstance(error, BrokenPipeError):
            return ExitCode.DONE
        tell(f"error: the output cannot be written: {error.strerror}.\n")
        return ExitCode.BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        tell("error: interrupted: nothing was written.\n")
        return ExitCode.INTERRUPTED
    except Exception as error:
        # Typer carries its own copy of Click, whose exceptions have no public name: they know how to show themselves.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        line = " ".join(str(message()).split()).rstrip(".?!") + "."
        where = getattr(getattr(error, "ctx", None), "command_path", "dovetail")
        if line == "Missing option '--target'.":
            line += " For example --target vsi:v853; 'dovetail devices' lists targets."
        tell(f"error: {line} Try '{where} --help'.\n")
        return ExitCode.BAD_INPUT
    if code == ExitCode.INTERRUPTED and not isinstance(code, ExitCode):
        # Typer's own number, without a word, for a signal between the line and its command.
        tell("error: interrupted: nothing was written.\n")
        return ExitCode.TERMINATED if asked_to_end() is Terminated else ExitCode.INTERRUPTED
    return code if isinstance(code, int) else ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
