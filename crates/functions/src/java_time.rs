//! Times in text, by Java's patterns and by Flink's rules for CAST, with what Java forgives, such as a 30 February.

use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

/// A date and time pattern of Java, as `DATE_FORMAT` and `TO_TIMESTAMP` take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JavaPattern(Vec<Item>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// A pattern letter and how often it stands in a row.
    Letter(char, usize),
    Text(String),
}

/// Flink's default pattern.
pub(crate) const DEFAULT: &str = "yyyy-MM-dd HH:mm:ss";

const LETTERS: &str = "yuMdHhKkmsSaEDQw";

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

impl JavaPattern {
    /// Fails with the letter that is not known.
    pub fn parse(pattern: &str) -> Result<JavaPattern, char> {
        let mut items: Vec<Item> = Vec::new();
        let mut chars = pattern.chars().peekable();
        let push_text = |items: &mut Vec<Item>, c: char| match items.last_mut() {
            Some(Item::Text(text)) => text.push(c),
            _ => items.push(Item::Text(c.to_string())),
        };
        while let Some(c) = chars.next() {
            if c == '\'' {
                if chars.next_if_eq(&'\'').is_some() {
                    push_text(&mut items, '\'');
                    continue;
                }
                for quoted in chars.by_ref().take_while(|c| *c != '\'') {
                    push_text(&mut items, quoted);
                }
            } else if c.is_ascii_alphabetic() {
                if !LETTERS.contains(c) {
                    return Err(c);
                }
                let mut count = 1;
                while chars.next_if_eq(&c).is_some() {
                    count += 1;
                }
                items.push(Item::Letter(c, count));
            } else {
                push_text(&mut items, c);
            }
        }
        Ok(JavaPattern(items))
    }

    /// Writes `time` to the end of `out`.
    pub fn format(&self, time: &NaiveDateTime, out: &mut String) {
        use std::fmt::Write;
        for item in &self.0 {
            // Writing to a String cannot fail.
            let _ = match item {
                Item::Text(text) => out.write_str(text),
                Item::Letter(letter, count) => {
                    let width = *count;
                    match letter {
                        'y' | 'u' if width == 2 => write!(out, "{:02}", time.year().rem_euclid(100)),
                        'y' | 'u' => write!(out, "{:0width$}", time.year()),
                        'M' if width >= 4 => out.write_str(MONTHS[time.month0() as usize]),
                        'M' if width == 3 => out.write_str(&MONTHS[time.month0() as usize][..3]),
                        'M' => write!(out, "{:0width$}", time.month()),
                        'd' => write!(out, "{:0width$}", time.day()),
                        'D' => write!(out, "{:0width$}", time.ordinal()),
                        'w' => write!(out, "{:0width$}", week_of_year(time.date())),
                        'Q' => write!(out, "{:0width$}", time.month0() / 3 + 1),
                        'H' => write!(out, "{:0width$}", time.hour()),
                        'k' => write!(out, "{:0width$}", if time.hour() == 0 { 24 } else { time.hour() }),
                        'h' => write!(out, "{:0width$}", time.hour12().1),
                        'K' => write!(out, "{:0width$}", time.hour() % 12),
                        'm' => write!(out, "{:0width$}", time.minute()),
                        's' => write!(out, "{:0width$}", time.second()),
                        'S' => {
                            let nanos = format!("{:09}", time.nanosecond() % 1_000_000_000);
                            write!(out, "{:0<width$}", &nanos[..width.min(9)])
                        }
                        'a' => out.write_str(if time.hour() < 12 { "AM" } else { "PM" }),
                        _ => {
                            let day = DAYS[time.weekday().num_days_from_monday() as usize];
                            out.write_str(if width >= 4 { day } else { &day[..3] })
                        }
                    }
                }
            };
        }
    }

