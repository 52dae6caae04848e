"""Every number that steers a search, in one frozen value that the log of a search carries.

Each field says its unit, why it is what it is, and where that comes from. "Judgement" means that nobody measured it.
"In view" names the model that was looked at while it was chosen: on that model it is no evidence. Scores do not depend
on a policy, but for `EvaluationPolicy.cuts`, which is a part of the evaluator's identity; the answer does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from dovetail.search.plain import value_of


@dataclass(frozen=True, slots=True)
class RacePolicy:
    """How soon a losing plan is rejected."""

    alpha: float = 0.001
    """Probability, for each plan, of rejecting what the whole split would pass: 50 rejections are then all right with a
    probability of 0.95 (union bound). ADR 11."""
    stakes: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
    """Shares of the largest stake that leaves no debt; their average needs no guess of the loss. Judgement, ADR 11."""
    first_block: int = 16
    """Samples of the first look; each later block doubles what was seen. Simulated in benchmarks/racing.py."""
    first_share: float = 0.25
    """Share of a small split that the first look takes at most. ADR 14, with YOLOX in view."""
    preview: int = 64
    """Samples at least of a look at the hold-out that may refuse a plan at once. Judgement."""
    glance: int = 3
    """Samples at least of a preview, which is a hint and no verdict: exact simulation takes many times as long as fast
    simulation. Judgement."""


@dataclass(frozen=True, slots=True)
class PriorPolicy:
    """What ranks units before anything is evaluated."""

    concat_ratio: float = 16.0
    """Ratio of input ranges beyond which a Concat cannot share one 8-bit scale: 4 of 8 bits are lost. DESIGN 7."""
    operators: Mapping[str, float] = field(
        default_factory=lambda: {
            "Exp": 0.5,
            "Pow": 0.5,
            "Reciprocal": 0.5,
            "Div": 0.3,
            "Softmax": 0.2,
            "LayerNormalization": 0.2,
        }
    )
    """Added to the score (a noise share, 0 to 2) of a unit with such an operator. Judgement."""


@dataclass(frozen=True, slots=True)
class SensitivityPolicy:
    """How units are measured alone."""

    least_samples: int = 2
    """Samples that outputs are compared on, at least. ADR 14, with YOLOX in view."""
    most_samples: int = 8
    """Samples at most: noise is a mean over many values, so that a few samples tell it. Judgement."""
    values: int = 1 << 16
    """Output values that are compared where fewer than `most_samples` have as many. ADR 14, with YOLOX in view."""
    plans: int = 96
    """Plans that are measured at most; a larger network is measured in blocks first. Judgement."""
    blocks: int = 32
    """Plans of these for equal blocks of a larger network, before the worst are split. Judgement."""


@dataclass(frozen=True, slots=True)
class GroupTestPolicy:
    """How groups of units are tested for the ones that matter (bisection by odds)."""

    expected: float = 2.0
    """Units that matter, expected before anything is known. benchmarks/bisect_table.py, the digit detector in view."""
    even: float = 0.5
    """Share of the odds that is the same for all: what a wrong suspicion can cost is about a run for each unit that
    matters. benchmarks/bisect_paddle.py, PP-OCRv3 in view."""
    most_odds: float = 0.9
    """Largest chance before anything is known that one unit matters. Judgement."""
    most_chance: float = 0.95
    """Largest chance later on: no unit is ever taken for certain. Judgement."""
    beside: tuple[float, ...] = (0.2, 0.1)
    """Chances at least that the lines after one that matters matter too, in the order of the network: a tensor that
    breaks has two ends. Three in a row of 236 lines take one run more than with 0.35, 0.2, 0.1, three anywhere two
    fewer; the lines of PP-OCRv3 in view."""
    light: float = 0.5
    """Share of the mean weight below which a line is left out of that count. Judgement."""
    retries: int = 2
    """How often a candidate that cannot be tested is tried again where there is no other to try. Judgement."""
    failures: int = 4
    """Failures in a row after which it is asked whether anything passes at all. benchmarks/bisect_table.py, the digit
    detector in view."""


@dataclass(frozen=True, slots=True)
class CulpritPolicy:
    """How a passing set of raised units is found and made smaller."""

    trusted: int = 8
    """Units that are raised on the word of the prior; when these do not suffice, units are measured. Judgement."""
    first_chunk: float = 0.25
    """Share of a set that is put back at once first. Judgement."""
    many: int = 32
    """Units of a set from which on groups are tested before single units. ADR 14, with PP-OCR and YOLOX in view."""
    crowd: int = 4
    """Groups of a large set that have to stay after which nothing more is expected of others. ADR 14, with PP-OCR and
    YOLOX in view."""
    rank_scale: float = 8.0
    """Rank at which the weight of a unit in a group test has halved. Judgement."""
    longest_end: float = 0.75
    """Share of the network beyond which a passing beginning or end only says that units matter on either side. ADR 14,
    with PP-OCR and YOLOX in view."""


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """How the noise that a metric bears is found where nearly every unit does harm."""

    tests: int = 10
    """Bisections at most of what a plan takes. Judgement."""
    worthwhile: float = 0.01
    """Share of its latency that a plan of many raised units has to save for a test of it: prices are no more exact, and
    each test takes a run over the samples. Judgement."""
    solutions: int = 6
    """Programmes that are solved at most for a plan in the middle of two. Judgement."""
    groups: int = 8
    """Groups that a large set is divided into, to see which can be spared: an eighth of it saves latency that counts.
    Judgement."""
    span: float = 1e3
    """Times by which the price may be lower or higher than where latency and noise of all units weigh alike.
    Judgement."""


@dataclass(frozen=True, slots=True)
class ProofPolicy:
    """How far the cheapest plan is looked for and proven."""

    small: int = 60
    """Units of a graph that counts as small: its plans take little time. Judgement."""
    tests_of_small: int = 240
    """Plans that are tested for a small graph: enough to prove most. Digits and benchmark A in view."""
    tests: int = 60
    """Plans that are tested for a larger graph. Judgement."""
    tests_of_a_unit: int = 2
    """Tests that it takes at least to say why a unit has to be raised; a proof that cannot be completed is not begun.
    ADR 14, with PP-OCR in view."""
    tests_of_many: int = 2
    """Plans that are tested where a proof is not begun: the cheapest that raises all that passes. Judgement."""
    removals: int = 60
    """Tests of a plan without one of its units that makes it slower. ADR 14, with PP-OCR in view."""
    row: int = 4
    """Such tests in a row that fail after which a large set of raised units is left as it is. Judgement."""
    gap: float = 0.01
    """Share of the latency above its lower bound at which a plan for a larger graph is cheap enough: another test can
    save no more, and prices are no more exact. Judgement."""
    contradictions: int = 5
    """Proposals that fail although they raise all that a passing plan raises, after which the proof ends. Judgement."""


@dataclass(frozen=True, slots=True)
class SolverPolicy:
    """How the integer programme is solved; the answer is the same but for ties and time limits."""

    states: int = 20_000
    """Combinations of places in a stretch of the network that is contracted: a table of 160 kB. Judgement."""
    whole: int = 600
    """Integer variables up to which a programme is solved as it is. benchmarks/placement.py."""
    direct: int = 3000
    """Integer variables up to which HiGHS's own search is the faster one. benchmarks/placement.py."""


