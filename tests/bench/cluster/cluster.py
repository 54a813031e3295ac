# SPDX-License-Identifier: MIT
"""The parts of tools/bench cluster, in the order in which they run."""

from fleet import need_servers
from mixed import part_throughput
from move import part_move
from rest import part_rest


def with_servers(part):
    def run(b):
        need_servers()
        part(b)
    return run


CLUSTER_PARTS = {"move": with_servers(part_move), "throughput": with_servers(part_throughput), "rest": with_servers(part_rest)}
