//! Tests of quantities.

use super::amount::NANOS_PER_UNIT;
use super::*;
use proptest::prelude::*;

fn nanos(text: &str) -> Result<i128, QuantityError> {
    parse(text).map(|a| a.0)
}

#[test]
fn quantity_has_the_amount_that_kubernetes_reads() {
    for (text, units, of) in [
        ("0", 0, 1),
        ("8", 8, 1),
        ("+8", 8, 1),
        ("1.5", 15, 10),
        (".5", 5, 10),
        ("5.", 5, 1),
        ("100m", 1, 10),
        ("1k", 1000, 1),
        ("1Ki", 1024, 1),
        ("1.5Gi", 1_610_612_736, 1),
        ("1E", 1_000_000_000_000_000_000, 1),
        ("1Ei", 1_152_921_504_606_846_976, 1),
        ("1e3", 1000, 1),
        ("1E3", 1000, 1),
        ("1e-3", 1, 1000),
        ("-1", -1, 1),
        ("12e-1", 12, 10),
    ] {
        assert_eq!(nanos(text), Ok(units * NANOS_PER_UNIT / of), "{text}");
    }
}

/// The product of the digits and the suffix is longer than 128 bits; the value is not.
#[test]
fn quantity_with_many_digits_is_read_if_its_value_is_in_range() {
    for (text, nanos_expected) in [
        ("0.1590191000900Ei", 183_336_540_136_989_595_375_857_828),
        ("0.0000000000000000000000000001Ei", 1),
        (
            "7.999999999999999999999999999Ei",
            9_223_372_036_854_775_807_999_999_999,
        ),
        ("1.000000000000000000000000000Ki", 1_024_000_000_000),
    ] {
        assert_eq!(nanos(text), Ok(nanos_expected), "{text}");
    }
}

#[test]
fn quantity_rounds_up_below_a_billionth() {
    assert_eq!(nanos("0.1n"), Ok(1));
    assert_eq!(nanos("1e-40"), Ok(1));
    assert_eq!(
        Quantity::new("1.0001m").amount().unwrap().ceil_millis(),
        Some(2)
    );
}

#[test]
fn amounts_print_plainly() {
    for (text, printed) in [
        ("1500m", "1.5"),
        ("1Ki", "1024"),
        ("-1m", "-0.001"),
        ("0", "0"),
    ] {
        assert_eq!(Quantity::new(text).amount().unwrap().to_string(), printed);
    }
}

#[test]
fn multiplied_quantity_keeps_its_unit() {
    for (one, times, all) in [
        ("12", 8, "96"),
        ("128Gi", 8, "1024Gi"),
        ("1.5Gi", 2, "3Gi"),
        ("0.1", 3, "0.3"),
        (".5", 3, "1.5"),
        ("250m", 3, "750m"),
        ("1500m", 8, "12"),
        ("1e3", 2, "2e3"),
        ("+2", 2, "4"),
        ("-2", 2, "-4"),
        ("0.000000001", 64, "0.000000064"),
        // The product has too many digits for its unit, so the exact amount is written instead.
        ("9.000000000000000000000000000001", 64, "576.000000064"),
    ] {
        assert_eq!(
            Quantity::new(one).multiply(times).unwrap().as_str(),
            all,
            "{one}"
        );
    }
    assert!(Quantity::new("1GB").multiply(2).is_err());
    // No text of 32 characters has this product.
    assert_eq!(
        Quantity::new("1234567890123456789012.123456789").multiply(9),
        Err(QuantityError::Overflow)
    );
    assert!(Quantity::new("9e18").multiply(u32::MAX).is_ok());
}

#[test]
fn invalid_quantity_is_refused() {
    for (text, error) in [
        ("", QuantityError::Empty),
        (".", QuantityError::Number),
        ("-", QuantityError::Number),
        ("1..2", QuantityError::Number),
        ("1.2.3", QuantityError::Number),
        ("abc", QuantityError::Number),
        ("1 Gi", QuantityError::Suffix),
        ("1gi", QuantityError::Suffix),
        ("1K", QuantityError::Suffix),
        ("1KB", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1e1.5", QuantityError::Suffix),
        ("9e99", QuantityError::Overflow),
        ("99999999999999999999999999999999", QuantityError::Overflow),
        ("000000000000000000000000000000001", QuantityError::TooLong),
    ] {
        assert_eq!(nanos(text), Err(error), "{text:?}");
    }
}

proptest! {
    #[test]
    fn quantity_parser_never_panics(text in "\\PC{0,40}") {
        let _ = nanos(&text);
    }

    #[test]
    fn quantity_parser_never_panics_on_near_misses(text in "[-+]?[0-9]{0,30}[.]?[0-9]{0,10}([numkMGTPE]i?|[eE][-+]?[0-9]{0,4})?") {
        let _ = nanos(&text);
    }

    #[test]
    fn multiplied_quantity_is_exact_to_a_billionth(
        number in "[0-9]{1,9}([.][0-9]{0,9})?",
        unit in "(|n|u|m|k|M|G|Ki|Mi|Gi|Ti|e3|e-3)",
        times in 0_u32..=64,
    ) {
        let one = Quantity::new(format!("{number}{unit}"));
        let all = one.multiply(times).unwrap();
        let (one, all) = (one.amount().unwrap(), all.amount().unwrap());
        // Digits below a billionth are rounded up: in one amount, or once in the product.
        let most = one.checked_mul(i64::from(times)).unwrap();
        prop_assert!(all <= most);
        prop_assert!(most.0.saturating_sub(all.0) < i128::from(times.max(1)), "{all} {most}");
    }

    #[test]
    fn whole_numbers_are_exact(n in any::<i64>()) {
        let amount = Quantity::from_units(n).amount().unwrap();
        prop_assert_eq!(amount, Amount::from_units(n));
        prop_assert_eq!(amount.ceil_units(), Some(n));
    }
}
