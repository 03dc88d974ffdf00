#!/usr/bin/env python3
"""Measures `laxity attach` beside real engines; scripts/bench-attach.sh prepares, and says what can be set.

Rounds interleave what is compared; each phase begins with no row under way, and its first third is left out.
"""

import atexit
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import shares
from agent import Agent
from flink import Flink
from storm import Storm, jars
from summary import Summary
from workload import Workload

URGENT_TARGET = "alarms=50 ms"
# All of the engine's threads in the group that the other kinds have too, and nothing else changed: what the operating
# system does by itself, at the same share beside other programs.
AS_IT_IS = ["--policy", "static", "--nice", "0..0"]
# The operating system, Lachesis's, with the whole range of nice, and ours as it is by default; and of ours the timer slack
# alone.
SCHEDULERS = {
    "os": AS_IT_IS,
    "timers": AS_IT_IS,
    "random": ["--policy", "random", "--nice", "-20..19"],
    "qs": ["--policy", "qs", "--nice", "-20..19"],
    "hr": ["--policy", "hr", "--nice", "-20..19"],
    "fcfs": ["--policy", "fcfs", "--nice", "-20..19"],
    "llf": ["--policy", "llf"],
}
# The others leave the timers of an engine's threads as they are, unless it says `+slack` behind the name; `-slack` takes it
# from one that has it.
WITH_TIMERS = {"timers", "llf"}
# Each core's part of the highest rate that Lachesis is shown to sustain: operators cost so much that it fills the cores.
FULL_ROWS_PER_S_PER_CORE = {"linear-road": 1625, "voip-stream": 875}
# Rows that reach the sink for each of the source, as in `crates/workload`; else the workload is another one.
ROWS_OUT = {"linear-road": 2.982, "voip-stream": 2.755}
MAIN = "laxity.workload.OnFlink"


@dataclass
class Settings:
    laxity: str
    rounds: int
    phase_s: float
    only: list[str]
    urgent_rows_per_s: float
    loads: list[float]
    schedulers: list[str]
    share: str
    jar: Path
    storm_lib: Path
    out: Path

    @staticmethod
    def from_environment() -> "Settings":
        of = os.environ.get
        small = of("SMALL") == "1"
        return Settings(
            laxity=of("LAXITY"),
            rounds=int(of("ROUNDS") or (1 if small else 5)),
            phase_s=float(of("PHASE") or (3 if small else 15)),
            only=(of("ONLY") or "flink-urgent overhead shares linear-road voip-stream").split(),
            urgent_rows_per_s=float(of("URGENT") or 2500),
            loads=[float(load) for load in (of("LOADS") or ("0.8" if small else "0.5 0.65 0.8 0.88 0.94")).split()],
            schedulers=list(dict.fromkeys(
                with_slack(name, of("SLACK") or "own")
                for name in (of("SCHEDULERS") or ("os timers" if small else "os random qs timers llf")).split())),
            share=of("SHARE") or "100",
            jar=Path(of("JAR")), storm_lib=Path(of("STORM_LIB")), out=Path(of("OUT")))


def parts(scheduler: str) -> tuple[str, bool]:
    """Its name in SCHEDULERS, and whether it sets the timer slack.

    >>> parts("llf"), parts("llf-slack"), parts("qs+slack"), parts("qs")
    (('llf', True), ('llf', False), ('qs', True), ('qs', False))
    """
    for suffix, is_with in (("+slack", True), ("-slack", False)):
        if scheduler.endswith(suffix):
            return scheduler.removesuffix(suffix), is_with
    return scheduler, scheduler in WITH_TIMERS


def with_slack(scheduler: str, slack: str) -> str:
    """The scheduler with the timer slack in all of them, in none, or as each has it.

    >>> with_slack("qs", "all"), with_slack("llf", "none"), with_slack("llf", "all"), with_slack("timers", "none")
    ('qs+slack', 'llf-slack', 'llf', 'os')
    """
    name, has = parts(scheduler)
    if slack == "own" or has == (slack == "all"):
        return scheduler
    return "os" if name == "timers" else f"{name}{'+' if slack == 'all' else '-'}slack"


