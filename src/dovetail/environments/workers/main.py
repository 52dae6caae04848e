"""The converter's process: standard library first, confined, then one converter's packages.

Started by path in an environment that holds no Dovetail: `python -I -B main.py WORKER FOLDER PIPE`. It reads
request.json in FOLDER, may write there and nowhere else, and answers on PIPE with lines of JSON: any number of
{"step", "share"}, then {"done"} or {"refused"}.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from confine import confine, limit
from wording import Refusal, first_line


def main(arguments: list[str]) -> int:
    """Convert one model."""
    worker, folder, pipe = arguments
    request = json.loads((Path(folder) / "request.json").read_text())
    limit(request["cpu_s"], request["memory"])
    confined = confine(folder)

    def say(message: dict[str, Any]) -> None:
        os.write(int(pipe), json.dumps(message).encode() + b"\n")

    say({"step": "starting the converter", "share": 0.05})
    try:
        answer = import_module(worker).convert(request, lambda step, share: say({"step": step, "share": share}))
    except Refusal as error:
        say({"refused": str(error)})
        return 0
    except Exception as error:
        # The converters' libraries raise anything; the traceback goes to the log.
        import traceback

        traceback.print_exc()
        say({"refused": f"{request['label']}: the converter refused it: {first_line(error)}"})
        return 0
    say({"done": {**answer, "confined": confined}})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
