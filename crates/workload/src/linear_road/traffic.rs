//! The input of Linear Road, made from a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use rand_distr::{Distribution, StandardUniform, Uniform};
use rand_pcg::Pcg64;

use crate::seed;

/// Cars on expressways, by the constants of the public generator: entries follow a sine over three hours, every car
/// reports every 30 s, traffic slows down where it is dense, and now and then two cars collide and stop.
///
/// Not the original's output, which is not seeded: its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Expressways of 100 segments and two directions. Default 1.
    pub expressways: u32,
    /// Simulated time. Default 10 800 s.
    pub seconds: u32,
    /// Times 20 cars per second and expressway. Default 1.
    pub cars: f64,
    /// Mean time between accidents of an expressway, and mean length of one; both vary by half. Default 600 s.
    pub accident_s: u32,
}

/// A record of the input: 15 numbers in the file, of which those that mean nothing for its kind are −1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it is.
    pub kind: ReportKind,
    /// Seconds since the start.
    pub time_s: u32,
    /// The car.
    pub vid: u32,
    /// Miles per hour, 0 to 100.
    pub speed: u32,
    /// The expressway.
    pub xway: u32,
    /// 0 entering, 1 to 3 travelling, 4 leaving.
    pub lane: u32,
    /// 0 east, 1 west.
    pub direction: u32,
    /// 0 to 99.
    pub segment: u32,
    /// Feet from the western end.
    pub position: u32,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// Where a car is (type 0).
    Position,
    /// A driver asks for the account's balance (type 2).
    Balance {
        /// To be repeated in the answer.
        qid: u32,
    },
    /// A driver asks what was spent on a day (type 3).
    Expenditure {
        /// To be repeated in the answer.
        qid: u32,
        /// 1, yesterday, to 69.
        day: u32,
    },
}

/// As in the file: type, time, vid, speed, xway, lane, dir, seg, pos, qid, s_init, s_end, dow, tod, day.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { kind, time_s, vid, speed, xway, lane, direction, segment, position } = self;
        match kind {
            ReportKind::Position => write!(
                f,
                "0,{time_s},{vid},{speed},{xway},{lane},{direction},{segment},{position},-1,-1,-1,-1,-1,-1"
            ),
            ReportKind::Balance { qid } => {
                write!(f, "2,{time_s},{vid},-1,-1,-1,-1,-1,-1,{qid},-1,-1,-1,-1,-1")
            }
            ReportKind::Expenditure { qid, day } => {
                write!(f, "3,{time_s},{vid},-1,{xway},-1,-1,-1,-1,{qid},-1,-1,-1,-1,{day}")
            }
        }
    }
}

pub(super) const SEGMENTS: u32 = 100;
pub(super) const SEGMENT_FEET: u32 = 5_280;
pub(super) const REPORT_EVERY_S: u32 = 30;
/// More cars than this in a segment and direction slow traffic: 24 for each of three lanes.
const DENSE: usize = 72;
/// Feet per 30 s at one mile per hour.
const FEET_PER_REPORT_AND_MPH: u32 = 44;

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic { expressways: 1, seconds: 10_800, cars: 1.0, accident_s: 600 }
    }
}

impl Traffic {
    /// All records in order of time. The same seed gives the same ones.
    pub fn reports(&self, seed: u64) -> impl Iterator<Item = Report> + use<> {
        Roads::new(self.clone(), seed)
    }
}

#[derive(Clone, Debug)]
struct Car {
    vid: u32,
    xway: u32,
    direction: u32,
    lane: u32,
    position: u32,
    /// What it would drive on an empty road.
    limit: u32,
    exit_segment: u32,
    /// Reports since it entered.
    reports: u32,
    stopped: Option<Stop>,
    is_leaving: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    position: u32,
    lane: u32,
    until_s: u32,
}

#[derive(Debug)]
struct Roads {
    traffic: Traffic,
    rng: Pcg64,
    cars: Vec<Car>,
    /// By time, then by order of scheduling.
    turns: BinaryHeap<Reverse<(u32, u64, Turn)>>,
    sequence: u64,
    /// Cars by expressway, direction and segment.
    segments: Vec<Vec<usize>>,
    next_accident_s: Vec<u32>,
    /// Fractions of cars that have not entered yet, by expressway.
    entering: Vec<f64>,
    next_vid: u32,
    next_qid: u32,
    /// A request that follows the report just given.
    request: Option<Report>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Cars enter in this second.
    Enter { xway: u32 },
    /// A car comes back.
    Return { vid: u32, xway: u32 },
    /// A car reports.
    Report { car: usize },
}