class Bench:
    def __init__(self, settings: Settings, folder: Path):
        self.settings = settings
        self.folder = folder
        self.summary = Summary(settings.out)

    def say(self, text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, flush=True)

    def run(self) -> None:
        only = self.settings.only
        if "flink-urgent" in only or "overhead" in only:
            with_flink(self, lambda flink, jar: tenants(self, flink, jar))
        if "shares" in only:
            shares.measure(self)
        # linear-road is both engines, storm/linear-road one.
        wanted = lambda engine: [name for name in ("linear-road", "voip-stream")
                                 if name in only or f"{engine}/{name}" in only]
        if wanted("flink"):
            with_flink(self, lambda flink, jar: [curves_on_flink(self, flink, jar, name) for name in wanted("flink")])
        for name in wanted("storm"):
            curves_on_storm(self, name)


def with_flink(bench: Bench, measure) -> None:
    flink = Flink(sql=False)
    try:
        measure(flink, flink.upload(bench.settings.jar))
    finally:
        flink.stop()


def start_job(flink: Flink, jar: str, workload: Workload) -> str:
    job = flink.run(jar, MAIN, [workload.name, str(workload.control), str(workload.log)])
    flink.await_running(job)
    return job


def attach_to_flink(bench: Bench, flink: Flink, arguments: list[str]) -> Agent:
    options = ["--flink", flink.url, "--share", bench.settings.share, *arguments]
    return Agent(bench.settings.laxity, bench.folder / "agent", options)


def tenants(bench: Bench, flink: Flink, jar: str) -> None:
    """An urgent job beside one that fills the machine."""
    urgent, bulk = Workload(bench.folder, "alarms"), Workload(bench.folder, "archive", instances=3)
    for workload in (urgent, bulk):
        start_job(flink, jar, workload)
        workload.end()
    attach = lambda arguments: attach_to_flink(bench, flink, arguments)
    laxity = ["--job", URGENT_TARGET, "--policy", "llf"]
    # Code is compiled before anything counts.
    phase_of_tenants(bench, urgent, bulk, None, True, max(bench.settings.phase_s / 2, 3))
    if "flink-urgent" in bench.settings.only:
        kinds = {"alone": (None, False), "os": (None, True), "without": (AS_IT_IS, True), "with": (laxity, True)}
        for round_ in range(bench.settings.rounds):
            names = list(kinds)
            for kind in names[round_ % len(names):] + names[:round_ % len(names)]:
                arguments, is_bulk = kinds[kind]
                agent = attach(arguments) if arguments else None
                row = phase_of_tenants(bench, urgent, bulk, agent, is_bulk, bench.settings.phase_s)
                bench.summary.tenants(round_ + 1, kind, bench.settings.urgent_rows_per_s, row)
                bench.say(f"urgent job, round {round_ + 1}, {kind}: p99 {row['p99_ms']:.1f} ms, mean {row['mean_ms']:.1f} ms, "
                          f"{row['rows_per_s']:.0f} rows/s; bulk {row['bulk_rows_per_s']:.0f} rows/s")
    if "overhead" in bench.settings.only:
        for round_ in range(bench.settings.rounds):
            for period in ("1 s", "100 ms"):
                row = phase_of_tenants(bench, urgent, bulk, attach([*laxity, "--period", period]), True,
                                       bench.settings.phase_s * 2 / 3)
                bench.summary.overhead(round_ + 1, "Flink", period, row)
                bench.say(f"agent, round {round_ + 1}, Flink, period {period}: {row['agent_cpu_percent']:.2f} % of a core, "
                          f"{row['agent_rss_mb']:.1f} MB; urgent p99 {row['p99_ms']:.1f} ms")
        shares.overhead(bench)


def phase_of_tenants(bench: Bench, urgent: Workload, bulk: Workload, agent: Agent | None, is_bulk: bool,
                     phase_s: float) -> dict:
    bulk_phase = bulk.begin(-1 if is_bulk else 0)
    phase = urgent.begin(bench.settings.urgent_rows_per_s)
    begin = time.time()
    time.sleep(phase_s / 3)
    settled, agent_before_s = time.time(), agent.cpu_s() if agent else 0.0
    time.sleep(max(begin + phase_s - settled, 0))
    end = time.time()
    agent_cpu_s, rss_mb = (agent.cpu_s() - agent_before_s, agent.rss_mb()) if agent else (0.0, 0.0)
    # The bulk job first: else what it starves might never end.
    if is_bulk:
        bulk.end()
    sent = urgent.end()
    drained_s = time.time() - end
    if agent:
        agent.stop()
    latencies = urgent.latencies(phase, settled, end)
    return {
        "rows_per_s": latencies.rows_per_s(), "mean_ms": latencies.mean_ms(), "p50_ms": latencies.quantile_ms(0.5),
        "p99_ms": latencies.quantile_ms(0.99), "sent_rows": sent,
        "bulk_rows_per_s": bulk.latencies(bulk_phase, settled, end).rows_per_s(), "drained_s": drained_s,
        "agent_cpu_percent": 100 * agent_cpu_s / (end - settled), "agent_rss_mb": rss_mb,
    }


