"""Ports for engines, which bind them long after they were chosen."""

from __future__ import annotations

import random
import socket
import sys
from pathlib import Path

import pytest

from kvlab.ports import free_port

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(sys.platform != "linux", reason="the range is read where Linux states it")
def test_no_outgoing_connection_is_given_a_port_that_waits_for_its_engine() -> None:
    low, high = map(int, RANGE.read_text().split())
    if low < 32_768:
        pytest.skip("this machine gives lower ports than Linux does by itself to outgoing connections")
    ports = {free_port() for _ in range(200)}
    assert len(ports) > 100
    assert not [port for port in ports if low <= port <= high]


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1] >= 1024


def test_a_seed_of_the_caller_chooses_no_port_and_stays_where_it_was() -> None:
    """Two processes seeded alike would both be told the same one, before either listens."""
    random.seed(1)
    before = random.getstate()
    first = [free_port() for _ in range(5)]
    assert random.getstate() == before
    assert first != [free_port() for _ in range(5)]