impl Roads {
    fn new(traffic: Traffic, seed: u64) -> Roads {
        let xways = traffic.expressways as usize;
        let mut roads = Roads {
            rng: seed::generator(seed, 0),
            cars: Vec::new(),
            turns: BinaryHeap::new(),
            sequence: 0,
            segments: vec![Vec::new(); xways * 2 * SEGMENTS as usize],
            next_accident_s: Vec::new(),
            entering: vec![0.0; xways],
            next_vid: 0,
            next_qid: 0,
            request: None,
            traffic,
        };
        for xway in 0..roads.traffic.expressways {
            let first = roads.around_accident();
            roads.next_accident_s.push(first);
            roads.schedule(0, Turn::Enter { xway });
        }
        roads
    }

    fn schedule(&mut self, time_s: u32, turn: Turn) {
        if time_s < self.traffic.seconds {
            self.turns.push(Reverse((time_s, self.sequence, turn)));
            self.sequence += 1;
        }
    }

    fn uniform(&mut self, low: u32, high: u32) -> u32 {
        Uniform::new_inclusive(low, high.max(low)).map_or(low, |uniform| uniform.sample(&mut self.rng))
    }

    fn happens(&mut self, probability: f64) -> bool {
        let drawn: f64 = StandardUniform.sample(&mut self.rng);
        drawn < probability
    }

    fn around_accident(&mut self) -> u32 {
        let mean = self.traffic.accident_s;
        self.uniform(mean / 2, mean + mean / 2)
    }

    fn place(&mut self, xway: u32, direction: u32, segment: u32) -> &mut Vec<usize> {
        &mut self.segments[((xway * 2 + direction) * SEGMENTS + segment) as usize]
    }

    fn enter_cars(&mut self, xway: u32, time_s: u32) {
        let noise: f64 = StandardUniform.sample(&mut self.rng);
        let phase = (std::f64::consts::PI * f64::from(time_s) / 10_800.0).sin();
        self.entering[xway as usize] += 20.0 * self.traffic.cars * (phase + 0.8 + noise);
        while self.entering[xway as usize] >= 1.0 {
            self.entering[xway as usize] -= 1.0;
            let vid = self.next_vid;
            self.next_vid += 1;
            self.enter(vid, xway, time_s);
        }
        self.schedule(time_s + 1, Turn::Enter { xway });
    }

    fn enter(&mut self, vid: u32, xway: u32, time_s: u32) {
        let direction = self.uniform(0, 1);
        // Segments counted in the direction of travel. Two are left between the way in and the end of the road.
        let entry = self.uniform(0, SEGMENTS - 3);
        let exit = self.uniform(entry + 1, SEGMENTS - 1);
        let (segment, exit_segment) =
            if direction == 0 { (entry, exit) } else { (SEGMENTS - 1 - entry, SEGMENTS - 1 - exit) };
        let position = if direction == 0 { segment * SEGMENT_FEET } else { (segment + 1) * SEGMENT_FEET - 1 };
        let limit = self.uniform(60, 80);
        let car = self.cars.len();
        self.cars.push(Car {
            vid,
            xway,
            direction,
            lane: 0,
            position,
            limit,
            exit_segment,
            reports: 0,
            stopped: None,
            is_leaving: false,
        });
        self.place(xway, direction, segment).push(car);
        self.schedule(time_s, Turn::Report { car });
    }

    fn report(&mut self, index: usize, time_s: u32) -> Report {
        let speed = self.drive(index, time_s);
        let mut car = self.cars[index].clone();
        let segment = car.position / SEGMENT_FEET;
        car.reports += 1;
        if car.is_leaving {
            self.place(car.xway, car.direction, segment).retain(|&other| other != index);
            if self.happens(0.1) {
                let back_s = time_s + self.uniform(1_000, 2_000);
                self.schedule(back_s, Turn::Return { vid: car.vid, xway: car.xway });
            }
        } else {
            self.schedule(time_s + REPORT_EVERY_S, Turn::Report { car: index });
        }
        let report = Report {
            kind: ReportKind::Position,
            time_s,
            vid: car.vid,
            speed,
            xway: car.xway,
            lane: car.lane,
            direction: car.direction,
            segment,
            position: car.position,
        };
        self.cars[index] = car;
        self.request = self.ask(report);
        report
    }

