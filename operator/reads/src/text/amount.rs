//! Formats amounts of resources for people.

use trellis_api::Quantity;
use trellis_api::quantity::Amount;

/// Resources that are counted in bytes.
const BYTES: [&str; 3] = ["memory", "ephemeral-storage", "storage"];

/// Units of bytes (IEC 80000-13), the largest first.
const UNITS: [(i64, &str); 5] = [
    (1 << 50, "Pi"),
    (1 << 40, "Ti"),
    (1 << 30, "Gi"),
    (1 << 20, "Mi"),
    (1 << 10, "Ki"),
];

/// Formats an amount of bytes in the largest unit that gives at least one.
/// A value that is not whole has one decimal. Other resources stay as they are written.
#[must_use]
pub fn format_amount(resource: &str, quantity: &Quantity) -> String {
    let is_bytes = BYTES.contains(&resource) || resource.starts_with("hugepages-");
    let bytes = quantity.amount().map(Amount::floor_units);
    let Some(bytes) = bytes.ok().filter(|_| is_bytes) else {
        return quantity.to_string();
    };
    let fits = |(size, _): &&(i64, &str)| bytes.abs() >= *size;
    let Some((size, unit)) = UNITS.iter().find(fits) else {
        return bytes.to_string();
    };
    let integer = bytes.checked_div(*size).unwrap_or(0);
    let rest = bytes.checked_rem(*size).unwrap_or(0).abs();
    match rest.saturating_mul(10).checked_div(*size).unwrap_or(0) {
        0 => format!("{integer}{unit}"),
        tenths => format!("{integer}.{tenths}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_use_the_largest_unit_and_other_amounts_are_unchanged() {
        for (resource, written, expected) in [
            ("memory", "1099511627776", "1Ti"),
            ("memory", "1649267441664", "1.5Ti"),
            ("memory", "1024Mi", "1Gi"),
            ("memory", "512", "512"),
            ("memory", "0", "0"),
            ("ephemeral-storage", "10Gi", "10Gi"),
            ("hugepages-2Mi", "2097152", "2Mi"),
            ("cpu", "500m", "500m"),
            ("nvidia.com/gpu", "1024", "1024"),
            ("memory", "much", "much"),
        ] {
            assert_eq!(
                format_amount(resource, &Quantity::new(written)),
                expected,
                "{written}"
            );
        }
    }
}
