# SPDX-License-Identifier: MIT
"""The parts of tools/bench service, in the order in which they run."""

from backup import part_backup
from fairness import part_fairness
from held import part_held
from questions import part_map
from start import part_activation, part_start
from trips import part_trips

SERVICE_PARTS = {"start": part_start, "activation": part_activation, "round-trips": part_trips, "idle": part_held,
                 "fairness": part_fairness, "backup": part_backup, "map": part_map}
