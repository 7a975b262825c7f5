//! Amounts in the notation that people use.

use std::fmt;

use crate::ids::ResourceName;

/// An amount of a resource in base units, without the resource's name.
pub(super) struct AmountText<'a> {
    pub(super) resource: &'a ResourceName,
    pub(super) base_units: i128,
}

const UNITS: [(&str, u32); 6] = [
    ("Ei", 60),
    ("Pi", 50),
    ("Ti", 40),
    ("Gi", 30),
    ("Mi", 20),
    ("Ki", 10),
];

/// The limit for a number that is exact only in a small unit. From there on, a larger unit is used.
const MAX_SHOWN: i128 = 100_000;

/// Writes bytes in the largest unit in which two decimals are exact. If that number would be long,
/// writes it in the largest possible unit, rounded down: free capacity must never look larger than
/// it is.
fn write_bytes(f: &mut fmt::Formatter<'_>, amount: i128) -> fmt::Result {
    let in_units = UNITS.iter().filter_map(|(unit, bits)| {
        let size = 1_i128.checked_shl(*bits)?;
        let hundredths = amount.checked_mul(100)?;
        let whole = amount.checked_div(size)?;
        let fraction = hundredths.checked_div(size)?.rem_euclid(100);
        let exact = hundredths.checked_rem(size)? == 0;
        (whole > 0).then_some((whole, fraction, *unit, exact))
    });
    let mut largest = None;
    for (whole, fraction, unit, exact) in in_units {
        if exact && whole < MAX_SHOWN {
            return write_decimals(f, whole, fraction, 2, unit);
        }
        largest = largest.or(Some((whole, fraction, unit)));
    }
    match largest {
        Some((whole, fraction, unit)) => write_decimals(f, whole, fraction, 2, unit),
        None => write!(f, "{amount}"),
    }
}

/// Writes a number with up to `digits` decimals, without trailing zeros.
fn write_decimals(
    f: &mut fmt::Formatter<'_>,
    whole: i128,
    fraction: i128,
    digits: usize,
    unit: &str,
) -> fmt::Result {
    if fraction == 0 {
        return write!(f, "{whole}{unit}");
    }
    let fraction = format!("{fraction:0digits$}");
    write!(f, "{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

impl fmt::Display for AmountText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.base_units;
        match self.resource.as_str() {
            "cpu" => write_decimals(f, amount.div_euclid(1_000), amount.rem_euclid(1_000), 3, ""),
            name if name == "memory"
                || name == "ephemeral-storage"
                || name.starts_with("hugepages-") =>
            {
                write_bytes(f, amount)
            }
            _ => write!(f, "{amount}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_amount(resource: &str, base_units: i128) -> String {
        let resource = ResourceName::new(resource);
        AmountText {
            resource: &resource,
            base_units,
        }
        .to_string()
    }

    #[test]
    fn amounts_are_written_as_in_kubernetes() {
        assert_eq!(format_amount("cpu", 96_000), "96");
        assert_eq!(format_amount("cpu", 1_500), "1.5");
        assert_eq!(format_amount("cpu", 50), "0.05");
        assert_eq!(format_amount("memory", 1000 << 30), "1000Gi");
        assert_eq!(format_amount("memory", 3 << 29), "1.5Gi");
        assert_eq!(format_amount("memory", 1023), "1023");
        assert_eq!(format_amount("memory", 12_350 << 30), "12350Gi");
        assert_eq!(format_amount("memory", 263_856_508 << 10), "251.63Gi");
        assert_eq!(format_amount("memory", 0), "0");
        assert_eq!(format_amount("nvidia.com/gpu", 64), "64");
    }

    #[test]
    fn bytes_are_never_rounded_up() {
        assert_eq!(format_amount("memory", (100 << 30) - 1), "99.99Gi");
    }
}