    /// Moves the car to where it is now, and gives its speed.
    fn drive(&mut self, index: usize, time_s: u32) -> u32 {
        let mut car = self.cars[index].clone();
        if car.reports == 0 {
            return 10;
        }
        let before = car.position / SEGMENT_FEET;
        let mut speed = 0;
        if let Some(stop) = car.stopped.filter(|stop| time_s < stop.until_s) {
            (car.position, car.lane) = (stop.position, stop.lane);
        } else {
            car.stopped = None;
            speed = self.speed(&car, before);
            let feet = speed * FEET_PER_REPORT_AND_MPH;
            car.position = if car.direction == 0 {
                (car.position + feet).min(SEGMENTS * SEGMENT_FEET - 1)
            } else {
                car.position.saturating_sub(feet)
            };
            let segment = car.position / SEGMENT_FEET;
            let is_there =
                if car.direction == 0 { segment >= car.exit_segment } else { segment <= car.exit_segment };
            if is_there {
                (car.lane, speed, car.is_leaving) = (4, 10, true);
            } else if car.lane == 0 {
                car.lane = 1;
            } else if self.happens(0.4) {
                car.lane = if car.lane == 2 { 1 + 2 * self.uniform(0, 1) } else { 2 };
            }
            if !is_there && self.collide(&mut car, index, time_s) {
                speed = 0;
            }
        }
        let after = car.position / SEGMENT_FEET;
        if after != before {
            self.place(car.xway, car.direction, before).retain(|&other| other != index);
            self.place(car.xway, car.direction, after).push(index);
        }
        self.cars[index] = car;
        speed
    }

    fn speed(&mut self, car: &Car, segment: u32) -> u32 {
        let mut limit = car.limit;
        if car.reports == 1 {
            limit = limit.min(40);
        }
        if self.place(car.xway, car.direction, segment).len() > DENSE {
            limit = limit.saturating_sub(self.uniform(10, 50));
        }
        self.uniform(limit.saturating_sub(10).max(1), limit.max(1))
    }

    /// An accident, if one is due and another car is within 1 000 ft behind: both stop where this car is.
    fn collide(&mut self, car: &mut Car, index: usize, time_s: u32) -> bool {
        if time_s < self.next_accident_s[car.xway as usize] {
            return false;
        }
        let segment = car.position / SEGMENT_FEET;
        let behind =
            if car.direction == 0 { segment.saturating_sub(1) } else { (segment + 1).min(SEGMENTS - 1) };
        let mut others = self.place(car.xway, car.direction, segment).clone();
        if behind != segment {
            others.extend_from_slice(self.place(car.xway, car.direction, behind));
        }
        let other = others.into_iter().find(|&other| {
            let candidate = &self.cars[other];
            let gap = if car.direction == 0 {
                car.position.checked_sub(candidate.position)
            } else {
                candidate.position.checked_sub(car.position)
            };
            other != index
                && (1..=3).contains(&candidate.lane)
                && candidate.stopped.is_none()
                && gap.is_some_and(|gap| gap <= 1_000)
        });
        let Some(other) = other else { return false };
        let until_s = time_s + self.around_accident();
        let stop = Stop { position: car.position, lane: car.lane, until_s };
        car.stopped = Some(stop);
        self.cars[other].stopped = Some(stop);
        self.next_accident_s[car.xway as usize] = time_s + self.around_accident();
        true
    }

    /// One report in a hundred comes with a request: half of them for a balance, a tenth for a day's expenditure.
    fn ask(&mut self, report: Report) -> Option<Report> {
        if !self.happens(0.01) {
            return None;
        }
        let drawn: f64 = StandardUniform.sample(&mut self.rng);
        let qid = self.next_qid;
        let kind = if drawn < 0.5 {
            ReportKind::Balance { qid }
        } else if drawn < 0.6 {
            ReportKind::Expenditure { qid, day: self.uniform(1, 69) }
        } else {
            return None;
        };
        self.next_qid += 1;
        Some(Report { kind, ..report })
    }
}

impl Iterator for Roads {
    type Item = Report;

