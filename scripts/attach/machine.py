"""Machines as agents and engines see them: a network, processes and their ids of their own. The disk is shared."""

import atexit
import contextlib
import ctypes
import os
import subprocess
import time
from pathlib import Path

from agent import child_of, inner_id

# Virtual machines are asked for their threads through files in /tmp that their process id names, so that no two machines
# may use the same ids.
FIRST = """i=0
while [ $i -lt "$0" ]; do (:); i=$((i + 1)); done
ip link set lo up
echo ready
sleep 600 & wait
"""


class Machine:
    """Runs until stopped; then all of its processes have ended. `first_pid`: what its process ids are above."""

    def __init__(self, first_pid: int):
        self.process = subprocess.Popen(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", FIRST, str(first_pid)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        atexit.register(self.stop)
        if self.process.stdout.readline() != "ready\n":
            raise OSError("no namespaces here (CAP_SYS_ADMIN, unshare, ip)")
        self.pid = child_of(self.process.pid)
        self.enter = ["nsenter", "-t", str(self.pid), "-n", "-p", "-m", "--"]

    def run(self, *command: str) -> None:
        subprocess.run([*self.enter, *command], check=True)

    def outer(self, pid: int) -> int:
        """What a process of it is called outside."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/pid") == own and inner_id(entry) == pid:
                    return int(entry.name)
        raise SystemExit(f"no process {pid} on the machine")

    @contextlib.contextmanager
    def network(self):
        """In it, this program is in the machine's network."""
        set_namespace = ctypes.CDLL(None, use_errno=True).setns
        with open("/proc/self/ns/net") as own, open(f"/proc/{self.pid}/ns/net") as other:
            if set_namespace(other.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "cannot enter a network")
            try:
                yield
            finally:
                set_namespace(own.fileno(), 0)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def join(a: Machine, b: Machine, addresses: tuple[str, str]) -> None:
    """By a cable."""
    # Names of namespaces are process ids as the caller sees them.
    subprocess.run(["nsenter", "-t", str(a.pid), "-n", "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable",
                    "netns", str(b.pid)], check=True)
    for machine, address in zip((a, b), addresses):
        machine.run("ip", "addr", "add", f"{address}/24", "dev", "cable")
        machine.run("ip", "link", "set", "cable", "up")
