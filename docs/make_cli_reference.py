"""Write docs/reference/cli.md from the commands themselves.

python docs/make_cli_reference.py            # writes the page
python docs/make_cli_reference.py --check    # fails when the page is out of date
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

from typer.main import get_command

from dovetail.cli.main import GROUPS, VERBS, app
from dovetail.cli.verb import Verb, shared_options

PAGE = Path(__file__).parent / "reference" / "cli.md"

EXAMPLES = {
    "demo": "dovetail demo -o dovetail-out",
    "inspect": "dovetail inspect model.onnx\ndovetail inspect model.onnx --ranges ranges.json --json",
    "explain": "dovetail explain model.onnx --target vsi:v853,vsi:a311d --precision i8pc --refused",
    "calibrate": "dovetail calibrate model.onnx --data calib.npz --method percentile --percentile 99.9 -o ranges.json",
    "plan": "dovetail plan model.onnx --place vsi:v853@i8pc --fallback vsi:v853@i16 --fallback cpu@fp32 -o plan.json\n"
    "dovetail plan model.onnx --recipe recipe.toml -o plan.json\n"
    "dovetail plan model.onnx --device 'vsi:a311d,openvino:CPU,cpu' --affinity 'op:Softmax=cpu' -o plan.json",
    "advise": "dovetail advise model.onnx --most-ms 10\n"
    "dovetail advise model.onnx --target vsi:v853 --sizes 224,288,320\n"
    "dovetail advise model.onnx --target vsi:v853 --rewrites --write-model rewritten.onnx",
    "report": "dovetail report out -o report.html\ndovetail report out-before out-after -o both.html",
    "check": "dovetail check out/plan.json --model model.onnx --data samples.npz --junit check.xml --markdown check.md",
    "diff": "dovetail diff out-before out-after\ndovetail diff plan.json out/bundle --json",
    "edit": "dovetail edit out/plan.json --set 'head/*=i16' --set stem/conv=cpu -o edited.json",
    "bisect": "dovetail bisect start --model model.onnx --data calib.npz --candidate exclude.txt\n"
    "dovetail bisect run -- ./evaluate.sh exclude.txt\ndovetail bisect log",
    "cost": "dovetail cost model.onnx --target vsi:v853\ndovetail cost model.onnx --plan plan.json --costs board.json",
    "verify": "dovetail verify model.onnx --plan plan.json --ranges ranges.json --against vsi\n"
    "dovetail verify model_int8.tflite --target vsi:a311d --samples 4\n"
    "dovetail verify model.onnx --plan plan.json --ranges ranges.json --on v853",
    "judge": "dovetail judge model_int8.tflite --data samples.npz --float model.tflite --target vsi:a311d\n"
    "dovetail judge model.qdq.onnx --data photos/ --target vsi:v853 --max-drop 2% --nodes --json",
    "reduce": "dovetail reduce model.onnx --plan plan.json --ranges ranges.json --against vsi -o case\n"
    "dovetail reduce model_int8.tflite --target vsi:a311d --budget 200/1800 -o case",
    "quantize": "dovetail quantize model.onnx --plan plan.json --ranges ranges.json -o model.qdq.onnx",
    "compile": "dovetail compile model.onnx --plan plan.json --ranges ranges.json -o bundle\n"
    "dovetail compile model.onnx --plan plan.json --device 'openvino:CPU(threads=2)' --fallback cpu@fp32 -o bundle",
    "profile": "dovetail profile bundle --data samples.npz --runs 50 --trace trace.json",
    "run": "dovetail run bundle --data samples.npz --tap head/score --save measured\n"
    "dovetail run model.onnx --data samples.npz --save golden",
    "compare": "dovetail compare golden measured\n"
    "dovetail compare model.onnx bundle --data samples.npz --metric top1 --layers",
    "tune": "dovetail tune model.onnx --data samples.npz --metric top1 --target vsi:v853 --max-drop 1% -o out\n"
    "dovetail tune model.onnx --data pictures/ --preprocess pre.toml --metric score.py:score --low u8 -o out\n"
    "dovetail tune model.onnx --data samples.npz --workers 4 --trial-timeout 600 --log search.jsonl -o out\n"
    "dovetail tune model.onnx --data samples.npz --dask tcp://boards:8786 --resource npu=1 -o out",
    "repair": "dovetail repair model.onnx --data pictures/ --target vsi:a311d -o healed.onnx",
    "split": "dovetail split model.onnx --head -o parts\n"
    "dovetail split model.onnx --plan plan.json --ranges ranges.json --data samples.npz -o parts",
    "replay": "dovetail replay search.jsonl",
    "serve": "dovetail serve out\n"
    "dovetail serve out --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem",
    "devices": "dovetail devices --json\ndovetail devices --on v853",
    "export": "dovetail export plan.json --model model.onnx --format paddle-subgraph --listing log.txt -o sub.txt\n"
    "dovetail export plan.json --model model.onnx --format onnx-qdq --ranges ranges.json -o model.qdq.onnx\n"
    "dovetail export plan.json --model model.onnx --format onnx-grid --ranges ranges.json -o model.grid.onnx",
    "import-plan": "dovetail import-plan x.quantize --model x.onnx --format acuity-quantize --listing x.json",
    "formats": "dovetail formats",
    "paddle lint": (
        "dovetail paddle lint subgraph.txt --log log.txt\n"
        "dovetail paddle lint subgraph.txt --log log.txt --plan plan.json --model model.onnx --cache cache"
    ),
    "paddle fix": "dovetail paddle fix subgraph.txt -o fixed.txt",
    "paddle match": "dovetail paddle match subgraph.txt --mixed mixed.txt --log log.txt --for v2.12",
    "paddle from-log": "dovetail paddle from-log log.txt -o subgraph.txt",
    "acuity compare": "dovetail acuity compare golden/ quantised/ --slice box=0:4 --slice class=4:",
    "acuity golden": "dovetail acuity golden x.onnx --data d.npz --network x.json --samples 3 -o golden",
    "acuity lint": "dovetail acuity lint model.quantize --network model.json\ndovetail acuity lint model_inputmeta.yml",
    "doctor": "dovetail doctor",
    "board add": "dovetail board add v853 grpcs://192.168.1.20:8001 --token-file token --ca cert.pem",
    "board list": "dovetail board list",
    "farm status": "dovetail farm status scheduler.json",
    "farm worker": "dovetail farm worker scheduler.json --on v853 --part vsi:v853",
    "calibrate-cost": "dovetail calibrate-cost model.onnx --ranges ranges.json --place vsi:v853@i8pc --on v853 -o "
    "costs.json",
    "board kit": "dovetail board kit out/bundle --data samples.npz --layers -o kit.tar",
    "explain-diff": "dovetail explain-diff model.onnx --plan plan.json --ranges ranges.json --data x.npz "
    "--bundle out/bundle --on v853\n"
    "dovetail explain-diff model.onnx --plan plan.json --ranges ranges.json --data x.npz --tensors dumped/ -o report",
    "board remove": "dovetail board remove v853",
    "env list": "dovetail env list",
    "env install": "dovetail env install torch paddle",
    "env remove": "dovetail env remove tensorflow --converted",
    "sdk install": "dovetail sdk install verisilicon\ndovetail sdk install verisilicon --from acuitylite-6.57.1.whl",
    "sdk status": "dovetail sdk status --json",
    "sdk failures": "dovetail sdk failures\ndovetail sdk failures --forget all",
    "sdk probe": "dovetail sdk probe vsi:v853 vsi:pid=0x88 --precision u8,i16 -o parts.json",
    "bundle pack": "dovetail bundle pack bundle -o model.dvb",
    "bundle unpack": "dovetail bundle unpack model.dvb -o bundle",
    "bundle onnx": "dovetail bundle onnx bundle -o model.ctx.onnx",
    "openvino apply": "dovetail openvino apply plan.json --model model.onnx --device vsi:v853=NPU -o net.xml",
    "bundle example": "dovetail bundle example bundle -o example --pixels div:255.0",
    "job run": "dovetail job run bundle --data samples.npz --labels labels.csv --metric top1 --on v853",
    "job list": "dovetail job list",
    "job show": "dovetail job show k3x\ndovetail job show k3x --json",
    "job resume": "dovetail job resume k3x",
    "job remove": "dovetail job remove k3x",
    "job schema": "dovetail job schema > job.schema.json",
    "ort check": (
        "dovetail ort check model.onnx --model model.onnx --plan plan.json "
        "--provider vsi:imx8mp=VSINPUExecutionProvider"
    ),
    "nbg extract": "dovetail nbg extract bundle -o networks",
    "nbg info": "dovetail nbg info network_binary.nb",
}

HEAD = """# Commands

