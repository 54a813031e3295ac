# SPDX-License-Identifier: MIT
"""What breaks the parts of the cluster: one fault after the other, sometimes two at once, each healed after a while.

The order of faults is drawn from the seed: all kinds on all parts they are for, shuffled, then anew.
"""
import random
import threading
import time
import traceback


class Nemesis:
    def __init__(self, cluster, recorder, seed, hold, kinds=None):
        self.cluster, self.net, self.recorder = cluster, cluster.net, recorder
        self.rng = random.Random(f'{seed}/nemesis')
        self.kinds = kinds # no others; None: all
        self.hold = hold # seconds: the shortest, and the mean of what comes on top
        self.deck, self.n, self.failure = [], 0, None
        self.stopping = threading.Event()

    def all_kinds(self):
        daemons, nodes = [d.name for d in self.cluster.daemons], [n.name for n in self.cluster.memory.nodes]
        everywhere = [*daemons, *nodes, 'primary', 'standby']
        return [*(('kill', part) for part in [*daemons, *everywhere]), *(('pause', part) for part in [*daemons, *everywhere]),
                *(('cut', part) for part in everywhere), *(('delay', part) for part in [*daemons, 'primary', 'standby']),
                *(('one-way', part) for part in daemons), *(('apart', part) for part in [*daemons, 'standby']),
                *(('fill', part) for part in [*daemons, 'primary', 'standby']), *(('skew', part) for part in daemons),
                ('flush', 'memory'), ('failover', 'primary'), ('failover', 'primary'), ('failover-behind', 'primary'),
                ('lost-answers', 'primary')]

    def draw(self, busy=None):
        """The next fault; beside another one, one that does not need what that has."""
        for _ in range(2):
            if not self.deck:
                self.deck = [fault for fault in self.all_kinds() if not self.kinds or fault[0] in self.kinds]
                self.rng.shuffle(self.deck)
            for i in range(len(self.deck)):
                if not self.group(self.deck[i][1]) & self.group(busy):
                    return self.deck.pop(i)
            self.deck = []
        return None

    @staticmethod
    def group(part):
        return {'database' if part in ('primary', 'standby') else part} - {None}

    def run(self, n_faults, until):
        """So many faults, or until then."""
        while self.n < n_faults and time.monotonic() < until and not self.stopping.is_set() and not self.failure:
            first = self.draw()
            if not first:
                raise ValueError(f'no faults are of these kinds: {self.kinds}')
            pair = [first]
            if self.rng.random() < 0.25 and self.n + 1 < n_faults:
                pair += filter(None, [self.draw(busy=first[1])])
            # All that is random is drawn here, not in the threads.
            plans = [(fault, self.hold[0] + min(self.rng.expovariate(1 / self.hold[1]), 6 * self.hold[1]), self.rng.random())
                     for fault in pair]
            threads = [threading.Thread(target=self.one, args=plan) for plan in plans]
            for thread in threads:
                thread.start()
                self.stopping.wait(self.hold[0] / 3)
            for thread in threads:
                thread.join()
            self.n += len(pair)
            self.stopping.wait(self.rng.expovariate(1 / self.hold[1]) / 2)
        if self.failure:
            raise self.failure

    def one(self, fault, hold, chance):
        kind, part = fault
        self.recorder.write('fault', phase='begin', kind=kind, on=part, hold=round(hold, 3))
        try:
            getattr(self, kind.replace('-', '_'))(part, hold, chance)
        except Exception as e: # the rig itself does not work: the run is worth nothing
            traceback.print_exc()
            self.failure = e
        self.recorder.write('fault', phase='end', kind=kind, on=part)

    def wait(self, seconds):
        self.stopping.wait(seconds)

    # --- whom it is about ---

    def process(self, part):
        return self.cluster.processes[part]

    def site(self, part):
        """The namespace of a part."""
        sites = self.cluster.database.sites
        return {'primary': sites[0], 'standby': sites[1]}.get(part, part)

    def server(self, part):
        database = self.cluster.database
        return {'primary': database.primary, 'standby': database.standby}.get(part)

    def other(self, part, chance):
        """A part that this one talks with."""
        if part == 'standby':
            return self.site('primary')
        others = [self.site('primary'), self.site('standby'), *(n.name for n in self.cluster.memory.nodes)]
        return self.site('primary') if chance < 0.6 else others[int(chance * 100) % len(others)]

    # --- faults ---

    def kill(self, part, hold, _chance):
        server = self.server(part)
        if server:
            server.kill()
            self.wait(hold)
            self.cluster.database.start(server)
            return
        self.process(part).kill()
        self.wait(hold)
        self.process(part).start()

    def pause(self, part, hold, _chance):
        target = self.server(part) or self.process(part)
        target.pause()
        self.wait(hold)
        target.resume()

    def cut(self, part, hold, _chance):
        site = self.site(part)
        self.net.cut(site)
        self.wait(hold)
        self.net.cut(site, False)

    def one_way(self, part, hold, chance):
        ends = [self.site(part), self.other(part, chance)]
        if int(chance * 1000) % 2:
            ends.reverse()
        self.net.drop(*ends)
        self.wait(hold)
        self.net.restore(*ends)

    def apart(self, part, hold, chance):
        """Two parts do not reach each other, and all others do."""
        one, other = self.site(part), self.other(part, chance)
        self.net.drop(one, other)
        self.net.drop(other, one)
        self.wait(hold)
        self.net.restore(one, other)
        self.net.restore(other, one)

    def delay(self, part, hold, _chance):
        site = self.site(part)
        self.net.delay(site)
        self.wait(2 * hold)
        self.net.hurry(site)

    def fill(self, part, hold, _chance):
        server = self.server(part)
        disk = self.cluster.database.disks[self.site(part)] if server else self.process(part).disk
        disk.fill()
        self.wait(hold)
        disk.free()
        if server: # it may have given up
            self.cluster.database.start(server)

    def skew(self, part, hold, chance):
        """The clock jumps; half of the times it stays wrong until it jumps again."""
        self.process(part).skew((chance - 0.5) * 7200)
        self.wait(hold)
        if int(chance * 1000) % 2:
            self.process(part).skew(0)

    def flush(self, _part, _hold, _chance):
        self.cluster.memory.flush()

    def failover(self, _part, hold, _chance):
        database = self.cluster.database
        database.primary.kill()
        self.wait(hold / 2)
        database.take_over()

    def failover_behind(self, _part, hold, chance):
        """The standby lags when the primary crashes and comes back, with what it has not sent; then the standby takes over."""
        database = self.cluster.database
        ends = self.site('primary'), self.site('standby')
        if chance < 0.5:
            database.standby.pause()
        else:
            self.net.drop(*ends)
        self.wait(hold)
        database.primary.kill()
        database.start(database.primary)
        self.wait(hold)
        database.primary.kill()
        if chance < 0.5:
            database.standby.resume()
        else:
            self.net.restore(*ends)
        database.take_over()

    def lost_answers(self, _part, hold, _chance):
        """The server does what it is told, and nobody hears of it; then it crashes."""
        database = self.cluster.database
        site = self.site('primary')
        daemons = [d.name for d in self.cluster.daemons]
        for name in daemons:
            self.net.drop(site, name)
        self.wait(hold)
        database.primary.kill()
        for name in daemons:
            self.net.restore(site, name)
        database.start(database.primary)