    /// Reads a time; fields that the pattern does not name are those of 1970-01-01 00:00:00.
    pub fn read(&self, text: &str) -> Option<NaiveDateTime> {
        let mut rest = text;
        let (mut year, mut month, mut day) = (1970, 1, 1);
        let (mut hour, mut minute, mut second, mut nano) = (0, 0, 0, 0);
        let mut ordinal = None;
        let mut afternoon = None;
        for (index, item) in self.0.iter().enumerate() {
            match item {
                Item::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                Item::Letter(letter @ ('E' | 'M'), count) if *letter == 'E' || *count >= 3 => {
                    let names: &[&str] = if *letter == 'E' { &DAYS } else { &MONTHS };
                    let position = names.iter().position(|name| {
                        let name = if *count >= 4 { name } else { &name[..3] };
                        rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                    })?;
                    rest = &rest[if *count >= 4 { names[position].len() } else { 3 }..];
                    if *letter == 'M' {
                        month = position as u32 + 1;
                    }
                }
                Item::Letter('a', _) => {
                    afternoon = Some(match rest.get(..2)?.to_ascii_uppercase().as_str() {
                        "AM" => false,
                        "PM" => true,
                        _ => return None,
                    });
                    rest = &rest[2..];
                }
                Item::Letter(letter, count) => {
                    // A field that another follows directly has exactly its width.
                    let adjacent = matches!(self.0.get(index + 1), Some(Item::Letter(..)));
                    let most = match letter {
                        _ if adjacent => *count,
                        'y' | 'u' => 9,
                        'S' => 9,
                        'D' => 3,
                        _ => 2.max(*count),
                    };
                    let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
                    if digits == 0 || (adjacent && digits < *count) {
                        return None;
                    }
                    let number: u32 = rest[..digits].parse().ok()?;
                    rest = &rest[digits..];
                    match letter {
                        'y' | 'u' if *count == 2 => year = 2000 + number as i32,
                        'y' | 'u' => year = number as i32,
                        'M' => month = number,
                        'd' => day = number,
                        'D' => ordinal = Some(number),
                        'H' => hour = number,
                        'k' => hour = number % 24,
                        'h' => hour = number % 12,
                        'K' => hour = number,
                        'm' => minute = number,
                        's' => second = number,
                        'S' => nano = number.checked_mul(10_u32.pow(9 - digits as u32))?,
                        _ => {}
                    }
                }
            }
        }
        if !rest.is_empty() {
            return None;
        }
        if afternoon == Some(true) {
            hour += 12;
        }
        let day = match ordinal {
            Some(ordinal) => NaiveDate::from_yo_opt(year, ordinal)?,
            None => date(year, month, day)?,
        };
        Some(day.and_time(NaiveTime::from_hms_nano_opt(hour, minute, second, nano)?))
    }
}

/// Weeks begin on Sunday; the first one holds the first of January, and that of the next year may begin in this one.
fn week_of_year(day: NaiveDate) -> u32 {
    let sunday_based = |day: NaiveDate| day.weekday().num_days_from_sunday();
    let days_left_of_week = 6 - sunday_based(day);
    let days_of_year = if day.leap_year() { 366 } else { 365 };
    if day.ordinal() + days_left_of_week > days_of_year {
        return 1;
    }
    // The first of January is as many days of week before today as the year is old.
    let first = (sunday_based(day) + 7 * 53 - day.ordinal0()) % 7;
    (day.ordinal0() + first) / 7 + 1
}

/// The day, or the last one of its month where that has fewer than 31: Java's "smart" resolver.
fn date(year: i32, month: u32, day: u32) -> Option<NaiveDate> {
    let missing = (29..=31).contains(&day);
    NaiveDate::from_ymd_opt(year, month, day).or_else(|| {
        (28..day).rev().filter(|_| missing).find_map(|day| NaiveDate::from_ymd_opt(year, month, day))
    })
}