@dataclass(frozen=True, slots=True)
class AcceptancePolicy:
    """How plans are judged by samples that did not select them."""

    confidence: float = 0.95
    """Confidence of all bounds together: what one expects who reads of a bound. Convention."""
    looks: int = 3
    """Plans that the search selects and the hold-out is asked of at most: each takes half of the doubt that is left, so
    that the fourth look has to be sixteen times as sure as one alone. Judgement, ADR 19."""
    reserve: float = 0.5
    """Standard errors of its loss by which a plan has to be better than the goal on the split that selects it: of many
    plans that pass there, the cheapest is lucky. benchmarks/verdicts.py, with other seeds than its page has."""
    doubled: float = 0.05
    """Probability at most of paying for a plan that takes twice as long and is no better; half an octave more latency
    takes the root of that, so that what costs nothing needs no evidence. Convention, ADR 19."""
    errors_doubled: float = 1.5
    """Standard errors by which a plan has to miss the goal for one that takes twice as long to be its answer; half an
    octave takes half of that. benchmarks/verdicts.py, with other seeds than its page has, ADR 31."""


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """How repairs are checked before they are tried."""

    float_error: float = 1e-3
    """Share of an output's largest value by which a repair that claims to keep float may move it: rounding in float32
    through a deep network, and a tenth of what a byte can tell apart. Judgement."""
    samples: int = 32
    """Samples on which that is checked, and on which the noise of outputs is measured. Judgement."""
    share: float = 0.05
    """Share of the whole loss that weights, or activations, have to do alone for what heals them to be tried.
    Judgement."""
    errors: float = 1.0
    """Standard errors by which the scores of two variants differ: the better one is so on other samples with odds of
    about five to one; noise tells those apart that are nearer. PP-OCR and UltraFace in view."""
    halvings: int = 7
    """Halvings at most of the way from an end of an output's range to its median, in search of what is needed of it:
    with the seventh a byte is lost. Judgement."""
    clipped: float = 0.001
    """Agreement of detections with float's that clipping float's outputs may cost, and the share of the loss that is
    allowed which it may cost. Judgement."""
    tightened: float = 0.25
    """Share of an output's range that may be needed for the rest to be cut off: more gains less than two bits.
    Judgement."""
    most_gates: int = 32
    """Groups of gates that are freed at most. Judgement."""
    paid_plans: int = 60
    """Plans at most that a search over a graph with repairs that cost latency judges: it is there to save latency, and
    may not double the time of a search. Judgement."""


