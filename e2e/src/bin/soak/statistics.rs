//! Percentiles and slopes of measured values.

/// Returns the smallest value that is not below this share of the values. None: there is no value.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Returns the slope of the line with the least squares through points `(x, y)`. None: all points
/// have the same `x`.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let product = |(x, y): &(f64, f64)| (x - mean_x) * (y - mean_y);
    let square = |(x, _): &(f64, f64)| (x - mean_x).powi(2);
    let squares: f64 = points.iter().map(square).sum();
    (squares > 0.0).then(|| points.iter().map(product).sum::<f64>() / squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(100.0));
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 1.0), Some(200.0));
        assert_eq!(percentile(&[7.0], 0.01), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn slope_is_the_growth_for_each_unit() {
        assert_eq!(slope(&[(1.0, 10.0), (2.0, 13.0), (3.0, 16.0)]), Some(3.0));
        assert_eq!(slope(&[(0.0, 5.0), (1.0, 7.0), (2.0, 5.0)]), Some(0.0));
        assert_eq!(slope(&[(1.0, 10.0), (1.0, 13.0)]), None);
        assert_eq!(slope(&[]), None);
    }
}
