//! The normal law as far as slack needs it: probability, quantile, and the mean of a part of it.

/// Mean of a standard normal variable given that it lies in [a, b]: (φ(a) − φ(b)) / (Φ(b) − Φ(a)).
///
/// `a` may be −∞ and `b` +∞; a ≤ b, neither NaN. Relative error below 1e-9 in the middle, and in tails of any
/// depth no worse: there everything is scaled by the density at the nearer end, so that nothing underflows.
pub fn truncated_mean(a: f64, b: f64) -> f64 {
    // The tail that lies to the left is the mirror image of one to the right.
    if a + b < 0.0 {
        return -truncated_mean(-b, -a);
    }
    let width = b - a;
    // A narrow strip: its density is a tilted line, and the quotient above would cancel.
    if width * (1.0 + b.abs()) < 1e-4 {
        let middle = (a + b) / 2.0;
        return middle - middle * width * width / 12.0;
    }
    // φ(b) / φ(a), and the masses above a and b over φ(a). Since a + b ≥ 0, no scale is beyond reach.
    let ratio = if b.is_infinite() { 0.0 } else { (-width * (a + b) / 2.0).exp() };
    let above_b = if b.is_infinite() { 0.0 } else { ratio * mills(b) };
    if a >= 0.0 {
        return (1.0 - ratio) / (mills(a) - above_b);
    }
    let (low, high) = (density(a), if b.is_infinite() { 0.0 } else { density(b) });
    (low - high) / (probability(b) - probability(a))
}

/// P(z ≤ x) of a standard normal variable. Absolute error below 1e-14.
pub fn probability(x: f64) -> f64 {
    if x > 0.0 { 1.0 - density(x) * mills(x) } else { density(x) * mills(-x) }
}

/// The x with P(z ≤ x) = p, for 0 < p < 1. Relative error below 1e-9.
pub fn quantile(p: f64) -> f64 {
    debug_assert!(p > 0.0 && p < 1.0, "no quantile at {p}");
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    // Newton on the logarithm of the probability, which is concave: from the left it cannot overshoot.
    let mut x = -(-2.0 * p.ln()).sqrt();
    for _ in 0..40 {
        let mass = mills(-x);
        let step = (p.ln() - (density(x) * mass).ln()) * mass;
        x += step;
        if step.abs() < 1e-12 * (1.0 + x.abs()) {
            break;
        }
    }
    x
}

/// The probability that a normal interval of `shares` of the mass needs, in deviations either side of the mean.
pub fn deviations(share: f64) -> f64 {
    quantile((1.0 + share.clamp(0.0, 1.0 - 1e-12)) / 2.0).max(0.0)
}

fn density(x: f64) -> f64 {
    const ROOT: f64 = 0.398_942_280_401_432_7;
    ROOT * (-0.5 * x * x).exp()
}

/// Mills' ratio: the mass above x ≥ 0 over the density at x. Relative error below 1e-12.
fn mills(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x < SERIES_BELOW {
        // Mass from 0 to x is φ(x)·(x + x³/3 + x⁵/(3·5) + …): all terms positive, so nothing cancels.
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > 1e-17 * sum {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        const HALF_OVER_ROOT: f64 = 1.253_314_137_315_500_3;
        return HALF_OVER_ROOT * (0.5 * x * x).exp() - sum;
    }
    // Laplace's continued fraction 1/(x + 1/(x + 2/(x + 3/(x + …)))), from the inside out.
    let mut tail = x;
    for k in (1..=FRACTION_DEPTH).rev() {
        tail = x + f64::from(k) / tail;
    }
    1.0 / tail
}

/// Below, the series loses no more than three digits to the final difference; above, the fraction of this
/// depth has converged. Both found by comparing with an integral (see the tests).
const SERIES_BELOW: f64 = 2.5;
const FRACTION_DEPTH: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Simpson's rule over `f` from `a` to `b`.
    fn integral(a: f64, b: f64, f: impl Fn(f64) -> f64) -> f64 {
        let steps = 20_000;
        let h = (b - a) / f64::from(steps);
        let inner: f64 =
            (1..steps).map(|i| f(a + f64::from(i) * h) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
        (f(a) + inner + f(b)) * h / 3.0
    }

    #[test]
    fn table_values() {
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (1.96, 0.975_002_104_851_779_6),
            (-3.0, 0.001_349_898_031_630_094_6),
            (-6.0, 9.865_876_450_376_98e-10),
        ] {
            assert!((probability(x) / p - 1.0).abs() < 1e-12, "{x}: {}", probability(x));
        }
        for (p, x) in
            [(0.975, 1.959_963_984_540_054), (0.95, 1.644_853_626_951_472_7), (1e-9, -5.997_807_015_007_685)]
        {
            assert!((quantile(p) / x - 1.0).abs() < 1e-9, "{p}: {}", quantile(p));
        }
        assert!(quantile(0.5).abs() < 1e-12);
        assert!((deviations(0.95) - 1.959_963_984_540_054).abs() < 1e-9);
    }

    #[test]
    fn mills_is_the_integral_of_the_tail() {
        for i in 0..80 {
            let x = f64::from(i) * 0.1;
            // ∫ exp(−x·u − u²/2) du from 0 is the ratio itself, without underflow.
            let exact = integral(0.0, 40.0 / (1.0 + x), |u| (-x * u - 0.5 * u * u).exp());
            assert!((mills(x) / exact - 1.0).abs() < 1e-11, "{x}: {} and {exact}", mills(x));
        }
    }

    #[test]
    fn a_tail_of_any_depth_has_its_mean_just_inside() {
        // E[z | z ≥ a] = 1 / mills(a) ~ a + 1/a − 2/a³.
        for a in [10.0, 40.0, 1e3, 1e8, 1e150] {
            let asymptotic = a + 1.0 / a - 2.0 / (a * a * a);
            let got = truncated_mean(a, f64::INFINITY);
            assert!((got / asymptotic - 1.0).abs() < 1e-4, "{a}: {got}");
            assert!((truncated_mean(f64::NEG_INFINITY, -a) + got).abs() <= 1e-9 * got);
        }
        assert_eq!(truncated_mean(f64::NEG_INFINITY, f64::INFINITY), 0.0);
        assert_eq!(truncated_mean(3.0, 3.0), 3.0);
    }

    proptest! {
        #[test]
        fn the_mean_is_that_of_the_integrals(a in -8.0f64..8.0, width in 1e-7f64..9.0) {
            let b = a + width;
            // Shifting the exponent by its largest value in the strip keeps both integrals in range.
            let peak = if a > 0.0 { a } else if b < 0.0 { b } else { 0.0 };
            let weight = |z: f64| (0.5 * (peak * peak - z * z)).exp();
            let exact = integral(a, b, |z| z * weight(z)) / integral(a, b, weight);
            let got = truncated_mean(a, b);
            prop_assert!((got - exact).abs() < 1e-8 * (1.0 + exact.abs()), "[{a}, {b}]: {got} and {exact}");
            prop_assert!((a..=b).contains(&got));
        }

        #[test]
        fn quantile_inverts_probability(x in -7.0f64..5.0) {
            prop_assert!((quantile(probability(x)) - x).abs() < 1e-8);
        }
    }
}
