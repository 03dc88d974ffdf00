use laxity_sched::Scale;

/// Nice values of priorities of which lower is more urgent (Lachesis §5.3, algorithms of the transformation).
///
/// Linear priorities are spread from `best` to `worst`. Those that are minus a logarithm keep their ratios: a
/// step of nice is worth 1.25 in CPU, so F(x) = best + (ln p_max − ln x) / ln 1.25, spread like linear ones only where
/// that leaves the range. Those that are but an order are spread by their place. What is infinite is worst.
pub(crate) fn nice_values(ranked: &[(u32, f64)], scale: Scale, best: i32, worst: i32) -> Vec<(u32, i32)> {
    let mut finite: Vec<f64> =
        ranked.iter().map(|&(_, priority)| priority).filter(|p| p.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite.dedup();
    let (Some(&least), Some(&most)) = (finite.first(), finite.last()) else {
        return ranked.iter().map(|&(thread, _)| (thread, worst)).collect();
    };
    let range = f64::from(worst - best);
    let spread = |share: f64| (f64::from(best) + share * range).round() as i32;
    let fits = (most - least) / STEP.ln() <= range;
    let nice = |priority: f64| {
        if !priority.is_finite() {
            return if priority < 0.0 { best } else { worst };
        }
        match scale {
            Scale::Logarithmic if fits => (f64::from(best) + (priority - least) / STEP.ln()).round() as i32,
            Scale::Order => {
                let place = finite.partition_point(|&other| other < priority);
                spread(place as f64 / (finite.len() - 1).max(1) as f64)
            }
            _ if most > least => spread((priority - least) / (most - least)),
            _ => best,
        }
    };
    ranked.iter().map(|&(thread, priority)| (thread, nice(priority))).collect()
}

const STEP: f64 = 1.25;

#[cfg(test)]
mod tests {
    use super::*;

    fn nice(priorities: &[f64], scale: Scale) -> Vec<i32> {
        let ranked: Vec<(u32, f64)> = (0..).zip(priorities.iter().copied()).collect();
        nice_values(&ranked, scale, -20, 19).into_iter().map(|(_, nice)| nice).collect()
    }

    #[test]
    fn each_scale_has_its_spread() {
        assert_eq!(nice(&[0.0, 10.0, 5.0, f64::INFINITY], Scale::Linear), [-20, 19, -1, 19]);
        assert_eq!(nice(&[7.0, 1e9, 8.0], Scale::Order), [-20, 19, -1]);
        // Ten times less is ln 10 / ln 1.25 = 10.3 steps.
        assert_eq!(nice(&[-(100f64.ln()), -(10f64.ln())], Scale::Logarithmic), [-20, -10]);
        // A ratio of e^20 leaves the range.
        assert_eq!(nice(&[-20.0, 0.0, -10.0], Scale::Logarithmic), [-20, 19, -1]);
        assert_eq!(nice(&[3.0, 3.0], Scale::Linear), [-20, -20]);
    }
}
