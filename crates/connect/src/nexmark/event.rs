//! The events of Nexmark: how often each kind comes, what it refers to, and how large it is. An event is made from the
//! seed and its number, without those before it.

/// How many of each kind there are, how large, and how often one of few is meant. Defaults and what they do are those of
/// Nexmark's own generator.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    /// Of event time.
    pub events_per_s: u64,
    /// In a group of events people come first, then auctions, then bids: so many of each.
    pub people: u64,
    pub auctions: u64,
    pub bids: u64,
    /// Sizes on average; what the other fields leave is filled with letters.
    pub person_bytes: u64,
    pub auction_bytes: u64,
    pub bid_bytes: u64,
    /// All but one in so many bids go to the hot auction.
    pub hot_auctions: u64,
    /// All but one in so many bids are the hot bidder's.
    pub hot_bidders: u64,
    /// All but one in so many auctions are the hot seller's.
    pub hot_sellers: u64,
    pub seed: u64,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix {
            events_per_s: 10_000,
            people: 1,
            auctions: 3,
            bids: 46,
            person_bytes: 200,
            auction_bytes: 500,
            bid_bytes: 100,
            hot_auctions: 2,
            hot_bidders: 4,
            hot_sellers: 4,
            seed: 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    Person(Person),
    Auction(Auction),
    Bid(Bid),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Person {
    pub id: i64,
    pub name: String,
    pub email: String,
    pub credit_card: String,
    pub city: &'static str,
    pub state: &'static str,
    pub time_ms: i64,
    pub extra: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Auction {
    pub id: i64,
    pub item: String,
    pub description: String,
    pub initial_bid: i64,
    pub reserve: i64,
    pub time_ms: i64,
    pub expires_ms: i64,
    pub seller: i64,
    pub category: i64,
    pub extra: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bid {
    pub auction: i64,
    pub bidder: i64,
    pub price: i64,
    pub channel: String,
    pub url: String,
    pub time_ms: i64,
    pub extra: String,
}

const FIRST_ID: u64 = 1_000;
const FIRST_CATEGORY: u64 = 10;
const CATEGORIES: u64 = 5;
/// The hot one is the first of as many, so that it changes as the stream goes on.
const HOT_EVERY: u64 = 100;
/// Who may bid and sell, and what may be bid for: the newest so many, and a few that do not exist yet.
const ACTIVE_PEOPLE: u64 = 1_000;
const OPEN_AUCTIONS: u64 = 100;
const LEAD: u64 = 10;

const STATES: &[&str] = &["AZ", "CA", "ID", "OR", "WA", "WY"];
const CITIES: &[&str] = &[
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
];
const FIRST_NAMES: &[&str] =
    &["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"];
const LAST_NAMES: &[&str] =
    &["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];
const HOT_CHANNELS: &[&str] = &["Google", "Facebook", "Baidu", "Apple"];
const CHANNELS: u64 = 10_000;

impl Mix {
    fn group(&self) -> u64 {
        self.people + self.auctions + self.bids
    }

    pub fn event_bytes_max(&self) -> u64 {
        // A fifth more than on average, and the fields that have no less.
        (self.person_bytes.max(self.auction_bytes).max(self.bid_bytes) * 6 / 5).max(256)
    }

    /// When an event is due, and of event time where it lies, from the first one on.
    pub fn since_start_ns(&self, event: u64) -> u64 {
        let ns = u128::from(event) * 1_000_000_000 / u128::from(self.events_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Events whose due instant, rounded down to a nanosecond as above, is that or before.
    pub fn events_due_by(&self, since_start_ns: u64) -> u64 {
        let events =
            ((u128::from(since_start_ns) + 1) * u128::from(self.events_per_s)).div_ceil(1_000_000_000);
        u64::try_from(events).unwrap_or(u64::MAX)
    }

    pub fn event(&self, number: u64, base_ms: i64) -> Event {
        let time_ms = base_ms.saturating_add((self.since_start_ns(number) / 1_000_000) as i64);
        let mut draw = Draws::of(self.seed, number);
        let place = number % self.group();
        if place < self.people {
            Event::Person(self.person(number, time_ms, &mut draw))
        } else if place < self.people + self.auctions {
            Event::Auction(self.auction(number, time_ms, &mut draw))
        } else {
            Event::Bid(self.bid(number, time_ms, &mut draw))
        }
    }

    /// The newest person at that event, from 0.
    fn newest_person(&self, event: u64) -> u64 {
        event / self.group() * self.people + (event % self.group()).min(self.people - 1)
    }

    /// The newest auction at that event, from 0. Before the first there is that one all the same.
    fn newest_auction(&self, event: u64) -> u64 {
        let (groups, place) = (event / self.group(), event % self.group());
        match place.checked_sub(self.people) {
            None => (groups * self.auctions).saturating_sub(1),
            Some(place) => groups * self.auctions + place.min(self.auctions - 1),
        }
    }

    fn any_person(&self, event: u64, draw: &mut Draws) -> u64 {
        let people = self.newest_person(event) + 1;
        let active = people.min(ACTIVE_PEOPLE);
        people - active + draw.below(active + LEAD)
    }

    fn any_auction(&self, event: u64, draw: &mut Draws) -> u64 {
        let newest = self.newest_auction(event);
        let oldest = newest.saturating_sub(OPEN_AUCTIONS);
        oldest + draw.below(newest - oldest + 1 + LEAD)
    }

    fn person(&self, event: u64, time_ms: i64, draw: &mut Draws) -> Person {
        let name = format!("{} {}", draw.one_of(FIRST_NAMES), draw.one_of(LAST_NAMES));
        let email = format!("{}@{}.com", draw.word(7), draw.word(5));
        let credit_card = [(); 4].map(|()| format!("{:04}", draw.below(10_000))).join(" ");
        let (city, state) = (draw.one_of(CITIES), draw.one_of(STATES));
        let size = 8 + name.len() + email.len() + credit_card.len() + city.len() + state.len();
        let extra = draw.filling(self.person_bytes, size);
        let id = id(self.newest_person(event));
        Person { id, name, email, credit_card, city, state, time_ms, extra }
    }

    fn auction(&self, event: u64, time_ms: i64, draw: &mut Draws) -> Auction {
        let seller = match draw.below(self.hot_sellers) {
            0 => self.any_person(event, draw),
            _ => self.newest_person(event) / HOT_EVERY * HOT_EVERY,
        };
        let category = (FIRST_CATEGORY + draw.below(CATEGORIES)) as i64;
        let initial_bid = draw.price();
        // Until as many more auctions have come as are open at a time, on average.
        let ahead = OPEN_AUCTIONS * self.group() / self.auctions;
        let horizon_ms = (self.since_start_ns(event + ahead) - self.since_start_ns(event)) / 1_000_000;
        let expires_ms = time_ms.saturating_add(1 + draw.below((horizon_ms * 2).max(1)) as i64);
        let (item, description) = (draw.word(20), draw.word(100));
        let reserve = initial_bid + draw.price();
        let extra = draw.filling(self.auction_bytes, 48 + item.len() + description.len());
        Auction {
            id: id(self.newest_auction(event)),
            item,
            description,
            initial_bid,
            reserve,
            time_ms,
            expires_ms,
            seller: id(seller),
            category,
            extra,
        }
    }

    fn bid(&self, event: u64, time_ms: i64, draw: &mut Draws) -> Bid {
        let auction = match draw.below(self.hot_auctions) {
            0 => self.any_auction(event, draw),
            _ => self.newest_auction(event) / HOT_EVERY * HOT_EVERY,
        };
        // The second of as many: not the one who sells.
        let bidder = match draw.below(self.hot_bidders) {
            0 => self.any_person(event, draw),
            _ => self.newest_person(event) / HOT_EVERY * HOT_EVERY + 1,
        };
        let price = draw.price();
        let (channel, url) = if draw.below(2) > 0 {
            let hot = draw.below(HOT_CHANNELS.len() as u64);
            (HOT_CHANNELS[hot as usize].to_owned(), self.url(CHANNELS + hot))
        } else {
            let number = draw.below(CHANNELS);
            (format!("channel-{number}"), self.url(number))
        };
        let extra = draw.filling(self.bid_bytes, 32);
        Bid { auction: id(auction), bidder: id(bidder), price, channel, url, time_ms, extra }
    }

    /// Every channel has one. Of those that are not hot, nine in ten name their channel.
    fn url(&self, channel: u64) -> String {
        let mut draw = Draws::of(self.seed ^ URLS, channel);
        let mut folder = || draw.word(5).replace(' ', "_");
        let mut url =
            format!("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", folder(), folder(), folder());
        if channel < CHANNELS && draw.below(10) > 0 {
            url += &format!("&channel_id={}", (channel as u32).reverse_bits() & (u32::MAX >> 1));
        }
        url
    }
}

fn id(from_zero: u64) -> i64 {
    (FIRST_ID + from_zero) as i64
}

/// Apart from the draws for events.
const URLS: u64 = 0x7572_6c73;

/// 2^64 / golden ratio, odd: the increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea, Flood 2014), begun anew for every event.
struct Draws(u64);

impl Draws {
    fn of(seed: u64, number: u64) -> Draws {
        let mut seeds = Draws(seed);
        let seed = seeds.next();
        Draws(Draws(seed.wrapping_add(number.wrapping_mul(GOLDEN))).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len() as u64) as usize]
    }

    /// From a dollar to a million, as likely from one to ten as from ten to a hundred; in cents.
    fn price(&mut self) -> i64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (10_f64.powf(unit * 6.0) * 100.0).round() as i64
    }

    /// Three letters at least and fewer than that; one in thirteen is a blank, but at the ends.
    fn word(&mut self, length_max: u64) -> String {
        let length = 3 + self.below(length_max - 3);
        let text: String =
            (0..length).map(|_| if self.below(13) == 0 { ' ' } else { self.letter() }).collect();
        text.trim().to_owned()
    }

    fn letter(&mut self) -> char {
        char::from(b'a' + self.below(26) as u8)
    }

    /// Letters that, with what is there already, make that size on average, give or take a fifth.
    fn filling(&mut self, average: u64, there: usize) -> String {
        let Some(wanted) = average.checked_sub(there as u64) else { return String::new() };
        let spread = (wanted as f64 * 0.2).round() as u64;
        let length = wanted - spread + if spread == 0 { 0 } else { self.below(2 * spread) };
        let mut text = String::with_capacity(length as usize);
        while (text.len() as u64) < length {
            // Eight letters of one draw are even enough.
            let mut bits = self.next();
            for _ in 0..8.min(length - text.len() as u64) {
                text.push(char::from(b'a' + (bits & 0xff) as u8 % 26));
                bits >>= 8;
            }
        }
        text
    }
}
