//! The right answers of Linear Road, whatever engine is asked.

use std::collections::{HashMap, HashSet};

use super::traffic::{REPORT_EVERY_S, Report, ReportKind};

/// What the benchmark wants answered, worked out report by report as its rules are written: the reference for the
/// queries, slow and literal.
///
/// Where texts differ, the public validator is followed: speeds are averaged over all reports of five minutes (not
/// first per car), rounded half up. Account balances count a toll when the car enters the segment after the one it
/// was announced for. Travel times (type 4) were never part of an implementation and are left out.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    cars: HashMap<u32, Car>,
    /// By expressway, direction, segment and minute.
    minutes: HashMap<(u32, u32, u32, u32), Minute>,
    accidents: Vec<Accident>,
    /// Seed of the history of expenditures.
    history: u64,
}

/// An answer to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Announced as a car enters a segment (type 0).
    Toll {
        /// The car.
        vid: u32,
        /// Time of its report.
        time_s: u32,
        /// Average speed of the last five minutes; 0 where nobody drove.
        lav: u32,
        /// The toll.
        toll: u32,
    },
    /// There is an accident ahead (type 1).
    Alert {
        /// The car.
        vid: u32,
        /// Time of its report.
        time_s: u32,
        /// Where the accident is.
        segment: u32,
    },
    /// Tolls charged so far (type 2).
    Balance {
        /// Of the request.
        qid: u32,
        /// Time of the request.
        time_s: u32,
        /// The sum.
        balance: u32,
    },
    /// Tolls of a day of the last ten weeks (type 3).
    Expenditure {
        /// Of the request.
        qid: u32,
        /// Time of the request.
        time_s: u32,
        /// The sum.
        toll: u32,
    },
}

#[derive(Clone, Debug, Default)]
struct Car {
    last: Option<Report>,
    /// Reports in a row from one place.
    same: u32,
    /// Announced, to be charged on entering the next segment.
    announced: u32,
    charged: u32,
}

#[derive(Clone, Debug, Default)]
struct Minute {
    cars: HashSet<u32>,
    speeds: u64,
    reports: u64,
}

#[derive(Clone, Debug)]
struct Accident {
    place: Place,
    cars: HashSet<u32>,
    /// Minute in which the second car was found to stand; `None` before.
    began: Option<u32>,
    cleared: Option<u32>,
}

type Place = (u32, u32, u32, u32, u32);

fn place(report: &Report) -> Place {
    (report.xway, report.direction, report.lane, report.segment, report.position)
}

fn minute(report: &Report) -> u32 {
    report.time_s / 60 + 1
}

impl Rules {
    /// Nothing seen yet. `history` seeds what cars spent on earlier days, which the benchmark gives as a file.
    pub fn new(history: u64) -> Rules {
        Rules { history, ..Rules::default() }
    }

    /// Takes the next record, and answers. Records come in order of time.
    pub fn answer(&mut self, report: &Report) -> Vec<Answer> {
        match report.kind {
            ReportKind::Position => self.position(report),
            ReportKind::Balance { qid } => {
                let balance = self.cars.get(&report.vid).map_or(0, |car| car.charged);
                vec![Answer::Balance { qid, time_s: report.time_s, balance }]
            }
            ReportKind::Expenditure { qid, day } => {
                let toll = self.spent(report.vid, day, report.xway);
                vec![Answer::Expenditure { qid, time_s: report.time_s, toll }]
            }
        }
    }

    /// What a car spent on an earlier day on an expressway: 10 to 99 on each.
    pub fn spent(&self, vid: u32, day: u32, xway: u32) -> u32 {
        let key = u64::from(vid) << 32 | u64::from(day) << 16 | u64::from(xway);
        10 + (crate::seed::derived(self.history, key) % 90) as u32
    }

    /// Cars of a segment in a minute.
    pub fn cars_in(&self, xway: u32, direction: u32, segment: u32, minute: u32) -> u32 {
        self.minutes.get(&(xway, direction, segment, minute)).map_or(0, |m| m.cars.len() as u32)
    }

