"""`make bench-broker`: leases with their reports a second, what each costs, and how long a call takes at half that load."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.broker.fleet import OWN_DOMAINS, PROXIES, SHARING_DOMAINS, fleet
from bench.broker.load import Order, Outcome, drive
from limpet.kit.log import setup_logging

GOAL = 20_000
GOAL_MS = 20.0


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def table(full: Outcome, half: Outcome, given: argparse.Namespace) -> str:
    lines = [
        f"{PROXIES} proxies with passwords; {OWN_DOMAINS} domains with pools of their own, {SHARING_DOMAINS} that share the rest;"
        f" batches of {given.batch}, {given.at_once} at once; {given.brokers} broker(s):",
        f"{'':>6} {'leases/s':>9} {'refused':>8} {'client':>8} {'broker':>8} {'PostgreSQL':>11} {'all':>7}   CPU-µs per lease with report",
    ]
    for name, outcome in (("full", full), ("half", half)):
        costs = [1e6 * outcome.cpu[of] / max(outcome.leases, 1) for of in ("client", "broker", "PostgreSQL")]
        lines.append(
            f"{name:>6} {outcome.rate:>9,.0f} {outcome.refused:>8,} {costs[0]:>8.1f} {costs[1]:>8.1f} {costs[2]:>11.1f}"
            f" {sum(costs):>7.1f}"
        )
    lines.append(f"\n{'':>6} {'p50 ms':>18} {'p99 ms':>18}   one call, lease / report")
    for name, outcome in (("full", full), ("half", half)):
        both = [
            "{:.1f} / {:.1f}".format(*(percentile(ms, share) for ms in (outcome.lease_ms, outcome.report_ms)))
            for share in (0.5, 0.99)
        ]
        lines.append(f"{name:>6} {both[0]:>18} {both[1]:>18}")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.broker", description=__doc__)
    options.add_argument("--batch", type=int, default=200, help="wants in one call")
    options.add_argument("--at-once", type=int, default=4, help="calls under way at full load")
    options.add_argument("--brokers", type=int, default=1, choices=(1, 2), help="broker processes")
    options.add_argument("--seconds", type=float, default=8.0, help="how long each load lasts")
    given = options.parse_args()
    setup_logging("bench", "WARNING")
    with fleet(brokers=given.brokers) as running:
        common = {"addresses": running.addresses, "batch": given.batch, "seconds": given.seconds}
        full = drive(running, Order(**common, at_once=given.at_once))
        half = drive(running, Order(**common, at_once=given.at_once, rate=min(GOAL, full.rate) / 2))
    print(table(full, half, given), flush=True)
    slow = max(percentile(half.lease_ms, 0.99), percentile(half.report_ms, 0.99))
    return 0 if full.rate >= GOAL and slow < GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