@dataclass(frozen=True, slots=True)
class CutPolicy:
    """Where the fast simulation cuts a graph into pieces."""

    pieces: int = 6
    """Pieces at most: more build less and cost more at the cuts. Measured on the searches of ADR 12."""
    nodes: int = 8
    """Nodes that a piece has on average at least. Judgement."""
    leeway: float = 0.35
    """Share of a piece by which a cut may move to where less is alive. Judgement."""
    macs_per_element: int = 16
    """Multiply-accumulates that take about as long as one element that is read or written. Measured, ADR 12."""
    node_elements: int = 2000
    """Elements that take about as long as the start of a node. Measured, ADR 12."""


@dataclass(frozen=True, slots=True)
class EvaluationPolicy:
    """How plans are evaluated: cuts, and bounds of what is kept in memory."""

    cuts: CutPolicy = field(default_factory=CutPolicy)
    state_bytes: int = 1 << 26
    """Bytes of what crosses cuts; eight times as many save no time. benchmarks/search_cost.py."""
    state_share: float = 0.125
    """Share of these that one entry may take: more would push out all that is about to be used. Judgement."""
    built_bytes: int = 3 << 25
    """Bytes of built pieces. benchmarks/search_cost.py."""
    weight_copies: int = 3
    """Copies of a weight in a session: as serialised, as initialised, and packed for the kernel.
    benchmarks/search_cost.py."""
    node_bytes: int = 16384
    """Bytes that a node takes in a session beside its weights: 10 to 25 kB. benchmarks/search_cost.py."""
    golden_bytes: int = 1 << 26
    """Bytes of outputs of the float model. Judgement."""


@dataclass(frozen=True, slots=True)
class SearchPolicy:
    """Every number that steers a search, by stage."""

    race: RacePolicy = field(default_factory=RacePolicy)
    prior: PriorPolicy = field(default_factory=PriorPolicy)
    sensitivity: SensitivityPolicy = field(default_factory=SensitivityPolicy)
    group_test: GroupTestPolicy = field(default_factory=GroupTestPolicy)
    culprits: CulpritPolicy = field(default_factory=CulpritPolicy)
    budget: BudgetPolicy = field(default_factory=BudgetPolicy)
    proof: ProofPolicy = field(default_factory=ProofPolicy)
    solver: SolverPolicy = field(default_factory=SolverPolicy)
    acceptance: AcceptancePolicy = field(default_factory=AcceptancePolicy)
    repair: RepairPolicy = field(default_factory=RepairPolicy)
    evaluation: EvaluationPolicy = field(default_factory=EvaluationPolicy)

    def document(self) -> dict[str, object]:
        """Return the policy as plain JSON values."""
        return asdict(self)


def policy_of(document: object) -> SearchPolicy:
    """Return the policy that `SearchPolicy.document` gave; raise SearchError naming a field that does not fit."""
    policy: SearchPolicy = value_of(SearchPolicy, document, "policy")
    return policy
