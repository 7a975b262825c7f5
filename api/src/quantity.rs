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

/// Longest quantity that is parsed, in bytes.
pub const MAX_LEN: usize = 32;

/// Amounts are counted in units of 10^-9.
const NANO_EXPONENT: i32 = 9;

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
    /// The text is not a quantity, or the product is too large to count or has more digits than a
    /// quantity.
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
        let text = match in_its_unit {
            Some(text) if !(amount.is_whole() && text.ends_with(['m', 'u', 'n'])) => text,
            _ => amount.to_string(),
        };
        let is_readable = text.len() <= MAX_LEN;
        is_readable
            .then_some(Self(text))
            .ok_or(QuantityError::Overflow)
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
    let places = i32::try_from(fraction.len()).map_err(|_| QuantityError::Overflow)?;
    let magnitude = scale.apply(digits, places).ok_or(QuantityError::Overflow)?;
    Ok(Amount(if negative {
        magnitude.checked_neg().ok_or(QuantityError::Overflow)?
    } else {
        magnitude
    }))
}

/// Factor of a suffix: a power of two times a power of five.
#[derive(Clone, Copy)]
struct SuffixScale {
    twos: i32,
    fives: i32,
}

impl SuffixScale {
    const fn power_of_ten(exponent: i32) -> Self {
        Self {
            twos: exponent,
            fives: exponent,
        }
    }

    const fn power_of_two(exponent: i32) -> Self {
        Self {
            twos: exponent,
            fives: 0,
        }
    }

    fn from_suffix(suffix: &str) -> Result<Self, QuantityError> {
        Ok(match suffix {
            "n" => Self::power_of_ten(-9),
            "u" => Self::power_of_ten(-6),
            "m" => Self::power_of_ten(-3),
            "" => Self::power_of_ten(0),
            "k" => Self::power_of_ten(3),
            "M" => Self::power_of_ten(6),
            "G" => Self::power_of_ten(9),
            "T" => Self::power_of_ten(12),
            "P" => Self::power_of_ten(15),
            "E" => Self::power_of_ten(18),
            "Ki" => Self::power_of_two(10),
            "Mi" => Self::power_of_two(20),
            "Gi" => Self::power_of_two(30),
            "Ti" => Self::power_of_two(40),
            "Pi" => Self::power_of_two(50),
            "Ei" => Self::power_of_two(60),
            _ => {
                let exponent = suffix
                    .strip_prefix(['e', 'E'])
                    .ok_or(QuantityError::Suffix)?;
                let exponent: i32 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
                Self::power_of_ten(exponent)
            }
        })
    }

    /// Returns `digits / 10^places`, scaled, in billionths, or None if it overflows. A smaller
    /// remainder is rounded up, as in Kubernetes.
    fn apply(self, digits: i128, places: i32) -> Option<i128> {
        if digits == 0 {
            return Some(0);
        }
        let shift = |power: i32| power.saturating_add(NANO_EXPONENT).saturating_sub(places);
        let (twos, fives) = (shift(self.twos), shift(self.fives));
        let product = |twos: i32, fives: i32| {
            let power =
                |base: i128, exponent: i32| base.checked_pow(exponent.max(0).unsigned_abs());
            power(2, twos)?.checked_mul(power(5, fives)?)
        };
        let multiplier = product(twos, fives)?;
        // A value below the smallest amount is rounded up to it.
        let Some(divisor) = product(twos.saturating_neg(), fives.saturating_neg()) else {
            return Some(1);
        };
        // The quotient and the remainder are scaled apart, since the product of all digits can
        // overflow where the value does not.
        let whole = digits.checked_div(divisor)?.checked_mul(multiplier)?;
        let rest = digits.checked_rem(divisor)?.checked_mul(multiplier)?;
        let up = i128::from(rest.checked_rem(divisor)? > 0);
        whole
            .checked_add(rest.checked_div(divisor)?)?
            .checked_add(up)
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
