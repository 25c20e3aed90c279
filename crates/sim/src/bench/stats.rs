//! Median, spread, percentiles and growth of a few numbers.

use serde::{Deserialize, Serialize};

/// Median and range of repeated runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Requires at least one number.
    pub fn of(values: &[f64]) -> Self {
        let sorted = sorted(values);
        let edge = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        Self { median: percentile(values, 50.0), least: edge(0), most: edge(sorted.len().saturating_sub(1)) }
    }

    /// `1.23 (1.20 to 1.31)`.
    pub fn show(&self, digits: usize) -> String {
        let Self { median, least, most } = self;
        format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Interpolates between the two nearest numbers; NaN without numbers.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let sorted = sorted(values);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = percent / 100.0 * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Growth of the cost: the exponent `e` in `cost ~ size^e` between the two largest sizes, where fixed costs matter
/// least. 1 is linear.
pub fn growth_exponent(points: &[(f64, f64)]) -> f64 {
    let [.., (small, low), (large, high)] = points else { return f64::NAN };
    (high / low).ln() / (large / small).ln()
}

#[cfg(test)]
mod tests {
    use super::{Spread, growth_exponent, percentile};

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert!((Spread::of(&[4.0, 1.0, 2.0, 3.0]).median - 2.5).abs() < 1e-9);
        assert!(Spread::of(&[]).median.is_nan());
        assert_eq!(Spread::of(&[1.0, 2.0]).show(2), "1.50 (1.00 to 2.00)");
    }

    #[test]
    fn percentiles_lie_between_neighbors() {
        let hundred: Vec<f64> = (0..=100).map(f64::from).collect();
        assert!((percentile(&hundred, 99.0) - 99.0).abs() < 1e-9);
        assert!((percentile(&[0.0, 10.0], 75.0) - 7.5).abs() < 1e-9);
        assert!(percentile(&[], 99.0).is_nan());
    }

    #[test]
    fn computes_growth_from_the_two_largest_sizes() {
        assert!((growth_exponent(&[(1.0, 9.0), (10.0, 1.0), (100.0, 10.0)]) - 1.0).abs() < 1e-9);
        assert!((growth_exponent(&[(10.0, 1.0), (100.0, 100.0)]) - 2.0).abs() < 1e-9);
        assert!(growth_exponent(&[(10.0, 1.0)]).is_nan());
    }
}
