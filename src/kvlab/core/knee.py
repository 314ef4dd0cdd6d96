"""The knee: where throughput stops to rise with the load, by two asymptotes.

A closed system's throughput lies below two lines, one that rises with the load and one that its bottleneck sets, and
its knee is where they cross (Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing
Surveys 10(3), 1978, section 5.2). In an open system throughput is what is offered, up to the capacity. Both are

    throughput = capacity x min(1, load / knee) ^ slope

with a slope of 1 in an open loop, and one that is fitted in a closed one, where a batch of twice the requests takes
somewhat longer. It is fitted by least squares on the logarithms: a line that breaks at the knee and is level beyond it
(Hudson, Journal of the American Statistical Association 61, 1966, "Fitting segmented curves whose join points have to
be estimated").

The interval is a bootstrap: in each resample every point's slices are drawn anew, and the points' distances from the
curve change sign at random (the wild bootstrap: Wu, The Annals of Statistics 14(4), 1986), so that a curve that fits
badly has a wide interval. It abstains when the data do not bend: fewer than four points, no rise, or an interval that
reaches the highest load or leaves less than `BEND` between the rising line and what was seen there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvlab.core.statistics import LEVEL
from kvlab.core.sweep import Estimate, Knee, Over

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BEND = 1.1
"""At the highest load the rising line must lie this much above the level one."""
FEWEST = 4
"""Points below which two lines can always be laid through."""
RESAMPLES = 1000
_GRID = 200
METHOD = {
    "concurrency": "two asymptotes on logarithms, a rising and a level one; wild bootstrap over slices and points",
    "rate": "what is offered up to a level capacity, on logarithms; wild bootstrap over slices and points",
}


class Curve(NamedTuple):
    """One load and the output tokens a second of each slice of its steady time."""

    load: float
    rates: tuple[float, ...]


def knee(over: Over, curves: Sequence[Curve], seed: int = 0) -> Knee:
    """Where throughput stops to rise, with its 95 % interval, or why that cannot be said."""
    usable = sorted(curve for curve in curves if curve.rates and sum(curve.rates) > 0)
    if len(usable) < FEWEST:
        points = "1 point" if len(usable) == 1 else f"{len(usable)} points"
        return _abstains(over, f"{points} with a steady throughput; at least {FEWEST} are needed")
    import numpy as np

    loads = np.log([curve.load for curve in usable])
    means = np.array([np.mean(curve.rates) for curve in usable])
    fit = _Fit(loads, sloped=over == "concurrency")
    at, slope, level = fit.best(np.log(means)[None, :])
    fitted = fit.values(at, slope, level)[0]
    # A fit of 2 or 3 numbers takes their share out of the misfit, which is given back.
    freedom = max(1, len(usable) - (3 if over == "concurrency" else 2))
    misfit = (np.log(means) - fitted) * (len(usable) / freedom) ** 0.5
    drawn = _draws(usable, fitted, (misfit, freedom), seed)
    ats, slopes, levels = fit.best(drawn)
    found = [
        _interval(np.exp(at)[0], np.exp(ats)),
        _interval(slope[0], slopes),
        _interval(np.exp(level)[0], np.exp(levels)),
    ]
    return _judged(over, (usable[0].load, usable[-1].load), found)


def _judged(over: Over, ends: tuple[float, float], found: list[Estimate]) -> Knee:
    at, slope, level = found
    lowest, highest = ends
    reach, least = at.high or at.value, slope.low if slope.low is not None else slope.value
    if least <= 0 or (slope.value < 0.1):
        return _abstains(over, f"throughput does not rise from the lowest load, {lowest:g}: its knee is there or below")
    if (highest / reach) ** slope.value < BEND:
        return _abstains(
            over,
            f"the data do not bend up to {highest:g}: throughput may still rise there (a knee anywhere from"
            f" {at.low:.3g} to beyond {highest:g} fits)",
        )
    rises = "in proportion to" if over == "rate" else f"as the power {slope.value:.2f} of"
    return Knee(
        code="found",
        load=at,
        output_throughput=level,
        slope=slope,
        method=METHOD[over],
        because=f"below it throughput rises {rises} the load, beyond it stays at {level.value:,.4g} tokens a second",
    )


def _abstains(over: Over, because: str) -> Knee:
    return Knee(code="abstains", load=None, output_throughput=None, slope=None, method=METHOD[over], because=because)


class _Fit:
    """Least squares of log throughput on min(log load, log knee), over a grid of knees; whole batches at a time."""

    def __init__(self, loads: Array, *, sloped: bool) -> None:
        import numpy as np

        # A slope of its own needs two points at or below the knee.
        self._knees = np.linspace(loads[1 if sloped else 0], loads[-1], _GRID)
        self._loads, self._sloped = loads, sloped
        self._lines = np.minimum(loads[None, :], self._knees[:, None])
        self._centred = self._lines - self._lines.mean(axis=1, keepdims=True)

    def best(self, rows: Array) -> tuple[Array, Array, Array]:
        """Log knee, slope and log level of each row of log throughputs."""
        import numpy as np

        centred = rows - rows.mean(axis=1, keepdims=True)
        spread = (self._centred**2).sum(axis=1)
        slopes = centred @ self._centred.T / spread if self._sloped else np.ones((len(rows), _GRID))
        # |y - s x|^2 = |y|^2 - 2 s xy + s^2 xx, without the values themselves
        misfit = -2 * slopes * (centred @ self._centred.T) + slopes**2 * spread
        chosen = misfit.argmin(axis=1)
        each = np.arange(len(rows))
        slope = slopes[each, chosen]
        level = rows.mean(axis=1) + slope * (self._knees[chosen] - self._lines[chosen].mean(axis=1))
        return self._knees[chosen], slope, level

    def values(self, at: Array, slope: Array, level: Array) -> Array:
        """Log throughputs of the curve at each load."""
        import numpy as np

        lines = np.minimum(self._loads[None, :], at[:, None]) - at[:, None]
        return np.asarray(level[:, None] + slope[:, None] * lines, dtype=float)


def _draws(curves: Sequence[Curve], fitted: Array, off: tuple[Array, int], seed: int) -> Array:
    """Log throughputs of each resample: the curve, the slices' own scatter, and the misfit with a random sign.

    `off` is the misfit with its degrees of freedom: it is known from few points, so its size is drawn as Student's is.
    """
    import numpy as np

    rng = np.random.default_rng(abs(seed))
    scatter = np.empty((RESAMPLES, len(curves)))
    for column, curve in enumerate(curves):
        rates = np.array(curve.rates)
        means = rates[rng.integers(0, len(rates), size=(RESAMPLES, len(rates)))].mean(axis=1)
        scatter[:, column] = np.log(np.maximum(means, rates.mean() / 100) / rates.mean())
    misfit, freedom = off
    signs = rng.choice((-1.0, 1.0), size=scatter.shape) * (freedom / rng.chisquare(freedom, (RESAMPLES, 1))) ** 0.5
    return np.asarray(fitted + scatter + signs * misfit, dtype=float)


def _interval(value: float, drawn: Array) -> Estimate:
    import numpy as np

    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return Estimate(float(value), min(float(low), float(value)), max(float(high), float(value)))
