//! Operators of every kind that are killed at random moments, in the midst of a message too, and go on from the last
//! checkpoint that was on the disk by then: what was sent since is taken back, what came since comes again, and all that is
//! there in the end is what one that nobody killed sends.
//!
//! A checkpoint gets to the disk some messages after it was taken, while the operator goes on: what was saved must not change
//! with it. What is the same array as in the checkpoint before is not written again. `CRASHES=10000` for more, `SEED=7` for others.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::array::Array;
use rand_core::Rng as _;
use rand_pcg::Pcg32;

use super::*;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// What survives.
#[derive(Default)]
struct Disk {
    last: Option<OnDisk>,
    /// Parts of the last that were those of the one before.
    shared: u64,
}

struct OnDisk {
    at: Place,
    files: Vec<(String, Arc<[u8]>)>,
    /// By the arrays of a part, which nothing else may come to lie at while they are known.
    written: HashMap<Vec<usize>, Written>,
}

struct Written {
    schema: SchemaRef,
    file: Arc<[u8]>,
    _arrays: Vec<Weak<dyn Array>>,
}

/// How far the rows are read, and how much was sent by then.
#[derive(Clone, Copy, Default)]
struct Place {
    message: usize,
    sent: [usize; 3],
}

/// A checkpoint that was taken.
struct Taken {
    at: Place,
    state: OperatorState,
}

impl Disk {
    fn write(&mut self, Taken { at, state }: Taken) {
        let (mut files, mut written) = (Vec::new(), HashMap::new());
        for part in state.whole().unwrap().parts {
            let (name, pieces) = part.into_pieces();
            let arrays: Vec<_> = pieces.iter().flat_map(RecordBatch::columns).collect();
            let addresses: Vec<usize> =
                arrays.iter().map(|array| Arc::as_ptr(array).cast::<()>().addr()).collect();
            let schema = pieces[0].schema();
            let before = self.last.as_ref().and_then(|last| last.written.get(&addresses));
            let before = before.filter(|before| before.schema == schema && !addresses.is_empty());
            let file = before.map_or_else(|| file_of(&pieces).into(), |before| Arc::clone(&before.file));
            self.shared += u64::from(before.is_some());
            let _arrays = arrays.into_iter().map(Arc::downgrade).collect();
            written.insert(addresses, Written { schema, file: Arc::clone(&file), _arrays });
            files.push((name, file));
        }
        self.last = Some(OnDisk { at, files, written });
    }

    /// As it is read again.
    fn read(&self) -> Option<(Place, OperatorState)> {
        let OnDisk { at, files, .. } = self.last.as_ref()?;
        let parts = files.iter().map(|(name, file)| {
            let read = pieces_of(file);
            StatePart::new(name, concat_batches(&read[0].schema(), &read).unwrap())
        });
        Some((*at, OperatorState::of(parts.collect())))
    }
}

/// Seeded chances.
struct Dice(Pcg32);

impl Dice {
    fn one_in(&mut self, sides: u32) -> bool {
        self.0.next_u32().is_multiple_of(sides)
    }

    fn below(&mut self, sides: u32) -> u32 {
        self.0.next_u32() % sides
    }
}

/// What is sent in the end by one that is killed so often at most, and how often it was.
fn killed(
    factory: &OperatorFactory,
    messages: &[Message],
    batch_rows: usize,
    kills_max: u64,
    dice: &mut Dice,
    disk: &mut Disk,
) -> (Answer, u64) {
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows };
    let mut answer = Answer::default();
    for kills in 0.. {
        let mut operator = factory.make(&context).unwrap();
        let (mut at, state) = disk.read().unwrap_or_default();
        if disk.last.is_some() {
            operator.restore(state).unwrap();
        }
        answer.iter_mut().zip(at.sent).for_each(|(lines, sent)| lines.truncate(sent));
        let mut under_way: Option<Taken> = None;
        let is_killed = loop {
            if kills < kills_max && dice.one_in(6) {
                if at.message < messages.len() && dice.one_in(2) {
                    // In the midst of a message.
                    let resumes = dice.below(4);
                    work(operator.as_mut(), &messages[at.message], at.message, resumes);
                }
                break true;
            }
            if at.message == messages.len() {
                break false;
            }
            tell(operator.as_mut(), &messages[at.message], at.message, &mut answer);
            at = Place { message: at.message + 1, sent: [0, 1, 2].map(|place| answer[place].len()) };
            if under_way.is_some() && dice.one_in(3) {
                disk.write(under_way.take().unwrap());
            }
            if under_way.is_none() && dice.one_in(3) {
                under_way = Some(Taken { at, state: operator.save().unwrap() });
            }
        };
        if !is_killed {
            return (answer, kills);
        }
        // The last that it did was to get it written.
        if let Some(taken) = under_way.filter(|_| dice.one_in(2)) {
            disk.write(taken);
        }
    }
    unreachable!("kills are bounded")
}

#[test]
fn killed_at_random_moments_it_sends_what_it_would_have_sent() {
    let wanted = from_environment("CRASHES", 600);
    let seed = from_environment("SEED", 1);
    let kinds = kinds();
    let (mut kills, mut shared, mut runs) = (0, 0, 0);
    let mut of_kind = vec![0; kinds.len()];
    while kills < wanted {
        runs += 1;
        for (kind, of_kind) in kinds.iter().zip(&mut of_kind) {
            let mut dice = Dice(Pcg32::new(seed + runs, 1));
            let rows: Vec<Row> = (0..20 + dice.below(80) as usize)
                .map(|at| {
                    let [key, value, behind] = [3, 6, 30].map(|sides| i64::from(dice.below(sides)));
                    Row::new(at, key, value, behind, dice.below(40), dice.below(2) as usize)
                })
                .collect();
            let lengths: Vec<usize> = (0..5).map(|_| 1 + dice.below(8) as usize).collect();
            let messages = messages(kind, &rows, i64::from(dice.below(25)), &lengths);
            let batch_rows = 1 + dice.below(20) as usize;
            let alone = answer(&kind.factory, &messages, batch_rows, 0);
            let mut disk = Disk::default();
            let (answer, killed) = killed(&kind.factory, &messages, batch_rows, 6, &mut dice, &mut disk);
            assert_eq!(answer, alone, "{}, SEED={}: after {killed} crashes", kind.name, seed + runs - 1);
            *of_kind += killed;
            kills += killed;
            shared += disk.shared;
        }
    }
    println!("{kills} crashes of {} kinds of operators, {runs} runs of each: 0 lost, 0 doubled", kinds.len());
    assert!(of_kind.iter().all(|kills| *kills > 0), "each was killed: {of_kind:?}");
    assert!(shared > 0, "nothing was as it was in the checkpoint before");
}