/// Reads a timestamp in Flink's default form: date, then perhaps a blank and the time, with a fraction of up to nine
/// digits; month, day, hour, minute and second may have one digit.
pub(crate) fn read_default(text: &str) -> Option<NaiveDateTime> {
    let (day, time) = match text.split_once(' ') {
        Some((day, time)) => (day, Some(time)),
        None => (text, None),
    };
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        let plain = digits.contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| plain)
    };
    let mut parts = day.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let day = date(number(year, 4..=9)? as i32, number(month, 1..=2)?, number(day, 1..=2)?)?;
    let Some(time) = time else { return Some(day.and_time(NaiveTime::MIN)) };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let nanos = number(fraction, 1..=9)? * 10_u32.pow(9 - fraction.len() as u32);
    let mut parts = whole.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let [hour, minute, second] = [number(hour, 1..=2)?, number(minute, 1..=2)?, number(second, 1..=2)?];
    // The end of a day is the beginning of the next.
    if (hour, minute, second, nanos) == (24, 0, 0, 0) {
        return Some(day.succ_opt()?.and_time(NaiveTime::MIN));
    }
    Some(day.and_time(NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)?))
}

/// What `TO_TIMESTAMP` reads where its pattern does not fit: a day, or a day and a time, whatever the pattern says. A
/// 30 February is the first of March.
pub(crate) fn read_fallback(text: &str) -> Option<NaiveDateTime> {
    let text = text.trim();
    let (day, time) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    let parts: Vec<&str> = day.split('-').collect();
    let [year, month, day] = parts[..] else { return None };
    let number = |text: &str| if text.len() <= 2 { text.parse::<u32>().ok() } else { None };
    let year: i32 = Some(year).filter(|year| year.len() == 4)?.parse().ok()?;
    let day = number(day).filter(|day| (1..=31).contains(day))?;
    let first = NaiveDate::from_ymd_opt(year, number(month)?, 1)?;
    let day = first.checked_add_days(Days::new(u64::from(day) - 1))?;
    let (whole, fraction) = time.trim().split_once('.').unwrap_or((time.trim(), "0"));
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let nanos = fraction.parse::<i64>().ok()? * 10_i64.pow(9 - fraction.len() as u32);
    let parts: Vec<Option<i64>> =
        whole.split(':').map(|part| part.parse::<u32>().ok().map(i64::from)).collect();
    let [Some(hour), Some(minute), Some(second)] = parts[..] else { return None };
    let seconds = TimeDelta::seconds((hour * 60 + minute) * 60 + second);
    day.and_time(NaiveTime::MIN).checked_add_signed(seconds + TimeDelta::nanoseconds(nanos))
}

/// A DATE as CAST reads it: `2020`, `2020-2` or `2020-2-29`, and perhaps a time behind a blank, which is not looked
/// at. A 30 February is the first of March.
pub(crate) fn read_date(text: &str) -> Option<NaiveDate> {
    let day = match text.find(' ') {
        Some(blank @ 1..) => &text[..blank],
        _ => text,
    };
    let mut parts = day.splitn(3, '-').map(whole_number);
    let year = parts.next()??;
    let month = parts.next().unwrap_or(Some(1))?;
    let day = parts.next().unwrap_or(Some(1))?;
    if year > 9_999 || !(1..=31).contains(&day) {
        return None;
    }
    NaiveDate::from_ymd_opt(year as i32, month, 1)?.checked_add_days(Days::new(u64::from(day) - 1))
}

/// A TIME as CAST reads it: `12`, `12:34`, `12:34:56` or `12:34:56.789`, in milliseconds.
pub(crate) fn read_time(text: &str) -> Option<i32> {
    let (whole, fraction) = match text.rsplit_once('.') {
        Some((whole, fraction)) if text.matches(':').count() == 2 => (whole, Some(fraction.trim())),
        _ => (text, None),
    };
    let mut parts = whole.splitn(3, ':').map(whole_number);
    let hour = parts.next()??;
    let minute = parts.next().unwrap_or(Some(0))?;
    let second = parts.next().unwrap_or(Some(0))?;
    let millis = match fraction {
        None => 0,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            format!("{digits:0<3}").get(..3)?.parse().ok()?
        }
        Some(_) => return None,
    };
    let valid = hour < 24 && minute < 60 && second < 60;
    valid.then(|| (((hour * 60 + minute) * 60 + second) * 1_000 + millis) as i32)
}

