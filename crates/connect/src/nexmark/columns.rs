//! From events of Nexmark to the columns that a table declares. A column or a field that the generator does not know is
//! refused before any row is made.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int64Array, StringArray, StructArray, TimestampMillisecondArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

use super::event::{Auction, Bid, Event, Person};

/// A column of the table: which kind an event is, or the fields of one kind.
#[derive(Clone, Debug)]
pub(super) enum Column {
    Kind,
    People(Fields, Vec<Part<Person>>),
    Auctions(Fields, Vec<Part<Auction>>),
    Bids(Fields, Vec<Part<Bid>>),
}

/// A field of one kind of event.
#[derive(Debug)]
pub(super) enum Part<T: 'static> {
    Number(fn(&T) -> i64),
    Time(fn(&T) -> i64),
    Text(fn(&T) -> &str),
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Part<T> {
        match self {
            Part::Number(of) => Part::Number(*of),
            Part::Time(of) => Part::Time(*of),
            Part::Text(of) => Part::Text(*of),
        }
    }
}

type Named<T> = &'static [(&'static str, Part<T>)];

const PERSON: Named<Person> = &[
    ("id", Part::Number(|person| person.id)),
    ("name", Part::Text(|person| &person.name)),
    ("emailAddress", Part::Text(|person| &person.email)),
    ("creditCard", Part::Text(|person| &person.credit_card)),
    ("city", Part::Text(|person| person.city)),
    ("state", Part::Text(|person| person.state)),
    ("dateTime", Part::Time(|person| person.time_ms)),
    ("extra", Part::Text(|person| &person.extra)),
];

const AUCTION: Named<Auction> = &[
    ("id", Part::Number(|auction| auction.id)),
    ("itemName", Part::Text(|auction| &auction.item)),
    ("description", Part::Text(|auction| &auction.description)),
    ("initialBid", Part::Number(|auction| auction.initial_bid)),
    ("reserve", Part::Number(|auction| auction.reserve)),
    ("dateTime", Part::Time(|auction| auction.time_ms)),
    ("expires", Part::Time(|auction| auction.expires_ms)),
    ("seller", Part::Number(|auction| auction.seller)),
    ("category", Part::Number(|auction| auction.category)),
    ("extra", Part::Text(|auction| &auction.extra)),
];

const BID: Named<Bid> = &[
    ("auction", Part::Number(|bid| bid.auction)),
    ("bidder", Part::Number(|bid| bid.bidder)),
    ("price", Part::Number(|bid| bid.price)),
    ("channel", Part::Text(|bid| &bid.channel)),
    ("url", Part::Text(|bid| &bid.url)),
    ("dateTime", Part::Time(|bid| bid.time_ms)),
    ("extra", Part::Text(|bid| &bid.extra)),
];

const SHAPE: &str = "event_type INT, person ROW<…>, auction ROW<…> and bid ROW<…>";

impl Column {
    /// What a column of that name and type is filled with.
    ///
    /// # Errors
    /// In words, if the generator has no such column.
    pub fn read(field: &Field) -> Result<Column, String> {
        match (field.name().as_str(), field.data_type()) {
            ("event_type", DataType::Int32) => Ok(Column::Kind),
            ("person", DataType::Struct(fields)) => {
                Ok(Column::People(fields.clone(), parts("person", fields, PERSON)?))
            }
            ("auction", DataType::Struct(fields)) => {
                Ok(Column::Auctions(fields.clone(), parts("auction", fields, AUCTION)?))
            }
            ("bid", DataType::Struct(fields)) => Ok(Column::Bids(fields.clone(), parts("bid", fields, BID)?)),
            (name, _) => Err(format!("column '{name}' is none of 'nexmark'; it has {SHAPE}")),
        }
    }

    pub fn of(&self, events: &[Event]) -> ArrayRef {
        match self {
            Column::Kind => Arc::new(Int32Array::from_iter_values(events.iter().map(|event| match event {
                Event::Person(_) => 0,
                Event::Auction(_) => 1,
                Event::Bid(_) => 2,
            }))),
            Column::People(fields, parts) => rows(fields, parts, events, |event| match event {
                Event::Person(person) => Some(person),
                _ => None,
            }),
            Column::Auctions(fields, parts) => rows(fields, parts, events, |event| match event {
                Event::Auction(auction) => Some(auction),
                _ => None,
            }),
            Column::Bids(fields, parts) => rows(fields, parts, events, |event| match event {
                Event::Bid(bid) => Some(bid),
                _ => None,
            }),
        }
    }
}

fn parts<T>(column: &str, fields: &Fields, named: Named<T>) -> Result<Vec<Part<T>>, String> {
    let part = |field: &Arc<Field>| {
        let known = named.iter().find(|(name, _)| name == field.name());
        let fits = known.filter(|(_, part)| {
            matches!(
                (part, field.data_type()),
                (Part::Number(_), DataType::Int64)
                    | (Part::Time(_), DataType::Timestamp(TimeUnit::Millisecond, None))
                    | (Part::Text(_), DataType::Utf8)
            )
        });
        fits.map(|(_, part)| part.clone()).ok_or_else(|| {
            let all = named.iter().map(|(name, part)| {
                let data_type = match part {
                    Part::Number(_) => "BIGINT",
                    Part::Time(_) => "TIMESTAMP(3)",
                    Part::Text(_) => "STRING",
                };
                format!("{name} {data_type}")
            });
            let all: Vec<String> = all.collect();
            format!(
                "column '{column}' of 'nexmark' has no such field '{}'; it has {}",
                field.name(),
                all.join(", ")
            )
        })
    };
    fields.iter().map(part).collect()
}

/// NULL where an event is of another kind.
fn rows<T>(
    fields: &Fields,
    parts: &[Part<T>],
    events: &[Event],
    of_kind: impl Fn(&Event) -> Option<&T>,
) -> ArrayRef {
    let rows: Vec<Option<&T>> = events.iter().map(of_kind).collect();
    let is_there = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    if fields.is_empty() || is_there.null_count() == rows.len() {
        return new_null_array(&DataType::Struct(fields.clone()), rows.len());
    }
    let arrays = parts.iter().map(|part| -> ArrayRef {
        match part {
            Part::Number(of) => Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.map(of)))),
            Part::Time(of) => {
                Arc::new(TimestampMillisecondArray::from_iter(rows.iter().map(|row| row.map(of))))
            }
            Part::Text(of) => Arc::new(StringArray::from_iter(rows.iter().map(|row| row.map(of)))),
        }
    });
    Arc::new(StructArray::new(fields.clone(), arrays.collect(), Some(is_there)))
}