    /// LAV: average speed of the five minutes before this one, 0 without reports.
    pub fn average_speed(&self, xway: u32, direction: u32, segment: u32, minute: u32) -> u32 {
        let (mut speeds, mut reports) = (0, 0);
        for before in minute.saturating_sub(5)..minute {
            if let Some(m) = self.minutes.get(&(xway, direction, segment, before)) {
                speeds += m.speeds;
                reports += m.reports;
            }
        }
        // Rounded half up: ⌊a/b + 1/2⌋.
        if reports == 0 { 0 } else { ((2 * speeds + reports) / (2 * reports)) as u32 }
    }

    /// The segment of the nearest accident that a car entering this segment in this minute is warned of.
    pub fn accident_ahead(&self, xway: u32, direction: u32, segment: u32, minute: u32) -> Option<u32> {
        let distance = |accident: u32| {
            if direction == 0 { accident.checked_sub(segment) } else { segment.checked_sub(accident) }
        };
        self.accidents
            .iter()
            .filter(|accident| (accident.place.0, accident.place.1) == (xway, direction))
            .filter(|accident| accident.began.is_some_and(|began| minute > began))
            .filter(|accident| accident.cleared.is_none_or(|cleared| minute <= cleared))
            .map(|accident| accident.place.3)
            .filter(|&accident| distance(accident).is_some_and(|distance| distance <= 4))
            .min_by_key(|&accident| distance(accident))
    }

    /// The toll of a segment in a minute.
    pub fn toll(&self, xway: u32, direction: u32, segment: u32, minute: u32) -> u32 {
        let cars = self.cars_in(xway, direction, segment, minute - 1);
        let is_slow = self.average_speed(xway, direction, segment, minute) < 40;
        if cars > 50 && is_slow && self.accident_ahead(xway, direction, segment, minute).is_none() {
            2 * (cars - 50) * (cars - 50)
        } else {
            0
        }
    }

    /// Accidents that block the road as this minute ends: expressway, direction, lane, segment, position.
    pub fn accidents_at_end_of(&self, minute: u32) -> impl Iterator<Item = (u32, u32, u32, u32, u32)> {
        self.accidents
            .iter()
            .filter(move |accident| accident.began.is_some_and(|began| began <= minute))
            .filter(move |accident| accident.cleared.is_none_or(|cleared| cleared > minute))
            .map(|accident| accident.place)
    }

    fn position(&mut self, report: &Report) -> Vec<Answer> {
        let mut car = self.cars.remove(&report.vid).unwrap_or_default();
        if car.last.is_some_and(|last| report.time_s - last.time_s > 2 * REPORT_EVERY_S) {
            // Back after a while: a new trip on the same account.
            (car.last, car.same, car.announced) = (None, 0, 0);
        }
        if car.last.is_some_and(|last| last.lane == 4 && report.lane != 0) {
            self.cars.insert(report.vid, car);
            return vec![];
        }
        self.count(report);
        let was = car.last.map(|last| place(&last));
        car.same = if was == Some(place(report)) { car.same + 1 } else { 1 };
        if car.same == 4 {
            self.stopped(report);
        } else if let Some(was) = was.filter(|&was| was != place(report)) {
            self.moved_on(report, was);
        }
        let mut answers = vec![];
        let is_new = car.last.is_none_or(|last| last.segment != report.segment);
        if is_new && report.lane != 4 {
            car.charged += car.announced;
            let minute = minute(report);
            let toll = self.toll(report.xway, report.direction, report.segment, minute);
            let lav = self.average_speed(report.xway, report.direction, report.segment, minute);
            car.announced = toll;
            answers.push(Answer::Toll { vid: report.vid, time_s: report.time_s, lav, toll });
            let ahead = self.accident_ahead(report.xway, report.direction, report.segment, minute);
            if let Some(segment) = ahead {
                answers.push(Answer::Alert { vid: report.vid, time_s: report.time_s, segment });
            }
        }
        car.last = Some(*report);
        self.cars.insert(report.vid, car);
        answers
    }

