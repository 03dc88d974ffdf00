"""Races Laxity, Flink and others; scripts/race.sh prepares, and says what can be set.

cost      bounded, each query alone: CPU time of an event, by the difference between a topic and one of a quarter of it, so that
          starting, planning and deploying are in neither. The sink takes everything and writes nothing.
latency   each query alone at rates that double: p99 of its results, and so the highest rate with p99 up to 100 ms and 1 s.
          A result's latency is from the broker's time of the record that completes it to the broker's time of the result itself.
          Beside it stands the same from the event's own time, in which is what the sender and the broker take, and the wait for
          an event of the other partition, without which the watermark does not go on.
together  20 urgent queries and 4 heavy ones, at parts of what each engine sustains: urgent p99 up to 1 s, and every heavy one
          within 3 s of the end; or at the rates given. Where an engine does not come to the end, higher ones are left out.
density   many small urgent queries: memory, CPU, p99, time to start.
"""

import os
import tempfile
import time
from pathlib import Path

import topics
from engines import Attached, DoesNotRun, Flink, KafkaStreams, Laxity
from queries import COST, DELAY_MS, LATENCY, events
from tables import write_summary

OUT = Path(os.environ.get("OUT", "out/race"))
ROUNDS = int(os.environ.get("ROUNDS", 3))
SECONDS = int(os.environ.get("SECONDS_EACH", 25))
# Left out: compilation, and the first windows.
WARM_MS = 10_000 if SECONDS > 15 else 5_000
LADDER = [4_000 * 2**step for step in range(7)]
# Of `together`.
HEAVIES = 4
RUNGS = [1_000 * 4**step for step in range(5)]


def words(name: str, default: str) -> list[str]:
    return (os.environ.get(name) or default).split()


