//! Quantities, against Kubernetes' own rules.

use trellis_api::Quantity;
use trellis_api::quantity::{MAX_LEN, QuantityError};

use crate::Target;

/// The target. Quantities are read as Kubernetes reads them, and products can be read again.
pub const TARGET: Target = Target {
    check,
    words: &[
        "n",
        "u",
        "m",
        "k",
        "M",
        "G",
        "T",
        "P",
        "E",
        "Ki",
        "Mi",
        "Gi",
        "Ti",
        "Pi",
        "Ei",
        "e3",
        "E-3",
        "e99",
        "e-99",
        "+",
        "000000000",
        "0.1590191000900",
        "9999999999",
    ],
    inputs_per_case: 256,
};

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    let quantity = Quantity::new(text);
    let expected = kubernetes_nanos(text);
    let amount = match quantity.amount() {
        Ok(amount) => amount,
        Err(error) => {
            check_refusal(text, error, expected.as_ref());
            return;
        }
    };
    let expected = expected.expect("Kubernetes refuses what Trellis accepts");
    assert_eq!(amount.to_string(), expected.to_decimal(), "{text:?}");
    assert_eq!(amount.is_whole(), !amount.to_string().contains('.'));
    if let (Some(ceil), floor) = (amount.ceil_units(), amount.floor_units()) {
        assert!(
            (0..=1).contains(&(i128::from(ceil) - i128::from(floor))),
            "{text:?}"
        );
    }

    for times in [0, 1, 3, 64, 4096, u32::MAX] {
        let Ok(product) = quantity.multiply(times) else {
            continue;
        };
        let text = product.as_str();
        let read = product
            .amount()
            .unwrap_or_else(|error| panic!("{text:?} {error}"));
        let all = amount
            .checked_mul(i64::from(times))
            .expect("the product fits");
        // The amount is rounded up to billionths, and so is the product.
        let rounding = trellis_api::quantity::Amount::from_units(i64::from(times));
        let is_close = |a: trellis_api::quantity::Amount, b| {
            let difference = a.saturating_sub(b).checked_mul(1_000_000_000);
            difference.is_none_or(|difference| difference <= rounding)
        };
        assert!(
            is_close(all, read) && is_close(read, all),
            "{text:?} is not {all}"
        );
        assert!(
            kubernetes_nanos(text).is_some(),
            "Kubernetes refuses {text:?}"
        );
    }
}

/// Trellis may refuse what Kubernetes accepts only for its own limits.
fn check_refusal(text: &str, error: QuantityError, expected: Option<&Nanos>) {
    assert!(!error.to_string().is_empty());
    assert_eq!(error == QuantityError::Empty, text.is_empty());
    assert_eq!(error == QuantityError::TooLong, text.len() > MAX_LEN);
    let Some(expected) = expected else {
        return;
    };
    // Kubernetes reads `Ki` and `-` as 0. An exponent beyond 32 bits wraps around there.
    let has_digit = text.trim_start_matches(['+', '-']).starts_with(|c: char| {
        c.is_ascii_digit() || c == '.' && text.contains(|c: char| c.is_ascii_digit())
    });
    let allowed = match error {
        QuantityError::TooLong => true,
        QuantityError::Overflow => expected.digits.len() > 38 || expected.exceeds_i128(),
        QuantityError::Number => !has_digit || !first_number_has_digit(text),
        QuantityError::Suffix => exponent(text).is_some_and(|e| i32::try_from(e).is_err()),
        QuantityError::Empty => false,
    };
    assert!(allowed, "{text:?} {error}, and Kubernetes reads it");
}

fn first_number_has_digit(text: &str) -> bool {
    let number = text.trim_start_matches(['+', '-']);
    let number = number
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next();
    number.is_some_and(|number| number.contains(|c: char| c.is_ascii_digit()))
}

fn exponent(text: &str) -> Option<i64> {
    text.split_once(['e', 'E'])?.1.parse().ok()
}

/// Billionths, with any number of digits.
struct Nanos {
    is_negative: bool,
    /// Decimal digits, the last one first, without zeros at the end.
    digits: Vec<u8>,
}

impl Nanos {
    fn exceeds_i128(&self) -> bool {
        let text = to_text(&self.digits);
        !text.is_empty() && text.parse::<i128>().is_err()
    }

    /// Formats the value in units, without zeros at the end of the fraction.
    fn to_decimal(&self) -> String {
        let mut digits = self.digits.clone();
        digits.resize(digits.len().max(10), 0);
        let text = to_text(&digits);
        let (whole, fraction) = text.split_at(text.len() - 9);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        let sign = if self.is_negative && !self.digits.is_empty() {
            "-"
        } else {
            ""
        };
        format!("{sign}{whole}{point}{fraction}")
    }
}

/// Reads a quantity by the rules of `ParseQuantity` in `k8s.io/apimachinery/pkg/api/resource`, but
/// without its cap of binary quantities at 2^63-1. None: Kubernetes refuses the text.
fn kubernetes_nanos(text: &str) -> Option<Nanos> {
    let is_negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if text.is_empty() {
        return None;
    }
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit());
    let (whole, rest) = unsigned.split_at(number_end.unwrap_or(unsigned.len()));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        None => ("", rest),
        Some(rest) => rest.split_at(
            rest.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len()),
        ),
    };
    let (twos, tens) = match suffix {
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "" => (0, 0),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (0, exponent.clamp(-1_000, 1_000))
        }
    };
    let mut digits: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|b| b - b'0')
        .rev()
        .collect();
    trim(&mut digits);
    if digits.is_empty() {
        return Some(Nanos {
            is_negative,
            digits,
        });
    }
    for _ in 0..twos {
        double(&mut digits);
    }
    // 38 digits exceed every amount, and 64 places round every amount up to the least one.
    let shift = tens + 9 - fraction.len() as i64;
    let is_cut = if shift >= 0 {
        let zeros = vec![0; shift.min(256) as usize];
        digits.splice(0..0, zeros);
        false
    } else {
        let places = usize::try_from(-shift)
            .unwrap_or(usize::MAX)
            .min(digits.len());
        digits.drain(..places).any(|digit| digit > 0)
    };
    if is_cut {
        increment(&mut digits);
    }
    trim(&mut digits);
    Some(Nanos {
        is_negative,
        digits,
    })
}

/// Returns the digits as text, the first one first.
fn to_text(digits: &[u8]) -> String {
    digits.iter().rev().map(|d| char::from(b'0' + d)).collect()
}

fn trim(digits: &mut Vec<u8>) {
    while digits.last() == Some(&0) {
        digits.pop();
    }
}

fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut() {
        let all = *digit * 2 + carry;
        (*digit, carry) = (all % 10, all / 10);
    }
    if carry > 0 {
        digits.push(carry);
    }
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut() {
        *digit += 1;
        if *digit < 10 {
            return;
        }
        *digit = 0;
    }
    digits.push(1);
}
