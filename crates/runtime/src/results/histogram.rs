//! Latencies of every query at a price that ten thousand quiet ones can pay.

/// Counts of values in the buckets of an HDR histogram of three significant digits; small while it has seen few of them.
///
/// The first `FEW` values are kept as the numbers of their buckets, two bytes each; from then on there are pages of
/// counts, made where values fall. A table of all buckets, as `hdrhistogram` keeps it, takes 139 KB to hold 50 ms in
/// nanoseconds. `2^DROPPED_BITS` neighbouring buckets are counted as one.
#[derive(Clone, Debug)]
pub(crate) struct Histogram<const DROPPED_BITS: u32, const FEW: usize> {
    counts: Counts,
}

/// A p99 read off it is within 0.1 % of the true one.
pub(crate) type Precise = Histogram<0, 128>;

/// Within 0.8 %: two digits, which is what a person is shown.
pub(crate) type Coarse = Histogram<3, 32>;

/// The number of a value's bucket.
///
/// Values below 2 048 have one each, and then every octave has 1 024: all octaves of a u64 fit into 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket(u16);

const OCTAVE_BITS: u32 = 10;

impl Bucket {
    /// Of a value.
    #[inline]
    pub(crate) fn of(value: u64) -> Bucket {
        const FIRST: u64 = (2 << OCTAVE_BITS) - 1;
        let octave = FIRST.leading_zeros() - (value | FIRST).leading_zeros();
        Bucket(((octave << OCTAVE_BITS) + (value >> octave) as u32) as u16)
    }

    /// The largest value in it.
    fn largest(self) -> u64 {
        let number = u64::from(self.0);
        let octave = (number >> OCTAVE_BITS).saturating_sub(1);
        let place = number - (octave << OCTAVE_BITS);
        (place << octave) | ((1 << octave) - 1)
    }
}

#[derive(Clone, Debug)]
enum Counts {
    /// By order of coming.
    Few(Vec<u16>),
    Many(Box<Pages>),
}

/// Counts by bucket, in pages from that of the least value to that of the largest.
#[derive(Clone, Debug, Default)]
struct Pages {
    first: usize,
    pages: Vec<Option<Box<Page>>>,
    /// Buckets whose count went past 2³², once for each time.
    carries: Vec<u16>,
}

const PAGE_BUCKETS: usize = 64;

type Page = [u32; PAGE_BUCKETS];

/// How many values fell into the buckets of that number.
pub(crate) type BucketCount = (u16, u64);

impl<const DROPPED_BITS: u32, const FEW: usize> Default for Histogram<DROPPED_BITS, FEW> {
    fn default() -> Histogram<DROPPED_BITS, FEW> {
        Histogram { counts: Counts::Few(Vec::new()) }
    }
}

impl<const DROPPED_BITS: u32, const FEW: usize> Histogram<DROPPED_BITS, FEW> {
    /// Counts a value of that bucket.
    #[inline]
    pub(crate) fn record(&mut self, bucket: Bucket) {
        let bucket = bucket.0 >> DROPPED_BITS;
        match &mut self.counts {
            Counts::Many(pages) => pages.add(bucket),
            Counts::Few(buckets) if buckets.len() < FEW => buckets.push(bucket),
            Counts::Few(_) => self.open_pages(bucket),
        }
    }

    #[cold]
    fn open_pages(&mut self, bucket: u16) {
        let mut pages = Box::<Pages>::default();
        if let Counts::Few(buckets) = &self.counts {
            buckets.iter().for_each(|&bucket| pages.add(bucket));
        }
        pages.add(bucket);
        self.counts = Counts::Many(pages);
    }

    /// Forgets the values and keeps the room they took.
    pub(crate) fn clear(&mut self) {
        match &mut self.counts {
            Counts::Few(buckets) => buckets.clear(),
            Counts::Many(pages) => {
                pages.pages.iter_mut().flatten().for_each(|page| page.fill(0));
                pages.carries.clear();
            }
        }
    }

    /// Adds its counts to a list, in no order; a bucket may come several times.
    pub(crate) fn append_to(&self, list: &mut Vec<BucketCount>) {
        match &self.counts {
            Counts::Few(buckets) => list.extend(buckets.iter().map(|&bucket| (bucket, 1))),
            Counts::Many(pages) => list.extend(pages.counts()),
        }
    }

    /// The values at these quantiles, ascending, of all counts in a list: each is at most what its bucket holds.
    pub(crate) fn values_at<const N: usize>(list: &mut [BucketCount], quantiles: [f64; N]) -> [u64; N] {
        list.sort_unstable_by_key(|&(bucket, _)| bucket);
        let total: u64 = list.iter().map(|&(_, count)| count).sum();
        let mut counts = list.iter();
        let (mut passed, mut value) = (0, 0);
        quantiles.map(|quantile| {
            let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
            while passed < rank {
                let Some(&(bucket, count)) = counts.next() else { break };
                passed += count;
                value = Bucket((bucket << DROPPED_BITS) | ((1 << DROPPED_BITS) - 1)).largest();
            }
            value
        })
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.counts {
            Counts::Few(buckets) => buckets.capacity() * size_of::<u16>(),
            Counts::Many(pages) => {
                let made = pages.pages.iter().flatten().count();
                size_of::<Pages>()
                    + pages.pages.capacity() * size_of::<Option<Box<Page>>>()
                    + made * size_of::<Page>()
                    + pages.carries.capacity() * size_of::<u16>()
            }
        }
    }
}