    fn next(&mut self) -> Option<Report> {
        if let Some(request) = self.request.take() {
            return Some(request);
        }
        loop {
            let Reverse((time_s, _, turn)) = self.turns.pop()?;
            match turn {
                Turn::Enter { xway } => self.enter_cars(xway, time_s),
                Turn::Return { vid, xway } => self.enter(vid, xway, time_s),
                Turn::Report { car } => return Some(self.report(car, time_s)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn short() -> Traffic {
        Traffic { seconds: 1_800, cars: 0.3, ..Traffic::default() }
    }

    #[test]
    fn every_car_reports_every_30_s_from_lane_0_to_lane_4() {
        let mut last: HashMap<u32, Report> = HashMap::new();
        let mut time_s = 0;
        let mut count = 0;
        for report in short().reports(1).filter(|report| report.kind == ReportKind::Position) {
            assert!(report.time_s >= time_s, "in order of time");
            time_s = report.time_s;
            count += 1;
            assert_eq!(report.segment, report.position / SEGMENT_FEET);
            assert!(report.segment < SEGMENTS && report.speed <= 100 && report.lane <= 4);
            match last.insert(report.vid, report) {
                Some(before) if before.lane != 4 => {
                    assert_eq!(report.time_s, before.time_s + 30);
                    assert_eq!((report.xway, report.direction), (before.xway, before.direction));
                    let feet = i64::from(report.position) - i64::from(before.position);
                    let forward = if report.direction == 0 { feet } else { -feet };
                    // 80 mph for 30 s, and the way up to a car that stands.
                    assert!((0..=80 * 44 + 1_000).contains(&forward), "{before:?} {report:?}");
                    assert_ne!(report.lane, 0);
                }
                Some(before) => {
                    assert_eq!(report.lane, 0);
                    assert!((1_000..=2_000).contains(&(report.time_s - before.time_s)), "back again");
                }
                None => assert_eq!((report.lane, report.speed), (0, 10)),
            }
        }
        assert!(count > 50_000, "{count}");
    }

    #[test]
    fn accidents_stop_two_cars_at_one_place() {
        let mut places: HashMap<(u32, u32, u32), HashMap<u32, u32>> = HashMap::new();
        for report in short().reports(2) {
            if report.kind == ReportKind::Position && report.speed == 0 {
                let place = (report.direction, report.lane, report.position);
                *places.entry(place).or_default().entry(report.vid).or_default() += 1;
            }
        }
        // One every 600 ± 300 s, of at least 300 s: ten reports of each car, if the run does not end before.
        let long = places.values().filter(|cars| cars.len() == 2 && cars.values().all(|&n| n >= 4)).count();
        assert!((1..=5).contains(&long), "{places:?}");
        assert!(places.values().all(|cars| cars.len() <= 2));
    }

    #[test]
    fn dense_traffic_is_slow() {
        let slow = |cars| {
            let traffic = Traffic { seconds: 1_000, cars, ..Traffic::default() };
            let reports = traffic.reports(3).filter(|r| r.time_s > 900 && r.lane == 2);
            let (sum, count) = reports.fold((0, 0), |(sum, count), r| (sum + r.speed, count + 1));
            f64::from(sum) / f64::from(count)
        };
        assert!(slow(1.0) < 50.0 && slow(0.1) > 60.0, "{} {}", slow(1.0), slow(0.1));
    }

    #[test]
    fn requests_are_as_frequent_as_the_benchmark_says() {
        let reports: Vec<Report> = short().reports(4).collect();
        let n = reports.len() as f64;
        let share = |expected: f64, is_kind: fn(&ReportKind) -> bool| {
            let seen = reports.iter().filter(|report| is_kind(&report.kind)).count() as f64 / n;
            assert!((seen - expected).abs() < 6.0 * (expected / n).sqrt(), "{seen} {expected}");
        };
        share(0.005, |kind| matches!(kind, ReportKind::Balance { .. }));
        share(0.001, |kind| matches!(kind, ReportKind::Expenditure { .. }));
    }

    #[test]
    fn lines_have_fifteen_numbers() {
        let report = Report {
            kind: ReportKind::Position,
            time_s: 30,
            vid: 7,
            speed: 55,
            xway: 0,
            lane: 1,
            direction: 1,
            segment: 99,
            position: 527_999,
        };
        assert_eq!(report.to_string(), "0,30,7,55,0,1,1,99,527999,-1,-1,-1,-1,-1,-1");
        let ask = Report { kind: ReportKind::Expenditure { qid: 3, day: 69 }, ..report };
        assert_eq!(ask.to_string(), "3,30,7,-1,0,-1,-1,-1,-1,3,-1,-1,-1,-1,69");
        let ask = Report { kind: ReportKind::Balance { qid: 4 }, ..report };
        assert_eq!(ask.to_string(), "2,30,7,-1,-1,-1,-1,-1,-1,4,-1,-1,-1,-1,-1");
    }

    #[test]
    fn seeds_repeat_and_differ() {
        let run = |seed| short().reports(seed).take(5_000).collect::<Vec<_>>();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