fn whole_number(text: &str) -> Option<u32> {
    let text = text.trim();
    if text.bytes().all(|digit| digit.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str) {
        let pattern = JavaPattern::parse(pattern).unwrap();
        let time = NaiveDate::from_ymd_opt(2013, 3, 7).unwrap().and_hms_milli_opt(15, 4, 5, 678).unwrap();
        let mut out = String::new();
        pattern.format(&time, &mut out);
        assert_eq!(out, text);
    }

    #[test]
    fn patterns_format_as_in_java() {
        check("yyyy-MM-dd HH:mm:ss.SSS", "2013-03-07 15:04:05.678");
        check("yyyyMMdd", "20130307");
        check("d/M/yy h:mm a", "7/3/13 3:04 PM");
        check("EEE, dd MMM yyyy 'at' HH''mm", "Thu, 07 Mar 2013 at 15'04");
        check("EEEE MMMM D Q", "Thursday March 66 1");
    }

    #[test]
    fn patterns_read_what_they_write() {
        for pattern in ["yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMddHHmmssSSS", "EEE dd MMM yyyy hh:mm:ss.SSS a"] {
            let pattern = JavaPattern::parse(pattern).unwrap();
            let time = NaiveDate::from_ymd_opt(2013, 3, 7).unwrap().and_hms_milli_opt(15, 4, 5, 678).unwrap();
            let mut out = String::new();
            pattern.format(&time, &mut out);
            assert_eq!(pattern.read(&out), Some(time), "{out}");
        }
        let last = NaiveDate::from_ymd_opt(2013, 2, 28).unwrap().and_time(NaiveTime::MIN);
        assert_eq!(JavaPattern::parse("yyyy-MM-dd").unwrap().read("2013-02-30"), Some(last));
        assert_eq!(JavaPattern::parse("yyyy-MM-dd").unwrap().read("2013-02-32"), None);
        assert_eq!(JavaPattern::parse("yyyy-MM-dd").unwrap().read("2013-02-03x"), None);
    }

    #[test]
    fn weeks_begin_on_sunday() {
        for (day, week) in [
            ((2020, 2, 29), 9),
            ((2024, 12, 30), 1),
            ((1999, 12, 31), 1),
            ((1980, 2, 28), 9),
            ((2000, 1, 1), 1),
            ((2000, 1, 2), 2),
        ] {
            let day = NaiveDate::from_ymd_opt(day.0, day.1, day.2).unwrap();
            assert_eq!(week_of_year(day), week, "{day}");
        }
    }

    #[test]
    fn casts_read_parts_of_dates_and_times() {
        let day = |year, month, day| NaiveDate::from_ymd_opt(year, month, day);
        assert_eq!(read_date("12"), day(12, 1, 1));
        assert_eq!(read_date(" 2020-2-29"), day(2020, 2, 29));
        assert_eq!(read_date("2020-02-30 24:00"), day(2020, 3, 1));
        assert_eq!(read_date("2020-02-29T01"), None);
        assert_eq!(read_date("2020-13-01"), None);
        assert_eq!(read_time("12"), Some(43_200_000));
        assert_eq!(read_time("1:2:3.4567"), Some(3_723_456));
        assert_eq!(read_time("24:00:00"), None);
        let at = |text| read_fallback(text).map(|time| time.to_string());
        assert_eq!(at("2020-02-30 24:00:00"), Some("2020-03-02 00:00:00".into()));
        assert_eq!(at("2020-2-9"), Some("2020-02-09 00:00:00".into()));
        assert_eq!(at("20-2-9 1"), None);
    }

    #[test]
    fn unknown_letters_are_named() {
        assert_eq!(JavaPattern::parse("yyyy-VV"), Err('V'));
    }
}
