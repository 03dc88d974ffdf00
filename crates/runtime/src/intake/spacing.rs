/// How far apart looks at a table are, at least: a share of the nearest target that reads it.
///
/// With time to spare a twentieth, so that a row is seen soon after it is due. As workers have less of it, up to a quarter:
/// what a look costs is then shared by five times as many rows, and most of the target is still left for them. In
/// between in proportion, so that a load does not swing about one number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    target_ns: u64,
    ns_max: u64,
}

/// Of the target, at rest.
const SHARE_MIN: f64 = 0.05;
/// Of the target, where no time is left.
const SHARE_MAX: f64 = 0.25;
/// Up to this load there is time to spare.
const LOAD_LOW: f64 = 0.5;
/// From this load on there is none.
const LOAD_HIGH: f64 = 0.9;
/// No table rests longer than this: by then a fast one has more rows than fit a batch, and a person who looks at the live
/// table sees it move.
const NS_MAX: u64 = 100_000_000;

impl Spacing {
    /// Whatever the target is.
    pub const NONE: Spacing = Spacing { target_ns: 0, ns_max: 0 };

    /// For another target.
    pub fn with_target(self, target_ns: u64) -> Spacing {
        Spacing { target_ns, ..self }
    }

    /// Also for this target.
    pub fn with_nearer_target(self, target_ns: u64) -> Spacing {
        self.with_target(self.target_ns.min(target_ns))
    }

    /// Of the nearest that reads the table.
    pub fn target_ns(self) -> u64 {
        self.target_ns
    }

    /// The distance at this load, 0 to 1.
    pub fn ns(self, load: f64) -> u64 {
        let pressed = ((load - LOAD_LOW) / (LOAD_HIGH - LOAD_LOW)).clamp(0.0, 1.0);
        let share = SHARE_MIN + (SHARE_MAX - SHARE_MIN) * pressed;
        ((self.target_ns as f64 * share) as u64).min(self.ns_max)
    }
}

impl Default for Spacing {
    fn default() -> Spacing {
        Spacing { target_ns: 0, ns_max: NS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_further_apart_under_load_and_for_far_targets() {
        let near = Spacing::default().with_target(40_000_000);
        assert_eq!(
            [0.0, 0.5, 0.7, 0.9, 1.0].map(|load| near.ns(load).div_ceil(1_000_000)),
            [2, 2, 6, 10, 10]
        );
        assert_eq!(Spacing::default().with_target(60_000_000_000).ns(0.0), NS_MAX);
    }
}
