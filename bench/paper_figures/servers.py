# SPDX-License-Identifier: Apache-2.0
"""Figure 12 with llama-server: servers on nodes of their own, each with a slow disk that nothing is cached of."""
import asyncio
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import time

from demo import cgroup, disturbance, prepare
from engines import catalog as engine_catalog, disk, models, ppc, runs
from engines.store import Missing, SuiteError
from loaders import residency

from . import balancer, catalog, sitting

PORT = 18461
WAYS = {"native": ppc.Native, "precache": ppc.Native, "maio": ppc.Run}
END_S = 30.0
CACHE_TRIES = 3  # another process may drop caches


class Server:
    """llama-server on a node; one at a time.  log: where its output goes."""

    def __init__(self, store, way, model, number, cpus, log):
        self.store, self.way, self.model, self.cpus, self.log = store, way, model, cpus, log
        self.port = PORT + number
        self.process = self.group = None

    def start(self):
        # Where there is AMX, llama.cpp would copy the weights.
        words = engine_catalog.llama_server_words(self.store, self.model, 1, self.port) + ["--no-repack"]
        self.group = cgroup.limited_cpus(f"ppc-servers-{os.getpid()}-{self.port}", self.cpus)
        if self.group is None:
            raise Missing("no control group here can limit CPUs")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*self.way.prefix(), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.store.path("home"),
                env=runs.environment(self.store, runs.Program(None, None), self.way), preexec_fn=self.group.enter)

    def is_running(self):
        return self.process.poll() is None

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.group.remove()
        self.process = self.group = None


class Node:
    """A slow disk with one image's model; entered while it is mounted."""

    def __init__(self, store, image, number):
        self.store, self.number = store, number
        self.disk = disk.Slow(models.ensure(store, image), store.path("nodes", str(number), "disk"))
        self.file = os.path.join(self.disk.mount, "model", catalog.SERVER_MODELS[image])

    def make_cold(self):
        disk.make_cold(os.path.dirname(self.file))

    def cache(self):
        for _ in range(CACHE_TRIES):
            with open(self.file, "rb") as file:
                while file.read(1 << 20):
                    pass
            if all(residency.of_file(self.file)):
                return
        raise SuiteError(f"{self.file}: not all of it stays cached")

    @contextlib.contextmanager
    def server(self, build, system, experiment):
        """It is started by the caller.  MAIO begins without a recording."""
        folder = self.store.path("nodes", str(self.number))
        for name in (folder, self.store.path("home")):
            os.makedirs(name, exist_ok=True)
        with WAYS[system](build, f"{folder}/ppc", os.path.dirname(self.file)) as way:
            server = Server(self.store, way, self.file, self.number, catalog.SERVER_CPUS[experiment], f"{folder}/{system}.log")
            try:
                yield server
            finally:
                server.stop()


def bins(times):
    """Tokens in each STEP_S."""
    counts = [0] * (int(max(times, default=0) / catalog.TOKEN_STEP_S) + 1)
    for at in times:
        counts[int(at / catalog.TOKEN_STEP_S)] += 1
    return counts


class Servers:
    """Of sitting.Sitting what bench/paper needs: run_all(), failed."""

    def __init__(self, store, build, records, until):
        self.store, self.build, self.records, self.until = store, build, records, until
        self.failed = 0

    def run_all(self, starts):
        self.build.check()
        with self.store.alone():
            self._run_all(starts)

    def _run_all(self, starts):
        for experiment in dict.fromkeys(start.model for start in starts):
            images = catalog.SERVER_IMAGES[experiment]
            with contextlib.ExitStack() as stack:
                nodes = [stack.enter_context(self._entered(image, number)) for number, image in enumerate(images)]
                for start in (start for start in starts if start.model == experiment):
                    if time.monotonic() > self.until:
                        raise sitting.TimeIsUp
                    self._start(start, nodes)

    @contextlib.contextmanager
    def _entered(self, image, number):
        node = Node(self.store, image, number)
        with node.disk:
            yield node

    def _start(self, start, nodes):
        prepare.say(f"{start.model} {start.system}, round {start.round}")
        try:
            tokens = self._tokens(nodes[0]) if start.model == "elastic" else catalog.SEQUENCE_TOKENS
            for node in nodes:
                node.make_cold()
            if start.system == "precache":
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    list(pool.map(Node.cache, nodes))
            watch = disturbance.Watch([os.getpid(), *(pid for node in nodes for pid in node.disk.pids())])
            before = [node.disk.counters().read_bytes() for node in nodes]
            found = (self._elastic if start.model == "elastic" else self._sequence)(start.system, nodes, tokens)
            taken = watch.end()
            read = [node.disk.counters().read_bytes() - one for node, one in zip(nodes, before)]
            for node in nodes:
                node.disk.check()
        except Missing:
            raise
        except (SuiteError, balancer.ServerError, OSError) as error:
            print(f"not ok {start.model} {start.system} {start.round} - {error}; see {self.store.path('nodes')}", flush=True)
            self.failed += 1
            return
        self.records.add(*start, {"date": time.strftime("%Y-%m-%d"), "others": round(sum(taken.values()), 4), "disk_bytes": read,
                                  **found})

    def _tokens(self, node):
        """Of an answer: what a server computes in a second on this machine."""
        key = (catalog.SERVERS, "elastic", "measured", "", 0)
        if self.records.get(*key) is None:
            node.cache()
            with node.server(self.build, "native", "elastic") as server:
                done = asyncio.run(balancer.occupy(server, 1000, catalog.MEASURE_S))
            times = done.requests[0].tokens
            first, last = times[0] - done.ready[server], times[-1] - times[0]
            each = last / (len(times) - 1)
            self.records.add(*key, {"date": time.strftime("%Y-%m-%d"), "first_s": round(first, 3), "token_s": round(each, 4),
                                    "tokens": max(2, 1 + round((1 - first) / each))})
        return self.records.get(*key)["tokens"]

    def _elastic(self, system, nodes, tokens):
        times = balancer.arrivals()
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(node.server(self.build, system, "elastic")) for node in nodes]
            done = asyncio.run(balancer.replay(times, servers, tokens))
        decided = balancer.scale_outs(times, len(nodes))
        return {"started": [round(at, 3) for at in decided], "ready": [round(done.ready[one], 3) for one in servers],
                "tokens": bins([at for one in done.requests for at in one.tokens]),
                "requests": [[round(one.arrived, 3), round(one.tokens[0] - one.arrived, 3)] for one in done.requests]}

    def _sequence(self, system, nodes, tokens):
        ready, counts = [], []
        for node in nodes:
            with node.server(self.build, system, "sequence") as server:
                done = asyncio.run(balancer.occupy(server, tokens, catalog.PERIOD_S))
            ready.append(round(done.ready.get(server, catalog.PERIOD_S), 3))
            counts.append(bins([at for one in done.requests for at in one.tokens]))
        return {"ready": ready, "tokens": counts}
