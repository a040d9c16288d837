# SPDX-License-Identifier: Apache-2.0
"""A balancer before servers that come and go: requests wait in one queue, and a server that is idle takes the next one.

Times are seconds since the balancer began.  One thread; every method that waits is a coroutine.
"""
import asyncio
import contextlib
import dataclasses
import json
import os
import time

TRACE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "arrivals.txt")
LOOK_BACK_S, EACH_PER_S = 5.0, 1.0
POLL_S = 0.02


class ServerError(Exception):
    """A server that ends, or answers nothing; one line."""


def arrivals(path=TRACE):
    """Seconds at which requests arrive."""
    with open(path, encoding="utf-8") as file:
        return [float(line) for line in file if line.strip() and not line.startswith("#")]


def scale_outs(times, most):
    """When servers are started: the first with the first request, one more when more requests came lately than all answer.
    This depends on the trace alone, so that it is the same for every system."""
    found = list(times[:1])
    for index, at in enumerate(times):
        lately = sum(at - LOOK_BACK_S < one <= at for one in times[:index + 1])
        if len(found) < most and lately > EACH_PER_S * LOOK_BACK_S * len(found):
            found.append(at)
    return found


@dataclasses.dataclass
class Request:
    arrived: float
    tokens: list = dataclasses.field(default_factory=list)  # when each came


async def events(port, body):
    """The objects that a server streams as its answer to one request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        data = json.dumps(body).encode()
        writer.write(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        status = await reader.readline()
        if b" 200 " not in status:
            raise ServerError(f"answered {status.decode(errors='replace').strip() or 'nothing'}")
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])
    finally:
        writer.close()


async def is_healthy(port):
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b" 200 " in await reader.readline()
        finally:
            writer.close()
    return False


class Balancer:
    """tokens: of each answer.  A server has start(), is_running(), stop() and a port."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.begun = time.monotonic()
        self.waiting = asyncio.Queue()
        self.requests = []
        self.ready = {}  # server -> when it was ready

    def now(self):
        return time.monotonic() - self.begun

    async def until(self, at):
        await asyncio.sleep(max(0.0, at - self.now()))

    def ask(self):
        request = Request(self.now())
        self.requests.append(request)
        self.waiting.put_nowait(request)

    async def start(self, server):
        """Returns when it can answer."""
        server.start()
        while not await is_healthy(server.port):
            if not server.is_running():
                raise ServerError("it ended before it was ready")
            await asyncio.sleep(POLL_S)
        self.ready[server] = self.now()

    async def serve(self, server):
        """Without end."""
        while True:
            request = await self.waiting.get()
            # A prompt of its own: nothing of an earlier one can be used again.
            body = {"prompt": f"{request.arrived:.2f}", "n_predict": self.tokens, "stream": True,
                    "temperature": 0, "seed": 1, "ignore_eos": True, "cache_prompt": False}
            async for event in events(server.port, body):
                if not event.get("stop"):
                    request.tokens += [self.now()] * max(1, len(event.get("tokens", ())))
            self.waiting.task_done()


async def replay(times, servers, tokens):
    """Servers scale out as the requests of a trace arrive: the balancer, when all are answered."""
    balancer = Balancer(tokens)

    async def scale_out(at, server):
        await balancer.until(at)
        await balancer.start(server)
        await balancer.serve(server)

    async def all_answered():
        for at in times:
            await balancer.until(at)
            balancer.ask()
        await balancer.waiting.join()

    others = [asyncio.create_task(scale_out(*one)) for one in zip(scale_outs(times, len(servers)), servers)]
    await _first_of(asyncio.create_task(all_answered()), others)
    return balancer


async def occupy(server, tokens, seconds):
    """One server, from its start for so many seconds, has always one request: the balancer."""
    balancer = Balancer(tokens)

    async def busy():
        await balancer.start(server)
        serving = asyncio.create_task(balancer.serve(server))
        try:
            while not serving.done():
                balancer.ask()
                await asyncio.wait([serving, asyncio.create_task(balancer.waiting.join())], return_when=asyncio.FIRST_COMPLETED)
            serving.result()
        finally:
            serving.cancel()

    await _first_of(asyncio.create_task(balancer.until(seconds)), [asyncio.create_task(busy())])
    return balancer


async def _first_of(main, others):
    """Waits for main; another that ends before, ends by an error."""
    try:
        await asyncio.wait([main, *others], return_when=asyncio.FIRST_COMPLETED)
        for one in others:
            if one.done():
                one.result()
        await main
    finally:
        for one in (main, *others):
            one.cancel()
        await asyncio.gather(main, *others, return_exceptions=True)