    fn count(&mut self, report: &Report) {
        let key = (report.xway, report.direction, report.segment, minute(report));
        let entry = self.minutes.entry(key).or_default();
        entry.cars.insert(report.vid);
        entry.speeds += u64::from(report.speed);
        entry.reports += 1;
    }

    /// A car has reported one place four times in a row.
    fn stopped(&mut self, report: &Report) {
        let here = place(report);
        let open =
            self.accidents.iter().position(|accident| accident.place == here && accident.cleared.is_none());
        let accident = match open {
            Some(open) => &mut self.accidents[open],
            None => {
                let cars = HashSet::new();
                self.accidents.push(Accident { place: here, cars, began: None, cleared: None });
                let last = self.accidents.len() - 1;
                &mut self.accidents[last]
            }
        };
        accident.cars.insert(report.vid);
        if accident.cars.len() == 2 && accident.began.is_none() {
            accident.began = Some(minute(report));
        }
    }

    /// A car has left a place: the accident there is cleared once fewer than two cars are left.
    fn moved_on(&mut self, report: &Report, was: Place) {
        for accident in self.accidents.iter_mut().filter(|accident| accident.place == was) {
            if accident.cars.remove(&report.vid) && accident.cars.len() < 2 && accident.cleared.is_none() {
                accident.cleared = Some(minute(report));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear_road::Traffic;

    fn report(time_s: u32, vid: u32, speed: u32, lane: u32, position: u32) -> Report {
        Report {
            kind: ReportKind::Position,
            time_s,
            vid,
            speed,
            xway: 0,
            lane,
            direction: 0,
            segment: position / 5_280,
            position,
        }
    }

    #[test]
    fn tolls_follow_cars_and_speed_of_the_minutes_before() {
        let mut rules = Rules::new(0);
        // 60 cars in segment 3 in minute 1 at 30 mph.
        for vid in 0..60 {
            let answers = rules.answer(&report(vid, vid, 30, 1, 3 * 5_280 + vid));
            assert_eq!(answers, [Answer::Toll { vid, time_s: vid, lav: 0, toll: 0 }], "nothing known before");
        }
        // A car enters in minute 2: 2 · (60 − 50)².
        assert_eq!(
            rules.answer(&report(70, 100, 50, 1, 3 * 5_280)),
            [Answer::Toll { vid: 100, time_s: 70, lav: 30, toll: 200 }]
        );
        // Within the segment: nothing. In the next one: the toll is charged.
        assert_eq!(rules.answer(&report(100, 100, 50, 1, 3 * 5_280 + 2_200)), []);
        let ask = |time_s| Report { kind: ReportKind::Balance { qid: 1 }, ..report(time_s, 100, 0, 0, 0) };
        assert_eq!(rules.answer(&ask(101)), [Answer::Balance { qid: 1, time_s: 101, balance: 0 }]);
        rules.answer(&report(130, 100, 50, 1, 4 * 5_280));
        assert_eq!(rules.answer(&ask(131)), [Answer::Balance { qid: 1, time_s: 131, balance: 200 }]);
        // Minute 3 counts the cars of minute 2 (one), with the speeds of minutes 1 and 2.
        assert_eq!(rules.cars_in(0, 0, 3, 2), 1);
        // (60 · 30 + 2 · 50) / 62 = 30.6…
        assert_eq!(rules.average_speed(0, 0, 3, 3), 31);
        assert_eq!(rules.toll(0, 0, 3, 3), 0);
        assert_eq!(rules.average_speed(0, 0, 3, 7), 50, "minute 1 is out of the five before");
    }

    #[test]
    fn exactly_50_cars_or_40_mph_are_free() {
        for (cars, speed, toll) in [(50, 30, 0), (51, 30, 2), (51, 40, 0), (51, 39, 2)] {
            let mut rules = Rules::new(0);
            for vid in 0..cars {
                rules.answer(&report(vid, vid, speed, 1, 0));
            }
            assert_eq!(rules.toll(0, 0, 0, 2), toll, "{cars} cars at {speed}");
        }
    }

    #[test]
    fn an_accident_is_known_from_the_next_minute_until_it_is_cleared() {
        let mut rules = Rules::new(0);
        let spot = 10 * 5_280 + 7;
        // Car 1 stands from 0 s, car 2 from 10 s: stopped at their fourth reports, 90 s and 100 s. Minute 2.
        for k in 0..8 {
            rules.answer(&report(30 * k, 1, 0, 2, spot));
            rules.answer(&report(30 * k + 10, 2, 0, 2, spot));
        }
        let ahead = |rules: &Rules, segment, minute| rules.accident_ahead(0, 0, segment, minute);
        assert_eq!(ahead(&rules, 10, 2), None);
        assert_eq!(ahead(&rules, 10, 3), Some(10));
        assert_eq!(ahead(&rules, 6, 3), Some(10));
        assert_eq!(ahead(&rules, 5, 3), None, "five segments ahead");
        assert_eq!(ahead(&rules, 11, 3), None, "behind it");
        assert_eq!(rules.accident_ahead(0, 1, 10, 3), None, "the other direction");
        // Car 1 drives on at 240 s: minute 5 is the last.
        rules.answer(&report(240, 1, 30, 2, spot + 1_320));
        assert_eq!(ahead(&rules, 10, 5), Some(10));
        assert_eq!(ahead(&rules, 10, 6), None);
        let at_end = |minute| rules.accidents_at_end_of(minute).count();
        assert_eq!([1, 2, 3, 4, 5].map(at_end), [0, 1, 1, 1, 0]);
        // Whoever enters the zone is told.
        let answers = rules.answer(&report(250, 9, 30, 1, 8 * 5_280));
        assert_eq!(answers[1], Answer::Alert { vid: 9, time_s: 250, segment: 10 });
    }

    #[test]
    fn one_car_that_stands_is_no_accident() {
        let mut rules = Rules::new(0);
        for k in 0..8 {
            rules.answer(&report(30 * k, 1, 0, 2, 7));
            rules.answer(&report(30 * k + 5, 2, 0, 1, 7));
        }
        assert_eq!(rules.accident_ahead(0, 0, 0, 4), None, "the other one is in another lane");
    }

    #[test]
    fn a_car_that_left_is_ignored_until_it_enters_again() {
        let mut rules = Rules::new(3);
        rules.answer(&report(0, 1, 10, 0, 0));
        assert_eq!(rules.answer(&report(30, 1, 10, 4, 5_300)), [], "leaving announces nothing");
        assert_eq!(rules.answer(&report(60, 1, 30, 2, 9_000)), []);
        assert_eq!(rules.cars_in(0, 0, 1, 2), 0);
        assert_eq!(rules.answer(&report(1_500, 1, 10, 0, 0)).len(), 1);
        let ask = Report { kind: ReportKind::Expenditure { qid: 5, day: 9 }, ..report(1_501, 1, 0, 0, 0) };
        let toll = rules.spent(1, 9, 0);
        assert!((10..=99).contains(&toll));
        assert_eq!(rules.answer(&ask), [Answer::Expenditure { qid: 5, time_s: 1_501, toll }]);
    }

    #[test]
    fn generated_traffic_has_tolls_alerts_and_answers() {
        let traffic = Traffic { seconds: 1_080, cars: 0.7, accident_s: 200, ..Traffic::default() };
        let mut rules = Rules::new(0);
        let (mut tolls, mut alerts, mut requests) = (0, 0, 0);
        for report in traffic.reports(1) {
            for answer in rules.answer(&report) {
                match answer {
                    Answer::Toll { toll, .. } => tolls += u32::from(toll > 0),
                    Answer::Alert { .. } => alerts += 1,
                    Answer::Balance { .. } | Answer::Expenditure { .. } => requests += 1,
                }
            }
        }
        let charged = rules.cars.values().filter(|car| car.charged > 0).count();
        assert!(
            tolls > 100 && alerts > 100 && requests > 100 && charged > 10,
            "{tolls} {alerts} {requests} {charged}"
        );
    }
}
