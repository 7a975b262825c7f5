//! Kubernetes quantities, exact.
//!
//! The grammar is that of `k8s.io/apimachinery/pkg/api/resource`: a signed decimal number with a
//! decimal suffix (`n u m k M G T P E`), a binary suffix (`Ki Mi Gi Ti Pi Ei`) or a decimal
//! exponent (`e3`, `E3`). This module never uses floating point.

mod amount;
pub mod per_gpu;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use amount::Amount;
use amount::NANOS_PER_UNIT;

/// Longest quantity that is parsed, in bytes.
pub const MAX_LEN: usize = 32;

/// A quantity as it was written. [`Self::amount`] returns its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(String);

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text contains no number.
    #[error("is empty: write a number, such as 8 or 500m")]
    Empty,
    /// The text is longer than [`MAX_LEN`] bytes.
    #[error("is longer than 32 characters")]
    TooLong,
    /// The number is not a decimal number.
    #[error("is not a number: write digits with an optional point, such as 1.5")]
    Number,
    /// Kubernetes does not know the suffix.
    #[error("has an unknown unit: use one of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei")]
    Suffix,
    /// The value exceeds the range of [`Amount`].
    #[error("is too large")]
    Overflow,
}

impl Quantity {
    /// Returns a quantity from its text, without parsing it.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The text is not a quantity, or its value is too large.
    ///
    /// ```
    /// use trellis_api::Quantity;
    /// assert_eq!(Quantity::new("1500m").amount()?.ceil_millis(), Some(1500));
    /// assert_eq!(Quantity::new("1Gi").amount()?.ceil_units(), Some(1 << 30));
    /// assert!(Quantity::new("9e99").amount().is_err());
    /// # Ok::<(), trellis_api::quantity::QuantityError>(())
    /// ```
    pub fn amount(&self) -> Result<Amount, QuantityError> {
        parse(&self.0)
    }

    /// Multiplies exactly. The unit is kept if the result fits into [`MAX_LEN`]: eight times
    /// `128Gi` is `1024Gi`. Whole units are written without `m`, `u` or `n`.
    ///
    /// # Errors
    /// The text is not a quantity, or the product is too large.
    ///
    /// ```
    /// use trellis_api::Quantity;
    /// assert_eq!(Quantity::new("1.5Gi").multiply(3)?.as_str(), "4.5Gi");
    /// assert_eq!(Quantity::new("1500m").multiply(8)?.as_str(), "12");
    /// # Ok::<(), trellis_api::quantity::QuantityError>(())
    /// ```
    pub fn multiply(&self, times: u32) -> Result<Self, QuantityError> {
        let amount = self.amount()?.checked_mul(i64::from(times));
        let amount = amount.ok_or(QuantityError::Overflow)?;
        let in_its_unit = multiply_text(&self.0, times).filter(|text| text.len() <= MAX_LEN);
        Ok(Self(match in_its_unit {
            Some(text) if !(amount.is_whole() && text.ends_with(['m', 'u', 'n'])) => text,
            _ => amount.to_string(),
        }))
    }

    /// Returns a count without a suffix.
    #[must_use]
    pub fn from_units(units: i64) -> Self {
        Self(units.to_string())
    }
}

/// Multiplies the number of a quantity and keeps its unit. Returns None if it has too many digits.
fn multiply_text(text: &str, times: u32) -> Option<String> {
    let (sign, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.strip_suffix(rest)?.trim_start_matches('+'), rest),
        None => ("", text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(i128::from(times))?.to_string();
    let padded = format!("{product:0>width$}", width = fraction.len().checked_add(1)?);
    let (whole, fraction) = padded.split_at_checked(padded.len().checked_sub(fraction.len())?)?;
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}{unit}"))
}

fn parse(text: &str) -> Result<Amount, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Empty);
    }
    if text.len() > MAX_LEN {
        return Err(QuantityError::TooLong);
    }
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(QuantityError::Number);
    }
    let scale = SuffixScale::from_suffix(suffix)?;

    // All digits form one integer, and the position of the point is kept separately. The scale is
    // applied before the division, so no digit is lost early.
    let mut digits: i128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        digits = digits
            .checked_mul(10)
            .and_then(|d| d.checked_add(i128::from(byte.wrapping_sub(b'0'))))
            .ok_or(QuantityError::Overflow)?;
    }
    let places = u32::try_from(fraction.len()).map_err(|_| QuantityError::Overflow)?;
    let magnitude = scale.apply(digits, places)?;
    Ok(Amount(if negative {
        magnitude.checked_neg().ok_or(QuantityError::Overflow)?
    } else {
        magnitude
    }))
}

/// Factor of a suffix.
#[derive(Clone, Copy)]
enum SuffixScale {
    /// A power of ten.
    Ten(i32),
    /// A power of 1024.
    Binary(u32),
}

impl SuffixScale {
    fn from_suffix(suffix: &str) -> Result<Self, QuantityError> {
        Ok(match suffix {
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "" => Self::Ten(0),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Binary(1),
            "Mi" => Self::Binary(2),
            "Gi" => Self::Binary(3),
            "Ti" => Self::Binary(4),
            "Pi" => Self::Binary(5),
            "Ei" => Self::Binary(6),
            _ => {
                let exponent = suffix
                    .strip_prefix(['e', 'E'])
                    .ok_or(QuantityError::Suffix)?;
                let exponent: i32 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
                if !(-64..=64).contains(&exponent) {
                    return Err(QuantityError::Overflow);
                }
                Self::Ten(exponent)
            }
        })
    }

    /// Returns `digits / 10^places`, scaled, in billionths. A smaller remainder is rounded up, as
    /// in Kubernetes.
    fn apply(self, digits: i128, places: u32) -> Result<i128, QuantityError> {
        let ten = |n: u32| 10_i128.checked_pow(n).ok_or(QuantityError::Overflow);
        let (multiply, divide) = match self {
            Self::Binary(power) => (
                1024_i128
                    .checked_pow(power)
                    .and_then(|s| s.checked_mul(NANOS_PER_UNIT))
                    .ok_or(QuantityError::Overflow)?,
                ten(places)?,
            ),
            Self::Ten(exponent) => {
                let places = i32::try_from(places).map_err(|_| QuantityError::Overflow)?;
                let power = exponent.saturating_add(9).saturating_sub(places);
                if digits == 0 {
                    (1, 1)
                } else if power >= 0 {
                    (ten(power.unsigned_abs())?, 1)
                } else {
                    // A remainder below the last possible digit is rounded up to one.
                    (1, ten(power.unsigned_abs().min(38))?)
                }
            }
        };
        let product = digits
            .checked_mul(multiply)
            .ok_or(QuantityError::Overflow)?;
        let quotient = product.checked_div(divide).ok_or(QuantityError::Overflow)?;
        let rest = product.checked_rem(divide).ok_or(QuantityError::Overflow)?;
        if rest > 0 {
            quotient.checked_add(1).ok_or(QuantityError::Overflow)
        } else {
            Ok(quotient)
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a whole number, or a text such as 500m or 16Gi")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity(value.to_string()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity(value.to_string()))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Quantity, E> {
                Ok(Quantity(value.to_owned()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "maxLength": MAX_LEN })
    }
}

#[cfg(test)]
mod tests;
