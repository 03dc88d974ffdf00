"""What share of the CPU threads get against what each translator asked for, and what an agent of 200 threads costs."""

import os
import re
import subprocess
import time
import urllib.request

from agent import Agent, threads

# Most urgent first; each could fill the machine.
JOBS = ("a", "b", "c")
INSTANCES = os.cpu_count()
CONFIGURATION = """policy = "static"
translator = "{translator}"
share = {share}
listen = "127.0.0.1:{port}"
[[engine]]
kind = "threads"
name = "busy"
process = 'laxity\\.workload\\.BusyThreads'
names = "linux"
thread = '^(?P<query>[a-z])-(?P<operator>\\w+)-(?P<instance>\\d+)$'
"""
PORT = 19464
# Of each core, at most, for the real-time threads of operators: the rest is for the others.
ROUND_ROBIN_SHARE = 0.7
WITHIN = 0.05


class Busy:
    """A process of named threads, until stopped; on one core if `is_pinned`."""

    def __init__(self, bench, names: list[str], is_pinned: bool):
        pin = ["taskset", "-c", "0"] if is_pinned else []
        self.process = subprocess.Popen(
            [*pin, "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx64m", "-cp", str(bench.settings.jar),
             "laxity.workload.BusyThreads", *names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.pid = self.process.pid
        self.names = {name.lstrip("~") for name in names}

    def cpu_s(self) -> dict[str, float]:
        return {thread.name: thread.cpu_s for thread in threads(self.pid).values() if thread.name in self.names}

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(10)


def configuration(bench, translator: str, share: str) -> str:
    path = bench.folder / "busy.toml"
    jobs = [f'[[job]]\nname = "{job}"\npriority = {len(JOBS) - place}.0\n'
            for place, job in enumerate(JOBS)]
    if translator == "rr":
        # The real-time class is for jobs with a target only.
        jobs = [f'[[job]]\nname = "{JOBS[0]}"\ntarget = "10 ms"\npriority = 2.0\n']
    path.write_text(CONFIGURATION.format(translator=translator, share=share, port=PORT) + "".join(jobs))
    return str(path)


def measure(bench) -> None:
    # Quotas count over all cores, and the kernel lends real-time ones between them. The others are kept on one core, where the
    # share that a thread gets does not depend on where the others are.
    translators = {"nice": (["--nice", "-5..5"], True), "shares": ([], True), "query-shares+nice": ([], True),
                   "rr": ([], False), "quota": ([], False)}
    phase_s = max(bench.settings.phase_s / 2, 3)
    for round_ in range(bench.settings.rounds):
        for translator, (arguments, is_pinned) in translators.items():
            busy = Busy(bench, [f"{job}-work-{i}" for job in JOBS for i in range(INSTANCES)], is_pinned)
            agent = None
            try:
                agent = Agent(bench.settings.laxity, bench.folder / "shares",
                              ["--config", configuration(bench, translator, bench.settings.share), *arguments])
                if translator == "rr" and "CONFIG_RT_GROUP_SCHED" in agent.text():
                    bench.say("shares: this kernel gives a group of cgroup v2 no real-time; rr is left out")
                    continue
                asked = asked_shares(translator)
                before, begin = busy.cpu_s(), time.time()
                time.sleep(phase_s)
                after, wall_s = busy.cpu_s(), time.time() - begin
            finally:
                if agent:
                    agent.stop()
                busy.stop()
            # Jobs that the translator tells apart; "bc": all that is not in the real-time class.
            got_s = {jobs: sum(after[name] - before[name] for name in after if name[0] in jobs) for jobs in asked}
            whole_s = wall_s * os.cpu_count() if translator == "quota" else sum(got_s.values())
            for jobs in asked:
                bench.summary.share(round_ + 1, translator, jobs, asked[jobs], got_s[jobs] / whole_s)
            bench.say(f"shares, round {round_ + 1}, {translator}: " + ", ".join(
                f"{100 * got_s[jobs] / whole_s:.1f} % got of {100 * asked[jobs]:.1f} % asked" for jobs in asked))


def asked_shares(translator: str) -> dict[str, float]:
    """By job, from what the agent says it has set."""
    if translator == "rr":
        return {JOBS[0]: ROUND_ROBIN_SHARE, "".join(JOBS[1:]): 1 - ROUND_ROBIN_SHARE}
    text = urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10).read().decode()
    value = lambda name, job: [float(found) for found in
                               re.findall(rf'^laxity_agent_{name}\{{job="{job}".*\}} (\S+)$', text, re.M)]
    weight = {}
    for job in JOBS:
        if translator == "nice":
            weight[job] = sum(1024 / 1.25**nice for nice in value("nice", job))
        else:
            weight[job] = value("weight", job)[0]
    return {job: weight[job] / sum(weight.values()) for job in JOBS}


def overhead(bench) -> None:
    """Of an agent of 200 operator threads, two of them busy, that gives each a new nice value in every period: there is no
    more to write."""
    phase_s = bench.settings.phase_s * 2 / 3
    names = [f"~a-w{i % 20}-{i}" for i in range(198)] + ["b-work-0", "c-work-0"]
    for round_ in range(bench.settings.rounds):
        for period in ("1 s", "100 ms"):
            busy = Busy(bench, names, False)
            agent = None
            try:
                agent = Agent(bench.settings.laxity, bench.folder / "overhead",
                              # As any program: this one has to go on beside it.
                              ["--config", configuration(bench, "nice", "100"), "--policy", "random", "--period", period])
                before_s, begin = agent.cpu_s(), time.time()
                time.sleep(phase_s)
                percent = 100 * (agent.cpu_s() - before_s) / (time.time() - begin)
                row = {"agent_cpu_percent": percent, "agent_rss_mb": agent.rss_mb()}
            finally:
                if agent:
                    agent.stop()
                busy.stop()
            bench.summary.overhead(round_ + 1, "200 threads", period, row)
            bench.say(f"agent, round {round_ + 1}, 200 threads, period {period}: {percent:.2f} % of a core, "
                      f"{row['agent_rss_mb']:.1f} MB")
