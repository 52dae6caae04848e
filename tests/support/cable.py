"""A bad cable between two network namespaces: `python cable.py NEAR FAR DEVICE DELAY_MS LOSS SEED`.

It holds a TUN device of that name in either namespace and hands IP packets on between the two, each later by the delay
and some of them never. It prints `ready`, and when its standard input is closed `handed on N, lost M`. Linux's own
netem does the same, where the kernel has it.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_TUN, _NO_INFORMATION = 0x0001, 0x1000
_NETWORK = 0x40000000
_PACKET = 65536


def open_tun(namespace: str, name: str) -> int:
    """Return a TUN device's descriptor in a namespace; raise OSError where one cannot be had."""
    own, other = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.setns(other, _NETWORK):
            raise OSError(ctypes.get_errno(), f"setns: {namespace}")
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN | _NO_INFORMATION))
    finally:
        libc.setns(own, _NETWORK)
        os.close(own)
        os.close(other)
    return device


def main() -> int:
    """Hand packets on until standard input ends."""
    near, far, name, delay_ms, loss, seed = sys.argv[1:]
    rng, numbers = random.Random(seed), itertools.count()
    one, other = open_tun(near, name), open_tun(far, name)
    opposite = {one: other, other: one}
    under_way: list[tuple[float, int, int, bytes]] = []
    handed = lost = 0
    ended = sys.stdin.fileno()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        wait_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select([one, other, ended], [], [], wait_s)
        if ended in ready:
            break
        for device in ready:
            packet = os.read(device, _PACKET)
            if rng.random() < float(loss):
                lost += 1
            else:
                due = time.monotonic() + float(delay_ms) / 1000
                heapq.heappush(under_way, (due, next(numbers), opposite[device], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(under_way)
            try:
                os.write(device, packet)
                handed += 1
            except OSError:
                # The device is down.
                lost += 1
    sys.stdout.write(f"handed on {handed}, lost {lost}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
