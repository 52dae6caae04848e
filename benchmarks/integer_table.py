"""Compare the reference's integer arithmetic with programs that we did not write, and print a table.

    python benchmarks/integer_table.py [--json] [--judge tflite-ref|tflite-rules|onnxruntime|ort-rules]

Judges: TFLite's reference kernels (BUILTIN_REF), for exact arithmetic (`tflite-ref`) and for TFLite's own rules, which
target `reference:tflite` has (`tflite-rules`: 99.99 % of every operator), and ONNX Runtime's integer kernels, for
exact arithmetic (`onnxruntime`) and for its own rules, which target `reference:ort` has (`ort-rules`: every element,
also where scales are chosen such that ties and float32 roundings are many).
`equal` is the share of output elements that are the same integer, `lsb` the largest difference. Where they differ by
design:

- TFLite multiplies accumulators with gemmlowp's fixed point (31 bits and two roundings; 15 bits where accumulators
  have 64 bits). The rows `gemmlowp` round the reference's own accumulators that way: what is left is no difference.
- TFLite's averages put ties away from zero; the rows `half away` run the reference with that rounding.
- TFLite's LeakyRelu, HardSwish and mean round more than once, and it quantises to 16 bits in another order;
  ONNX Runtime's Softmax looks exponentials up.
- ONNX Runtime's QLinearAveragePool counts what ceil_mode adds behind the padding; its float kernel does not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from judges import ort_judge, ort_rules_judge, tflite_judge, tflite_rules_judge
from judges.trial import Score

_JUDGES = (tflite_judge.JUDGE, tflite_rules_judge.JUDGE, ort_judge.JUDGE, ort_rules_judge.JUDGE)


def scores(judge: str | None = None) -> list[Score]:
    """Return the comparison of every trial with one judge, or with all of them."""
    found: list[Score] = []
    if judge in (None, tflite_judge.JUDGE):
        found += [tflite_judge.judge_trial(trial) for trial in tflite_judge.trials()]
        found += [tflite_judge.judge_accumulators(trial) for trial in tflite_judge.rounded_twice()]
    if judge in (None, tflite_rules_judge.JUDGE):
        found += tflite_rules_judge.rules_scores()
    if judge in (None, ort_judge.JUDGE):
        found += [ort_judge.judge_trial(trial) for trial in ort_judge.trials()]
    if judge in (None, ort_rules_judge.JUDGE):
        found += ort_rules_judge.rules_scores()
    return found


def table(found: Sequence[Score]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'judge':12} {'case':42} {'elements':>9} {'equal':>10} {'lsb':>4}"
    for item in sorted(found, key=lambda item: (item.judge, item.label)):
        yield f"{item.judge:12} {item.label:42} {item.elements:9} {item.share:10.4%} {item.max_lsb:4}"


def main() -> None:
    """Print the table, or everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--judge", choices=_JUDGES)
    arguments = parser.parse_args()
    found = scores(arguments.judge)
    if arguments.json:
        print(json.dumps([asdict(item) | {"share": item.share} for item in found], indent=1))
    else:
        print("\n".join(table(found)))


if __name__ == "__main__":
    main()