Written by `docs/make_cli_reference.py` from the commands themselves; do not edit it.

Every command reads its options, makes one call into the library, and shows the answer. Answers go to stdout,
everything else to stderr. Files are written all or nothing, and nothing that Dovetail did not make is overwritten.
Colours follow the terminal and `NO_COLOR`.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | done; the target is met |
| 1 | the answer is no: a comparison fails, a search is not accepted |
| 2 | bad input; one line on stderr says what, where, why and what to try |
| 70 | a defect of Dovetail; `--debug` shows where |
| 130 | interrupted; the journal of a search is kept |
| 143 | terminated (SIGTERM); the same |
"""


def page() -> str:
    """Return the page."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    shared = shared_options()
    parts = [
        HEAD,
        "## Options of every command",
        "",
        *_table(p for p in commands["devices"].params if p.name in shared),
    ]
    kinds = dict(VERBS)
    for group, (_, verbs) in GROUPS.items():
        for name, kind in verbs.items():
            kinds[f"{group} {name}"] = kind
            commands[f"{group} {name}"] = commands[group].commands[name]
    for name, kind in kinds.items():
        own = [parameter for parameter in commands[name].params if parameter.name not in shared]
        parts += ["", f"## dovetail {name}", "", *_prose(kind), "", "```console"]
        parts += [f"$ {line}" for line in EXAMPLES[name].splitlines()] + ["```"]
        if own:
            parts += ["", *_table(own)]
    return "\n".join(parts) + "\n"


def _prose(kind: type[Verb]) -> list[str]:
    paragraphs = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
    return "\n\n".join(textwrap.fill(" ".join(text.split()), 120) for text in paragraphs).splitlines()


def _table(parameters: Any) -> list[str]:
    rows = ["| option | default | what |", "| --- | --- | --- |"]
    for item in parameters:
        argument = not item.opts[0].startswith("-")
        name = item.metavar if argument else ", ".join(item.opts)
        value = "" if argument or not item.metavar else f" {item.metavar}"
        what = (item.help or "").replace("|", "\\|")
        rows.append(f"| `{name}{value}` | {_default(item)} | {what} |")
    return rows


def _default(item: Any) -> str:
    if item.required:
        return "required"
    return "" if item.default in (None, False, (), []) else f"`{item.default}`"


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
