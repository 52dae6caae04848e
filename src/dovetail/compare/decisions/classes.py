"""Classes: the accuracy that a candidate would have, were the float model's probabilities right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, Floats, output_pair
from dovetail.compare.task import Arrays
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.decode.planes import activate
from dovetail.outputs.layouts import Activation, ScoresLayout


@dataclass(frozen=True)
class ClassAgreement(AgainstFloat):
    """Score the probability, by the float model, of the class that the candidate chooses.

    Where float's probabilities are right, the mean is the candidate's top-1 accuracy, and float's own score is its
    accuracy; where float is undecided between two classes, either is nearly as good. Ids agree or not. Classes that do
    not exclude each other are a yes or no each, and a sample scores the mean probability of those answers.
    """

    layout: ScoresLayout
    name: str = "classes"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        golden, measured = output_pair(outputs, labels, self.layout.output)
        count = len(golden)
        if self.layout.labels:
            same = golden.reshape(count, -1) == measured.reshape(count, -1)
            return np.asarray(same.mean(axis=1), np.float64)
        if self.layout.classes > 1 and golden.size // count > self.layout.classes:
            return self._steps(golden, measured)
        real, found = (np.asarray(values, np.float64).reshape(count, -1) for values in (golden, measured))
        return self._scores(real, found)

    def _steps(self, golden: AnyArray, measured: AnyArray) -> Floats:
        """Return `[N]`: the mean over the steps of a sequence, each with classes of its own."""
        axis = self.layout.axis + 1
        tables = [np.moveaxis(np.asarray(values, np.float64), axis, -1) for values in (golden, measured)]
        real, found = (table.reshape(-1, table.shape[-1]) for table in tables)
        return np.asarray(self._scores(real, found).reshape(len(golden), -1).mean(axis=1), np.float64)

    def _scores(self, real: Floats, found: Floats) -> Floats:
        """Return `[N]` for rows `[N, classes]`."""
        usable = ~np.isnan(found).any(axis=1)
        if self.layout.independent or real.shape[1] == 1:
            return np.where(usable, self._answers(real, found), 0.0)
        shares = activate(real, self.layout.activation, Activation.SOFTMAX)
        chosen = np.nan_to_num(found, nan=-np.inf).argmax(axis=1)
        return np.where(usable, shares[np.arange(len(real)), chosen], 0.0)

    def _answers(self, real: Floats, found: Floats) -> Floats:
        """Return `[N]`: how probable the yes and no are, the classes that either affirms counting alone.

        Where neither affirms any, all classes count.
        """
        golden, measured = (activate(values, self.layout.activation, Activation.SIGMOID) for values in (real, found))
        yes = measured > 0.5
        probable = np.where(yes, golden, 1.0 - golden)
        counted = yes | (golden > 0.5)
        counted |= ~counted.any(axis=1, keepdims=True)
        return np.asarray((probable * counted).sum(axis=1) / counted.sum(axis=1), np.float64)
