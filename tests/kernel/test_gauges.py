"""ferrule.kernel.gauges: counts are asked for, never kept."""

from __future__ import annotations

import gc

from ferrule.kernel.gauges import gauges_of
from ferrule.kernel.server import Server


class Holder:
    """Something that holds things."""

    def __init__(self, count: int) -> None:
        self.count = count


def test_counts_of_one_name_are_summed_while_their_holders_exist() -> None:
    """A server may have several endpoints, and one that is gone must not be kept by being counted."""
    server = Server("x")
    gauges = gauges_of(server)
    one, other = Holder(2), Holder(3)
    gauges.add("things", one, lambda found: found.count)
    gauges.add("things", other, lambda found: found.count)
    assert gauges_of(server).read("things") == 5
    one.count = 7
    assert gauges.read("things") == 10
    del one
    gc.collect()
    assert gauges.read("things") == other.count == 3
    assert gauges.read("nothing") == 0
    assert gauges_of(Server("y")).read("things") == 0