impl Pages {
    #[inline]
    fn add(&mut self, bucket: u16) {
        let (page, place) = (usize::from(bucket) / PAGE_BUCKETS, usize::from(bucket) % PAGE_BUCKETS);
        let count = match self.pages.get_mut(page.wrapping_sub(self.first)) {
            Some(Some(page)) => &mut page[place],
            _ => &mut self.page(page)[place],
        };
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.carries.push(bucket);
        }
    }

    /// Makes the page, and room for those between it and the others.
    #[cold]
    fn page(&mut self, page: usize) -> &mut Page {
        if self.pages.is_empty() {
            self.first = page;
        }
        if page < self.first {
            let before = (page..self.first).map(|_| None);
            self.pages.splice(0..0, before);
            self.first = page;
        }
        let index = page - self.first;
        if index >= self.pages.len() {
            self.pages.resize(index + 1, None);
        }
        self.pages[index].get_or_insert_with(|| Box::new([0; PAGE_BUCKETS]))
    }

    fn counts(&self) -> impl Iterator<Item = BucketCount> {
        let number = |page: usize, place: usize| ((self.first + page) * PAGE_BUCKETS + place) as u16;
        let pages = self.pages.iter().enumerate().filter_map(|(index, page)| Some((index, page.as_ref()?)));
        let counts = pages.flat_map(move |(index, page)| {
            let seen = page.iter().enumerate().filter(|&(_, &count)| count > 0);
            seen.map(move |(place, &count)| (number(index, place), u64::from(count)))
        });
        counts.chain(self.carries.iter().map(|&bucket| (bucket, 1 << 32)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUANTILES: [f64; 6] = [0.001, 0.5, 0.9, 0.99, 0.999, 1.0];

    fn values_of<const DROPPED_BITS: u32, const FEW: usize>(
        histogram: &Histogram<DROPPED_BITS, FEW>,
    ) -> [u64; 6] {
        let mut list = Vec::new();
        histogram.append_to(&mut list);
        Histogram::<DROPPED_BITS, FEW>::values_at(&mut list, QUANTILES)
    }

    fn hdr(values: &[u64]) -> [u64; 6] {
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        values.iter().for_each(|&value| histogram.record(value).unwrap());
        QUANTILES.map(|quantile| histogram.value_at_quantile(quantile))
    }

    /// What eight buckets counted as one say of a value.
    fn coarsened(value: u64) -> u64 {
        Bucket(Bucket::of(value).0 | 7).largest()
    }

    fn any_value() -> impl Strategy<Value = u64> {
        // Every octave alike, and a cluster as latencies have it, so that buckets are hit often.
        prop_oneof![
            (0u32..63, any::<u64>()).prop_map(|(octave, bits)| (1 << octave) | (bits & ((1 << octave) - 1))),
            2_000_000u64..9_000_000,
            0u64..5_000,
        ]
    }

    proptest! {
        // The other histogram has 56 000 counts to go through for a value this large.
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn it_says_what_hdrhistogram_says(values in prop::collection::vec(any_value(), 1..600)) {
            let (mut precise, mut coarse) = (Precise::default(), Coarse::default());
            for &value in &values {
                precise.record(Bucket::of(value));
                coarse.record(Bucket::of(value));
            }
            prop_assert_eq!(values_of(&precise), hdr(&values));
            prop_assert_eq!(values_of(&coarse), hdr(&values).map(coarsened));
        }

        #[test]
        fn what_was_cleared_counts_no_more(
            before in prop::collection::vec(any_value(), 0..300), after in prop::collection::vec(any_value(), 1..300),
        ) {
            let mut histogram = Coarse::default();
            before.iter().for_each(|&value| histogram.record(Bucket::of(value)));
            histogram.clear();
            after.iter().for_each(|&value| histogram.record(Bucket::of(value)));
            prop_assert_eq!(values_of(&histogram), hdr(&after).map(coarsened));
        }
    }

    #[test]
    fn coarse_is_within_a_hundredth() {
        for value in [3_000, 50_000_000, 50_999_999, u64::MAX / 3] {
            let said = coarsened(value);
            assert!(said >= value && (said - value) as f64 <= value as f64 * 0.008, "{value} {said}");
        }
    }

    #[test]
    fn several_are_read_as_one() {
        let (mut low, mut high) = (Precise::default(), Precise::default());
        (0..300).for_each(|_| low.record(Bucket::of(1_000)));
        (0..100).for_each(|_| high.record(Bucket::of(2_000)));
        let mut list = Vec::new();
        high.append_to(&mut list);
        low.append_to(&mut list);
        assert_eq!(Precise::values_at(&mut list, [0.75, 0.76]), [1_000, 2_000]);
    }

    #[test]
    fn a_count_beyond_32_bits_is_carried() {
        let mut histogram = Precise::default();
        (0..200).for_each(|_| histogram.record(Bucket(7)));
        let Counts::Many(pages) = &mut histogram.counts else { panic!("200 are many") };
        pages.pages[0].as_mut().unwrap()[7] = u32::MAX;
        histogram.record(Bucket(7));
        histogram.record(Bucket(7));
        histogram.record(Bucket(9));
        let mut list = Vec::new();
        histogram.append_to(&mut list);
        list.sort_unstable();
        assert_eq!(list, [(7, 1), (7, 1 << 32), (9, 1)]);
    }

    #[test]
    fn nothing_recorded_is_zero() {
        assert_eq!(values_of(&Precise::default()), [0; 6]);
    }
}