class Figures:
    """A CSV file that grows line by line."""

    def __init__(self, name: str, columns: str):
        self.file, self.name = (OUT / f"{name}.csv").open("w"), name
        print(columns, file=self.file, flush=True)

    def add(self, *cells) -> None:
        line = ",".join(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
        print(line, file=self.file, flush=True)
        print(f"{self.name}: {line}", flush=True)


def percentile(values: list[float], share: float) -> float:
    """
    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([], 0.99)
    (2.0, inf)
    """
    if not values:
        return float("inf")
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def highest(holds, rungs: list[int]) -> int:
    """The highest rate that holds, of the rungs in turn and, twice, of one between the last that held and the first that did not.

    >>> highest(lambda rate: rate <= 3_000, [1_000, 4_000, 16_000]), highest(lambda rate: rate <= 300, [1_000]), highest(bool, [1, 2])
    (2828, 250, 2)
    """
    good, bad = 0, None
    for rate in rungs:
        if not holds(rate):
            bad = rate
            break
        good = rate
    while not good and bad > 16:
        good, bad = (bad // 4, bad) if holds(bad // 4) else (0, bad // 4)
    for _ in range(2):
        if bad:
            between = round((good * bad) ** 0.5)
            good, bad = (between, bad) if holds(between) else (good, between)
    return good


def cost(folder: Path) -> None:
    count = int(os.environ.get("EVENTS", 2_000_000))
    figures = Figures("cost", "round,format,query,engine,events,cpu_s,wall_s,peak_mb")
    for format in words("FORMATS", "json"):
        filled = {size: topics.create(f"cost-{format}-{size}", 2) for size in (count // 4, count)}
        for size, topic in filled.items():
            topics.fill(topic, format, size, folder)
        engines = [Laxity(), Flink(parallelism=2)]
        for number in range(ROUNDS + 1):
            for query in words("QUERIES", " ".join(COST)):
                for engine in engines:
                    for size, topic in filled.items():
                        engine.start(events(topic, format, bounded=True) + COST[query], folder)
                        measured = engine.finish()
                        if number > 0:
                            figures.add(number, format, query, engine.name, size, *measured)
        for engine in engines:
            engine.end()
        topics.delete(*filled.values())


class Cell:
    """An engine under a load for SECONDS, and what became of it."""

    number = 0

    def __init__(self, engine, asked, format: str, rate: int, watermark: bool, folder: Path):
        """`asked`: of the names of the topics for events, results, and those of heavy queries."""
        Cell.number += 1
        names = [f"{kind}-{Cell.number}" for kind in ("in", "out", "heavy")]
        for name, partitions in zip(names, (2, 1, 1)):
            topics.create(name, partitions, appended=True)
        started_ms = time.time() * 1e3
        try:
            engine.start(asked(*names), folder)
        except DoesNotRun as why:
            print(f"{engine.name}: {why}", flush=True)
            self.latencies_ms, self.met, self.cores, self.resident_mb, self.load_p99_ms = [], 0.0, 0.0, engine.resident_mb()["all"], 0.0
            self.p50_ms = self.p99_ms = self.from_event_p99_ms = self.worst_p99_ms = self.heavy_p99_ms = self.first_s = float("inf")
            topics.delete(*names)
            return
        time.sleep(1)
        began_ms = time.time() * 1e3
        load = topics.Load(names[0], format, rate, SECONDS, folder)
        time.sleep(WARM_MS / 1e3)
        cpu_s, since = engine.cpu_s(), time.monotonic()
        time.sleep(SECONDS - WARM_MS / 1e3)
        self.cores = (engine.cpu_s() - cpu_s) / (time.monotonic() - since)
        load.wait()
        time.sleep(2)
        self.resident_mb = engine.resident_mb()["all"]
        engine.stop()
        delay_ms = DELAY_MS if watermark else 0
        came, sent = topics.drain(names[1], folder), topics.drain(names[0], folder, format)
        completed = topics.Completed(sent, DELAY_MS if watermark else None)
        # Nobody can tell what no record has completed.
        counted = [(due + delay_ms, query, appended, since) for due, query, appended in came
                   if began_ms + WARM_MS <= due + delay_ms <= began_ms + SECONDS * 1e3 and (since := completed.at(due)) is not None]
        self.latencies_ms = [appended - since for _, _, appended, since in counted]
        # Whoever has not come to the end by two seconds after it is not keeping up, however few results came late.
        self.at_end = max((due for due, *_ in counted), default=0) >= began_ms + SECONDS * 1e3 - 3_000
        self.p50_ms, self.p99_ms = (percentile(self.latencies_ms, share) if self.at_end else float("inf") for share in (0.5, 0.99))
        self.from_event_p99_ms = percentile([appended - due for due, _, appended, _ in counted], 0.99) if self.at_end else float("inf")
        by_query: dict[int, list[int]] = {}
        for _, query, appended, since in counted:
            by_query.setdefault(query, []).append(appended - since)
        self.worst_p99_ms = max(percentile(of, 0.99) for of in by_query.values()) if self.at_end else float("inf")
        self.met = sum(latency <= 50 for latency in self.latencies_ms) / max(1, len(self.latencies_ms)) if self.at_end else 0.0
        self.first_s = (min((appended for _, _, appended in came), default=float("inf")) - started_ms) / 1e3
        heavy = topics.drain(names[2], folder)
        self.heavy_p99_ms = percentile([appended - due - DELAY_MS for due, _, appended in heavy if due + DELAY_MS >= began_ms + WARM_MS], 0.99)
        last = {query: max(due for due, of, _ in heavy if of == query) for query in {query for _, query, _ in heavy}}
        # No percentile of a cell of 20 s says that something falls behind for good.
        self.heavy_at_end = len(last) == HEAVIES and min(last.values()) + DELAY_MS >= began_ms + SECONDS * 1e3 - 3_000
        self.load_p99_ms = percentile([appended - due for due, _, appended in sent if due >= began_ms + WARM_MS], 0.99)
        topics.delete(*names)


def latency(folder: Path) -> None:
    figures = Figures("latency", "round,format,query,engine,rate,results,met,p50_ms,p99_ms,cores,resident_mb,load_p99_ms,from_event_p99_ms")
    builds = {"laxity": Laxity, "flink": lambda: Flink(parallelism=2), "flink-default": lambda: Flink(parallelism=2, tuned=False),
              "kafka-streams": KafkaStreams}

    rates = [int(rate) for rate in words("RATES", " ".join(map(str, LADDER)))]

    def alone(engine, format: str, query: str, rate: int) -> Cell:
        asked = lambda events, results, _: engine.asks(query, events, results, format)
        return Cell(engine, asked, format, rate, LATENCY[query][1], folder)

    def climb(number: int, engine, format: str, query: str) -> None:
        for rate in rates:
            cell = alone(engine, format, query, rate)
            figures.add(number, format, query, engine.name, rate, len(cell.latencies_ms), cell.met, cell.p50_ms, cell.p99_ms, cell.cores,
                        cell.resident_mb, cell.load_p99_ms, cell.from_event_p99_ms)
            if cell.p99_ms > 1_000:
                break

    for number in range(1, ROUNDS + 1):
        for name in [name for name in words("ENGINES", " ".join(builds)) if name in builds]:
            engine = builds[name]()
            for format in words("FORMATS", "json"):
                if engine.name != "laxity":  # Java compiles
                    alone(engine, format, words("QUERIES", " ".join(LATENCY))[0], rates[0])
                for query in words("QUERIES", " ".join(LATENCY)):
                    climb(number, engine, format, query)
            engine.end()


def together(folder: Path) -> None:
    columns = "round,part,engine,form,rate,results,met,p50_ms,worst_p99_ms,heavy_p99_ms,cores,resident_mb,load_p99_ms,from_event_p99_ms"
    figures = Figures("together", columns)

    def run(number, part, engine, form: str, rate: int) -> Cell:
        cell = Cell(engine, lambda *names: engine.asks_many(20, HEAVIES, *names), "json", rate, True, folder)
        figures.add(number, part, engine.name, form, rate, len(cell.latencies_ms), cell.met, cell.p50_ms, cell.worst_p99_ms,
                    cell.heavy_p99_ms, cell.cores, cell.resident_mb, cell.load_p99_ms, cell.from_event_p99_ms)
        return cell

    def keeps_up(engine, form: str, rate: int) -> bool:
        cell = run(0, "ladder", engine, form, rate)
        return cell.p99_ms <= 1_000 and cell.heavy_at_end

    builds = {"laxity": (Laxity, "a query each"), "flink": (lambda: Flink(parallelism=1, slots=1, one_job=True), "one job"),
              "flink-jobs": (lambda: Flink(parallelism=1, slots=32), "a job each"), "flink-attached": (Attached, "a job each")}
    forms = [builds[name] for name in words("ENGINES", " ".join(builds)) if name in builds]
    rungs = [int(rate) for rate in words("RATES", " ".join(map(str, RUNGS)))]

    def begin(build, form: str):
        engine = build()
        if engine.name != "laxity":  # Java compiles
            Cell(engine, lambda *names: engine.asks_many(20, HEAVIES, *names), "json", rungs[0], True, folder)
        return engine

    series = [[("given", int(rate)) for rate in words("RATES_TOGETHER", "")]]
    if not series[0]:
        sustained: dict[str, int] = {}
        for build, form in forms:
            if build is not Attached:
                engine = begin(build, form)
                rate = highest(lambda rate: keeps_up(engine, form, rate), rungs)
                sustained[engine.name] = max(sustained.get(engine.name, 0), rate)
                engine.end()
        print(f"sustained: {sustained}", flush=True)
        series = [[(f"{share} of {whose}", int(rate * share)) for share in (0.5, 0.8, 0.95)] for whose, rate in sustained.items()]
    for number in range(1, ROUNDS + 1):
        for build, form in forms:
            engine = begin(build, form)
            for cells in series:
                for part, rate in cells:
                    if run(number, part, engine, form, rate).p99_ms == float("inf"):
                        break
            engine.end()


def density(folder: Path) -> None:
    figures = Figures("density", "round,queries,engine,results,met,p50_ms,worst_p99_ms,cores,resident_mb,first_result_s,load_p99_ms,from_event_p99_ms")
    for number in range(1, ROUNDS + 1):
        for build in (Laxity, lambda: Flink(parallelism=1, slots=1, one_job=True)):
            for count in [int(count) for count in words("DENSITIES", "10 100 300")]:
                engine = build()  # anew, so that memory is of this many queries
                cell = Cell(engine, lambda *names: engine.asks_many(count, 0, *names), "json", 2_000, True, folder)
                figures.add(number, count, engine.name, len(cell.latencies_ms), cell.met, cell.p50_ms, cell.worst_p99_ms, cell.cores,
                            cell.resident_mb, cell.first_s, cell.load_p99_ms, cell.from_event_p99_ms)
                engine.end()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="race-") as folder:
        for phase in words("PHASES", "cost latency together density"):
            {"cost": cost, "latency": latency, "together": together, "density": density}[phase](Path(folder))
    write_summary(OUT)


if __name__ == "__main__":
    main()
