"""What looking for NaN at every border costs (`Guard.NUMBERS`), in processor time, beside the same session without.

python benchmarks/runtime_numbers.py [--rounds N] [--side PIXELS]
"""

from __future__ import annotations

import statistics
import time

from dovetail.runtime import Guard, Session, SessionOptions, open_session
from runtimes.net import arguments, compiled, cut, even, image_for, mobilenet


def main() -> None:
    """Print the median ratio over the rounds, for each number of pieces."""
    options = arguments(__doc__).parse_args()
    graph = mobilenet(options.side)
    feed = {graph.inputs[0]: image_for(options.side)}

    def one(session: Session) -> float:
        session.run(feed)
        start = time.process_time()
        session.run(feed)
        return time.process_time() - start

    print("pieces   ratio")
    for pieces in (1, 2, 8):
        bundle = compiled(cut(graph, even(pieces), ("cpu", "ort:CPU"))[1])
        with open_session(bundle) as plain, open_session(bundle, SessionOptions(Guard.NUMBERS)) as guarded:
            ratios = [one(guarded) / one(plain) for _ in range(options.rounds)]
        print(f"{pieces:6} {statistics.median(ratios):7.3f}")


if __name__ == "__main__":
    main()
