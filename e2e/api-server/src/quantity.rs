//! Quantities of resources, such as `500m` and `2Gi`.

use std::fmt;
use std::ops::{Add, Sub};

/// A quantity, in thousandths, and the kind of its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    milli: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

const BINARY: &[&str] = &["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: &[&str] = &["k", "M", "G", "T", "P", "E"];

impl Quantity {
    pub(crate) const ZERO: Self = Self::whole(0);

    pub(crate) const fn whole(units: i128) -> Self {
        Self {
            milli: units * 1000,
            format: Format::Decimal,
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-".contains(c)));
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let position = |suffixes: &[&str]| suffixes.iter().position(|s| *s == suffix);
        let (format, factor, divisor): (_, i128, i128) = if suffix.is_empty() {
            (Format::Decimal, 1, 1)
        } else if let Some(index) = position(BINARY) {
            (Format::Binary, 1024_i128.pow(index as u32 + 1), 1)
        } else if let Some(index) = position(DECIMAL) {
            (Format::Decimal, 1000_i128.pow(index as u32 + 1), 1)
        } else if let Some(index) = position(&["m", "u", "n"]) {
            (Format::Decimal, 1, 1000_i128.pow(index as u32 + 1))
        } else {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            let (factor, divisor) = if exponent < 0 { (1, power) } else { (power, 1) };
            (Format::Exponent, factor, divisor)
        };
        let is_negative = number.starts_with('-');
        let digits = number.trim_start_matches(['+', '-']);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let all: i128 = format!("{whole}{fraction}").parse().ok()?;
        let numerator = all.checked_mul(factor)?.checked_mul(1000)?;
        let denominator = scale.checked_mul(divisor)?;
        // The API server rounds up to thousandths.
        let milli =
            numerator.div_euclid(denominator) + i128::from(numerator.rem_euclid(denominator) != 0);
        let milli = if is_negative { -milli } else { milli };
        Some(Self { milli, format })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.milli == 0
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.milli.partial_cmp(&other.milli)
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        // As in Go, a zero takes the format of the other.
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Self {
            milli: self.milli + other.milli,
            format,
        }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Self {
            milli: self.milli - other.milli,
            format,
        }
    }
}

/// Writes the canonical form: the largest suffix that needs no fraction.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.milli % 1000 == 0;
        let (base, suffixes) = match self.format {
            Format::Binary if whole && self.milli.abs() >= 1_024_000 => (1024, BINARY),
            Format::Exponent if whole => {
                let (mut value, mut exponent) = (self.milli / 1000, 0);
                while value != 0 && value % 1000 == 0 {
                    (value, exponent) = (value / 1000, exponent + 3);
                }
                return match exponent {
                    0 => write!(formatter, "{value}"),
                    _ => write!(formatter, "{value}e{exponent}"),
                };
            }
            _ => (1000, DECIMAL),
        };
        if !whole {
            return write!(formatter, "{}m", self.milli);
        }
        let (mut value, mut index) = (self.milli / 1000, 0);
        while index < suffixes.len() && value != 0 && value % base == 0 {
            (value, index) = (value / base, index + 1);
        }
        let suffix = index.checked_sub(1).map_or("", |index| suffixes[index]);
        write!(formatter, "{value}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_is_written_in_canonical_form() {
        let cases = [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("2000", "2k"),
            ("1e3", "1e3"),
            ("0", "0"),
            ("0.0001", "1m"),
            ("-1.5", "-1500m"),
            ("1536", "1536"),
            ("1.5Ki", "1536"),
        ];
        for (text, canonical) in cases {
            let quantity = Quantity::parse(text).expect(text);
            assert_eq!(quantity.to_string(), canonical, "{text}");
        }
        for wrong in ["", "x", "1x", "Gi"] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sum_takes_the_format_of_the_first_summand_that_is_not_zero() {
        let [zero, memory] = ["0", "512Mi"].map(|text| Quantity::parse(text).expect("valid"));
        assert_eq!((zero + memory + memory).to_string(), "1Gi");
    }
}