def curves_on_flink(bench: Bench, flink: Flink, jar: str, name: str) -> None:
    workload = Workload(bench.folder, name)
    job = start_job(flink, jar, workload)
    # None of Flink's threads polls: there are no timers to set.
    schedulers = list(dict.fromkeys(parts(scheduler)[0] for scheduler in bench.settings.schedulers if scheduler != "timers"))
    curves(bench, "flink", workload, schedulers, lambda scheduler: attach_to_flink(bench, flink, SCHEDULERS[scheduler]))
    flink.cancel(job)


def curves_on_storm(bench: Bench, name: str) -> None:
    folder = bench.folder / "storm"
    folder.mkdir(exist_ok=True)
    workload = Workload(folder, name)
    storm = Storm(name, jars(bench.settings.storm_lib, jar=bench.settings.jar), workload.control, workload.log, folder)
    enter = ["nsenter", "-t", str(storm.pid), "-n", "--"]

    def attach(scheduler: str) -> Agent:
        name, has_slack = parts(scheduler)
        configuration = storm.configuration(with_timers=has_slack)
        options = ["--config", str(configuration), "--share", bench.settings.share, *SCHEDULERS[name]]
        return Agent(bench.settings.laxity, folder / "agent", options, enter)

    try:
        curves(bench, "storm", workload, bench.settings.schedulers, attach)
    finally:
        storm.stop()


def curves(bench: Bench, engine: str, workload: Workload, schedulers: list[str], attach) -> None:
    """Throughput and latency by offered load, for each scheduler."""
    settings = bench.settings
    full_rows_per_s = FULL_ROWS_PER_S_PER_CORE[workload.name] * os.cpu_count()
    # The source runs once it has told the end of no phase at all. Then code is compiled, before anything counts.
    workload.end()
    phase = workload.begin(0.8 * full_rows_per_s)
    time.sleep(max(settings.phase_s, 5))
    sent = workload.end()
    rows_out = workload.latencies(phase).rows / sent
    bench.say(f"{workload.name} on {engine} is compiled; {rows_out:.3f} rows out for each row in")
    if abs(rows_out / ROWS_OUT[workload.name] - 1) > 0.05:
        raise SystemExit(f"{workload.name} should give {ROWS_OUT[workload.name]} rows for each")
    for round_ in range(settings.rounds):
        for place, load in enumerate(settings.loads):
            # Each begins in its turn: what comes first runs code that is compiled the least.
            turn = (round_ + place) % len(schedulers)
            for scheduler in schedulers[turn:] + schedulers[:turn]:
                agent = attach(scheduler)
                phase = workload.begin(load * full_rows_per_s)
                begin = time.time()
                time.sleep(settings.phase_s)
                end = time.time()
                sent = workload.end()
                drained_s = time.time() - end
                agent.stop()
                latencies = workload.latencies(phase, begin + settings.phase_s / 3, end)
                row = {"offered_rows_per_s": load * full_rows_per_s,
                       "processed_rows_per_s": latencies.rows_per_s() * sent / max(workload.latencies(phase).rows, 1),
                       "mean_ms": latencies.mean_ms(), "p99_ms": latencies.quantile_ms(0.99), "drained_s": drained_s}
                bench.summary.curve(round_ + 1, engine, workload.name, scheduler, load, row)
                bench.say(f"{workload.name} on {engine}, round {round_ + 1}, load {load:g}, {scheduler}: "
                          f"{row['processed_rows_per_s']:.0f} of {row['offered_rows_per_s']:.0f} rows/s, "
                          f"mean {row['mean_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms, drained in {drained_s:.1f} s")


def main() -> None:
    settings = Settings.from_environment()
    unknown = [name for name in settings.schedulers if parts(name)[0] not in SCHEDULERS]
    if unknown:
        raise SystemExit(f"{unknown[0]} is no scheduler here; expected some of {', '.join(SCHEDULERS)}")
    # A signal ends this as an error would: agents put back what they changed, engines end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    bench = Bench(settings, folder)
    try:
        bench.run()
    finally:
        bench.summary.write()
    print(bench.summary.text())


if __name__ == "__main__":
    main()
