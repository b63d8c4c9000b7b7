"""The benchmarks speak of nets that there are, and say truly what is met."""

import os

import bars
import bench_nets
import memory
import pytest
import report
import scaling
import speed


def test_every_line_is_about_a_net_and_a_figure():
    assert len({line.key for line in bars.ALL}) == len(bars.ALL)
    for entry in report.entries():
        family, _, size = entry.partition(":")
        assert family in bench_nets.FAMILIES
        assert int(size) > 0
    columns = {line.key.split()[1] for line in [*bars.MESSAGES, *bars.BYTES]}
    assert columns <= set(speed.COLUMNS)


def test_what_is_met_is_said_to_be_met():
    more, less = bars.BYTES[0], bars.GROWTH[0]
    assert more.more_is_better
    assert not less.more_is_better
    found = {more.key: more.bar, less.key: less.bar * 1.01, bars.MEMORY[0].key: 0.0}
    verdicts = [row.split("|")[-2].strip() for row in report.table(found).splitlines()[2:]]
    assert verdicts == ["bar", "goal", "missed"]


def test_a_net_of_every_family_is_measured():
    row = speed.one("chain", 10, 1, 1.0, with_reference=False)
    assert row["ops"] == 10
    assert row["messages"] > 0
    assert row["messages/floor"] == row["messages"] / row["floor"]
    for family in scaling.WIDE:
        seconds, ops, size = scaling.call(family, 3, 1)
        assert seconds >= 0
        assert min(ops, size) > 0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="asks Linux for the memory")
def test_memory_is_that_of_a_fresh_process():
    (peak, texts), ops = memory.run(memory.PEAK, "chain", 2000, "bytes")
    assert ops == 2000
    # An answer of so many operators is some hundred kilobytes, in texts and bytes alone.
    assert 50_000 < texts < peak * 2**20
